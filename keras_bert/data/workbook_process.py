"""Reads Excel's and LibreOffice's workbooks in a process of their own, which damaged ones may end."""

from __future__ import annotations

import datetime
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

from keras_bert.extras import import_extra
from keras_bert.files import open_bytes

_MEMORY = 6 * 2**30  # bytes of the process, of which 100 million cells take a half


def read_workbook(path: str | Path) -> Generator[list[str], None, None]:
    """Yields the names of the first sheet and of others with cells; then the cells of the first by row, as texts."""
    import_extra("python_calamine", "python-calamine", "xlsx")
    command = [sys.executable, "-c", f"from {__name__} import print_rows; print_rows()", os.fspath(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "RUST_BACKTRACE": "0"}
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment) as process,
    ):
        assert process.stdout is not None
        is_whole = False
        try:
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
            book = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(file.read()))
        names = [each.name for each in book.sheets_metadata if each.typ == python_calamine.SheetTypeEnum.WorkSheet]
        if not names:
            raise ValueError("it has no sheets")
        print(json.dumps([names[0], *(name for name in names[1:] if book.get_sheet_by_name(name).end)]))
        for row in book.get_sheet_by_name(names[0]).iter_rows():
            print(json.dumps([_format_cell(value) for value in row]))
        print("true")
    except BaseException as error:  # a panic of Rust is no Exception
        print(json.dumps(" ".join(str(error).split()).removeprefix(f"{path} ") or type(error).__name__))


def _format_cell(value: Any) -> str:
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
