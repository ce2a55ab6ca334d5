"""CSV, TSV and JSON lines: formats, columns, and what cannot be used, which is named by line."""

import contextlib
import csv
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from keras_bert.data import Examples, read_columns, read_table
from keras_bert.data.tables import read_rows

from ..support.messages import assert_names, error_names, warning_names


def test_a_lone_quote_is_text_in_tsv_and_not_in_csv(write):
    content = 'text{0}label\n"one{0}x\ntwo"{0}y\n'
    assert read_table(write("a.tsv", content.format("\t")), label_column="label").x == ['"one', 'two"']
    examples = read_table(write("a.csv", content.format(",")), label_column="label")
    assert examples == Examples({"text": ["one,x\ntwo"]}, labels=["y"])


def test_csv_of_several_lines_a_row_counts_lines_of_the_file(write):
    path = write("a.csv", 'text,label\n"one\n\ntwo",x\n"say ""hi"", you",y\nshort\n')
    with error_names(ValueError, "1 of 3", "line 6: 1 cell", 2):
        read_table(path, label_column="label")
    with warning_names("1 of 3", "line 6: 1 cell", 2):
        examples = read_table(path, label_column="label", skip_bad=True)
    assert examples == Examples({"text": ["one\n\ntwo", 'say "hi", you']}, labels=["x", "y"])


def test_long_cells_in_threads(write):
    """They need the csv module's limit, which is then as it was before."""
    books = [f'"{"word " * 27_000}{number}"\n' for number in range(5)]  # just over the csv module's limit
    path, limit = write("a.csv", "text\n" + "".join(books)), csv.field_size_limit()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            lengths = list(pool.map(lambda _: [len(text) for text in read_table(path).x], range(24)))
    finally:
        sys.setswitchinterval(0.005)
    assert lengths == [[5 * 27_000 + 1] * 5] * 24
    assert csv.field_size_limit() == limit


def test_a_format_is_that_of_the_extension_or_the_argument(write):
    for name in ("a.jsonl", "a.NDJSON"):
        assert read_table(write(name, '{"text": "x"}\n')).x == ["x"]
    assert read_table(write("a.txt", "text\nx\n"), format="tsv").x == ["x"]


def test_columns_go_by_name_or_number(write):
    path = write("a.csv", "id, text ,label,7\n1,one,x,seven\n")
    assert read_table(path, text_column="text", label_column=3) == Examples({"text": ["one"]}, labels=["x"])
    assert read_table(path, text_column="2").x == ["one"]  # as a command line has it
    assert read_table(path, text_column="7").x == ["seven"]  # a name comes before a number
    headerless = write("b.csv", "one,x\ntwo,y\n")
    assert read_table(headerless, text_column=1, label_column="2", header=False) == Examples(
        {"text": ["one", "two"]}, labels=["x", "y"]
    )


def test_the_first_ten_and_how_many(write):
    good = "".join(f"text {number}\tx\n" for number in range(1000))
    path = write("train.tsv", "text\tlabel\n" + "\n".join("abcdefghijkl") + "\n" + good)
    with pytest.raises(ValueError, match=r"train\.tsv") as raised:
        read_table(path, label_column="label")
    assert_names(str(raised.value), "12 of 1,012", "line 2", "line 11", "2 more")
    assert str(raised.value).count("line ") == 10
    with pytest.warns(UserWarning, match="12 of 1,012") as warned:
        assert len(read_table(path, label_column="label", skip_bad=True)) == 1000
    assert warned[0].filename == __file__  # where the reader is called, not inside it


def test_bad_rows_are_named_in_the_order_of_the_file(write):
    path = write("train.csv", "text,label\n,a\none\ntwo,\nthree\nfour,b\n")
    with pytest.raises(ValueError, match=r"4 of 5 .*line 2: text .*line 3: 1 cell .*line 4: label .*line 5: 1 cell"):
        read_table(path, label_column="label")


@pytest.mark.parametrize(
    ("raw", "line", "byte", "advice"),
    [
        (b"text\nfine\ncaf\xe9\n", 3, "0xe9 at byte 3", "-f WINDOWS-1252"),
        (b"\xef\xbb\xbftext\nfine\ncaf\xe9\n", 3, "0xe9 at byte 3", "-f WINDOWS-1252"),
        (b"\xef\xbb\xbfcaf\xe9\n", 1, "0xe9 at byte 6", "-f WINDOWS-1252"),
        ("text\nx".encode("utf-16"), 1, "0xff at byte 0", "-f UTF-16"),
        (b"text\n\xf0\x9f", 2, "0xf0 at byte 0", "-f WINDOWS-1252"),
    ],
)
def test_what_is_not_utf_8_is_named_by_line(write, raw, line, byte, advice):
    for name in ("a.csv", "a.tsv", "a.jsonl"):
        with error_names(ValueError, f"{name}, line {line}", "UTF-8", byte, f"iconv {advice}"):
            read_table(write(name, raw), skip_bad=True)


def test_columns_of_texts(write):
    content = '{"q": "who?", "p": "Ada", "n": "Bob"}\n{"q": "why?", "p": "so", "n": "no", "more": 1}\n'
    path = write("a.jsonl", content)
    assert read_columns(path, text_columns=["q", "p"]).x == (["who?", "why?"], ["Ada", "so"])
    assert read_columns(path, text_columns=["q", "p", "n"]).texts["negative_1"] == ["Bob", "no"]
    scored = read_columns(write("a.csv", "a,b,4.5\nc,d,0\n"), text_columns=[1, 2], score_column=3, header=False)
    assert scored == Examples({"query": ["a", "c"], "positive": ["b", "d"]}, [4.5, 0.0])


def test_several_scores(write):
    path = write("a.csv", "q,p,n,1,2\nwho?,Ada,Bob,4,0.5\nwhy?,so,no,3,2\n")
    found = read_columns(path, text_columns=["q", "p", "n"], score_column=["1", "2"])
    assert found.x == (["who?", "why?"], ["Ada", "so"], ["Bob", "no"])
    assert found.labels == [(4.0, 0.5), (3.0, 2.0)]
    found.check_can_be_learned(path)


def test_parquet(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, columns = tmp_path / "a.parquet", {"q": ["who?", "why?", "how?"], "p": ["Ada", None, "so"], "s": [4, 1, 2]}
    parquet.write_table(pa.table(columns), path)
    with error_names(ValueError, "1 of 3", "row 2", "p is empty"):
        read_columns(path, text_columns=["q", "p"], score_column="s")
    with warning_names("1 of 3", "row 2", "p is empty"):
        found = read_columns(path, text_columns=["q", "p"], score_column="s", skip_bad=True)
    assert found == Examples({"query": ["who?", "how?"], "positive": ["Ada", "so"]}, [4.0, 2.0])
    texts = read_table(path, text_column="q", label_column="s", label_kind="number")
    assert texts == Examples({"text": ["who?", "why?", "how?"]}, labels=[4.0, 1.0, 2.0])
    with error_names(ValueError, "no column 'label'", "'q', 'p', 's'"):
        read_table(path, text_column="q", label_column="label")
    parquet.write_table(pa.table(columns).slice(0, 0), path)
    with error_names(ValueError, "a.parquet", "empty"):
        read_table(path, text_column="q")
    parquet.write_table(pa.Table.from_arrays([pa.array(["a"])] * 2, names=["q", "q"]), path)
    with error_names(ValueError, "2 columns 'q'"):
        read_table(path, text_column="q")
    path.write_bytes(b"no table")
    with error_names(ValueError, "a.parquet", "not a parquet file", "b'no t'"):
        read_table(path, text_column="q")
    path.write_bytes(b"PAR1 no table")
    with error_names(ValueError, "a.parquet", "Parquet"):
        read_table(path, text_column="q")
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "none.parquet")


def test_columns_of_texts_that_cannot_be_used(write):
    path = write("a.tsv", "q\tp\tscore\nwho?\tAda\t1\nwhy?\t \t1\nwhat?\tthat\thigh\nso\n")
    bad = ["3 of 4", "line 3: p", "empty", "line 4", "'high'", "line 5: 1 cell", 3]
    with error_names(ValueError, *bad):
        read_columns(path, text_columns=["q", "p"], score_column="score")
    with warning_names(*bad):
        examples = read_columns(path, text_columns=["q", "p"], score_column="score", skip_bad=True)
    assert examples == Examples({"query": ["who?"], "positive": ["Ada"]}, [1.0])


def test_parquet_values_that_python_cannot_hold(tmp_path):
    """They matter only in the columns that are read."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    far = pa.array(np.array(["12000-01-01", "1970-01-01"], "datetime64[D]"))
    latin = pa.StringArray.from_buffers(2, pa.py_buffer(np.int32([0, 2, 5])), pa.py_buffer(b"goh\xe9h"))
    path = tmp_path / "a.parquet"
    columns = {
        "text": ["good", "bad"],
        "label": [1, 0],
        "day": far,
        "seen": far.cast(pa.timestamp("ms")),
        "word": latin,
    }
    parquet.write_table(pa.table(columns), path)
    assert read_table(path, label_column="label") == Examples({"text": ["good", "bad"]}, labels=["1", "0"])
    with error_names(ValueError, "a.parquet", "1 of 2", "row 2: word", "UTF-8", "0xe9"):
        read_table(path, text_column="word", label_column="label")
    first, second = (row for _, row in read_rows(path, "parquet", header=True).rows)
    assert (first["day"], str(second["day"]), first["word"]) == ("12000-01-01", "1970-01-01", "go")


def test_damaged_parquet_is_refused_or_read(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    kinds = pa.array(["a", "b"] * 50).dictionary_encode()
    parquet.write_table(pa.table({"text": ["good", "bad"] * 50, "kind": kinds, "list": [[1], []] * 50}), path)
    content, generator = path.read_bytes(), np.random.default_rng(0)
    for _ in range(200):
        damaged = bytearray(content)
        for place in generator.integers(len(content), size=3):
            damaged[place] ^= 1 << generator.integers(8)
        path.write_bytes(damaged)
        with contextlib.suppress(ValueError):  # anything else, such as OSError, is no message for people
            assert len(read_table(path)) <= 100


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
def test_line_ends_of_old_macs(write, name):
    rows = {"a.csv": 'text,label\r"a ""b""",x\rc,y\r', "a.tsv": 'text\tlabel\ra "b"\tx\rc\ty'}
    rows["a.jsonl"] = '{"text": "a \\"b\\"", "label": "x"}\r{"text": "c", "label": "y"}\r'
    assert read_table(write(name, rows[name]), label_column="label").x == ['a "b"', "c"]


def test_a_number_that_python_refuses_is_a_bad_row(write):
    long = "9" * 5000
    path = write("a.jsonl", f'{{"text": "a", "label": {long}}}\n{{"text": "b", "label": 1}}\n')
    with error_names(ValueError, "line 1: not JSON", "4,300 digits"):
        read_table(path, label_column="label", label_kind="number")
    path = write("a.csv", f"text,label\na,{long}\nb,1\n")
    with error_names(ValueError, "line 2: label", "finite"):
        read_table(path, label_column="label", label_kind="number")
