"""The one reader of tables: it sees the format in the bytes of a file, and asks where it cannot be certain."""

import csv
import io
import os
import tracemalloc

import pytest

from keras_bert.data import Examples, read_table
from keras_bert.data.tables import check_corpus, read_corpus, read_rows, text_rows
from keras_bert.embedding import embed_files

from ..support.messages import error_names, warning_names

GOOD_BAD = Examples({"text": ["a good film, really", "bad; boring"]}, labels=["pos", "neg"])
ROWS = [("a good film, really", "pos"), ("bad; boring", "neg")]


def as_csv(rows, delimiter):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    return text.getvalue()


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


def embed_one(path):
    return embed_files([path], "output", "none")


@pytest.mark.parametrize("read", [read_corpus, lambda path: check_corpus(path, "text"), embed_one])
@pytest.mark.parametrize(
    ("place", "error", "words"),
    [
        ("pipe", ValueError, ["pipe", "more than once", "into a file"]),
        ("pipe.csv", ValueError, ["pipe", "more than once", "into a file"]),
        ("/dev/null", ValueError, ["device", "more than once", "into a file"]),
        ("folder", ValueError, ["folder", "directory", "expected a file"]),
        ("none", FileNotFoundError, ["there is no file", "none"]),
    ],
)
def test_what_is_no_file_is_said(tmp_path, read, place, error, words):
    """Before it is read: nobody writes into the pipes."""
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder").mkdir()
    with error_names(error, *words):
        read(tmp_path / place)


def test_a_pipe_is_refused_before_it_is_read(tmp_path):
    """What is looked at first would be lost: a pipe is read only once."""
    os.mkfifo(tmp_path / "a.csv")
    with error_names(ValueError, "a.csv", "pipe", "file"):
        read_table(tmp_path / "a.csv")


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


def test_a_table_is_read_row_by_row(write):
    path = write("a.csv", "text,label\n" + f"{'one ' * 100},a\n" * 5000)
    tracemalloc.start()
    try:
        assert sum(1 for _ in text_rows(path, ["text"])) == 5000
        assert tracemalloc.get_traced_memory()[1] < 300_000  # the file has 2 MB
    finally:
        tracemalloc.stop()
