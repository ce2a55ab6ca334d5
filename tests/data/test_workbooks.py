"""Workbooks: openpyxl and xlwt write them, and openpyxl's other way of reading says what they hold."""

import datetime
import gzip
import json
import random
import re
import sys
import warnings
import zipfile

import pytest
from openpyxl.utils.escape import unescape

from keras_bert.data import Examples, read_conll, read_table
from keras_bert.data.tables import Table, read_corpus, read_rows, text_rows
from keras_bert.data.workbook_writer import WorkbookWriter

from ..support.messages import assert_names, error_names, warning_names

openpyxl = pytest.importorskip("openpyxl", reason="needs openpyxl, of the extra test")
pytest.importorskip("python_calamine", reason="needs python-calamine, the extra xlsx")

SHEET = "xl/worksheets/sheet1.xml"
ROWS = [["text", "label", "note"], ["one", "a", None], ["two", "b", "seen"], ["three", "a", None]]


def workbook(path, *sheets):
    """Writes sheets of rows, by default one of `ROWS`."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets or [ROWS], start=1):
        sheet = book.create_sheet(f"Sheet{number}")
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def changed(path, member, change):
    """Copies a workbook, with a change of the bytes of one of its members."""
    new_path = path.with_name(f"changed-{path.name}")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(new_path, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, change(old.read(name)) if name == member else old.read(name))
    return new_path


def test_excel_is_read_like_the_csv_that_it_would_be_saved_as(tmp_path):
    day = datetime.datetime(2026, 11, 25)
    rows = [["text", "label", "day"], ["one", 5, day], ["two", 4.5, None], [12.0, 3, day], [None, None, None]]
    path = workbook(tmp_path / "reviews.xlsx", rows)
    assert read_table(path, label_column="label") == Examples({"text": ["one", "two", "12"]}, labels=["5", "4.5", "3"])
    assert read_table(path, label_column="label", label_kind="number").labels == [5.0, 4.5, 3.0]
    assert [row["day"] for _, row in text_rows(path, ["text"])] == ["2026-11-25", "", "2026-11-25"]
    assert read_table(path, text_column=1, label_column="2").labels == ["5", "4.5", "3"]


def test_bad_rows_of_excel_have_the_numbers_that_excel_shows(tmp_path):
    path = workbook(tmp_path / "a.xlsx", [["text", "label"], ["one", "a"], [None, "b"], ["two", "b", "more"]])
    with error_names(ValueError, "2 of 3", "row 3: text", "row 4: 3 cells", 2):
        read_table(path, label_column="label")


@pytest.mark.parametrize("header", [True, False])
def test_further_sheets_are_named_once_and_can_be_chosen(tmp_path, header):
    path = workbook(tmp_path / "a.xlsx", [["text"], ["one"]], [["text"], ["two"]], [])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = Table(path, header=header)
        assert [list(table), list(table)] == [[*([] if header else [(1, ["text"])]), (2, ["one"])]] * 2
    (warning,) = caught
    assert_names(str(warning.message), "only the sheet 'Sheet1'", "not 'Sheet2'", "sheet='Sheet2'")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_table(path, sheet="Sheet2").x == ["two"]
    with error_names(ValueError, "a.xlsx has no sheet 'sheet2'", "'Sheet1', 'Sheet2'"):
        read_table(path, sheet="sheet2")


def test_a_formula_without_a_value_is_called_that(tmp_path):
    path = workbook(tmp_path / "a.xlsx", [["text", "kind"], ["one", "a"], ["two", "=B2"], ["=A2", "b"], ["", "c"]])
    names = (
        "3 of 4",
        "row 3: kind is a formula without a stored value",
        "row 4: text is a formula",
        "row 5: text is empty",
    )
    with error_names(ValueError, *names):
        read_table(path, label_column="kind")


def test_what_is_written_is_read_again(tmp_path):
    rows = [["text", "n"], ["=1+1", "007"], ["a <b> & _x0041_\u2028 ", "12"], ["\x01\r\n\ufffe", "-1.5"], ["", "2.0"]]
    with open(tmp_path / "a.xlsx", "wb") as file:
        writer = WorkbookWriter(file)
        for row in [*rows, [0.1 + 0.2, 7], [float("nan"), "1e5"], [float("-inf"), 1234567890123456789]]:
            writer.write(row)
        with pytest.raises(ValueError, match="32,767 characters"):
            writer.write(["x" * 32_768])
        writer.close()
    read = [[cell.value for cell in row] for row in openpyxl.load_workbook(tmp_path / "a.xlsx").active.iter_rows()]
    read = [[unescape(each) if isinstance(each, str) else each for each in row] for row in read]
    last = [[None, "2.0"], [0.1 + 0.2, 7], [None, "1e5"], ["-inf", "1234567890123456789"]]
    assert read == [*rows[:2], [rows[2][0], 12], [rows[3][0], -1.5], *last]
    assert read_table(tmp_path / "a.xlsx", text_column="n").x[:2] == ["007", "12"]


def test_the_first_bytes_say_what_a_file_is(tmp_path, write):
    excel = workbook(tmp_path / "a.xlsx", [["text"], ["one"]]).read_bytes()
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


def test_without_python_calamine(tmp_path, monkeypatch):
    path = workbook(tmp_path / "a.xlsx", [["text"], ["one"]])
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with error_names(ImportError, "python-calamine", "keras-bert-models[xlsx]"):
        read_table(path)


def test_empty_cells_and_nulls_are_the_same_everywhere(write, tmp_path):
    paths = [
        write("a.csv", "text,label\none,a\n,b\n"),
        write("a.tsv", "text\tlabel\none\ta\n\tb\n"),
        write("a.jsonl", '{"text": "one", "label": "a"}\n{"text": null, "label": "b"}\n'),
        workbook(tmp_path / "a.xlsx", [["text", "label"], ["one", "a"], [None, "b"]]),
    ]
    for path in paths:
        for read in (read_table, read_corpus):
            with error_names(ValueError, path, "1 of 2", "text is empty"):
                read(path)
            with warning_names(path, "1 of 2", "text is empty"):
                read(path, skip_bad=True)


@pytest.mark.parametrize("dimension", ["A1:C4", "A1:B2", "A1", "A1:A4", "A1:XFD1048576", "B9:B9", ""])
def test_what_a_sheet_says_of_its_size_changes_nothing(tmp_path, dimension):
    tag = f'<dimension ref="{dimension}"/>'.encode() if dimension else b""
    path = changed(workbook(tmp_path / "a.xlsx"), SHEET, lambda xml: re.sub(rb"<dimension[^>]*/>", tag, xml))
    held = list(openpyxl.load_workbook(path).active.iter_rows(values_only=True))
    read = read_rows(path)
    assert [read.names, *(cells for _, cells in read.rows)] == [[cell or "" for cell in row] for row in held]


def test_values_are_those_of_json_lines_and_csv(tmp_path, write):
    day = datetime.datetime(2020, 1, 2)
    values = [True, False, 5, 4.5, 12.0, "x ", day.date(), day, day.replace(hour=3), datetime.time(3, 4, 5)]
    values += [datetime.timedelta(days=2, hours=1), 10**15, -0.25]
    path = workbook(tmp_path / "a.xlsx", [["text", "label"], *(["t", value] for value in values)])
    as_text = ["true", "false", "5", "4.5", "12", "x ", "2020-01-02", "2020-01-02", "2020-01-02T03:00:00", "03:04:05"]
    as_text += ["49:00:00", "1000000000000000", "-0.25"]
    assert [row["label"] for _, row in text_rows(path, ["text"])] == as_text
    names = [value for value in values if isinstance(value, bool | int | str)]
    lines = write("a.jsonl", "".join(json.dumps({"text": "t", "label": name}) + "\n" for name in names))
    path = workbook(tmp_path / "names.xlsx", [["text", "label"], *(["t", name] for name in names)])
    assert read_table(path, label_column="label") == read_table(lines, label_column="label")


def test_a_cell_with_an_error_is_empty(tmp_path):
    path = workbook(tmp_path / "a.xlsx", [["text", "label"], ["one", "a"], ["two", "#DIV/0!"], ["#N/A", "b"]])
    with error_names(ValueError, "2 of 3", "row 3: label is empty", "row 4: text is empty"):
        read_table(path, label_column="label")


def open_document(path):
    """Writes the rows as LibreOffice does, with a million empty rows after them."""
    repeated = '<table:table-row table:number-rows-repeated="1048570"><table:table-cell/></table:table-row>'
    xml = "".join(
        f"<table:table-row>{''.join(f'<table:table-cell{_typed(cell)}' for cell in row)}</table:table-row>"
        for row in ROWS
    )
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )
    with zipfile.ZipFile(path, "w") as new:
        new.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        new.writestr("META-INF/manifest.xml", '<manifest xmlns="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>')
        new.writestr(
            "content.xml",
            f"<office:document-content {spaces}><office:body><office:spreadsheet>"
            f'<table:table table:name="Sheet1">{xml}{repeated}</table:table>'
            "</office:spreadsheet></office:body></office:document-content>",
        )


def _typed(cell):
    return f' office:value-type="string"><text:p>{cell}</text:p></table:table-cell>' if cell else "/>"


def old_workbook(path):
    book = pytest.importorskip("xlwt", reason="needs xlwt, of the extra test").Workbook()
    sheet = book.add_sheet("Sheet1")
    for row, cells in enumerate(ROWS):
        for column, cell in enumerate(cells):
            if cell:
                sheet.write(row, column, cell)
    book.save(str(path))


@pytest.mark.parametrize(("name", "write"), [("a.ods", open_document), ("a.xls", old_workbook)])
def test_other_workbooks(tmp_path, name, write):
    write(tmp_path / name)
    assert read_rows(tmp_path / name) == read_rows(workbook(tmp_path / "a.xlsx"))


def far_cell(xml):
    return xml.replace(b"</sheetData>", b'<row r="1048576"><c r="XFD1048576"><v>2</v></c></row></sheetData>')


@pytest.mark.parametrize(
    ("member", "change", "words"),
    [
        (SHEET, far_cell, ["memory allocation", "far from the others"]),
        (SHEET, lambda xml: xml[: len(xml) // 2], []),
        ("xl/workbook.xml", lambda xml: xml.replace(b"sheetId", b"sheetIx", 1), None),
        ("xl/workbook.xml", lambda xml: b"<workbook/>", []),
        ("xl/styles.xml", lambda xml: xml.replace(b"fillId", b"fllId"), None),
    ],
)
def test_a_damaged_workbook_is_refused_by_name_or_read(tmp_path, member, change, words):
    path = changed(workbook(tmp_path / "a.xlsx"), member, change)
    if words is None:  # what is wrong says nothing of the cells
        assert read_rows(path) == read_rows(tmp_path / "a.xlsx")
        return
    with error_names(ValueError, path, "cannot be read as a workbook", *words):
        read_rows(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.xlsx", "a.xls", "a.ods"])
def test_random_damage_ends_no_process(tmp_path, name):
    """A flipped bit may give a cell a place that needs more memory than there is, which ends the library's process."""
    {"a.xlsx": workbook, "a.xls": old_workbook, "a.ods": open_document}[name](tmp_path / name)
    content, damaged, generator = (tmp_path / name).read_bytes(), tmp_path / f"damaged-{name}", random.Random(0)
    for _ in range(100):
        changed_content = bytearray(content)
        for _ in range(generator.randint(1, 8)):
            changed_content[generator.randrange(4, len(content))] = generator.randrange(256)
        damaged.write_bytes(changed_content[: generator.choice([None, generator.randrange(5, len(content))])])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read_rows(damaged)
        except ValueError as error:
            assert_names(str(error), damaged)
