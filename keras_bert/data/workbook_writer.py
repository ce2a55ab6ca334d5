"""Writes a table as a workbook (.xlsx), row by row: values only, so that no cell is computed."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Iterable
from typing import BinaryIO

FORMAT = "xlsx"  # its name among the formats of tables
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_SHEET = "xl/worksheets/sheet1.xml"
_PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPE}.sheet.main+xml"/>'
    f'<Override PartName="/{_SHEET}" ContentType="{_TYPE}.worksheet+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="rId1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}">'
    '<sheets><sheet name="Sheet1" sheetId="1" r:id="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="rId1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
}
_DECLARATION = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_NUMBER = re.compile(r"0|-?[1-9]\d{0,14}|-?(0|[1-9]\d{0,5})\.\d{0,8}[1-9]")  # that a spreadsheet shows as it is written
_ESCAPED = re.compile(r"[\0-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")  # what XML cannot hold, and escapes
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_MOST_CHARACTERS, _MOST_ROWS = 32_767, 2**20  # of a cell, of a sheet: Excel's limits


class WorkbookWriter:
    """A workbook of one sheet. Raises ValueError for what a workbook cannot hold."""

    def __init__(self, file: BinaryIO) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        for name, content in _PARTS.items():
            self._zip.writestr(name, _DECLARATION + content)
        self._sheet, self._rows = self._zip.open(_SHEET, "w", force_zip64=True), 0
        self._sheet.write(f'{_DECLARATION}<worksheet xmlns="{_MAIN}"><sheetData>'.encode())

    def write(self, cells: Iterable[str | float]) -> None:
        """Writes a row. A text that reads as a number is one, and any other a text, also one that begins with `=`."""
        self._rows += 1
        if self._rows > _MOST_ROWS:
            raise ValueError(f"there are more than the {_MOST_ROWS:,} rows of a workbook; write .csv or .jsonl")
        self._sheet.write(f"<row>{''.join(map(_cell, cells))}</row>".encode())

    def close(self) -> None:
        self._sheet.write(b"</sheetData></worksheet>")
        self._sheet.close()
        self._zip.close()


def check_cell(text: str) -> str:
    """Returns the text of a cell. Raises ValueError if a workbook cannot hold it."""
    if len(text.encode("utf-16-le")) > 2 * _MOST_CHARACTERS:
        raise ValueError(
            f"{text[:40]!r}... has more than the {_MOST_CHARACTERS:,} characters of a workbook's cell; write .csv or "
            ".jsonl"
        )
    return text


def _cell(value: str | float) -> str:
    if value == "" or value != value:  # NaN
        return "<c/>"
    if value in (math.inf, -math.inf) or (isinstance(value, int) and abs(value) >= 10**15):  # a cell cannot hold it
        value = str(value)
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return f"<c><v>{value}</v></c>"
    escaped = _ESCAPED.sub(lambda found: f"_x{ord(found[0]):04X}_", check_cell(value))
    return f'<c t="inlineStr"><is><t xml:space="preserve">{escaped.translate(_MARKUP)}</t></is></c>'
