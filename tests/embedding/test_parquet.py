"""Parquet with vectors: the same table and one column more, of which some rows are in memory at a time."""

import datetime
import json
import sys

import numpy as np
import pytest

from keras_bert.embedding import embed_files, vector_files

from ..support.messages import error_names

pa = pytest.importorskip("pyarrow", reason="needs pyarrow, the extra parquet")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow, the extra parquet")


def test_a_table(tmp_path, small_preset, model):
    texts = [f"good film {i}" for i in range(29)] + ["日本語 🙂"]
    day = datetime.datetime(2026, 11, 22, tzinfo=datetime.timezone.utc)
    table = pa.table(
        {
            "é": pa.array([None, *range(29)], pa.uint32()),
            "review": pa.array(texts, pa.large_string()),
            "kind": pa.array(["a", "b", None] * 10).dictionary_encode(),
            "day": pa.array([day + datetime.timedelta(i) for i in range(30)], pa.timestamp("us", "UTC")),
            "list": pa.array([[i, None] for i in range(30)], pa.list_(pa.int8())),
            "struct": pa.array([{"text": "x", "n": i / 7} for i in range(30)]),
        }
    ).replace_schema_metadata({"made": "by hand"})
    sources = {"many": table, "one": table[:1], "none": table[:0]}
    sources["dictionary"] = pa.table({"review": pa.array(["good", "bad", "good"]).dictionary_encode()})
    paths = [tmp_path / f"{name}.parquet" for name in sources]
    for path, each in zip(paths, sources.values(), strict=True):
        pq.write_table(each, path, row_group_size=13)
    (tmp_path / "lines.jsonl").write_text(json.dumps({"review": "good"}))
    counts = embed_files([*paths, tmp_path / "lines.jsonl"], tmp_path / "vectors", small_preset, text_column="review")
    assert counts == {"files": 5, "rows": 35, "truncated": 0}
    rows = [{"review": "good"}, {"review": "bad", "year": 2024}, {"review": "good", "year": 2025, "lang": "en"}]
    (tmp_path / "lines.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    embed_files([tmp_path / "lines.jsonl"], tmp_path / "of-lines", small_preset, text_column="review", format="parquet")
    copied = pq.read_table(tmp_path / "of-lines/lines.parquet").drop_columns("vector").to_pylist()
    assert copied == [{"year": None, "lang": None, **row} for row in rows]
    for path in paths:
        written, expected = pq.read_table(tmp_path / "vectors" / path.name), pq.read_table(path)
        assert written.schema.field("vector").type == pa.list_(pa.float32(), 32)
        assert written.drop_columns("vector").equals(expected, check_metadata=True)
        vectors = np.float32(written["vector"].to_pylist()).reshape(-1, 32)
        np.testing.assert_allclose(vectors, model.encode(expected["review"].to_pylist()), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"text": ["a"] * 20 + [None]}, ["1 of 21 rows", "row 21", "text", "empty"]),
        ({"text": ["a", " "]}, ["1 of 2 rows", "row 2", "text", "empty"]),
        ({"body": ["a"], "id": [1]}, ["no column 'text'", "'body', 'id'"]),
        ({"text": [1]}, ["column 'text'", "int64"]),
        ({"text": ["a"], "vector": [1]}, ["already has a column 'vector'"]),
        (None, ["not a parquet file", "begins with"]),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path, table, words, monkeypatch):
    path = tmp_path / "texts.parquet"
    if table is None:
        path.write_bytes(b'{"text": "good"}')
    else:
        pq.write_table(pa.table(table), path)
    monkeypatch.setattr(vector_files.table_formats, "PARQUET_ROWS", 8)
    with error_names(ValueError, path, *words):
        vector_files.choose_copy(path, "text").count()


def test_two_columns_of_one_name(tmp_path):
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), path)
    with error_names(ValueError, path, "several columns 'text'"):
        vector_files.choose_copy(path, "text").count()


def test_a_file_of_one_row_group_is_not_read_whole(tmp_path):
    path = tmp_path / "texts.parquet"
    texts = pa.array([f"{i:01000}" for i in range(20_000)])
    pq.write_table(pa.table({"text": texts}), path, use_dictionary=False, compression="none")
    size = path.stat().st_size
    del texts
    before = pa.total_allocated_bytes()
    read = vector_files.choose_copy(path, "text").chunks(100)
    held = max(pa.total_allocated_bytes() - before for _, _ in zip(range(3), read, strict=False))
    assert held < size / 4, (held, size)


def test_without_pyarrow(tmp_path, small_preset, monkeypatch):
    (tmp_path / "texts.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with error_names(ImportError, "pyarrow", "pip install 'keras-bert-models[parquet]'"):
        embed_files([tmp_path / "texts.parquet"], tmp_path / "vectors", small_preset)
    (tmp_path / "texts.jsonl").write_text('{"text": "a film"}\n')
    with error_names(ImportError, "pyarrow"):  # before a model runs
        vector_files.choose_copy(tmp_path / "texts.jsonl", "text", format="parquet")
