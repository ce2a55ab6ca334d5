"""Output directories: checks before the work, --overwrite, and errors that name them."""

from __future__ import annotations

import contextlib
import fnmatch
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from keras_bert import files
from keras_bert.cli import quiet
from keras_bert.cli.errors import Misuse, misuse


def check(output: str | Path) -> None:
    """Raises Misuse if this directory cannot be created or written."""
    path = Path(output).absolute()
    try:
        existing = next(each for each in (path, *path.parents) if each.exists())
        tempfile.TemporaryDirectory(dir=existing).cleanup()
    except OSError as error:
        raise Misuse(f"cannot write into {output}: {error.strerror}") from error


@contextlib.contextmanager
def written(output: str | Path) -> Iterator[None]:
    """Around the writing of a directory: errors become one line, with its name."""
    with quiet.imports():
        import tensorflow as tf

    with misuse(OSError):
        try:
            yield
        except tf.errors.OpError as error:  # "{{...}} /path/of/a/hidden/file; No space left on device [Op:SaveV2]"
            reason = error.message.rpartition("; ")[2].partition(" [")[0]
            raise click.ClickException(f"{output}: {reason}") from error
        except OSError as error:
            if error.strerror:  # an error of the system, such as a full disk
                raise click.ClickException(f"{error.filename or output}: {error.strerror}") from error
            raise


# -- --overwrite of the commands that train: what a directory may hold to be emptied.

RUN = "training"  # the folder of the run's files, in the model's directory
_RUN_FILES = (  # patterns; * may also stand for folders
    "state.safetensors",
    "logs/events.out.tfevents.*",
    "*records/examples-*.tfrecord",
    "*records/records.json",
    "*validation/examples-*.tfrecord",
    "*validation/records.json",
)
_PASSING = (".lock", ".*.tmp")  # names of files that a killed process leaves

option = click.option("--overwrite", is_flag=True, help="Remove the run or the model in DIR first, and start again.")


def check_overwriting(directory: Path) -> None:
    """Raises Misuse if a directory has a file that no run writes, or one that the command reads."""
    foreign = sorted(str(path.relative_to(directory)) for path in _foreign(directory))
    if foreign:
        shown = ", ".join(foreign[:3]) + (f" and {len(foreign) - 3:,} more" if len(foreign) > 3 else "")
        raise Misuse(f"{directory} holds {shown}, which no run wrote; move that away, or choose another --output")
    for path in _read():
        if path.resolve().is_relative_to(directory.resolve()):
            raise Misuse(f"{path} is read by this command, and --overwrite removes it; choose another --output")


def clear(directory: Path) -> None:
    """Removes the run and the model in a directory; the model's README.md stays, which may be the user's.

    Raises:
        BlockingIOError: another process trains there.
    """
    if not directory.exists():
        return
    check_overwriting(directory)
    with files.only_writer(directory / RUN):
        for path in directory.iterdir():
            if path.is_file() and path.name != _card():
                path.unlink()
        shutil.rmtree(directory / RUN)


def _foreign(directory: Path) -> Iterator[Path]:
    with quiet.imports():
        from keras_bert.formats.model_files import matches

    ours = (_card(), *_model_files())
    for path in directory.rglob("*") if directory.exists() else ():
        inside = path.relative_to(directory)
        in_run = inside.parts[0] == RUN
        is_ours = _matches(str(inside.relative_to(RUN)), _RUN_FILES) if in_run else matches(str(inside), ours)
        if path.is_symlink() or not (path.is_dir() or is_ours or _matches(path.name, _PASSING)):
            yield path


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _read() -> Iterator[Path]:
    """The paths that the running command was given, but for its output."""
    given = {name: value for name, value in click.get_current_context().params.items() if name != "output"}
    for value in given.values():
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, str | Path) and Path(each).exists():
                yield Path(each)


def _card() -> str:
    with quiet.imports():
        from keras_bert.formats import hugging_face

    return hugging_face.CARD


def _model_files() -> tuple[str, ...]:
    with quiet.imports():
        from keras_bert.formats import hugging_face, model_files
        from keras_bert.training import report

    of_model = (*hugging_face.FILES, *model_files.TOKENIZER, *model_files.SETTINGS)
    return (*of_model, report.REPORT, report.CURVE, report.CONFUSION)
