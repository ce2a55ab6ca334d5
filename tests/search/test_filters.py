"""Filters: what a cell is, as files write it, and which values and ranges find it. The tables list each form."""

import contextlib
import datetime
import random
from decimal import Decimal

import numpy as np
import pytest

from keras_bert.data.tables import CorpusRow
from keras_bert.search import database, filters
from keras_bert.search.building import _check_ids

from ..support.messages import error_names


@contextlib.contextmanager
def index_of(cells):
    """An index of rows with these cells in the column `cell`, without a model."""
    rows = [
        database.Row.of(CorpusRow(n, {"cell": cell, "text": str(n)}, str(n)), "text") for n, cell in enumerate(cells)
    ]
    with database.writing(None) as index:
        texts = {database.compute_key("model", row.text): row.text for row in rows}
        index.encode(texts, lambda some: (np.zeros([len(some), 1]), 0), progress=False)
        index.add(rows, database.Settings("preset", "model", "text", "float32", 1))
        yield index


def found(cells, values):
    with index_of(cells) as index:
        return [cells[number - 1] for number in index.choose({"cell": values})]


UTC, NINE = datetime.timezone.utc, "2025-02-02T09:00:00"
# A text as a program writes it, and the value that it means.
TEXTS = [
    ("5e-05", 0.00005, "pandas, R"),
    ("1e+05", 100000, "R"),
    ("1E+05", 100000, "Excel"),
    ("1.5E-7", 0.00000015, "Excel, Java"),
    ("1e5", 100000, "JavaScript"),
    ("-2.5e3", -2500, "C"),
    ("+7", 7, "printf %+d"),
    ("+0.5", 0.5, "printf %+g"),
    (".5", 0.5, "SAS"),
    ("-.5", -0.5, "SAS"),
    ("3.", 3, "Fortran, NumPy"),
    ("7.0", 7, "a column of whole numbers with gaps, by pandas"),
    ("-0", 0, "a rounded number"),
    ("0e0", 0, "a zero"),
    ("9223372036854775807", 2**63 - 1, "the last int64"),
    ("9223372036854775808", 2**63, "uint64"),
    ("18446744073709551615", 2**64 - 1, "uint64"),
    ("-9223372036854775809", -(2**63) - 1, "below int64"),
    ("340282366920938463463374607431768211455", 2**128 - 1, "a UUID as a number"),
    ("9007199254740993.0", 2**53 + 1, "a decimal column"),
    ("1e23", 1e23, "a float"),
    ("1e400", 10**400, "beyond float64"),
    ("7" * 5000, 7 * (10**5000 - 1) // 9, "a number of more digits than Python parses"),
    ("1e-400", Decimal("1e-400"), "below float64"),
    *((text, datetime.datetime(2025, 2, 2, 9, tzinfo=UTC), program) for text, program in (
        ("2025-02-02 09:00:00+00", "PostgreSQL"),
        ("2025-02-02 10:00:00+01", "PostgreSQL"),
        ("2025-02-02 14:30:00+05:30", "PostgreSQL"),
        ("2025-02-02 09:19:32+00:19:32", "PostgreSQL, before zones"),
        ("2025-02-02 09:00:00 UTC", "BigQuery, Ruby"),
        ("2025-02-02 09:00:00.000000 UTC", "BigQuery"),
        ("2025-02-02 09:00:00 GMT", "HTTP-like"),
        ("2025-02-02T09:00:00Z", "ISO 8601"),
        ("2025-02-02t09:00:00z", "RFC 3339"),
        ("2025-02-02T09:00:00-00:00", "RFC 3339, zone unknown"),
        ("2025-02-02T10:00+0100", "ISO 8601"),
        ("2025-02-02 10:00:00 +0100", "git, Ruby"),
        ("2025-02-02 09:00:00 +0000 UTC", "Go"),
        ("2025-02-02 10:00:00.0000000 +01:00", "SQL Server"),
        ("2025-02-02 09:00:00.000 Z", "Snowflake"),
        ("2025-02-02 09:00:00,000", "Python's logging"),
        ("2025-02-02 04:00:00-05:00", "pandas"),
        ("2025-02-02T09", "ISO 8601, hours"),
    )),
    ("2025-02-02", datetime.date(2025, 2, 2), "ISO 8601"),
    ("2025-02-02 00:00:00+00", datetime.date(2025, 2, 2), "PostgreSQL"),
    ("2025-02-02T09:00:00.123456789012Z", "2025-02-02T09:00:00.123456789012", "picoseconds"),
    ("TRUE", True, "Excel, R"),
    ("False", False, "Python"),
]  # fmt: skip
# Texts that mean themselves.
THEMSELVES = ["", "007", "1_000", "1,000", "0x1F", "1e", "e5", ".", "+", "--7", "1.2.3", "NaN", "inf", " 7", "٣"]
THEMSELVES += ["1e99999999999999999999", "2025-13-01", "2025-02-30", "02/02/2025", "2025-02-02 25:00"]
THEMSELVES += [
    "2025-02-02 09:00+24",
    "2025-02-02 09:00:00 EST",
    "2025-W05-7",
    "2025-02",
    "09:00",
    "yes",
    "None",
    "<NA>",
]


@pytest.mark.parametrize(
    ("text", "value", "program"), TEXTS, ids=[f"{text[:40]}, {program}" for text, _, program in TEXTS]
)
def test_a_value_and_a_range_find_the_texts_that_mean_it(text, value, program):
    in_json = [value] if isinstance(value, int | float) and len(text) < 4300 else []
    equal, others = [text, *in_json], ["another text", 123, "1999-09-09"]
    assert found([*equal, *others], text) == equal
    assert found([*equal, *others], value) == ([] if isinstance(value, str) else equal)  # texts are exact
    if not isinstance(value, bool):
        assert found([*equal, *others], {">=": value, "<=": text}) == equal
        assert found([*equal, *others], {">": value, "<": text}) == []


@pytest.mark.parametrize("text", THEMSELVES)
def test_other_texts_mean_themselves(text):
    assert filters.term(text) == (text, "")


@pytest.mark.parametrize("value", [None, float("nan"), np.float32("nan"), np.datetime64("NaT"), Decimal("sNaN")])
def test_no_value_is_null_in_each_library(value):
    assert found([None, "", 0], [value]) == [None]


def test_the_missing_value_of_pandas_is_null():
    pandas = pytest.importorskip("pandas")
    assert found([None, "", 0], [pandas.NA]) == found([None, "", 0], pandas.NaT) == [None]


def test_a_text_finds_only_the_same_text():
    """A value of another type has no text, and equals each that means it."""
    cells = ["7", "7.0", "+7", "7e0", 7]
    for text in cells[:-1]:
        assert found(cells, text) == [text, 7]
    assert found(cells, 7) == found(cells, Decimal(7)) == found(cells, np.uint8(7)) == cells


def test_numbers_of_all_sizes_sort_as_numbers():
    chance = random.Random(0)
    numbers = [chance.choice([-1, 1]) * chance.randrange(10 ** chance.randrange(1, 40)) for _ in range(300)]
    numbers += [chance.uniform(-1, 1) * 10.0 ** chance.randrange(-300, 300) for _ in range(300)]
    numbers += [-1, -1.05, -1.5, -10, -100, 0, 1, 1.05, 1.5, 10, float("inf"), float("-inf")]
    by_meaning = sorted(numbers, key=filters.meaning)
    # A float stands for the shortest decimal number that gives it.
    exact = [Decimal(repr(each)) for each in by_meaning]
    assert exact == sorted(exact)


MIXED = ["2025-01-01", "2025-06-01", "unknown", None, True]


@pytest.mark.parametrize(
    ("cells", "limits", "words"),
    [
        (["2025-01-01"], {">=": 2025}, ["'cell' >= 2025", "numbers", "1 dates", "'2025-01-31'"]),
        (["2025-01-01"], {"<": "2025"}, ["'2025'", "numbers", "1 dates"]),
        (["2025-01-01"], {"<": "January"}, ["texts", "1 dates"]),
        (MIXED, {"<": 2025}, ["numbers", "2 dates and 1 texts"]),
        (MIXED, {"<": "yesterday"}, ["texts", "2 dates and 1 texts"]),
        ([*MIXED, 7], {"<": 2025}, ["numbers", "1 numbers and 2 dates"]),
        ([1, 2, "n/a"], {">=": "1,000"}, ["texts", "2 numbers and 1 texts", "2025"]),
        ([1, 2, "2025-01-01"], {"<": "2026-01-01"}, ["dates", "2 numbers and 1 dates"]),
        (["a", "b"], {">": 5}, ["numbers", "2 texts", "'a text'"]),
        ([True, None], {">": 5}, ["numbers", "neither"]),
        (["2025-01-01"], {">": 2024, "<": "2026-01-01"}, ["two kinds", "numbers", "dates"]),
    ],
)
def test_a_limit_that_cannot_compare_with_the_cells_is_refused(cells, limits, words):
    with error_names(ValueError, "'cell'", *words):
        found(cells, limits)


def test_a_limit_leaves_out_stopgaps_of_another_kind():
    assert found([*MIXED, 7], {"<": "2025-05-05"}) == ["2025-01-01"]
    assert found([1, "n/a", "n/a", 3], {">": 2}) == [3]
    assert found(["S", "M", 42], {">": 40}) == [42]
    assert found(["2025-01-01", 7], {">": 5}) == [7]  # as many as dates


@pytest.mark.parametrize(
    ("first", "second", "are_same"),
    [
        (1, 1.0, True),
        (1, "1", True),
        ("1.0", 1, True),
        (1, "1e0", True),
        (2**64, str(2**64), True),
        (2**64, 2**64 + 1, False),
        ("1", "1.0", False),
        ("007", "7", False),
        (True, "true", True),
        (datetime.date(2025, 2, 2), "2025-02-02", True),
        (datetime.date(2025, 2, 2), datetime.date(2025, 2, 2), True),
        ("a", "A", False),
        ([1], [1], True),
    ],
)
def test_ids_are_the_same_if_a_filter_cannot_tell_them_apart(first, second, are_same):
    rows = [CorpusRow(n, {"id": each}, "text") for n, each in ((2, first), (5, second))]
    with (
        error_names(ValueError, "corpus.csv", "id", "twice", "lines 2 and 5") if are_same else contextlib.nullcontext()
    ):
        _check_ids("corpus.csv", rows, "id")
    cells = [first, second]
    cells = [str(each) if isinstance(each, datetime.date) else each for each in cells]
    assert (len(found(cells, [cells[1]])) == 2) == are_same


@pytest.mark.parametrize(
    ("where", "error", "words"),
    [
        ([1], TypeError, ["where", "[1]", "dict"]),
        ({("cell",): "x"}, ValueError, ["('cell',)", "its columns are 'cell'"]),
        ({7: "x"}, ValueError, ["no column 7", "'cell'"]),
        ({b"": "x"}, ValueError, ["no column b''", "'cell'"]),
        ({"\udcfc": "x"}, ValueError, ["column '\\udcfc'", "surrogate"]),
        ({"cell": "M\udcfcnchen"}, ValueError, ["'M\\udcfcnchen'", "surrogate"]),
        ({"cell": {">=": "M\udcfcnchen"}}, ValueError, ["'M\\udcfcnchen'", "surrogate"]),
        ({"cell": [["M\udcfcnchen"]]}, ValueError, ["M\\udcfcnchen", "surrogate"]),
    ],
)
def test_a_bad_filter_is_no_damage_of_the_index(where, error, words):
    with index_of(["Bonn", "Ulm"]) as index, error_names(error, *words) as raised:
        index.choose(where)
    assert "damaged" not in str(raised.value)


# -- Words.


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Café, naïve", "café naïve"),
        ("cafe\u0301", "café"),
        ("दिन दान दीन", "दिन दान दीन"),
        ("বাংলা ভাষা", "বাংলা ভাষা"),
        ("كِتَاب كُتَّاب", "كِتَاب كُتَّاب"),
        ("İstanbul ISTANBUL", "istanbul istanbul"),
        ("Straße STRASSE", "strasse strasse"),
        ("שָׁלוֹם", "שָׁלוֹם"),
        ("می‌خواهم", "میخواهم"),
        ("co\u00adoperate", "cooperate"),
        ("東京タワー", "東 京 タ ワ ー"),
        ("𠮷野家", "𠮷 野 家"),
        ("กินข้าว", "กิ น ข้ า ว"),
        ("ພາສາລາວ", "ພ າ ສ າ ລ າ ວ"),
        ("ខ្មែរ", "ខ្ មែ រ"),
        ("မြန်မာ", "မြ န် မာ"),
        ("iPhone15ครับ", "iphone15 ค รั บ"),
        ("๑๒๓", "๑๒๓"),
        ("한국어 문장", "한국어 문장"),
        ("don't stop_here 3.14", "don t stop_here 3 14"),
        ("?! ✂ \u0301", ""),
    ],
)
def test_words_keep_their_marks_and_scripts_without_spaces_are_characters(text, words):
    assert database.find_words(text) == words.split()
