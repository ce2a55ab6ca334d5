"""Run: the position, the history and the files of a training run."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_bert import atomic
from keras_bert.training import fingerprints, workers
from keras_bert.training.state import ADVICE, assign, load_state, read_notes, save_state

_STATE = "state.safetensors"


class AnotherRunError(ValueError):
    """The directory holds another run.

    Args:
        message: the differences.
        is_finished: whether that run is finished.
    """

    def __init__(self, message: str, is_finished: bool) -> None:
        super().__init__(message)
        self.is_finished = is_finished


class FinishedError(ValueError):
    """The run is finished, and its model is saved elsewhere; see `seal`.

    Args:
        directory: the run's directory.
        measures: the measures of its model.
    """

    def __init__(self, directory: Path, measures: dict[str, float]) -> None:
        super().__init__(f"{directory} holds a finished run, whose model is saved elsewhere; load that, or {ADVICE}")
        self.measures = measures


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


def position(directory: Path, settings: Mapping[str, Any] = {}) -> Position | None:
    """The position of the run that was saved in a directory; None if there is none.

    Args:
        directory: of the run.
        settings: the settings that the run must have.

    Raises:
        AnotherRunError: it has other settings.
        ValueError: its state is damaged.
    """
    path = directory / _STATE
    if not path.exists():
        return None
    notes = read_notes(path)
    _check_settings(directory, notes, settings)
    return Position(*(notes[name] for name in Position._fields))


def seal(directory: Path, measures: dict[str, float]) -> None:
    """Removes a finished run's state, and leaves a note that it is finished. Call it when its model is saved.

    Args:
        directory: of the run.
        measures: of the model.
    """
    save_state(directory / _STATE, [], {**read_notes(directory / _STATE), "measures": measures})


def _check_settings(directory: Path, notes: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raises AnotherRunError if the run has other settings."""
    others = []
    for name, value in settings.items():
        before = notes["settings"].get(name)
        if before != value:
            others.append(f"other {name}" + ("" if name in fingerprints.NAMES else f" ({before!r}, now {value!r})"))
    if others:
        kind = "finished run" if notes["is_finished"] else "run"
        message = f"{directory} holds a {kind} with {', '.join(others)}; continue with the same ones, {ADVICE}"
        raise AnotherRunError(message, notes["is_finished"])


class Run:
    """A training run that can be interrupted and resumed.

    If several processes train one model, one of them writes the state, and all of them read it.

    Args:
        model: compiled, its optimizer built.
        directory: for the files of the run, shared by all processes. None: nothing is written.
        settings: must be the same when the run is resumed.

    Raises:
        OSError: the directory cannot be made.

    Attributes:
        directory: as above.
        epoch, step: the position of the next batch, both from 0.
        history: a dict for each finished epoch.
        stopped: whether training has ended before its last epoch.
        is_chief: whether this process shows progress and writes logs.
        batches: the number of batches in this epoch.
        signal: the number of the signal noticed at the last save of the state, or 0.
        notes: values for this epoch's entry in the history, beside the loss and the measures.
    """

    def __init__(self, model: keras.Model, directory: Path | None, settings: dict[str, Any]) -> None:
        self.directory = directory
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
        if directory is not None and self.is_chief:
            directory.mkdir(parents=True, exist_ok=True)  # if this fails, it fails before any work
        self._strategy = model.distribute_strategy
        self._loss: list[Any] = []
        self._best: list[np.ndarray] = []  # the best weights
        self._is_finished = False

    def only_writer(self) -> contextlib.AbstractContextManager[None]:
        """A block that only one run at a time can enter for a directory; see `atomic.only_writer`."""
        if self.directory is None or not self.is_chief:
            return contextlib.nullcontext()
        return atomic.only_writer(self.directory)

    def resume(self) -> None:
        """Restores the last saved state of the run. Without one, the run starts at the beginning.

        Raises:
            AnotherRunError: the state belongs to a run with other settings.
            FinishedError: the run was sealed.
            ValueError: the state is damaged.
        """
        if self.directory is None or not (path := self.directory / _STATE).exists():
            return
        values, notes = load_state(path)
        _check_settings(self.directory, notes, self._settings)
        if "measures" in notes:
            raise FinishedError(self.directory, notes["measures"])
        self._is_finished = notes["is_finished"]
        variables = self._variables()
        assign(variables, values[: len(variables)], path)
        self._best = values[len(variables) :]
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
        if self.directory is None:
            return
        notes = {**self.position()._asdict(), "history": self.history, "settings": self._settings}
        notes["is_finished"] = self._is_finished
        values = [variable.numpy() for variable in self._variables()]  # reading a metric sums over all processes
        if self.is_chief:
            save_state(self.directory / _STATE, [*values, *self._best], notes)
        workers.any_of(self._strategy, True)  # all wait until it is written

    def position(self) -> Position:
        return Position(self.epoch, self.step, self.batches, self.stopped)

    def keep_best(self) -> None:
        """Keeps the current weights as the best ones."""
        self._best = [variable.numpy() for variable in self._model.weights]

    def finish(self) -> None:
        """Restores the best weights, if any were kept, and removes all of the state except weights."""
        for variable, value in zip(self._model.weights, self._best, strict=bool(self._best)):
            variable.assign(value)
        self._best = []
        if not self._is_finished:
            self._is_finished = True
            self.save()
            if self.directory is not None and self.is_chief:
                atomic.remove_left_over(self.directory)

    def _variables(self) -> list[keras.Variable]:
        """Weights and random state; before the end, also the optimizer's variables and this epoch's loss so far."""
        if self._is_finished:
            return list(self._model.variables)
        return [*self._model.variables, *self._model.optimizer.variables, *self._model.metrics_variables]
