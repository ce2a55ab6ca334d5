"""Files and directories that are written whole or not at all, by one process at a time."""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_temporary: set[Path] = set()  # files and directories that this process is writing


def refuse_to_overwrite(directory: str | Path, names: Iterable[str], overwrite: bool) -> None:
    """Raises FileExistsError if `directory` has one of the files `names`, unless `overwrite`."""
    existing = [name for name in names if (Path(directory) / name).exists()]
    if existing and not overwrite:
        raise FileExistsError(f"{directory} already has {', '.join(existing)}; pass overwrite=True to replace")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary path; the file moves to `path` when the block ends, or is removed if the block fails.

    What killed processes left of the same file is removed first.

    Raises:
        OSError: the file cannot be written. The error names `path`, not the temporary path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in _left_over(path, "tmp"):
        _remove(left)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with _removed(unfinished), _naming(path, unfinished):
        yield unfinished
        os.replace(unfinished, path)


def write_texts(directory: str | Path, texts: Mapping[str, str | bytes]) -> None:
    """Writes texts by file name, in UTF-8, or bytes, into `directory`, which is created if missing."""
    for name, text in texts.items():
        with written_whole(Path(directory) / name) as unfinished:
            unfinished.write_bytes(text.encode() if isinstance(text, str) else text)


@contextmanager
def directory_written_whole(path: Path, mark: str, overwrite: bool) -> Iterator[Path]:
    """A temporary directory; it moves to `path` when the block ends, or is removed if the block fails.

    A directory at `path` stays until the block ends. It is only replaced with `overwrite`, and only if it has the file
    `mark`, which every directory of this kind has. What killed processes left of the same directory is removed first;
    one that a process had moved away, and was killed before it had another to put there, is put back.

    Raises:
        FileExistsError: `path` exists, is not an empty directory, and must not be replaced.
        OSError: a file cannot be written. The error names its place in `path`.
    """
    path = path.absolute()
    for left in _left_over(path, "old"):
        if path.exists():
            _remove(left)
        else:
            os.rename(left, path)
    for left in _left_over(path, "new"):
        _remove(left)
    _refuse_to_replace(path, mark, overwrite)  # before any work is done
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished, replaced = (path.with_name(f".{path.name}.{os.getpid()}.{state}") for state in ("new", "old"))
    with _removed(unfinished), _naming(path, unfinished):
        unfinished.mkdir()
        yield unfinished
        _refuse_to_replace(path, mark, overwrite)  # it may have been created since
        if path.exists():
            os.rename(path, replaced)
        os.rename(unfinished, path)
    shutil.rmtree(replaced, ignore_errors=True)


@contextmanager
def only_writer(directory: Path) -> Iterator[None]:
    """A block that only one process at a time can enter for this directory, which is created if missing.

    The block locks the file `.lock` in it; the system frees the lock when the process ends, even if killed. A new
    directory that stays empty is removed. On file systems without locks, every process enters.

    Raises:
        BlockingIOError: another process is in such a block.
    """
    is_new = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / ".lock"
    with _naming(directory, path), path.open("wb") as lock:
        _lock(lock, directory)
        try:
            with _removed(path):
                yield
        finally:
            if is_new:
                with suppress(OSError):  # the directory has files
                    directory.rmdir()


def remove_temporary() -> None:
    """Removes this process's temporary files and directories, before an exit that skips the ends of blocks."""
    for path in list(_temporary):
        _remove(path)


def remove_left_over(directory: Path) -> None:
    """Removes the temporary files of killed processes in and below `directory`."""
    for temporary in directory.rglob(".*.tmp"):
        path = temporary.with_name(temporary.name[1:].removesuffix(".tmp").rpartition(".")[0])
        if path.is_file() and temporary in _left_over(path, "tmp"):  # it has been written whole since
            _remove(temporary)


def _left_over(path: Path, state: str) -> list[Path]:
    """The temporary paths in this state of killed processes that wrote `path`."""
    found = []
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.*.{state}"):
        number = temporary.name.removeprefix(f".{path.name}.").removesuffix(f".{state}")
        is_ours = number == str(os.getpid()) and temporary not in _temporary  # containers reuse process ids
        if number.isdecimal() and (is_ours or not Path("/proc", number).exists()):
            found.append(temporary)
    return found


def _lock(file: BinaryIO, directory: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_taken = not os.fstat(file.fileno()).st_nlink  # another process has just removed it
    except BlockingIOError:
        is_taken = True
    except OSError:  # the file system has no locks
        return
    if is_taken:
        message = "another process is writing there; wait until it ends, or choose another directory"
        raise BlockingIOError(errno.EWOULDBLOCK, message, str(directory))


@contextmanager
def _removed(path: Path) -> Iterator[None]:
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
def _naming(path: Path, unfinished: Path) -> Iterator[None]:
    """An OSError in this block names `path` instead of `unfinished`, or of no file, as when the disk is full."""
    try:
        yield
    except OSError as error:
        named = unfinished if error.filename is None and error.errno in _FULL else error.filename
        if not str(named).startswith(str(unfinished)):
            raise
        raise OSError(error.errno, error.strerror, str(named).replace(str(unfinished), str(path), 1)) from error


def _refuse_to_replace(path: Path, mark: str, overwrite: bool) -> None:
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not (path / mark).is_file():
        raise FileExistsError(f"{path} exists and holds no {mark}: it is something else, and is not replaced")
    if not overwrite:
        raise FileExistsError(f"{path} exists; pass overwrite=True to replace it, or choose another name")
