"""Run: the position, the history and the files of a training run."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_bert import files
from keras_bert.training import workers
from keras_bert.training.state import load_state, read_notes, save_state

_STATE = "state.safetensors"
_BEST = "best.safetensors"
_DIGESTS = ("examples", "teacher")  # settings that no message shows


class Position(NamedTuple):
    """Where a run stands.

    Attributes:
        epoch: the number of finished epochs.
        step: the number of finished batches of the next epoch.
        batches: the number of batches of that epoch.
        stopped: whether training has ended before its last epoch.
    """

    epoch: int
    step: int
    batches: int
    stopped: bool


def position(directory: Path) -> Position | None:
    """The position of the run that was saved in a directory; None if there is none.

    Raises:
        ValueError: its state is damaged.
    """
    path = directory / _STATE
    if not path.exists():
        return None
    notes = read_notes(path)
    return Position(notes["epoch"], notes["step"], notes.get("batches", 0), notes["stopped"])


class Run:
    """A training run that can be interrupted and resumed.

    If several processes train one model, one of them writes the files, and all of them read these.

    Args:
        model: compiled, its optimizer built.
        directory: for the files of the run.
        settings: must be the same when the run is resumed.
        is_kept: whether the directory stays after the run, and all processes share it; else each has its own.

    Raises:
        OSError: the directory cannot be made.

    Attributes:
        directory, is_kept: as above.
        epoch, step: the position of the next batch, both from 0.
        history: a dict for each finished epoch.
        stopped: whether training has ended before its last epoch.
        is_chief: whether this process shows progress and writes logs.
        batches: the number of batches in this epoch.
        signal: the number of the signal that was noticed when the state was saved last, or 0.
        notes: values for this epoch's entry in the history, beside the loss and the measures.
    """

    def __init__(self, model: keras.Model, directory: Path, settings: dict[str, Any], is_kept: bool = True) -> None:
        self.directory = directory
        self.is_kept = is_kept
        self.is_chief = workers.is_chief(model.distribute_strategy)
        self.epoch = 0
        self.step = 0
        self.history: list[dict[str, float]] = []
        self.stopped = False
        self.batches = 0
        self.signal = 0
        self.notes: dict[str, float] = {}
        self._model = model
        self._settings = settings
        self._writes = self.is_chief or not is_kept
        if self._writes:
            directory.mkdir(parents=True, exist_ok=True)  # if this fails, it fails before any work
        self._strategy = model.distribute_strategy
        self._loss: list[Any] = []

    def only_writer(self) -> contextlib.AbstractContextManager[None]:
        """A block that one run at a time enters for a directory that is kept; see `files.only_writer`."""
        return files.only_writer(self.directory) if self.is_kept and self._writes else contextlib.nullcontext()

    def resume(self) -> None:
        """Restores the last saved state of the run. Without one, the run starts at the beginning.

        Raises:
            ValueError: the state belongs to a run with other settings, or is damaged.
        """
        path = self.directory / _STATE
        if not path.exists():
            return
        notes = read_notes(path)
        for name, value in self._settings.items():
            before = notes["settings"].get(name)
            if before != value:
                values = "" if name in _DIGESTS else f" ({before!r}, now {value!r})"
                raise ValueError(
                    f"{self.directory} holds a run with other {name}{values}; go on with the same, or choose another "
                    "directory"
                )
        load_state(path, self._variables())
        self.epoch, self.step = notes["epoch"], notes["step"]
        self.history, self.stopped = notes["history"], notes["stopped"]
        if self.step:
            self._loss = [variable.numpy() for variable in self._model.metrics_variables]

    def restore_loss(self) -> None:
        """Restores the loss so far, if the run was resumed in the middle of an epoch."""
        for variable, value in zip(self._model.metrics_variables, self._loss, strict=False):
            variable.assign(value)
        self._loss = []

    def start_epoch(self, batches: int, **notes: float) -> None:
        self.batches, self.notes = batches, notes

    def end_epoch(self, loss: float, measures: dict[str, float]) -> None:
        """Adds the finished epoch to the history."""
        self.epoch, self.step = self.epoch + 1, 0
        self.history.append({"epoch": self.epoch, "loss": loss, **self.notes, **measures})

    def is_time(self, here: bool) -> bool:
        """Whether `here` is true in any process: their clocks differ, and `save` needs all of them."""
        return workers.any_of(self._strategy, here)

    def save(self) -> None:
        """Saves the state, from which `resume` continues."""
        notes = {**self.position()._asdict(), "history": self.history, "settings": self._settings}
        self._write(_STATE, self._variables(), notes)

    def position(self) -> Position:
        return Position(self.epoch, self.step, self.batches, self.stopped)

    def save_best(self) -> None:
        """Saves the current weights as the best ones."""
        self._write(_BEST, self._model.weights, {})

    def load_best(self) -> None:
        """Restores the best weights, if any were saved."""
        if (self.directory / _BEST).exists():
            load_state(self.directory / _BEST, self._model.weights)

    def _write(self, name: str, variables: list[keras.Variable], notes: dict[str, Any]) -> None:
        values = [variable.numpy() for variable in variables]  # reading a metric sums over all processes
        if self._writes:
            save_state(self.directory / name, values, notes)
        workers.any_of(self._strategy, True)  # all wait until it is written

    def _variables(self) -> list[keras.Variable]:
        """Weights, random state, the optimizer's variables, and the loss of this epoch so far."""
        return [*self._model.variables, *self._model.optimizer.variables, *self._model.metrics_variables]
