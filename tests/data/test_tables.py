"""The one reader of tables: it sees the format in the bytes of a file, and asks where it cannot be certain."""

import csv
import datetime
import gzip
import io
import os
import tracemalloc

import pytest

from keras_bert.data import Examples, read_conll, read_table
from keras_bert.data.tables import read_corpus, read_rows, text_rows

from ..support.messages import error_names, warning_names

openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl, of the extra test")
pytest.importorskip("python_calamine", reason="needs python-calamine, the extra xlsx")

GOOD_BAD = Examples({"text": ["a good film, really", "bad; boring"]}, labels=["pos", "neg"])
ROWS = [("a good film, really", "pos"), ("bad; boring", "neg")]


def as_csv(rows, delimiter):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    return text.getvalue()


def as_excel(path, *sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets, start=1):
        sheet = book.create_sheet(f"Sheet{number}")
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("first_line", ["", "sep={}\r\n"])
def test_the_delimiter_of_a_csv_is_recognised(write, delimiter, first_line):
    content = first_line.format(delimiter) + as_csv([("text", "label"), *ROWS], delimiter)
    assert read_table(write("a.csv", content), label_column="label") == GOOD_BAD


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("header", [True, False])
def test_quoted_cells_of_several_lines_do_not_hide_the_delimiter(write, delimiter, header):
    texts = ['"\n, ; said', "one,\ntwo;\n", 'a "b", c\td\n"']
    rows = [("text", "label"), *((text, "pos") for text in texts)]
    read = read_rows(write("a.csv", as_csv(rows, delimiter)), header=header)
    assert [tuple(cells) for _, cells in read.rows] == (rows[1:] if header else rows)


@pytest.mark.parametrize(("first_line", "line"), [("", "line 3"), ("sep=;\n", "line 4")])
def test_a_header_decides_where_rows_differ(write, first_line, line):
    path = write("a.csv", first_line + "text;label\na good film;pos\nbad; boring;neg\n")
    with error_names(ValueError, "1 of 2", line, "3 cells", 2):
        read_table(path, label_column="label")


def test_semicolons_in_a_column_of_texts_are_texts(write):
    assert read_table(write("a.csv", "text\none; two\nthree\n")).x == ["one; two", "three"]
    assert read_table(write("b.csv", "text,label\none; two,a\nthree; four,b\n")).x == ["one; two", "three; four"]


def test_without_a_header_two_possible_delimiters_are_asked_for(write):
    path = write("a.csv", "good;4,5\nbad;1,5\n")
    with error_names(ValueError, path, "',' or ';'", "choose", "delimiter"):
        read_rows(path, header=False)
    assert [cells for _, cells in read_rows(path, header=False, delimiter=";").rows] == [
        ["good", "4,5"],
        ["bad", "1,5"],
    ]


def test_a_delimiter_is_for_csv(write):
    with error_names(ValueError, "delimiter", "';'", "a.tsv", "CSV"):
        read_table(write("a.tsv", "text\nx\n"), delimiter=";")


@pytest.mark.parametrize(
    ("header", "column", "advice"),
    [
        ("text,Label", "label", ["mean 'Label'"]),
        ("text,star rating", "star_rating", ["mean 'star rating'"]),
        ("text,sentiment", "sentimant", ["mean 'sentiment'"]),
        ("text,5", "label", ["first line", "without a header", "by number"]),
    ],
)
def test_a_missing_column_is_answered_with_what_was_meant(write, header, column, advice):
    with error_names(ValueError, "a.csv", "no column", repr(column), *advice):
        read_table(write("a.csv", f"{header}\nx,y\n"), label_column=column)


def test_names_of_columns_are_no_example(write):
    with pytest.raises(ValueError, match="'text', 'kind'$"):  # and no advice
        read_table(write("a.csv", "text,kind\nx,y\n"), label_column="label")


def test_a_repeated_header_is_left_out_with_a_warning(write):
    path = write("a.csv", "text,label\none,a\n text ,label\ntwo,b\n")
    with warning_names("a.csv", "header", "line 3", "left out: 1"):
        assert read_table(path, label_column="label").x == ["one", "two"]


def test_blank_rows_at_the_end_are_not_rows(write):
    assert read_table(write("a.csv", "text,label\none,a\n,\n , \n\n"), label_column="label").x == ["one"]
    with error_names(ValueError, "1 of 2", "line 2", "text", "empty"):
        read_table(write("b.csv", "text,label\n,\none,a\n"), label_column="label")


def test_excel_is_read_like_the_csv_that_it_would_be_saved_as(tmp_path):
    day = datetime.datetime(2026, 11, 25)
    rows = [["text", "label", "day"], ["one", 5, day], ["two", 4.5, None], [12.0, 3, day], [None, None, None]]
    path = as_excel(tmp_path / "reviews.xlsx", rows)
    assert read_table(path, label_column="label") == Examples({"text": ["one", "two", "12"]}, labels=["5", "4.5", "3"])
    assert read_table(path, label_column="label", label_kind="number").labels == [5.0, 4.5, 3.0]
    assert [row["day"] for _, row in text_rows(path, ["text"])] == ["2026-11-25", "", "2026-11-25"]
    assert read_table(path, text_column=1, label_column="2").labels == ["5", "4.5", "3"]


def test_bad_rows_of_excel_have_the_numbers_that_excel_shows(tmp_path):
    path = as_excel(tmp_path / "a.xlsx", [["text", "label"], ["one", "a"], [None, "b"], ["two", "b", "more"]])
    with error_names(ValueError, "2 of 3", "row 3: text", "row 4: 3 cells", 2):
        read_table(path, label_column="label")


def test_further_sheets_are_named(tmp_path):
    path = as_excel(tmp_path / "a.xlsx", [["text"], ["one"]], [["text"], ["two"]], [])
    with warning_names("only the sheet 'Sheet1'", "not 'Sheet2'"):
        assert read_table(path).x == ["one"]


def test_the_first_bytes_say_what_a_file_is(tmp_path, write):
    excel = as_excel(tmp_path / "a.xlsx", [["text"], ["one"]]).read_bytes()
    assert read_table(write("renamed.csv", excel)).x == ["one"]
    assert read_table(write("packed.csv.gz", gzip.compress(b"text\none\n"))).x == ["one"]
    assert read_table(write("renamed.jsonl", gzip.compress(b'{"text": "one"}\n'))).x == ["one"]
    assert read_table(write("packed.xlsx.gz", gzip.compress(excel))).x == ["one"]
    assert read_conll(write("packed.conll.gz", gzip.compress(b"Ada B-person\nsang O\n"))).x == [["Ada", "sang"]]
    assert [row.text for row in read_corpus(write("packed.txt.gz", gzip.compress(b"one\ntwo\n")))] == ["one", "two"]
    with error_names(ValueError, "format", "'tsv'", "renamed.csv", "xlsx"):
        read_table(tmp_path / "renamed.csv", format="tsv")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", ["cannot be read as a workbook", "Cannot detect"]),
        ("a.xlsx", b"text\none\n", ["not a workbook", "b'text'"]),
        ("a.xlsx", b"PK\x03\x04 and no more", ["cannot be read as a workbook"]),
        ("a.csv.gz", gzip.compress(b"text\none\n", mtime=0)[:-9], ["decompressed"]),
        ("a.csv", "text\none\n".encode("utf-16"), ["iconv -f UTF-16 -t UTF-8"]),
    ],
)
def test_files_that_are_not_what_they_seem(write, name, content, words):
    with error_names(ValueError, name, *words):
        read_table(write(name, content))


def test_a_pipe_is_refused_before_it_is_read(tmp_path):
    """What is looked at first would be lost: a pipe is read only once."""
    os.mkfifo(tmp_path / "a.csv")
    with error_names(ValueError, "a.csv", "pipe", "file"):
        read_table(tmp_path / "a.csv")
    with error_names(FileNotFoundError, "a.csv", "no file"):
        read_corpus(tmp_path / "a.csv")


def test_rows_without_a_header_have_the_width_of_most(write):
    path = write("a.csv", "one\ntwo,b\nthree,c\nfour,d,e\n")
    bad = ["2 of 4", "line 1: 1 cell", "line 4: 3 cells", 2]
    with error_names(ValueError, *bad):
        list(text_rows(path, ["1"], header=False))
    with warning_names(*bad):
        assert [row for _, row in text_rows(path, ["1"], header=False, skip_bad=True)] == [
            {"1": "two", "2": "b"},
            {"1": "three", "2": "c"},
        ]
    with error_names(ValueError, "a.csv", "empty"):
        list(text_rows(write("a.csv", "\n"), ["1"], header=False, may_be_empty=False))


def test_without_python_calamine(tmp_path, monkeypatch):
    path = as_excel(tmp_path / "a.xlsx", [["text"], ["one"]])
    monkeypatch.setitem(__import__("sys").modules, "python_calamine", None)
    with error_names(ImportError, "python-calamine", "keras-bert-models[xlsx]"):
        read_table(path)


def test_empty_cells_and_nulls_are_the_same_everywhere(write, tmp_path):
    paths = [
        write("a.csv", "text,label\none,a\n,b\n"),
        write("a.tsv", "text\tlabel\none\ta\n\tb\n"),
        write("a.jsonl", '{"text": "one", "label": "a"}\n{"text": null, "label": "b"}\n'),
        as_excel(tmp_path / "a.xlsx", [["text", "label"], ["one", "a"], [None, "b"]]),
    ]
    for path in paths:
        for read in (read_table, read_corpus):
            with error_names(ValueError, path, "1 of 2", "text is empty"):
                read(path)
            with warning_names(path, "1 of 2", "text is empty"):
                read(path, skip_bad=True)


def test_a_table_is_read_row_by_row(write):
    path = write("a.csv", "text,label\n" + f"{'one ' * 100},a\n" * 5000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in text_rows(path, ["text"])) == 5000
        assert tracemalloc.get_traced_memory()[1] < 300_000  # the file has 2 MB
    finally:
        tracemalloc.stop()
