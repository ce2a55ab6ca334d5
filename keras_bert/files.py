"""Small JSON and text files, read with errors that name them; files and directories written whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

_unfinished: set[Path] = set()  # files and directories that this process writes at the moment


def find(directory: Path, *names: str) -> Path:
    """The first of `names` in `directory`. Raises FileNotFoundError, with a list of the files, if there is none."""
    for name in names:
        if (directory / name).is_file():
            return directory / name
    raise missing(directory, *names)


def missing(directory: Path, *names: str) -> FileNotFoundError:
    """The error for a directory that has none of `names`: it lists the files there."""
    present = ", ".join(sorted(file.name for file in directory.iterdir())) or "nothing"
    return FileNotFoundError(f"{directory} has no {' or '.join(names)}; it holds {present}")


def read_json(path: Path, kind: type = dict) -> Any:
    """The object (or the list, with `kind=list`) that a JSON file holds.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not JSON in UTF-8, or holds a value of another type.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # from bad JSON and from bad UTF-8
        raise ValueError(f"{path} is not a JSON file: {error}") from None
    if not isinstance(value, kind):
        raise ValueError(f"{path} holds a JSON {type(value).__name__}, where a {kind.__name__} is expected")
    return value


def to_json(value: Any) -> str:
    """The text of a JSON file, indented for people to read."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def decimals(row: np.ndarray) -> list[str]:
    """float32 `[n]` as decimal numbers that read back as the same float32."""
    return [f"{value:.9g}" for value in row.tolist()]


def refuse_to_overwrite(directory: str | Path, names: Iterable[str], overwrite: bool) -> None:
    """Raises FileExistsError when `directory` has one of the files `names` and `overwrite` is False."""
    existing = [name for name in names if (Path(directory) / name).exists()]
    if existing and not overwrite:
        raise FileExistsError(f"{directory} already has {', '.join(existing)}; pass overwrite=True to replace")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary path; the file moves to `path` when the block ends, or is removed if the block is interrupted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    _unfinished.add(unfinished)
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
        _unfinished.discard(unfinished)


def write_texts(directory: str | Path, texts: Mapping[str, str]) -> None:
    """Writes each text, in UTF-8, to the file of its name in `directory`, which is created if missing."""
    for name, text in texts.items():
        with written_whole(Path(directory) / name) as unfinished:
            unfinished.write_bytes(text.encode())


@contextmanager
def directory_written_whole(path: Path, mark: str, overwrite: bool) -> Iterator[Path]:
    """A directory to write in; it moves to `path` when the block ends, or is removed if the block is interrupted.

    Args:
        path: a directory there stays until the block ends.
        mark: a file that every directory of this kind has: only such a directory is ever replaced.
        overwrite: whether to replace it.

    Raises:
        FileExistsError: `path` is something else, or `overwrite` is False and it is not an empty directory.
    """
    path = path.absolute()
    _refuse_to_replace(path, mark, overwrite)  # before any work is done
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished, replaced = (path.with_name(f".{path.name}.{os.getpid()}.{state}") for state in ("new", "old"))
    _unfinished.add(unfinished)
    unfinished.mkdir()
    try:
        yield unfinished
        _refuse_to_replace(path, mark, overwrite)  # somebody else may have written it by now
        if path.exists():
            os.rename(path, replaced)
        os.rename(unfinished, path)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)
        _unfinished.discard(unfinished)


def remove_unfinished() -> None:
    """Removes what this process has not written to its end, before an exit without exception."""
    for path in list(_unfinished):
        shutil.rmtree(path, ignore_errors=True)
        if path.is_file():
            path.unlink(missing_ok=True)


def unfinished_directories(parent: Path) -> list[Path]:
    """This process's unfinished `directory_written_whole` in `parent`, to remove before an exit without exception."""
    return list(parent.glob(f".*.{os.getpid()}.new"))


def unfinished_files(parent: Path) -> list[Path]:
    """The same for `written_whole`."""
    return list(parent.glob(f".*.{os.getpid()}.tmp"))


def _refuse_to_replace(path: Path, mark: str, overwrite: bool) -> None:
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not (path / mark).is_file():
        raise FileExistsError(f"{path} exists and holds no {mark}: it is something else, which will not be replaced")
    if not overwrite:
        raise FileExistsError(f"{path} exists; pass overwrite=True to replace it, or choose another name")
