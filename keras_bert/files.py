"""Finds, reads and writes files. Errors name the file. A file is written whole or not at all, by one process."""

from __future__ import annotations

import errno
import fcntl
import glob
import gzip
import io
import json
import math
import os
import re
import reprlib
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

if TYPE_CHECKING:
    import numpy as np

JsonShape: TypeAlias = type | dict | list | tuple | None  # see `check_json`
# The names of JSON's types in messages.
_TYPE_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}
_GZIP = b"\x1f\x8b"
_POINTER = b"version https://git-lfs.github.com/spec/"
# An escape in JSON: a surrogate pair; half of a pair (the group); or any other escape.
_ESCAPES = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)")


def find(directory: Path, *names: str, advice: str = "") -> Path:
    """Finds the first of `names` in `directory`. Raises the error of `missing_error` if there is none."""
    for name in names:
        if (directory / name).is_file():
            return directory / name
    raise missing_error(directory, *names, advice=advice)


def missing_error(directory: Path, *names: str, advice: str = "") -> FileNotFoundError:
    """Makes the error for a directory without any of `names`, which lists the directory's files and says what to do."""
    present = ", ".join(sorted(file.name for file in directory.iterdir())) or "nothing"
    advice = advice and f"; {advice}"
    return FileNotFoundError(f"{directory} has no {' or '.join(names)}; it holds {present}{advice}")


def refuse_pointer(path: str | Path) -> None:
    """Raises ValueError if a file is a Git LFS pointer, as in a clone without its large files."""
    if not Path(path).is_file():
        return
    with Path(path).open("rb") as file:
        pointer = file.read(1000)
    if pointer.startswith(_POINTER):
        size = re.search(rb"^size (\d+)$", pointer, re.MULTILINE)
        size_note = f" ({int(size[1]):,} bytes)" if size else ""
        raise ValueError(
            f"{path} is a Git LFS pointer, not the file itself{size_note}; fetch it: run `git lfs pull` in the clone, "
            "or download the file"
        )


@contextmanager
def open_bytes(path: str | Path) -> Iterator[io.BufferedIOBase]:
    """Opens a file to read, and decompresses it if it begins with gzip's magic bytes.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is a Git LFS pointer, or the compressed data is damaged.
    """
    refuse_pointer(path)
    with open(path, "rb") as file:
        if not file.peek(2).startswith(_GZIP):
            yield file
            return
        with gzip.GzipFile(fileobj=file) as inner:
            try:
                yield inner
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise ValueError(f"{path} cannot be decompressed: {error}") from None


def read_text(path: str | Path, may_be_compressed: bool = False) -> str:
    """Reads a file's text in UTF-8, without a byte order mark, and keeps its line ends.

    Args:
        path: the file.
        may_be_compressed: whether to decompress gzip. Use it for the user's own data, not for the files of a model: a
            few kilobytes of gzip from elsewhere could fill the memory.

    Raises:
        OSError: the file cannot be read.
        ValueError: as `open_bytes`; or the text is not UTF-8 (the message has the first bad line), or is only white
            space.
    """
    if may_be_compressed:
        with open_bytes(path) as file:
            raw = file.read()
    else:
        refuse_pointer(path)
        raw = Path(path).read_bytes()
    try:
        text = raw.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = raw.rfind(b"\n", 0, error.start) + 1
        raise _not_utf8(path, raw.count(b"\n", 0, error.start) + 1, raw, error, error.start - before) from None
    if not text.strip():
        raise ValueError(f"{path} is empty")
    return text


def read_lines(path: str | Path) -> Iterator[str]:
    """Yields the lines of a text of any size, with their ends: `\\n`, or, in a file without `\\n` (old Macs), `\\r`.

    Raises:
        OSError: the file cannot be read.
        ValueError: as `open_bytes`; or the text is not UTF-8.
    """
    with open_bytes(path) as file:
        for number, raw in enumerate(file, start=1):
            try:
                line = raw.decode()
            except UnicodeDecodeError as error:
                raise _not_utf8(path, number, raw, error, error.start) from None
            if number == 1:
                line = line.removeprefix("\ufeff")
            if number == 1 and not line.endswith("\n"):  # the only line
                yield from io.StringIO(line, newline="\r")
            else:
                yield line


def _not_utf8(path: str | Path, line: int, raw: bytes, error: UnicodeDecodeError, column: int) -> ValueError:
    likely = "UTF-16" if line == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "WINDOWS-1252"
    return ValueError(
        f"{path}, line {line}, is not UTF-8: bad byte {raw[error.start]:#04x} at byte {column} ({error.reason}); "
        f"convert the file first, for instance with iconv -f {likely} -t UTF-8"
    )


def split_lines(text: str) -> list[str]:
    """Splits a text into lines, without their ends: `\\n` or `\\r\\n`, or, in a text without `\\n` (old Macs), `\\r`.

    `str.splitlines` would also split at U+2028, which may be inside a line.
    """
    return [line.removesuffix("\r") for line in with_line_feeds(text).removesuffix("\n").split("\n")]


def with_line_feeds(text: str) -> str:
    """Replaces `\\r` by `\\n` in a text without `\\n`, as of old Macs; keeps `\\n` and `\\r\\n`."""
    return text if "\n" in text else text.replace("\r", "\n")


def text_files(path: Path) -> list[Path]:
    """Lists `path` itself, or the .txt files in a directory, sorted by name.

    Raises:
        FileNotFoundError: there are no such files, or one is a broken link.
    """
    if not path.is_dir():
        if not path.exists():
            raise FileNotFoundError(f"there is no file {path}")
        return [path]
    paths = sorted(path.glob("*.txt"))
    if not paths:
        raise FileNotFoundError(f"the directory {path} has no .txt files")
    for each in paths:
        if not each.exists():
            raise FileNotFoundError(f"{each} is a link to {each.readlink()}, which does not exist")
    return paths


def read_json(path: Path, shape: JsonShape = dict) -> Any:
    """Reads the value in a JSON file, and checks its shape by `check_json`.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not JSON in UTF-8, is a Git LFS pointer, or has a value of another type; the message
            names the file and the key.
    """
    value = load_json(path)
    check_json(value, shape, path)
    return value


def load_json(path: Path) -> Any:
    """Reads the value in a JSON file, of any shape. Raises as `read_json`."""
    try:
        text = path.read_text(encoding="utf-8")
        value = parse_json(text)
        _refuse_lone_surrogates(text)
    except ValueError as error:  # bad JSON, or bad UTF-8
        refuse_pointer(path)
        raise ValueError(f"{path} is not a JSON file: {error}") from None
    return value


def parse_json(text: str) -> Any:
    """Parses a JSON text.

    Raises:
        ValueError: the text is not JSON, or Python cannot read it; the message says what is wrong. A JSONDecodeError
            also has the position.

    Example:
        >>> parse_json("9" * 5000)
        Traceback (most recent call last):
        ValueError: a whole number of more than 4,300 digits
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError:  # Python refuses numbers that would take long to read
        raise ValueError(f"a whole number of more than {sys.get_int_max_str_digits():,} digits") from None


def _refuse_lone_surrogates(text: str) -> None:
    """Raises ValueError if JSON escapes half of a surrogate pair, which UTF-8 cannot hold."""
    if r"\ud" in text or r"\uD" in text:
        for escape in _ESCAPES.finditer(text):
            if escape[1]:
                raise ValueError(f"half of a surrogate pair, {escape[0]}, at character {escape.start()}")


def check_json(value: object, shape: JsonShape, source: str | Path) -> None:
    """Raises ValueError, with the key and the expected type, if a value from JSON has another shape.

    Args:
        value: dict, list, str, int, float, bool or None, nested.
        shape: the expected type, int for whole numbers and float for all numbers; or
            - `{"key": shape, ...}`: an object with these keys, and maybe others;
            - `{str: shape}`: an object with any keys;
            - `[shape]`: a list of any length; `[shape, shape]`: a list of two;
            - `(shape, shape)`: either shape; if one is None, the key may also be missing.
        source: the name of the value in the message, such as the path of its file.

    Example:
        >>> check_json({"model": {"vocab": {"a": "7"}}}, {"model": {"vocab": {str: int}}}, "tokenizer.json")
        Traceback (most recent call last):
        ValueError: tokenizer.json has '7' in model.vocab.a; expected a whole number
    """
    fault = next(_find_mismatches(value, shape), None)
    if fault is not None:
        place, actual, expected = fault
        place = place.removeprefix(".")
        if actual is None and place:
            raise ValueError(f"{source} has no {place}; expected {expected}")
        where = f" in {place}" if place else ""
        raise ValueError(f"{source} has {reprlib.repr(actual)}{where}; expected {expected}")


def with_whole_numbers(value: Any, shape: JsonShape) -> Any:
    """Replaces floats without a fraction by int, in objects, where the shape (see `check_json`) is int.

    Example:
        >>> with_whole_numbers({"size": 384.0, "rate": 1.0}, {"size": int, "rate": float})
        {'size': 384, 'rate': 1.0}
    """
    shapes = {_json_type(each): each for each in (shape if isinstance(shape, tuple) else (shape,))}
    if type(value) is float and value.is_integer() and int in shapes and float not in shapes:
        return int(value)
    if isinstance(value, dict) and isinstance(inner := shapes.get(dict), dict) and str not in inner:
        return {key: with_whole_numbers(each, inner[key]) if key in inner else each for key, each in value.items()}
    return value


def _find_mismatches(value: Any, shape: JsonShape) -> Iterator[tuple[str, object, str]]:
    """Yields the key path, the value and the expected type of each part that has another shape."""
    shapes = {_json_type(each): each for each in (shape if isinstance(shape, tuple) else (shape,))}
    kind: type = type(value)
    if kind is int and int not in shapes:
        kind = float
    if kind not in shapes:
        yield "", value, " or ".join(_TYPE_NAMES[each] for each in shapes)
        return
    inner = shapes[kind]
    parts: Iterable[tuple[str | int, object, JsonShape]] = ()  # keys, values and shapes
    if isinstance(inner, dict):
        expected = dict.fromkeys(value, inner[str]) if str in inner else inner
        parts = ((key, value.get(key), part_shape) for key, part_shape in expected.items())
    elif isinstance(inner, list) and len(inner) == 1:
        parts = ((index, part, inner[0]) for index, part in enumerate(value))
    elif isinstance(inner, list) and len(inner) != len(value):
        yield "", value, f"a list of {len(inner)}"
    elif isinstance(inner, list):
        parts = zip(range(len(inner)), value, inner, strict=True)
    for key, part, part_shape in parts:
        if type(part) is not part_shape:  # a quick test first, for long vocabularies
            for place, actual, expected in _find_mismatches(part, part_shape):
                yield f"[{key}]{place}" if isinstance(key, int) else f".{key}{place}", actual, expected


def _json_type(shape: JsonShape) -> type:
    return shape if isinstance(shape, type) else type(shape)  # type(None), type({...}), type([...])


def to_json(value: object) -> str:
    """Formats the text of a JSON file, indented for people to read."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def to_json_line(value: object) -> str:
    """Formats JSON in one line. What JSON lacks becomes null (NaN and infinity) or a text (such as dates).

    Example:
        >>> to_json_line({"scores": [0.5, float("nan")]})
        '{"scores": [0.5, null]}'
    """
    try:
        return json.dumps(value, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_with_nulls(value), ensure_ascii=False, default=str)


def _with_nulls(value: object) -> object:
    """Replaces NaN and infinity, deep in a value, by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _with_nulls(each) for key, each in value.items()}
    return list(map(_with_nulls, value)) if isinstance(value, list | tuple) else value


def decimals(row: np.ndarray) -> list[str]:
    """Formats float32 `[n]` as decimal numbers that read back exactly."""
    return [f"{value:.9g}" for value in row.tolist()]


# -- Files and directories that are written whole or not at all, by one process at a time.

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_temporary: set[Path] = set()  # unfinished files and directories of this process
_new_folders: list[Path] = []  # directories that this process has made for them, each before its parent


def is_empty_directory(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def check_writable(directory: str | Path) -> None:
    """Raises OSError, with the directory's name, if a directory cannot be created or written into."""
    path = Path(directory).absolute()
    try:
        existing = next(each for each in (path, *path.parents) if each.exists())
        tempfile.TemporaryDirectory(dir=existing).cleanup()
    except OSError as error:
        raise type(error)(f"cannot write into {directory}: {error.strerror}") from error


RUN = "training"  # the folder of a run's state, inside the directory of the run


def check_run(directory: str | Path, overwrite: bool) -> None:
    """Checks that a directory can hold a run: it is new or empty, already holds a run, or may be overwritten.

    Raises:
        FileExistsError: the directory holds something else.
        OSError: the directory cannot be written into.
    """
    path = Path(directory)
    if path.exists() and not overwrite and not (path / RUN).is_dir() and not is_empty_directory(path):
        advice = "choose another output" + (
            ", or start again with overwrite" if (path / "config.json").is_file() else ""
        )
        raise FileExistsError(f"{path} exists and is not the directory of a run; {advice}")
    check_writable(path)


def refuse_to_overwrite(directory: str | Path, names: Iterable[str], overwrite: bool) -> None:
    """Raises FileExistsError if `directory` has one of the files `names` and `overwrite` is False."""
    existing = [name for name in names if (Path(directory) / name).exists()]
    if existing and not overwrite:
        raise FileExistsError(f"{directory} already has {', '.join(existing)}; pass overwrite to replace")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yields a temporary path; moves its file to `path` when the block ends, or removes it if the block fails.

    Temporary files that killed processes left for the same `path` are removed first.

    Raises:
        OSError: the file cannot be written. The error names `path`, not the temporary path.
    """
    for leftover in _find_leftovers(path, "tmp"):
        _remove(leftover)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with folder(path.parent), _removed_afterwards(unfinished), _errors_naming(path, unfinished):
        yield unfinished
        os.replace(unfinished, path)


def write_texts(directory: str | Path, texts: Mapping[str, str | bytes]) -> None:
    """Writes texts (in UTF-8) or bytes, by file name, into `directory`, which is created if missing."""
    for name, text in texts.items():
        with written_whole(Path(directory) / name) as unfinished:
            unfinished.write_bytes(text.encode() if isinstance(text, str) else text)


@contextmanager
def directory_written_whole(path: Path, mark: str, overwrite: bool) -> Iterator[Path]:
    """Yields a temporary directory; moves it to `path` when the block ends, or removes it if the block fails.

    A directory at `path` stays until the block ends. It is replaced only with `overwrite`, and only if it has the file
    `mark`, which every directory of this kind has. Temporary directories that killed processes left for the same `path`
    are removed first. If a process was killed between moving the old directory away and moving the new one to `path`,
    the old directory is moved back.

    Raises:
        FileExistsError: `path` exists, is not an empty directory, and must not be replaced.
        OSError: a file cannot be written. The error names its path in `path`, not in the temporary directory.
    """
    path = path.absolute()
    for leftover in _find_leftovers(path, "old"):
        if path.exists():
            _remove(leftover)
        else:
            os.rename(leftover, path)
    for leftover in _find_leftovers(path, "new"):
        _remove(leftover)
    refuse_to_replace(path, mark, overwrite)  # before any work is done
    unfinished, replaced = (path.with_name(f".{path.name}.{os.getpid()}.{state}") for state in ("new", "old"))
    with folder(path.parent), _removed_afterwards(unfinished), _errors_naming(path, unfinished):
        unfinished.mkdir()
        yield unfinished
        refuse_to_replace(path, mark, overwrite)  # another process may have created it since
        if path.exists():
            os.rename(path, replaced)
        os.rename(unfinished, path)
    shutil.rmtree(replaced, ignore_errors=True)


@contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """Locks a directory for a block, so that only one process writes there; creates the directory if missing.

    The block locks the directory's file `.lock`. The system frees the lock when the process ends, even if killed. A new
    directory that stays empty is removed. File systems without locks let every process enter.

    Raises:
        BlockingIOError: another process holds the lock.
    """
    path = directory / ".lock"
    with folder(directory), _errors_naming(directory, path), path.open("wb") as lock:
        _lock(lock, directory)
        with _removed_afterwards(path):
            yield


def remove_temporary() -> None:
    """Removes this process's temporary files and directories, before an exit that skips `finally` blocks."""
    for path in list(_temporary):
        _remove(path)
    _remove_if_empty(_new_folders)


def remove_leftovers(directory: Path) -> None:
    """Removes the temporary files of killed processes in and below `directory`."""
    for temporary in directory.rglob(".*.tmp"):
        path = temporary.with_name(temporary.name[1:].removesuffix(".tmp").rpartition(".")[0])
        if path.is_file() and temporary in _find_leftovers(path, "tmp"):  # the file itself has been written whole since
            _remove(temporary)


def _find_leftovers(path: Path, state: str) -> list[Path]:
    """Lists the temporary paths, in one state ("tmp", "new" or "old"), that killed processes left for `path`."""
    leftovers = []
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.*.{state}"):
        number = temporary.name.removeprefix(f".{path.name}.").removesuffix(f".{state}")
        is_own = number == str(os.getpid()) and temporary not in _temporary  # containers reuse process ids
        if number.isdecimal() and (is_own or not Path("/proc", number).exists()):
            leftovers.append(temporary)
    return leftovers


def _lock(file: BinaryIO, directory: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_locked = not os.fstat(file.fileno()).st_nlink  # another process has just removed it
    except BlockingIOError:
        is_locked = True
    except OSError:  # the file system has no locks
        return
    if is_locked:
        message = "another process is writing there; wait until it ends, or choose another directory"
        raise BlockingIOError(errno.EWOULDBLOCK, message, str(directory))


@contextmanager
def folder(directory: Path) -> Iterator[None]:
    """Creates a directory for a block. Of it and its parents, those that are new and stay empty are removed."""
    new = [each for each in (directory, *directory.parents) if not each.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    _new_folders.extend(new)
    try:
        yield
    finally:
        _remove_if_empty(new)
        _new_folders[:] = [each for each in _new_folders if each not in new]


def _remove_if_empty(folders: Iterable[Path]) -> None:
    for each in folders:
        with suppress(OSError):  # it has files
            each.rmdir()


@contextmanager
def _removed_afterwards(path: Path) -> Iterator[None]:
    _temporary.add(path)
    try:
        yield
    finally:
        _remove(path)
        _temporary.discard(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _errors_naming(path: Path, unfinished: Path) -> Iterator[None]:
    """Makes an OSError in a block name `path` instead of `unfinished`, or of no file, as when the disk is full."""
    try:
        yield
    except OSError as error:
        filename = unfinished if error.filename is None and error.errno in _FULL else error.filename
        if not str(filename).startswith(str(unfinished)):
            raise
        raise OSError(error.errno, error.strerror, str(filename).replace(str(unfinished), str(path), 1)) from error


def refuse_to_replace(path: Path, mark: str, overwrite: bool) -> None:
    """Raises FileExistsError if `directory_written_whole` must not replace `path`; call it before any work."""
    if not path.exists() or is_empty_directory(path):
        return
    if not (path / mark).is_file():
        raise FileExistsError(f"{path} exists and holds no {mark}: it is something else, and is not replaced")
    if not overwrite:
        raise FileExistsError(f"{path} exists; pass overwrite to replace it, or choose another name")
