"""Input and output of the commands: reads texts from arguments, a file or a pipe; writes whole files or none."""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import itertools
import os
import re
import select
import shlex
import stat
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import click

from keras_bert import files, presets
from keras_bert.cli.terminal import Misuse, misuse
from keras_bert.counted import either, visible
from keras_bert.data import table_formats, workbook_writer
from keras_bert.data.workbook_writer import WorkbookWriter, check_cell

T = TypeVar("T")
R = TypeVar("R")

# Commands hold this many texts at a time: enough to batch by length, few enough for any memory.
TEXTS_AT_A_TIME = 2048
ROWS = ("jsonl", "csv", "tsv")  # the formats of `RowWriter`, and workbooks, whose writer must be closed
ENDS = {name: table_formats.FORMATS[name].suffixes[0] for name in (*ROWS, workbook_writer.FORMAT)}  # of file names
NAMED = either(f"{table_formats.FORMATS[name].title} ({ENDS[name]})" for name in [*ENDS][1:])  # in help texts
_FORMAT_OF_EXTENSION = {
    **{suffix: name for name, each in table_formats.FORMATS.items() for suffix in each.suffixes},
    **{suffix: suffix for each in table_formats.FORMATS.values() if each.has_sheets for suffix in each.suffixes[1:]},
    **{".json": "json", ".npy": "npy", ".txt": "text", ".html": "html", ".png": "png", ".gz": "gz"},
}
RAW_CELLS = "keras_bert.raw_cells"  # the key of the option --raw-cells in click's `Context.meta`
_FORMULA = re.compile(r"[=+\-@＝＋－＠\t\r]")  # what a spreadsheet computes begins so
_NUMBER = re.compile(r"[+-]?(\d[\d.,]*|[.,]\d+)([eE][+-]?\d+)?%?")
_BYTES_AT_A_TIME = 1 << 16  # the capacity of a pipe
_SECONDS_TO_WAIT = 0.02  # seconds to wait for input before a chunk is computed


@dataclass(frozen=True)
class Lines:
    """Input lines, which are decoded when they are read."""

    raw: Iterable[bytes]  # UTF-8, with or without line ends
    place: str  # the text before a line's number in messages, such as "reviews.txt, line"
    would_wait: Callable[[], bool] = lambda: False  # whether the next line has not arrived yet
    count: Callable[[], int | None] = lambda: None  # the number of lines; None if it is unknown

    def parsed(self, parse: Callable[[str], T] = str) -> Iterator[T]:
        """Decodes and parses the lines. Raises Misuse, with the line's number, for bad UTF-8 or a ValueError."""
        for number, line in enumerate(self.raw, start=1):
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")  # the byte order mark of Windows editors
            try:
                yield parse(line.removesuffix(b"\n").removesuffix(b"\r").decode())
            except UnicodeDecodeError as error:
                byte = error.object[error.start]
                raise Misuse(
                    f"{self.place} {number} is not UTF-8: bad byte {byte:#04x} at byte {error.start}; "
                    "convert the text first, for instance with iconv"
                ) from None
            except ValueError as error:
                raise Misuse(f"{self.place} {number}: {error}") from None

    def chunks(self, parse: Callable[[str], T] = str) -> Iterator[list[T]]:
        """Yields lists of up to `TEXTS_AT_A_TIME` parsed lines. A list ends early if the next line has not arrived."""
        chunk = []
        for each in self.parsed(parse):
            chunk.append(each)
            if len(chunk) == TEXTS_AT_A_TIME or self.would_wait():
                yield chunk
                chunk = []
        if chunk:
            yield chunk

    def answered(
        self, answer: Callable[[list[str]], R], parse: Callable[[str], str] = str
    ) -> Iterator[tuple[list[str], R]]:
        """Yields chunks of texts and their answers, with a progress bar. Raises Misuse for a ValueError of `answer`."""
        from keras_bert.progress import progress_bar, step

        with progress_bar(self.count(), "texts") as bar:  # with the time left if their number is known
            for texts in self.chunks(parse):
                with misuse(), step(bar, len(texts)):
                    answers = answer(texts)
                yield texts, answers


class Arriving:
    """The lines of a file, or of a pipe whose writer may still be running."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        self.file = file
        self._lines: deque[bytes] = deque()

    def __iter__(self) -> Iterator[bytes]:
        parts: list[bytes] = []  # parts of an unfinished line
        line_end = b"\r"  # the line end of old Macs, in a file without a line feed
        while block := self.file.read1(_BYTES_AT_A_TIME):
            first, *rest = block.split(b"\n")
            parts.append(first)
            if rest:
                line_end = b"\n"
                self._lines.extend([b"".join(parts), *rest[:-1]])
                parts = [rest[-1]]
            while self._lines:
                yield self._lines.popleft()
        if last := b"".join(parts):
            yield from last.removesuffix(line_end).split(line_end)

    def would_wait(self) -> bool:
        """Checks whether no further line is here, and none arrives within `_SECONDS_TO_WAIT`."""
        try:
            return not self._lines and not select.select([self.file], [], [], _SECONDS_TO_WAIT)[0]
        except ValueError:  # in memory, without a file descriptor
            return False


def open_texts(arguments: tuple[str, ...], file: str | None) -> Lines:
    """Opens the input: arguments, a file, or a pipe. Raises Misuse if there is none."""
    if arguments and file:
        raise Misuse("give texts as arguments or in --file, not both")
    if arguments and _is_preset(arguments[0]) and "preset" in click.get_current_context().params:
        raise Misuse(f"{arguments[0]!r} is a model: choose it with --preset {shlex.quote(arguments[0])}")
    if arguments:
        # Python turns bytes that are not UTF-8 into surrogates; `surrogateescape` turns them back.
        raw = (argument.encode("utf-8", "surrogateescape") for argument in arguments)
        return Lines(raw, "argument", count=lambda: len(arguments))
    if file and file != "-":
        opened = contextlib.ExitStack()
        lines = Arriving(_open(file, opened))
        return Lines(
            _closing(lines, opened), f"{file}, line", lines.would_wait, functools.partial(_count_lines, Path(file))
        )
    if sys.stdin is None or (not file and sys.stdin.isatty()):
        raise Misuse("nothing to read; give texts as arguments, in --file FILE, or through a pipe")
    lines = Arriving(cast("io.BufferedReader", sys.stdin.buffer))  # its type lacks `read1`
    return Lines(lines, "standard input, line", lines.would_wait)


def _is_preset(text: str) -> bool:
    return text in {*presets.OWN, *presets.PACKAGED} or os.path.exists(os.path.join(text, "config.json"))


def _open(file: str, stack: contextlib.ExitStack) -> io.BufferedIOBase:
    """Opens a file of texts, on a stack that closes it. Raises Misuse if it is none, such as a table."""
    try:
        with misuse():
            table_formats.check_lines(file, "texts, one per line (`< FILE` reads the lines of any file)")
            return stack.enter_context(files.open_bytes(file))
    except OSError as error:
        raise Misuse(f"cannot read {file}: {error.strerror}") from error


def _count_lines(path: Path) -> int | None:
    if not path.is_file():  # a pipe can be read only once
        return None
    with files.open_bytes(path) as file:
        return sum(1 for _ in Arriving(file))


def _closing(lines: Arriving, opened: contextlib.ExitStack) -> Iterator[bytes]:
    with misuse(), opened:
        yield from lines


@contextlib.contextmanager
def open_output(output: str | None, overwrite: bool) -> Iterator[BinaryIO]:
    """Opens standard output, or a file that appears only if the block ends without an exception."""
    if output in (None, "-"):
        stdout = sys.stdout.buffer
        yield stdout
        stdout.flush()
        return
    path = Path(output).resolve()  # the target of a link is replaced, not the link
    _check_output(output, path, overwrite)
    with files.written_whole(path) as unfinished:
        with open(unfinished, "xb") as file:
            yield file
        _check_output(output, path, overwrite)  # another process may have written it


def _check_output(output: str, path: Path, overwrite: bool) -> None:
    if not path.parent.is_dir():
        raise Misuse(f"cannot write {output}: there is no directory {path.parent}")
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise Misuse(f"cannot write {output}: it is not a file")
    if path.exists() and not overwrite:
        raise Misuse(f"{output} exists; replace it with --overwrite, or choose another name")


def format_of(output: str | None, formats: Sequence[str], advice: str = "", must_be_known: bool = False) -> str:
    """Finds the format of an output by its extension; the first of `formats` for standard output or others."""
    suffix = Path(output or "").suffix.lower()
    format = _FORMAT_OF_EXTENSION.get(suffix, suffix if must_be_known else formats[0])
    if format not in formats:
        extensions = [end for known in formats for end, each in _FORMAT_OF_EXTENSION.items() if each == known]
        command = click.get_current_context().info_name
        advice = advice or f"choose a name that ends in {' or '.join(extensions)}"
        raise Misuse(f"{output}: {command} does not write {format or 'that'}; {advice}")
    return format


class RowWriter:
    """Writes rows as JSON lines, CSV, TSV or a workbook. What a spreadsheet would compute gets a `'` before it."""

    def __init__(self, file: BinaryIO, format: str, raw_cells: bool | None = None) -> None:
        self._file = file
        self._format = format
        self._columns: list[str] = []  # the header of CSV and TSV
        context = click.get_current_context(silent=True)
        self._is_raw = bool(context and context.meta.get(RAW_CELLS)) if raw_cells is None else raw_cells
        self._workbook = WorkbookWriter(file) if format == workbook_writer.FORMAT else None  # which computes no texts

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._workbook is not None:
            self._workbook.close()

    def write(self, rows: Iterable[Mapping[str, object]], later: Iterable[Mapping[str, object]] = ()) -> None:
        """Writes rows. CSV and TSV have the columns of the first chunk and of `later`, rows that are not written."""
        if self._format == "jsonl":
            write_lines(self._file, (json_line(**row) for row in rows))
            return
        rows = iter(rows)
        while chunk := list(itertools.islice(rows, TEXTS_AT_A_TIME)):
            if not self._columns:
                self._columns = list(dict.fromkeys(name for row in (*chunk, *later) for name in row))
                self._write_cells([self._columns])
            self._write_cells(map(self._cells, chunk))

    def _write_cells(self, rows: Iterable[list[Any]]) -> None:
        if self._workbook is None:
            write_lines(self._file, map(self._line, rows))
            return
        with misuse():
            for cells in rows:
                self._workbook.write(cells)

    def write_each(
        self, items: Iterable[T], line: Callable[[T], str], row: Callable[[T], Mapping[str, object]]
    ) -> None:
        """Writes each item as a line if the format is text, else as a row; numbers of rows have six decimals."""
        if self._format == "text":
            write_lines(self._file, map(line, items))
        else:
            self.write(map(rounded, map(row, items)))

    def check(self, row: Mapping[str, object]) -> None:
        """Checks the cells of a row that is written later. Raises Misuse if TSV or a workbook cannot hold one."""
        cells = [_cell(value) for value in row.values()]
        if self._format == "tsv":
            self._line(cells)
        elif self._workbook is not None:
            with misuse():
                _ = [*map(check_cell, cells)]

    def _cells(self, row: Mapping[str, object]) -> list[Any]:
        if unknown := [name for name in row if name not in self._columns]:
            raise Misuse(
                f"a row has the column {unknown[0]!r}, which the rows before lack; write JSON lines, .jsonl, or read "
                "the rows with --file"
            )
        if self._workbook is not None:
            return [each if type(each) in (int, float) else _cell(each) for each in map(row.get, self._columns)]
        return [_cell(row.get(name)) for name in self._columns]

    def _line(self, cells: list[str]) -> str:
        if not self._is_raw:
            cells = [f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell for cell in cells]
        if self._format == "tsv":
            if bad := [cell for cell in cells if re.search("[\t\n\r]", cell)]:
                raise Misuse(f"{bad[0]!r:.60} has a tab or a line end, which TSV cannot hold; write .csv or .jsonl")
            return "\t".join(cells)
        line = io.StringIO()
        csv.writer(line, lineterminator="\r\n").writerow(cells)  # quotes cells that contain \r or \n
        return line.getvalue().removesuffix("\r\n")


def _cell(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return files.to_json_line(value)


def rounded(row: Mapping[str, object]) -> dict[str, object]:
    """Rounds the numbers of a row to six decimals."""
    return {name: round(each, 6) if isinstance(each, float) else each for name, each in row.items()}


def rename_columns(row: Mapping[str, object], taken_names: Collection[str]) -> dict[str, object]:
    """Renames the columns of a row whose names are taken: `label` becomes `given_label`."""
    result: dict[str, object] = {}
    for name, value in row.items():
        new_name = name
        while new_name in taken_names or new_name in result or (new_name != name and new_name in row):
            new_name = f"given_{new_name}"
        result[new_name] = value
    return result


def write_lines(file: BinaryIO, lines: Iterable[str]) -> None:
    """Writes lines as UTF-8, in any locale, and flushes the file."""
    escape = visible if file.isatty() else str
    file.writelines(f"{escape(line)}\n".encode() for line in lines)
    file.flush()


def printable_line(text: str) -> str:
    """Formats a text as one printable line."""
    return visible(" ".join(text.split()))


def json_line(**fields: object) -> str:
    return files.to_json_line(fields)
