"""What is written into a file is what is read from it: cells that a reader could trip over, then any at all."""

import csv
import json
import re
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_bert.data import Examples, read_conll, read_table

CELLS = [
    "plain", '"', '""', 'say "hi", you', '"open', 'close"', "'", "a,b;c|d", "tab\there", "two\nlines",
    "windows\r\nlines", "lone\rreturn", "form\x0cfeed, \x0b and \x1c", "line\u2028para\u2029 nel\x85", " around ",
    "\u00a0hard ", "a\ufeffmark", "Grüße 日本 🙂", "e\u0301", "\\n \\t \\", "# no comment", "null", "-DOCSTART- X",
]  # fmt: skip
# In each column, in the first row and in the last. Labels have no tabs and no line ends.
NAMES = [re.sub("[\t\r\n]", "-", cell) for cell in CELLS[5:] + CELLS[:5]]
HARD = [(*pair, label) for pair, label in zip(zip(CELLS, CELLS[::-1], strict=True), NAMES, strict=True)]
ENDS, MARKS = ["\n", "\r\n"], ["", "\ufeff"]

# Anything that UTF-8 can write. NUL is left out: Python 3.10's csv module does not read it.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1).filter(str.strip)
LABELS = st.text(st.characters(codec="utf-8", exclude_characters="\x00\t\n\r"), min_size=1).filter(str.strip)
ROWS = st.lists(st.tuples(TEXTS, TEXTS, LABELS), min_size=1)
# What columns cannot write is left out: a tab, a line end, what stands for a document, and a mark that is no text.
CHARACTERS = st.characters(codec="utf-8", exclude_characters="\t\n\r\ufeff")
WORDS = st.text(CHARACTERS, min_size=1).filter(lambda word: word.strip() not in ("", "-DOCSTART-"))
SENTENCES = st.lists(st.lists(st.tuples(WORDS, st.sampled_from(["O", "B-x", "I-x"])), min_size=1), min_size=1)
anything = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def columns(rows):
    """What is read: a label has no spaces around it."""
    one, two, labels = map(list, zip(*((one, two, label.strip()) for one, two, label in rows), strict=True))
    return Examples({"text": one, "text_pair": two}, labels)


def check_csv(folder, rows, line_end, mark, quoting):
    if any("\r" in cell for row in rows for cell in row):
        quoting = csv.QUOTE_ALL  # some versions of the module leave a lone \r unquoted
    with open(folder / "a.csv", "w", encoding="utf-8", newline="") as file:
        file.write(mark)
        csv.writer(file, lineterminator=line_end, quoting=quoting).writerows([("text", "text_pair", "label"), *rows])
    assert read_table(folder / "a.csv", text_pair_column="text_pair", label_column="label") == columns(rows)


def check_tsv(folder, rows, line_end, mark):
    # A TSV can write anything but a tab and a line end; among what it can are quotes, and other Unicode line ends.
    rows = [[cell.replace("\t", "").replace("\n", "").rstrip("\r") or '"' for cell in row] for row in rows]
    rows = [[cell if cell.strip() else '"' for cell in row] for row in rows]
    content = line_end.join("\t".join(row) for row in [("a", "b", "c"), *rows]) + line_end
    (folder / "a.tsv").write_bytes((mark + content).encode())
    assert read_table(folder / "a.tsv", text_column="a", text_pair_column="b", label_column="c") == columns(rows)


def check_json_lines(folder, rows, ascii_only):
    lines = [json.dumps(dict(zip("xyz", row, strict=True)), ensure_ascii=ascii_only) + "\n" for row in rows]
    (folder / "a.jsonl").write_bytes("".join(lines).encode())
    assert read_table(folder / "a.jsonl", text_column="x", text_pair_column="y", label_column="z") == columns(rows)


def check_conll(folder, sentences, line_end, gap, mark):
    # Spaces around a line are no part of a word; those inside are, where tabs separate the columns.
    sentences = [[(word.strip(" "), tag) for word, tag in sentence] for sentence in sentences]
    lines = ["".join(f"{word}\t{tag}\n" for word, tag in sentence) for sentence in sentences]
    (folder / "a.conll").write_bytes((mark + gap.join(lines).replace("\n", line_end)).encode())
    words = [[word for word, _ in sentence] for sentence in sentences]
    assert read_conll(folder / "a.conll") == Examples({"words": words}, [[tag for _, tag in s] for s in sentences])


QUOTINGS = [csv.QUOTE_MINIMAL, csv.QUOTE_ALL]
GAPS = ["\n", "\n\n", "\n \n"]


def test_hard_cells_of_tables(tmp_path):
    unquoted = [row for row in HARD if not any("\r" in cell for cell in row)]
    for line_end, mark in product(ENDS, MARKS):
        check_csv(tmp_path, HARD, line_end, mark, csv.QUOTE_ALL)
        check_csv(tmp_path, unquoted, line_end, mark, csv.QUOTE_MINIMAL)
        check_tsv(tmp_path, HARD, line_end, mark)
    for ascii_only in (True, False):
        check_json_lines(tmp_path, HARD, ascii_only)


def test_hard_words(tmp_path):
    words = [cell for cell in CELLS if not set(cell) & set("\t\n\r\ufeff")]
    tagged = [(word, "B-x") for word in words]
    for line_end, gap, mark in product(ENDS, GAPS, MARKS):
        check_conll(tmp_path, [tagged, tagged[::-1], [("a", "O")]], line_end, gap, mark)


@pytest.mark.slow
@anything
@given(ROWS, st.sampled_from(ENDS), st.sampled_from(MARKS), st.sampled_from(QUOTINGS))
def test_any_csv(tmp_path, rows, line_end, mark, quoting):
    check_csv(tmp_path, rows, line_end, mark, quoting)


@pytest.mark.slow
@anything
@given(ROWS, st.sampled_from(ENDS), st.sampled_from(MARKS))
def test_any_tsv(tmp_path, rows, line_end, mark):
    check_tsv(tmp_path, rows, line_end, mark)


@pytest.mark.slow
@anything
@given(ROWS, st.booleans())
def test_any_json_lines(tmp_path, rows, ascii_only):
    check_json_lines(tmp_path, rows, ascii_only)


@pytest.mark.slow
@anything
@given(SENTENCES, st.sampled_from(ENDS), st.sampled_from(GAPS), st.sampled_from(MARKS))
def test_any_conll(tmp_path, sentences, line_end, gap, mark):
    check_conll(tmp_path, sentences, line_end, gap, mark)
