"""A run from files to a directory with a model and its report: what it may overwrite, its devices and its log."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from keras_bert import files, precisions
from keras_bert.choices import check_choice
from keras_bert.formats import hugging_face, model_card, model_files
from keras_bert.progress import on_terminal
from keras_bert.tasks.base.task import BertTask
from keras_bert.training import distribution, report
from keras_bert.training.run import STATE, Position, Run, save_state

Log: TypeAlias = Callable[[str], Any]  # gets each line of progress

_RUN_FILES = (  # patterns; * may also stand for folders
    STATE,
    "logs/events.out.tfevents.*",
    "*records/examples-*.tfrecord",
    "*records/records.json",
    "*validation/examples-*.tfrecord",
    "*validation/records.json",
)
_MODEL_FILES = (
    *(model_card.FILE, *hugging_face.FILES, *model_files.TOKENIZER, *model_files.SETTINGS),
    *(report.REPORT, report.CURVE, report.CONFUSION),
)
_TEMPORARY_FILES = (".lock", ".*.tmp")  # temporary files, which a killed process leaves behind


class RunOfFiles(Run):
    """A run whose model is saved in `output`, with the state in a folder there; `overwrite` removes what is there."""

    directory: Path

    def __init__(
        self,
        output: str | Path,
        overwrite: bool,
        inputs: Iterable[str | Path | None] = (),
        describe: Callable[[Position], str] = str,
        log: Log = print,
        has_preset: bool = False,
    ) -> None:
        self.output = Path(output)
        files.refuse_link(self.output / files.RUN)
        super().__init__(self.output / files.RUN)
        self.advice = "choose another output, or start again with overwrite"
        self._overwrite, self._describe, self._log = overwrite, describe, log
        self._inputs = [Path(each) for each in inputs if each is not None]
        if has_preset:
            self.advice_if_finished = f"; to train its model further, choose the preset {output} and another output"
        if overwrite and self.output.is_dir():
            self._check_overwriting()
        files.check_run(self.output, overwrite)

    def _check_overwriting(self) -> None:
        """Raises FileExistsError if the output has a file that no run writes, or one that this run reads."""
        foreign = sorted(str(path.relative_to(self.output)) for path in _find_foreign_files(self.output))
        if foreign:
            listed = ", ".join(foreign[:3]) + (f" and {len(foreign) - 3:,} more" if len(foreign) > 3 else "")
            advice = "move that away, or choose another output"
            raise FileExistsError(f"{self.output} holds {listed}, which no run wrote; {advice}")
        for path in self._inputs:
            if path.exists() and path.resolve().is_relative_to(self.output.resolve()):
                raise FileExistsError(f"{path} is read by this run, and overwrite removes it; choose another output")

    @contextlib.contextmanager
    def on_devices(self, dtype: str, strategy: str) -> Iterator[tf.distribute.Strategy]:
        """Sets the dtype policy in this block, and chooses the devices."""
        check_choice("dtype", dtype, precisions.TRAINING)
        old_policy = keras.config.dtype_policy()
        keras.config.set_dtype_policy(dtype)
        try:
            devices, name = distribution.choose(strategy)
            self.is_chief = distribution.is_chief(devices)
            if devices.num_replicas_in_sync > 1:
                self._log(f"training on {name}")
            yield devices
        finally:
            keras.config.set_dtype_policy(old_policy)

    # -- How far the run has come

    @property
    def place(self) -> str:
        return self._describe(self.position)

    def log_position(self, settings: Mapping[str, Any], epochs: int) -> None:
        """Logs how far the run in `output` has come. Raises RunError if that has other settings."""
        if self._overwrite:
            return
        position = self.saved_position(settings)
        line = ""
        if position is None:
            if (self.output / hugging_face.CONFIG).exists():
                raise self.error(f"{self.output} holds a model, but no state of its run in {self.directory}")
            if self.directory.is_dir() and not files.is_empty_directory(self.directory):
                line = f"the run in {self.output} has no saved state; its training begins"
        elif position.stopped or position.epoch >= epochs:
            line = f"the run in {self.output} is finished, after {self._describe(position)}; nothing is trained"
        else:
            line = f"resuming the run in {self.output} after {self._describe(position)}"
        if line and self.is_chief:
            self._log(line)

    def log_epoch(self, measures: str) -> None:
        if self.is_chief and not on_terminal():  # where a progress bar shows them
            self._log(f"{self.place}: {measures}")

    # -- The files of the run

    @contextlib.contextmanager
    def opened(
        self, model: BertTask, settings: Mapping[str, Any], further: Sequence[keras.Variable] = ()
    ) -> Iterator[None]:
        with distribution.chief_first(model.distribute_strategy):
            self.clear()
        with super().opened(model, settings, further):
            yield

    @contextlib.contextmanager
    def renewed(self) -> Iterator[Path]:
        """Yields the directory of the state; to overwrite, a new one, which then replaces the old run and model."""
        if not self._is_to_clear():
            self._overwrite = False  # all that will be there is of this run
            yield self.directory
            return
        with files.directory_beside(self.directory) as new:
            yield new
            self.clear()
            os.rename(new, self.directory)

    def _is_to_clear(self) -> bool:
        return self.is_chief and self._overwrite and self.output.exists()

    def clear(self) -> None:
        """Removes the old run and model, with `overwrite`, except README.md: the user may have written that."""
        if not self._is_to_clear():
            return
        self._check_overwriting()
        with self.only_writer():
            for path in self.output.iterdir():
                if path.is_file() and path.name != model_card.FILE:
                    path.unlink()
            shutil.rmtree(self.directory)
        self._overwrite = False  # once

    def seal(self, measures: Mapping[str, float]) -> None:
        """Replaces the state by a note that the run is finished. Call it after the model is saved."""
        self.measures = {name: value if isinstance(value, int) else float(value) for name, value in measures.items()}
        if (saved := self.load()) is None:
            raise self.error(f"{self.directory / STATE} was removed during the run")
        save_state(self.directory / STATE, [], {**saved[1], "measures": self.measures})
        files.remove_leftovers(self.output)

    def check_model_is_there(self) -> None:
        for name in hugging_face.FILES:
            if not (self.output / name).is_file():
                raise self.error(f"{self.output} holds a finished run, but {name} is missing")


def _find_foreign_files(output: Path) -> Iterator[Path]:
    for path in output.rglob("*"):
        relative = path.relative_to(output)
        if fnmatch.fnmatchcase(first := relative.parts[0], f".{files.RUN}.*.new") or first == files.RUN:
            is_written_by_run = _matches(str(relative.relative_to(first)), _RUN_FILES)
        else:
            is_written_by_run = model_files.matches(str(relative), _MODEL_FILES)
        if path.is_symlink() or not (path.is_dir() or is_written_by_run or _matches(path.name, _TEMPORARY_FILES)):
            yield path


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
