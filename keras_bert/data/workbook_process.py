"""Reads Excel's and LibreOffice's workbooks in a process of their own, which damaged ones may end."""

from __future__ import annotations

import contextlib
import datetime
import functools
import io
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Generator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from keras_bert.extras import import_extra
from keras_bert.files import open_bytes

_UNSTORED = re.compile(rb'<c r="([A-Z]{1,3})([0-9]{1,7})"[^>]*><f(?:[^>]*/>|[^>]*>[^<]*</f>)(?:<v */>|<v></v>)?</c>')
_MEMORY = 6 * 2**30  # bytes of the process, of which 100 million cells take a half


def read_workbook(path: str | Path, sheet: str | None = None) -> Generator[list[Any], None, None]:
    """Yields the names of a sheet, by default the first, and of others with cells; then its cells by row, as texts."""
    # A formula without a stored value is None. If there is no such sheet, the names of all are yielded.
    import_extra("python_calamine", "python-calamine", "xlsx")
    command = [sys.executable, "-c", f"from {__name__} import print_rows; print_rows()", os.fspath(path)]
    command += [] if sheet is None else [sheet]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "RUST_BACKTRACE": "0"}
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment) as process,
    ):
        is_whole = False
        try:
            assert process.stdout is not None
            for line in process.stdout:
                row = json.loads(line) if line.endswith(b"\n") else None
                is_whole = row is True
                if isinstance(row, str):
                    raise ValueError(f"{path} cannot be read as a workbook: {row}")
                if isinstance(row, list):
                    yield row
        finally:
            process.kill()
        if not is_whole:
            errors.seek(0)
            reason = errors.readline().decode(errors="replace").strip() or "its process was killed"
            raise ValueError(
                f"{path} cannot be read as a workbook: {reason}; it is damaged, or has cells far from the others: "
                "save the table alone as .xlsx or CSV"
            )


def print_rows() -> None:
    """Prints what `read_workbook` yields as JSON lines, and then `true`; or the message of an error, as a string."""
    import python_calamine

    path = sys.argv[1]
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    try:
        with open_bytes(path) as file:
            content = io.BytesIO(file.read())
        book = python_calamine.CalamineWorkbook.from_filelike(content)
        names = [each.name for each in book.sheets_metadata if each.typ == python_calamine.SheetTypeEnum.WorkSheet]
        if not names:
            raise ValueError("it has no sheets")
        chosen = sys.argv[2] if len(sys.argv) > 2 else names[0]
        if chosen in names:
            print(
                json.dumps([chosen, *(name for name in names if name != chosen and book.get_sheet_by_name(name).end)])
            )
            unstored = _unstored_formulas(content, chosen)
            for number, row in enumerate(book.get_sheet_by_name(chosen).iter_rows(), start=1):
                cells = [_format_cell(value) for value in row]
                for column in unstored.get(number, ()):
                    if column < len(cells) and not cells[column]:
                        cells[column] = None
                print(json.dumps(cells))
        else:
            print(json.dumps(names))
        print("true")
    except BaseException as error:  # a panic of Rust is no Exception
        print(json.dumps(" ".join(str(error).split()).removeprefix(f"{path} ") or type(error).__name__))


def _unstored_formulas(content: io.BytesIO, sheet: str) -> dict[int, list[int]]:
    """Finds the formulas in a sheet of an .xlsx without stored values: row, from 1 -> columns, from 0."""
    found: dict[int, list[int]] = {}
    with contextlib.suppress(zipfile.BadZipFile, KeyError, ElementTree.ParseError), zipfile.ZipFile(content) as book:
        sheets = ElementTree.fromstring(book.read("xl/workbook.xml")).iter()
        (key,) = [
            value
            for each in sheets
            if each.tag.endswith("}sheet") and each.get("name") == sheet
            for name, value in each.items()
            if name.endswith("}id")
        ]
        parts = ElementTree.fromstring(book.read("xl/_rels/workbook.xml.rels"))
        (part,) = [each.get("Target", "") for each in parts if each.get("Id") == key]
        cells = book.read(part[1:] if part.startswith("/") else f"xl/{part}")
        for letters, row in _UNSTORED.findall(cells):
            column = functools.reduce(lambda number, letter: 26 * number + letter - 64, letters, 0) - 1
            found.setdefault(int(row), []).append(column)
    return found


def _format_cell(value: Any) -> Any:
    """Converts a cell to a text: a whole number without a point, a date as in ISO 8601, true or false as in JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.timedelta):  # hours may be more than 24
        minutes, seconds = divmod(value.total_seconds(), 60)
        return f"{int(minutes // 60)}:{int(minutes % 60):02}:{seconds:02.0f}"
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if "\0" in str(value):
        raise ValueError(f"the text {value!r:.60} is in an encoding that is not known; save it as .xlsx or CSV")
    return str(value)
