"""The directory of a whole run: a model with its report, and in `training/` the state that the run is resumed from."""

from __future__ import annotations

import contextlib
import fnmatch
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats import hugging_face, model_files
from keras_bert.training import report, run_files
from keras_bert.training.run_files import AnotherRunError, FinishedError, Position, StateError

_RUN_FILES = (  # patterns; * may also stand for folders
    "state.safetensors",
    "logs/events.out.tfevents.*",
    "*records/examples-*.tfrecord",
    "*records/records.json",
    "*validation/examples-*.tfrecord",
    "*validation/records.json",
)
_MODEL_FILES = (
    *(hugging_face.CARD, *hugging_face.FILES, *model_files.TOKENIZER, *model_files.SETTINGS),
    *(report.REPORT, report.CURVE, report.CONFUSION),
)
_TEMPORARY_FILES = (".lock", ".*.tmp")  # temporary files, which a killed process leaves behind
_ADVICE = "choose another output, or start again with overwrite"


class RunDirectory:
    """The output directory of a run.

    Args:
        path: a directory that is new or empty, or holds a run; with `overwrite`, also a model.
        overwrite: whether the run starts from the beginning, and `clear` removes the old run or model.
        inputs: the files and directories that the run reads; `overwrite` must not remove them.

    Raises:
        FileExistsError: the directory holds anything else, or one of the inputs.
        OSError: the directory cannot be written.
    """

    def __init__(self, path: str | Path, overwrite: bool, inputs: Iterable[str | Path | None] = ()) -> None:
        self.path, self.overwrite = Path(path), overwrite
        self.run = self.path / files.RUN  # the directory of the run's state
        self._inputs = [Path(each) for each in inputs if each is not None]
        if overwrite and self.path.is_dir():
            self._check_overwriting()
        files.check_run(self.path, overwrite)

    def _check_overwriting(self) -> None:
        """Raises FileExistsError if the directory has a file that no run writes, or one that this run reads."""
        foreign = sorted(str(path.relative_to(self.path)) for path in self._find_foreign_files())
        if foreign:
            listed = ", ".join(foreign[:3]) + (f" and {len(foreign) - 3:,} more" if len(foreign) > 3 else "")
            advice = "move that away, or choose another output"
            raise FileExistsError(f"{self.path} holds {listed}, which no run wrote; {advice}")
        for path in self._inputs:
            if path.exists() and path.resolve().is_relative_to(self.path.resolve()):
                raise FileExistsError(f"{path} is read by this run, and overwrite removes it; choose another output")

    def _find_foreign_files(self) -> Iterator[Path]:
        for path in self.path.rglob("*"):
            relative = path.relative_to(self.path)
            if relative.parts[0] == files.RUN:
                is_written_by_run = _matches(str(relative.relative_to(files.RUN)), _RUN_FILES)
            else:
                is_written_by_run = model_files.matches(str(relative), _MODEL_FILES)
            if path.is_symlink() or not (path.is_dir() or is_written_by_run or _matches(path.name, _TEMPORARY_FILES)):
                yield path

    def clear(self) -> None:
        """Removes the old run and model, with `overwrite`. The model's README.md stays: the user may have written it.

        Raises:
            BlockingIOError: another process trains there.
        """
        if not (self.overwrite and self.path.exists()):
            return
        self._check_overwriting()
        with files.only_writer(self.run):
            for path in self.path.iterdir():
                if path.is_file() and path.name != hugging_face.CARD:
                    path.unlink()
            shutil.rmtree(self.run)

    def position(self, settings: Mapping[str, Any]) -> Position | None:
        """Reads the position of the run that was started here with these settings; None if there is no such run.

        Raises:
            ValueError: the run has other settings, its state is damaged, or a model is here without a state.
        """
        if self.overwrite:
            return None
        position = run_files.position(self.run, settings)
        if position is None and (self.path / hugging_face.CONFIG).exists():
            raise ValueError(f"{self.path} holds a model, but no state of its run in {self.run}; {_ADVICE}")
        return position

    def describe_position(self, position: Position | None, epochs: int, describe: Callable[[Position], str]) -> str:
        """Describes the position of the run in a line for the log; returns an empty string for a new run.

        Args:
            position: the position of the run; None if it has no saved state.
            epochs: the number of epochs of the run.
            describe: puts a position into words.
        """
        if position is None:
            is_begun = not self.overwrite and self.run.is_dir() and not files.is_empty_directory(self.run)
            return f"the run in {self.path} has no saved state; its training begins" if is_begun else ""
        if position.stopped or position.epoch >= epochs:
            return f"the run in {self.path} is finished, after {describe(position)}; nothing is trained"
        return f"resuming the run in {self.path} after {describe(position)}"

    @contextlib.contextmanager
    def advising(self, has_preset: bool) -> Iterator[None]:
        """Replaces the advice of errors about the run's state, in this block, by advice for this directory.

        Args:
            has_preset: whether the run starts from a preset. If so, the advice names this model as the next preset.
        """
        try:
            yield
        except AnotherRunError as error:
            advice = f"continue with the same ones, {_ADVICE}"
            if error.is_finished and has_preset:
                advice += f"; to train its model further, choose the preset {self.path} and another output"
            raise ValueError(f"{error.problem}; {advice}") from error
        except StateError as error:
            raise ValueError(f"{error.problem}; {_ADVICE}") from error

    def finish(self, measures: Mapping[str, float]) -> dict[str, float]:
        """Replaces the run's state by a note that it is finished, and returns the model's measures as floats."""
        measures = {name: float(value) for name, value in measures.items()}
        run_files.seal(self.run, measures)
        files.remove_leftovers(self.path)
        return measures

    def finished_measures(self, error: FinishedError) -> dict[str, float]:
        """Returns the measures of a run that was finished before. Raises ValueError if its model is missing."""
        for name in hugging_face.FILES:
            if not (self.path / name).is_file():
                raise ValueError(f"{self.path} holds a finished run, but {name} is missing; {_ADVICE}") from error
        return error.measures


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
