"""CSV, TSV and JSON lines: formats, columns, and what cannot be used, which is told by line."""

import contextlib
import csv
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from keras_bert.data import ColumnExamples, TextExamples, read_columns, read_table
from keras_bert.data.tables import read_rows


def test_a_lone_quote_is_text_in_tsv_and_not_in_csv(write):
    content = 'text{0}label\n"one{0}x\ntwo"{0}y\n'
    assert read_table(write("a.tsv", content.format("\t")), label_column="label").texts == ['"one', 'two"']
    examples = read_table(write("a.csv", content.format(",")), label_column="label")
    assert examples == TextExamples(["one,x\ntwo"], labels=["y"])


def test_csv_of_several_lines_a_row_counts_lines_of_the_file(write):
    path = write("a.csv", 'text,label\n"one\n\ntwo",x\n"say ""hi"", you",y\nshort\n')
    with pytest.raises(ValueError, match=r"1 of 3 rows cannot be used: line 6: 1 cell instead of 2\."):
        read_table(path, label_column="label")
    with pytest.warns(UserWarning, match="1 of 3 rows are left out: line 6"):
        examples = read_table(path, label_column="label", skip_bad=True)
    assert examples == TextExamples(["one\n\ntwo", 'say "hi", you'], labels=["x", "y"])


def test_a_cell_may_be_a_book_and_the_csv_module_is_as_before(write):
    limit, book = csv.field_size_limit(), "word " * 100_000
    assert read_table(write("a.csv", f'text\n"{book}"\n')).texts == [book]
    assert csv.field_size_limit() == limit


def test_long_cells_in_threads(write):
    books = [f'"{"word " * 27_000}{number}"\n' for number in range(5)]  # just over the csv module's limit
    path, limit = write("a.csv", "text\n" + "".join(books)), csv.field_size_limit()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            counts = list(pool.map(lambda _: len(read_table(path)), range(24)))
    finally:
        sys.setswitchinterval(0.005)
    assert counts == [5] * 24
    assert csv.field_size_limit() == limit


def test_formats_go_by_extension_or_as_given(write):
    for name in ("a.jsonl", "a.NDJSON"):
        assert read_table(write(name, '{"text": "x"}\n')).texts == ["x"]
    assert read_table(write("a.txt", "text\nx\n"), format="tsv").texts == ["x"]
    with pytest.raises(
        ValueError, match=r"a.txt does not end in .csv, .tsv, .jsonl, .ndjson, .parquet, .xlsx; choose the format 'csv'"
    ):
        read_table(write("a.txt", "text\nx\n"))
    with pytest.raises(ValueError, match="format is 'xls'; expected 'csv', 'tsv', 'jsonl', 'parquet', 'xlsx'"):
        read_table(write("a.csv", "text\nx\n"), format="xls")


def test_columns_go_by_name_or_number(write):
    path = write("a.csv", "id, text ,label,7\n1,one,x,seven\n")
    assert read_table(path, text_column="text", label_column=3) == TextExamples(["one"], labels=["x"])
    assert read_table(path, text_column="2").texts == ["one"]  # as a command line has it
    assert read_table(path, text_column="7").texts == ["seven"]  # a name comes before a number
    headerless = write("b.csv", "one,x\ntwo,y\n")
    assert read_table(headerless, text_column=1, label_column="2", header=False) == TextExamples(
        ["one", "two"], labels=["x", "y"]
    )


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("id,review\n1,x\n", {}, "a.csv has no column 'text'; its columns are 'id', 'review'$"),
        ("id,review\n1,x\n", {"text_column": 3}, "a.csv has no column 3; its columns are 1 to 2"),
        ("id,review\n1,x\n", {"text_column": 0}, "a.csv has no column 0; its columns are 1 to 2"),
        ("id,review\n1,x\n", {"text_column": "review", "label_column": "label"}, "no column 'label'"),
        ("id,review\n1,x\n", {"text_column": "review", "text_pair_column": "b"}, "no column 'b'"),
        ("text,text\n1,x\n", {}, "several columns 'text'; choose one by number, 1 and 2"),
        ("1,x\n", {"header": False}, "choose columns by number, 1 to 2, not 'text'"),
        ("text\nx\n", {"label_kind": "classes"}, "label_kind is 'classes'; expected 'class', 'number', 'multi_label'"),
        ("", {}, "a.csv is empty"),
        ("\ufeff \n\n", {}, "a.csv is empty"),
        ("text,label\n", {}, "a.csv has a header line and no rows"),
        ("text,label\n\n\r\n", {}, "a.csv has a header line and no rows"),
        ("\ntext\nx\n", {}, "line 1, which should name the columns, is blank"),
        ('"te"xt\nx\n', {}, "line 1, which should name the columns, is not CSV"),
        (
            'text,label\nx,y\n"x,y\nx,y\n',
            {"skip_bad": True},
            "a.csv, line 3: a quote is opened and never closed",
        ),
    ],
)
def test_files_that_cannot_be_read(write, content, options, message):
    with pytest.raises(ValueError, match=message):
        read_table(write("a.csv", content), **options)


def test_json_columns_that_no_row_has(write):
    path = write("a.jsonl", '{"id": 1}\n{"review": "x"}\n')
    with pytest.raises(ValueError, match="no column 'text'; its columns are 'id', 'review'$"):
        read_table(path)
    with pytest.raises(ValueError, match="no column 1"):
        read_table(path, text_column=1)


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("x", "1 cell instead of 2"),
        ("x,y,z", "3 cells instead of 2"),
        ("", "blank"),
        (",y", "text is empty"),
        (" \u3000,y", "text is empty"),
        ("x, ", "label is empty"),
        ('"x"x,y', "not CSV"),
    ],
)
def test_bad_rows_of_csv(write, row, what):
    path = write("a.csv", f"text,label\none,a\n{row}\ntwo,b\n")
    with pytest.raises(ValueError, match=f"a.csv: 1 of 3 rows cannot be used: line 3: {what}.*skip_bad"):
        read_table(path, label_column="label")
    with pytest.warns(UserWarning, match=f"a.csv: 1 of 3 rows are left out: line 3: {what}") as warned:
        assert read_table(path, label_column="label", skip_bad=True) == TextExamples(["one", "two"], labels=["a", "b"])
    assert warned[0].filename == __file__  # where the reader is called, not inside it


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ('{"text": "x"', "not JSON"),
        ("[1]", "a JSON list instead of an object"),
        ("", "blank"),
        ("[" * 100_000, "not JSON"),
        ('{"label": "y"}', "no text"),
        ('{"text": "x"}', "no label"),
        ('{"text": null, "label": "y"}', "text is empty"),
        ('{"text": 7, "label": "y"}', "text is 7, which is not a text"),
        ('{"text": "\\n", "label": "y"}', "text is empty"),
        ('{"text": "\\ud83d", "label": "y"}', "text has half of a surrogate pair"),
        ('{"text": "x", "label": null}', "label is empty"),
        ('{"text": "x", "label": 1.5}', "label is 1.5, which is not the name of a class"),
        ('{"text": "x", "label": ["y"]}', r"label is \['y'\], which is not the name"),
    ],
)
def test_bad_rows_of_json_lines(write, row, what):
    path = write("a.jsonl", f'{{"text": "one", "label": "a"}}\n{row}\n{{"text": "two", "label": "b"}}\n\n')
    with pytest.raises(ValueError, match=f"a.jsonl: 1 of 3 rows cannot be used: line 2: {what}"):
        read_table(path, label_column="label")
    with pytest.warns(UserWarning, match=f"1 of 3 rows are left out: line 2: {what}"):
        assert read_table(path, label_column="label", skip_bad=True) == TextExamples(["one", "two"], labels=["a", "b"])


def test_the_first_ten_and_how_many(write):
    good = "".join(f"text {number}\tx\n" for number in range(1000))
    path = write("train.tsv", "text\tlabel\n" + "\n".join("abcdefghijkl") + "\n" + good)
    with pytest.raises(ValueError, match="train.tsv: 12 of 1,012 rows cannot be used: line 2: ") as raised:
        read_table(path, label_column="label")
    assert str(raised.value).count("line ") == 10
    assert "line 11: 1 cell instead of 2; and 2 more. Fix the file" in str(raised.value)
    with pytest.warns(UserWarning, match="12 of 1,012 rows are left out"):
        assert len(read_table(path, label_column="label", skip_bad=True)) == 1000


def test_bad_rows_are_named_in_the_order_of_the_file(write):
    path = write("train.csv", "text,label\n,a\none\ntwo,\nthree\nfour,b\n")
    with pytest.raises(
        ValueError, match=r"4 of 5 rows .*line 2: text .*line 3: 1 cell .*line 4: label .*line 5: 1 cell"
    ):
        read_table(path, label_column="label")


def test_nothing_left_is_an_error_even_when_skipping(write):
    for name, content in {"a.csv": "text,label\nx\n\ny\n", "b.jsonl": "{\n1\n", "c.csv": 'text\n"x"x\n'}.items():
        with pytest.raises(ValueError, match="so nothing is left"):
            read_table(write(name, content), skip_bad=True)


def test_without_a_header_an_odd_first_row_is_the_odd_one(write):
    path = write("a.tsv", "one\tx\textra\ntwo\ty\nthree\tz\n")
    with pytest.raises(ValueError, match="1 of 3 rows cannot be used: line 1: 3 cells instead of 2"):
        read_table(path, text_column=1, label_column=2, header=False)


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
def test_what_is_not_utf_8_is_told_by_line(write, raw, line, byte, advice):
    for name in ("a.csv", "a.tsv", "a.jsonl"):
        with pytest.raises(ValueError, match=f"{name}, line {line}, is not UTF-8: bad byte {byte}.*iconv {advice}"):
            read_table(write(name, raw), skip_bad=True)


def test_columns_of_texts(write):
    content = '{"q": "who?", "p": "Ada", "n": "Bob"}\n{"q": "why?", "p": "so", "n": "no", "more": 1}\n'
    path = write("a.jsonl", content)
    assert read_columns(path, text_columns=["q", "p"]).xy == ((["who?", "why?"], ["Ada", "so"]), None)
    assert read_columns(path, text_columns=["q", "p", "n"]).columns[2] == ["Bob", "no"]
    scored = read_columns(write("a.csv", "a,b,4.5\nc,d,0\n"), text_columns=[1, 2], score_column=3, header=False)
    assert scored.xy == ((["a", "c"], ["b", "d"]), [4.5, 0.0])


def test_several_scores(write):
    path = write("a.csv", "q,p,n,1,2\nwho?,Ada,Bob,4,0.5\nwhy?,so,no,3,2\n")
    found = read_columns(path, text_columns=["q", "p", "n"], score_column=["1", "2"])
    assert found.xy == ((["who?", "why?"], ["Ada", "so"], ["Bob", "no"]), [(4.0, 0.5), (3.0, 2.0)])
    found.check_can_be_learned(path)


def test_parquet(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, columns = tmp_path / "a.parquet", {"q": ["who?", "why?", "how?"], "p": ["Ada", None, "so"], "s": [4, 1, 2]}
    parquet.write_table(pa.table(columns), path)
    with pytest.raises(ValueError, match="1 of 3 rows cannot be used: row 2: p is empty"):
        read_columns(path, text_columns=["q", "p"], score_column="s")
    with pytest.warns(UserWarning, match="1 of 3 rows are left out"):
        found = read_columns(path, text_columns=["q", "p"], score_column="s", skip_bad=True)
    assert found == ColumnExamples((["who?", "how?"], ["Ada", "so"]), [4.0, 2.0])
    texts = read_table(path, text_column="q", label_column="s", label_kind="number")
    assert texts == TextExamples(["who?", "why?", "how?"], labels=[4.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="has no column 'label'; its columns are 'q', 'p', 's'"):
        read_table(path, text_column="q", label_column="label")
    parquet.write_table(pa.table(columns).slice(0, 0), path)
    with pytest.raises(ValueError, match="a.parquet is empty"):
        read_table(path, text_column="q")
    parquet.write_table(pa.Table.from_arrays([pa.array(["a"])] * 2, names=["q", "q"]), path)
    with pytest.raises(ValueError, match="has 2 columns 'q'; the names must differ"):
        read_table(path, text_column="q")
    path.write_bytes(b"no table")
    with pytest.raises(ValueError, match="a.parquet is not a parquet file: it begins with b'no t'"):
        read_table(path, text_column="q")
    path.write_bytes(b"PAR1 no table")
    with pytest.raises(ValueError, match="a.parquet cannot be read as Parquet"):
        read_table(path, text_column="q")
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "none.parquet")


def test_columns_of_texts_that_cannot_be_used(write):
    path = write("a.tsv", "q\tp\tscore\nwho?\tAda\t1\nwhy?\t \t1\nwhat?\tthat\thigh\nso\n")
    told = r"3 of 4 rows cannot be used: line 3: p is empty; line 4: .*'high'.*; line 5: 1 cell instead of 3"
    with pytest.raises(ValueError, match=told):
        read_columns(path, text_columns=["q", "p"], score_column="score")
    with pytest.warns(UserWarning, match="3 of 4 rows are left out"):
        examples = read_columns(path, text_columns=["q", "p"], score_column="score", skip_bad=True)
    assert examples == ColumnExamples((["who?"], ["Ada"]), [1.0])
    with pytest.raises(ValueError, match="has no column 'n'; its columns are 'q', 'p', 'score'"):
        read_columns(path, text_columns=["q", "n"])
    with pytest.raises(ValueError, match=r"text_columns is \['q'\]; expected two or more"):
        read_columns(path, text_columns=["q"])


def test_columns_of_texts_that_teach_nothing():
    with pytest.raises(ValueError, match="a.csv: all 2 positives are the same text"):
        ColumnExamples((["a", "b"], ["c", "c"])).check_can_be_learned("a.csv")
    with pytest.raises(
        ValueError, match=r"a.csv: all 2 labels are 1.0; to tell pairs apart takes at least two numbers"
    ):
        ColumnExamples((["a", "b"], ["c", "d"]), [1.0, 1.0]).check_can_be_learned("a.csv")
    ColumnExamples((["a", "b"], ["c", "d"])).check_can_be_learned("a.csv")
    with pytest.raises(ValueError, match="parallel lists have different lengths"):
        ColumnExamples((["a", "b"], ["c"]))


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
    assert read_table(path, label_column="label") == TextExamples(["good", "bad"], labels=["1", "0"])
    with pytest.raises(ValueError, match="a.parquet: 1 of 2 rows cannot be used: row 2: word is not UTF-8: bad byte"):
        read_table(path, text_column="word", label_column="label")
    first, second = (row for _, row in read_rows(path, "parquet", header=True).rows)
    assert (first["day"], str(second["day"]), first["word"]) == ("12000-01-01", "1970-01-01", "go")


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_damaged_parquet_is_told_with_its_name(tmp_path, count):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    kinds = pa.array(["a", "b"] * 50).dictionary_encode()
    parquet.write_table(pa.table({"text": ["good", "bad"] * 50, "kind": kinds, "list": [[1], []] * 50}), path)
    content, generator = path.read_bytes(), np.random.default_rng(0)
    for _ in range(count):
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
    assert read_table(write(name, rows[name]), label_column="label").texts == ['a "b"', "c"]


def test_a_number_that_python_refuses_is_a_bad_row(write):
    long = "9" * 5000
    path = write("a.jsonl", f'{{"text": "a", "label": {long}}}\n{{"text": "b", "label": 1}}\n')
    with pytest.raises(ValueError, match="line 1: not JSON that can be read: a whole number of more than 4,300 digits"):
        read_table(path, label_column="label", label_kind="number")
    path = write("a.csv", f"text,label\na,{long}\nb,1\n")
    with pytest.raises(ValueError, match=r"line 2: label is '9{10,59}, which is not a finite number"):
        read_table(path, label_column="label", label_kind="number")
