"""Finds, reads and writes files. Errors name the file. A file is written whole or not at all, by one process."""

from __future__ import annotations

import errno
import fcntl
import functools
import glob
import gzip
import io
import json
import math
import os
import re
import reprlib
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from keras_bert.counted import listed

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
POINTER = b"version https://git-lfs.github.com/spec/"
# An escape in JSON: a surrogate pair; half of a pair (the group); or any other escape.
_ESCAPES = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)")


def find(directory: Path, *names: str, advice: str = "") -> Path:
    """Finds the first of `names` in `directory`. Raises the error of `missing_error` if there is none."""
    for name in names:
        if (directory / name).is_file():
            return directory / name
    raise missing_error(directory, *names, advice=advice)


def check_is_file(path: str | Path) -> None:
    """Raises FileNotFoundError if there is no file, and ValueError for what is no file to read more than once."""
    if Path(path).is_file():
        return
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file {path}")
    if Path(path).is_dir():
        raise ValueError(f"{path} is a directory; expected a file")
    raise ValueError(f"{path} is a pipe or a device, but the file is read more than once; write it into a file first")


# Of a library that could not open or read a file, whatever the file holds.
_OF_THE_SYSTEM = (errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)
_OF_TENSORFLOW = ("ResourceExhaustedError", "PermissionDeniedError")


def raise_if_not_of_content(path: str | Path, error: Exception) -> None:
    """Raises a library's error anew if its cause is the system, the memory or the path, not what the file holds."""
    # Call it first where any error of a library would be called a damage of the file.
    if type(error) is MemoryError or type(error).__name__ in _OF_TENSORFLOW:
        raise error
    if isinstance(error, OSError) and error.errno in _OF_THE_SYSTEM:
        raise error
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ValueError(f"the path {str(path)!a} is not UTF-8, and the library that reads it needs that") from error


@contextmanager
def as_value_error(path: str | Path, problem: str, *errors: type[Exception]) -> Iterator[None]:
    """Raises ValueError with the `problem` for an error in a block; by default for any one that the content caused."""
    try:
        yield
    except Exception as error:
        if not errors:  # those of a library
            raise_if_not_of_content(path, error)
        elif not isinstance(error, errors):
            raise
        raise ValueError(f"{problem}: {error}") from None


def missing_error(directory: Path, *names: str, advice: str = "") -> FileNotFoundError:
    """Makes the error for a directory without any of `names`, which lists the directory's files and says what to do."""
    paths = sorted(directory.iterdir(), key=lambda path: (path.name not in names, path.name))
    present = listed([f"{path.name} (not a file)" if path.name in names else path.name for path in paths])
    advice = advice and f"; {advice}"
    return FileNotFoundError(f"{directory} has no {' or '.join(names)}; it holds {present or 'nothing'}{advice}")


MOST_BYTES = 2**28  # of a file that is read whole; the largest tokenizers have some 40 megabytes
MOST_GRAPH_BYTES = 2**31  # of a protocol buffer, of which its library reads no more


def check_regular(path: str | Path, most: int | None = None) -> None:
    """Raises OSError without such a file; ValueError for a pipe or a device, or over `most` bytes."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise ValueError(f"{path} is {'a pipe' if stat.S_ISFIFO(status.st_mode) else 'a device'}, not a file")
    if most is not None and status.st_size > most:
        raise ValueError(f"{path} has {status.st_size:,} bytes, more than such a file can have, {most:,}")


def check_file(path: str | Path, most: int | None = None) -> None:
    """Raises as `check_regular`, or ValueError if it is a Git LFS pointer, as in a clone without its large files."""
    check_regular(path, most)
    with open(path, "rb") as file:
        pointer = file.read(1000)
    if pointer.startswith(POINTER):
        size = re.search(rb"^size (\d+)$", pointer, re.MULTILINE)
        size_note = f" ({int(size[1]):,} bytes)" if size else ""
        raise ValueError(
            f"{path} is a Git LFS pointer, not the file itself{size_note}; fetch it: run `git lfs pull` in the clone, "
            "or download the file"
        )


def read_whole(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """Reads a model's file, after `check_file`."""
    check_file(path, most)
    return Path(path).read_bytes()


def leads_outside(path: Path, directory: Path) -> bool:
    """Whether a path in a directory leads out of it by a link. Of the Hub's cache, whose files are links, it may."""
    home = Path(os.path.realpath(directory))
    allowed = [home, home.parent.parent / "blobs"] if home.parent.name == "snapshots" else [home]
    return not any(map(Path(os.path.realpath(path)).is_relative_to, allowed))


@contextmanager
def open_bytes(path: str | Path) -> Iterator[io.BufferedIOBase]:
    """Opens a file to read, and decompresses gzip. Raises ValueError for a Git LFS pointer or damaged gzip."""
    if Path(path).is_file():  # a user's own texts may come from a pipe
        check_file(path)
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
    """Reads a text in UTF-8 with its line ends. Raises ValueError as `read_lines`, or if it is only white space."""
    # Only a user's own data may be compressed: for a model's files, a few kilobytes of gzip could fill the memory.
    if may_be_compressed:
        with open_bytes(path) as file:
            raw = file.read()
    else:
        raw = read_whole(path)
    text = _decode(raw, path)
    if not text.strip():
        raise ValueError(f"{path} is empty")
    return text


def read_lines(path: str | Path) -> Iterator[str]:
    """Yields lines with their ends: `\\n`, or in a file without it (old Macs) `\\r`. Raises ValueError if not UTF-8."""
    with open_bytes(path) as file:
        for number, raw in enumerate(file, start=1):
            line = _decode(raw, path, number)
            if number == 1 and not line.endswith("\n"):  # the only line
                yield from io.StringIO(line, newline="\r")
            else:
                yield line


def _decode(raw: bytes, path: str | Path, first_line: int = 1) -> str:
    """Decodes bytes that begin with line `first_line` of a file, and drops a byte order mark in its line 1."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        line = first_line + raw.count(b"\n", 0, error.start)
        column = error.start - raw.rfind(b"\n", 0, error.start) - 1
        likely = "UTF-16" if first_line == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "WINDOWS-1252"
        raise ValueError(
            f"{path}, line {line}, is not UTF-8: bad byte {raw[error.start]:#04x} at byte {column} ({error.reason}); "
            f"convert the file first, for instance with iconv -f {likely} -t UTF-8"
        ) from None
    return text.removeprefix("\ufeff") if first_line == 1 else text


def split_lines(text: str) -> list[str]:
    """Splits a text at `\\n` and `\\r\\n` or, without `\\n` (old Macs), at `\\r`; unlike `splitlines` not at U+2028."""
    text = text if "\n" in text else text.replace("\r", "\n")
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def digests_of(directory: Path, names: Iterable[str]) -> dict[str, str]:
    """Computes the SHA-256 of files in a directory, in hexadecimal, by name."""
    digests = {}
    for name in names:
        with (directory / name).open("rb") as file:
            digests[name] = sha256(iter(functools.partial(file.read, 1 << 20), b""))
    return digests


def sha256(parts: Iterable[bytes | memoryview]) -> str:
    """Computes the SHA-256 of parts that follow each other, in hexadecimal."""
    import hashlib  # loads OpenSSL, which no command's help needs

    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def read_json(path: Path, shape: JsonShape = dict) -> Any:
    """Reads a JSON file, and checks it by `check_json`. Raises ValueError, with the file's name, as `load_json` too."""
    value = load_json(path)
    check_json(value, shape, path)
    return value


def load_json(path: Path) -> Any:
    """Reads a JSON file of any shape. Raises as `check_file`, or ValueError for what is not JSON in UTF-8."""
    content = read_whole(path)
    try:
        text = content.decode()
        value = parse_json(text)
        _refuse_lone_surrogates(text)
    except ValueError as error:  # bad JSON, or bad UTF-8
        raise ValueError(f"{path} is not a JSON file: {error}") from None
    return value


def parse_json(text: str) -> Any:
    """Parses JSON. Raises JSONDecodeError, or ValueError where Python raises another error or gives up."""
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


def check_json(value: Any, shape: JsonShape, source: str | Path, place: str = "") -> None:
    """Raises ValueError, with `source`, the key and the expected type, if a value from JSON has another shape.

    A shape is a type (int for whole numbers, float for all numbers), or
    - `{"key": shape, ...}`: an object with these keys, and maybe others; `{str: shape}`: with any keys;
    - `[shape]`: a list of any length; `[shape, shape]`: a list of two;
    - `(shape, shape)`: either shape; if one is None, the key may also be missing.
    """
    shapes = _shapes_by_type(shape)
    kind: type = type(value)
    if kind is int and int not in shapes:
        kind = float
    inner, expected = shapes.get(kind), " or ".join(_TYPE_NAMES[each] for each in shapes)
    is_wrong = kind not in shapes
    if isinstance(inner, list) and len(inner) not in (1, len(value)):
        is_wrong, expected = True, f"a list of {len(inner)}"
    if is_wrong:
        name = place.removeprefix(".")
        if value is None and name:
            raise ValueError(f"{source} has no {name}; expected {expected}")
        raise ValueError(f"{source} has {reprlib.repr(value)}{f' in {name}' if name else ''}; expected {expected}")
    parts: Iterable[tuple[str, object, JsonShape]] = ()  # places, values and shapes
    if isinstance(inner, dict):
        shape_of_key = dict.fromkeys(value, inner[str]) if str in inner else inner
        parts = ((f".{key}", value.get(key), part_shape) for key, part_shape in shape_of_key.items())
    elif isinstance(inner, list):
        part_shapes = inner * len(value) if len(inner) == 1 else inner
        parts = ((f"[{index}]", *part) for index, part in enumerate(zip(value, part_shapes, strict=True)))
    for key, part, part_shape in parts:
        if type(part) is not part_shape:  # a quick test first, for long vocabularies
            check_json(part, part_shape, source, place + key)


def with_whole_numbers(value: Any, shape: JsonShape) -> Any:
    """Replaces floats without a fraction by int, in objects, where the shape (see `check_json`) is int."""
    shapes = _shapes_by_type(shape)
    if type(value) is float and value.is_integer() and int in shapes and float not in shapes:
        return int(value)
    if isinstance(value, dict) and isinstance(inner := shapes.get(dict), dict) and str not in inner:
        return {key: with_whole_numbers(each, inner[key]) if key in inner else each for key, each in value.items()}
    return value


def _shapes_by_type(shape: JsonShape) -> dict[type, JsonShape]:
    """Maps the type of a value to the shape that it may have: type(None), type({...}), type([...])."""
    shapes = shape if isinstance(shape, tuple) else (shape,)
    return {each if isinstance(each, type) else type(each): each for each in shapes}


def to_json(value: object) -> str:
    """Formats the text of a JSON file, indented for people to read."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def to_json_line(value: object) -> str:
    """Formats JSON in one line. What JSON lacks becomes null (NaN and infinity) or a text (such as dates)."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(with_nulls(value), ensure_ascii=False, default=str)


def with_nulls(value: object) -> object:
    """Replaces NaN and infinity, which JSON lacks, deep in a value, by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: with_nulls(each) for key, each in value.items()}
    return list(map(with_nulls, value)) if isinstance(value, list | tuple) else value


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


RUN, STATE = "training", "state.safetensors"  # the folder of a run inside its directory, and the state in it


def check_run(directory: str | Path, overwrite: bool) -> None:
    """Raises FileExistsError unless a directory is new or empty, holds a run, or may be overwritten; else OSError."""
    path = Path(directory)
    if path.exists() and not overwrite and not (path / RUN).is_dir() and not is_empty_directory(path):
        advice = ", or start again with overwrite" if (path / "config.json").is_file() else ""
        raise FileExistsError(f"{path} exists and is not the directory of a run; choose another output{advice}")
    check_writable(path)


def refuse_to_overwrite(directory: str | Path, names: Iterable[str], overwrite: bool) -> None:
    """Raises FileExistsError if `directory` has one of the files `names` and `overwrite` is False."""
    existing = [name for name in names if (Path(directory) / name).exists()]
    if existing and not overwrite:
        raise FileExistsError(f"{directory} already has {listed(existing)}; pass overwrite to replace")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yields a temporary path; moves its file to `path` when the block ends, or removes it. OSErrors name `path`."""
    with _unfinished(path, "tmp") as unfinished:
        yield unfinished
        os.replace(unfinished, path)


def refuse_link(path: Path) -> None:
    """Raises OSError if a path is a link: whoever made its directory could lead what is written there elsewhere."""
    if path.is_symlink():
        raise OSError(
            errno.ELOOP, f"{path.name} is a link, and nothing is written through it; remove it", str(path.parent)
        )


def write_texts(directory: str | Path, texts: Mapping[str, str | bytes]) -> None:
    """Writes texts (UTF-8) or bytes by name into `directory`. Raises OSError if a folder inside of it is a link."""
    for name, text in texts.items():
        for folder in Path(name).parents[:-1]:
            refuse_link(Path(directory) / folder)
        with written_whole(Path(directory) / name) as unfinished:
            unfinished.write_bytes(text.encode() if isinstance(text, str) else text)


@contextmanager
def directory_written_whole(path: Path, mark: str, overwrite: bool) -> Iterator[Path]:
    """Yields a temporary directory; moves it to `path` when the block ends, or removes it if the block fails."""
    # A directory at `path` stays until the block ends. If a process was killed between moving the old directory away
    # and moving the new one to `path`, the old directory is moved back. Raises FileExistsError as `refuse_to_replace`,
    # and OSErrors that name paths in `path`.
    path = path.absolute()
    for leftover in _find_leftovers(path, "old"):
        if path.exists():
            remove(leftover)
        else:
            os.rename(leftover, path)
    replaced = _temporary_path(path, "old")
    with _unfinished(path, "new") as unfinished:
        refuse_to_replace(path, mark, overwrite)  # before any work is done
        unfinished.mkdir()
        yield unfinished
        refuse_to_replace(path, mark, overwrite)  # another process may have created it since
        if path.exists():
            os.rename(path, replaced)
        os.rename(unfinished, path)
    shutil.rmtree(replaced, ignore_errors=True)


@contextmanager
def directory_beside(path: Path) -> Iterator[Path]:
    """Yields a new directory, for the caller to move to `path`; removes it when the block ends if it is still there."""
    with _unfinished(path.absolute(), "new") as unfinished:
        unfinished.mkdir()
        yield unfinished


@contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """Locks a directory, created if missing, for a block. Raises BlockingIOError if another process writes there."""
    path = directory / ".lock"
    with _folder(directory), _errors_naming(directory, path), open(path, "ab", opener=_open_no_link) as lock:
        _lock(lock, directory)
        with _removed_afterwards(path):
            yield


def remove_temporary() -> None:
    """Removes this process's temporary files and directories, before an exit that skips `finally` blocks."""
    for path in list(_temporary):
        remove(path)
    _remove_if_empty(_new_folders)


def remove_leftovers(directory: Path, names: Collection[str] = ()) -> None:
    """Removes what ended processes left of files in and below `directory` that are there now, or among `names`."""
    for temporary in directory.rglob(".*.tmp"):
        path = temporary.with_name(temporary.name[1:].removesuffix(".tmp").rpartition(".")[0])
        is_known = path.is_file() or str(path.relative_to(directory)) in names
        if is_known and temporary in _find_leftovers(path, "tmp"):
            remove(temporary)


def _temporary_path(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{ending}")


@contextmanager
def _unfinished(path: Path, ending: str) -> Iterator[Path]:
    """Yields a temporary path for `path`, and removes it afterwards; those of killed processes are removed first."""
    for leftover in _find_leftovers(path, ending):
        remove(leftover)
    unfinished = _temporary_path(path, ending)
    with _folder(path.parent), _removed_afterwards(unfinished), _errors_naming(path, unfinished):
        yield unfinished


def _find_leftovers(path: Path, ending: str) -> list[Path]:
    """Lists the temporary paths, with the ending "tmp", "new" or "old", that killed processes left for `path`."""
    leftovers = []
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.*.{ending}"):
        number = temporary.name.removeprefix(f".{path.name}.").removesuffix(f".{ending}")
        is_own = number == str(os.getpid()) and temporary not in _temporary  # containers reuse process ids
        if number.isdecimal() and (is_own or not _is_process(int(number))):
            leftovers.append(temporary)
    return leftovers


def _open_no_link(path: str, flags: int) -> int:
    """Opens a file for `open`, as an opener. Raises OSError for a link, or a pipe, which would wait for a reader."""
    refuse_link(Path(path))
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


def _is_process(number: int) -> bool:
    """Whether a process lives. Not every system has /proc."""
    try:
        os.kill(number, 0)  # sends nothing
    except (ProcessLookupError, OverflowError):  # or a number that no process has
        return False
    except PermissionError:  # it is another user's
        return True
    return True


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
def _folder(directory: Path) -> Iterator[None]:
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
def stderr_to(file: BinaryIO) -> Iterator[None]:
    """Writes to a file what any code, also that of libraries in C, writes to standard error in this block."""
    stderr = os.dup(2)
    try:
        os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """Yields a new directory, which is removed when the block ends, or when a signal ends the command."""
    path = Path(tempfile.mkdtemp())
    with _removed_afterwards(path):
        yield path


@contextmanager
def _removed_afterwards(path: Path) -> Iterator[None]:
    _temporary.add(path)
    try:
        yield
    finally:
        remove(path)
        _temporary.discard(path)


def remove(path: Path) -> None:
    """Removes a file, a link or a whole directory, if it is there."""
    if path.is_dir() and not path.is_symlink():
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
    """Raises FileExistsError if `path` is in use, unless it has the file `mark` of its kind and `overwrite` is True."""
    if not path.exists() or is_empty_directory(path):
        return
    if not (path / mark).is_file():
        raise FileExistsError(f"{path} exists and holds no {mark}: it is something else, and is not replaced")
    if not overwrite:
        raise FileExistsError(f"{path} exists; pass overwrite to replace it, or choose another name")
