"""CSV and TSV with vectors, and Parquet from any table."""

import csv
import gzip
import json

import numpy as np
import pytest

from keras_bert.embedding import embed_files

from ..support.messages import error_names, warning_names

ROWS = [("7", 'a "good" film, really', ""), ("8", "it is bad", "x")]


def expected(model):
    return model.encode([row[1] for row in ROWS])


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("a.csv", ";"), ("a.tsv", "\t")])
def test_a_copy_has_the_format_of_its_file(tmp_path, small_preset, model, name, delimiter):
    with open(tmp_path / name, "w", newline="") as file:
        quoting = {"quoting": csv.QUOTE_NONE, "quotechar": None} if name == "a.tsv" else {}
        csv.writer(file, delimiter=delimiter, **quoting).writerows([("id", "text", "note"), *ROWS])
    assert embed_files([tmp_path / name], tmp_path / "vectors", small_preset) == {"files": 1, "rows": 2, "truncated": 0}
    text = (tmp_path / "vectors" / name).read_text()
    if name == "a.tsv":
        rows = [line.split("\t") for line in text.splitlines()]
    else:
        rows = list(csv.reader(text.splitlines(), delimiter=delimiter))
    assert rows[0] == ["id", "text", "note", "vector"]
    assert [tuple(row[:3]) for row in rows[1:]] == ROWS
    np.testing.assert_allclose([json.loads(row[3]) for row in rows[1:]], expected(model), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_parquet_from_any_table(tmp_path, small_preset, model):
    pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow, the extra parquet")
    openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl, the extra xlsx")
    book = openpyxl.Workbook()
    for row in [("id", "text", "note"), *ROWS]:
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    with open(tmp_path / "b.csv", "w", newline="") as file:
        csv.writer(file).writerows([("id", "text", "note"), *ROWS])
    lines = "".join(json.dumps({"id": i, "text": text, "note": note or None}) + "\n" for i, text, note in ROWS)
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    sources = [tmp_path / name for name in ("a.xlsx", "b.csv", "c.jsonl.gz")]
    counts = embed_files(sources, tmp_path / "vectors", small_preset, format="parquet")
    assert counts == {"files": 3, "rows": 6, "truncated": 0}
    for name in ("a", "b", "c"):
        table = pq.read_table(tmp_path / "vectors" / f"{name}.parquet")
        assert table.column_names == ["id", "text", "note", "vector"]
        assert table["text"].to_pylist() == [row[1] for row in ROWS]
        assert [note or "" for note in table["note"].to_pylist()] == [row[2] for row in ROWS]
        np.testing.assert_allclose(table["vector"].to_pylist(), expected(model), rtol=0, atol=1e-5)


def test_values_of_several_types_are_refused_before_the_work(tmp_path, small_preset):
    pytest.importorskip("pyarrow", reason="needs pyarrow, the extra parquet")
    path = tmp_path / "a.jsonl"
    for identifier in ('"x"', 2**70):
        path.write_text(f'{{"text": "good", "id": 1}}\n{{"text": "bad", "id": {identifier}}}\n')
        with error_names(ValueError, path, "one column of Parquet"):
            embed_files([path], tmp_path / "vectors", small_preset, format="parquet")


def test_bad_rows_are_counted_and_can_be_left_out(tmp_path, small_preset):
    lines = '{"text": "good"}\n{"text": null}\n{"text": ""}\n{"body": "x"}\n'
    (tmp_path / "a.jsonl").write_text(lines)
    (tmp_path / "b.csv").write_text("id,text\n1,good\n2,\n3\n")
    for name, rows in (("a.jsonl", "3 of 4 rows"), ("b.csv", "2 of 3 rows")):
        with error_names(ValueError, tmp_path / name, rows, "cannot be used"):
            embed_files([tmp_path / name], tmp_path / name[0], small_preset)
        with warning_names(tmp_path / name, rows, "left out"):
            counts = embed_files([tmp_path / name], tmp_path / name[0], small_preset, skip_bad=True)
        assert counts["rows"] == 1
        with error_names(ValueError, "skip_bad"):
            embed_files([tmp_path / name], tmp_path / name[0], small_preset)


def test_excel_needs_a_format_that_has_room_for_vectors(tmp_path, small_preset):
    openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl, the extra xlsx")
    openpyxl.Workbook().save(tmp_path / "a.xlsx")
    with error_names(ValueError, tmp_path / "a.xlsx", "workbook", "format parquet"):
        embed_files([tmp_path / "a.xlsx"], tmp_path / "vectors", small_preset)
