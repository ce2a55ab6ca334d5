"""Run: where a training run is, what it has seen so far, and its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras

from keras_bert.training import workers
from keras_bert.training.state import load_state, read_notes, save_state

_STATE = "state.safetensors"
_BEST = "best.safetensors"
_DIGESTS = ("examples", "teacher")  # settings that say nothing to people


class Run:
    """A training run that can be interrupted.

    Where several processes train one model, one of them writes its files, and all of them read these.

    Args:
        model: compiled, its optimizer built.
        directory: for its files.
        settings: what must be the same when a run goes on.
        is_shared: whether the directory is the same in all processes; else each writes into its own.

    Raises:
        OSError: the directory cannot be made.

    Attributes:
        directory: as above.
        epoch, step: the next batch, both from 0.
        history: of the epochs that are over, a dict each.
        stopped: whether training has ended before its last epoch.
        is_chief: whether this process tells people how the run goes.
        batches: how many this epoch has.
        notes: what is said of this epoch in its history, beside how it went.
    """

    def __init__(self, model: keras.Model, directory: Path, settings: dict[str, Any], is_shared: bool = True) -> None:
        self.directory = directory
        self.is_chief = workers.is_chief(model.distribute_strategy)
        self.epoch = 0
        self.step = 0
        self.history: list[dict[str, float]] = []
        self.stopped = False
        self.batches = 0
        self.notes: dict[str, float] = {}
        self._model = model
        self._settings = settings
        self._writes = self.is_chief or not is_shared
        if self._writes:
            directory.mkdir(parents=True, exist_ok=True)  # where that fails, it fails before any work
        self._strategy = model.distribute_strategy
        self._loss: list[Any] = []

    def resume(self) -> None:
        """Goes to where the run was when its state was last saved; to the beginning, if it never was.

        Raises:
            ValueError: the state is of a run with other settings, or is damaged.
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
        """Where the run goes on in the middle of an epoch: the loss so far."""
        for variable, value in zip(self._model.metrics_variables, self._loss, strict=False):
            variable.assign(value)
        self._loss = []

    def start_epoch(self, batches: int, **notes: float) -> None:
        self.batches, self.notes = batches, notes

    def end_epoch(self, loss: float, measures: dict[str, float]) -> None:
        """Notes how the epoch went."""
        self.epoch, self.step = self.epoch + 1, 0
        self.history.append({"epoch": self.epoch, "loss": loss, **self.notes, **measures})

    def is_time(self, here: bool) -> bool:
        """Whether it is in any of the processes: their clocks differ, and `save` needs them all."""
        return workers.any_of(self._strategy, here)

    def save(self) -> None:
        notes = {"epoch": self.epoch, "step": self.step, "history": self.history, "stopped": self.stopped}
        self._write(_STATE, self._variables(), {**notes, "settings": self._settings})

    def save_best(self) -> None:
        """Keeps the weights as they are now."""
        self._write(_BEST, self._model.weights, {})

    def load_best(self) -> None:
        """Goes back to the weights that were kept, if any were."""
        if (self.directory / _BEST).exists():
            load_state(self.directory / _BEST, self._model.weights)

    def _write(self, name: str, variables: list[keras.Variable], notes: dict[str, Any]) -> None:
        values = [variable.numpy() for variable in variables]  # of a metric, from all processes
        if self._writes:
            save_state(self.directory / name, values, notes)
        workers.any_of(self._strategy, True)  # until it is written, none goes on

    def _variables(self) -> list[keras.Variable]:
        """Weights, random state, the optimizer's, and the loss so far of this epoch."""
        return [*self._model.variables, *self._model.optimizer.variables, *self._model.metrics_variables]
