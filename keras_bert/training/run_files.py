"""Saves and resumes a training run: its position, its history, its weights, and digests of what it reads."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert import files
from keras_bert.formats.weight_files import read_checked, write_checked
from keras_bert.pretraining.records import Records
from keras_bert.tasks.columns import columns_of, plain
from keras_bert.tasks.task import BertTask, TokenizedExamples
from keras_bert.training import distribution

if TYPE_CHECKING:
    from keras_bert.tasks.columns import Labels, Texts

ADVICE = "choose another directory, or delete this one to start again"  # for a state that cannot be used


class StateError(ValueError):
    """The state of a run cannot be used.

    Args:
        problem: the reason.
        advice: the next step for the user; the message is "problem; advice".

    Attributes:
        problem: as above.
    """

    def __init__(self, problem: str, advice: str = ADVICE) -> None:
        super().__init__(f"{problem}; {advice}")
        self.problem = problem


def save_state(path: Path, values: Sequence[np.ndarray], notes: dict[str, Any]) -> None:
    """Writes the values of variables, notes and a checksum into one file.

    Args:
        path: a safetensors file. An older one is replaced when the new one is complete.
        values: the values of variables; `load_state` returns them in this order.
        notes: JSON values, for `read_notes`.
    """
    # The keys are numbers, because Keras numbers the names of layers anew in each process.
    write_checked(path, {str(i): value for i, value in enumerate(values)}, {"notes": json.dumps(notes)})


def read_notes(path: Path) -> dict[str, Any]:
    """Reads the notes that `save_state` wrote.

    Raises:
        ValueError: the file is damaged.
    """
    return load_state(path)[1]


def load_state(path: Path) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Reads the values and the notes that `save_state` wrote.

    Raises:
        ValueError: the file is damaged, even by a single bit.
    """
    try:
        numbered, metadata = read_checked(path)
    except ValueError as error:
        raise StateError(str(error)) from None
    if not {"notes", "sha256"} <= metadata.keys():
        raise StateError(f"{path} is damaged: it has no checksum")
    return list(numbered.values()), json.loads(metadata["notes"])


def assign(variables: Sequence[keras.Variable], values: Sequence[np.ndarray], path: Path) -> None:
    """Assigns values from a file to variables. Raises ValueError if their number or shapes differ."""
    if len(values) != len(variables):
        raise StateError(f"{path} holds {len(values)} variables, but the model has {len(variables)}")
    for variable, value in zip(variables, values, strict=True):
        if value.shape != tuple(variable.shape):
            shapes = f"{value.shape}, but in this model {tuple(variable.shape)}"
            raise StateError(f"{path} belongs to another model: there {variable.path} has shape {shapes}")
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


# -- Digests of a run's model, examples and teacher. A run is resumed only if all of them are the same.

_RECORD_BYTES = 1 << 20  # read of each file, because a corpus may have a terabyte of records

# The names of the digests in the settings of a run. Messages show only the names: a digest tells a reader nothing.
WEIGHTS = "weights of its preset"
CONFIGURATION = "configuration of the model"
EXAMPLES = "examples"
VALIDATION = "validation examples"
TEACHER = "teacher"
NAMES = (WEIGHTS, CONFIGURATION, EXAMPLES, VALIDATION, TEACHER)


def digests_of_model(model: BertTask) -> dict[str, str | None]:
    """Computes digests of the model that a run starts with: of the weights in its preset, if any, and of its settings.

    The dtype policy is returned with them, by name.

    New weights, such as a head's, are left out, because each run of a program draws others. Weights learned since
    loading are left out, too, so that an interrupted notebook cell may run again.
    """
    encoder, preprocessor = model.encoder, model.preprocessor
    assert preprocessor is not None  # the preprocessor makes the examples
    names = ("truncation", "sequence_length", "max_sequence_length", "pad_to_multiple_of", "stride")
    settings = [sorted(model.heads), encoder.config.to_dict(), model.settings()]
    settings += [{name: getattr(preprocessor, name) for name in names}, preprocessor.tokenizer.get_config()]
    configuration = json.dumps(settings, sort_keys=True, default=repr)
    digests = {WEIGHTS: encoder.preset_digest, CONFIGURATION: _digest([configuration.encode()])}
    return {**digests, "dtype": encoder.dtype_policy.name}


def digest_of_weights(variables: Iterable[keras.Variable]) -> str:
    return _digest(np.ascontiguousarray(variable.numpy()).tobytes() for variable in variables)


def digest_of_tokens(examples: TokenizedExamples) -> str:
    parts = tf.nest.flatten([*examples.segments, examples.targets], expand_composites=True)
    return _digest(np.ascontiguousarray(part).tobytes() for part in parts)


def digest_of_examples(x: Texts, y: Labels | None) -> str:
    """Computes a digest of examples and, if there are any, their labels."""
    y = () if y is None else y
    return _digest(part for column in (*columns_of(x, None), plain(y)) for part in (*map(_to_bytes, column), b"\0"))


def digest_of_records(records: Records) -> str:
    """Computes a digest of the names, the sizes and the first bytes of a corpus's files."""
    paths = [Path(path) for path in records.files]
    return _digest(
        part for path in paths for part in (_to_bytes((path.name, path.stat().st_size)), _read_beginning(path))
    )


def _read_beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_RECORD_BYTES)


def _to_bytes(value: object) -> bytes:
    if isinstance(value, np.ndarray) or tf.is_tensor(value):
        value = np.asarray(value).tolist()
    return repr(value).encode(errors="surrogatepass") + b"\n"


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


_STATE = "state.safetensors"


class AnotherRunError(StateError):
    """The directory holds a run with other settings.

    Args:
        problem: the settings that differ.
        is_finished: whether that run is finished.
    """

    def __init__(self, problem: str, is_finished: bool) -> None:
        super().__init__(problem, f"continue with the same ones, {ADVICE}")
        self.is_finished = is_finished


class FinishedError(ValueError):
    """The run was finished before, and its model saved elsewhere; see `seal`.

    Args:
        directory: the run's directory.
        measures: the measures of its model.
    """

    def __init__(self, directory: Path, measures: dict[str, float]) -> None:
        super().__init__(f"{directory} holds a finished run, whose model is saved elsewhere; load that, or {ADVICE}")
        self.measures = measures


class Position(NamedTuple):
    """The progress of a run.

    Attributes:
        epoch: the number of finished epochs.
        step: the number of finished batches of the first unfinished epoch.
        batches: the number of batches of the last epoch that was started.
        stopped: whether training has ended before its last epoch.
    """

    epoch: int
    step: int
    batches: int
    stopped: bool


def position(directory: Path, settings: Mapping[str, Any] = {}) -> Position | None:
    """Reads the position of the run in a directory; None if the directory has no saved state.

    Args:
        directory: the directory of the run's state.
        settings: the settings that the run must have.

    Raises:
        AnotherRunError: the run has other settings.
        ValueError: its state is damaged.
    """
    path = directory / _STATE
    if not path.exists():
        return None
    notes = read_notes(path)
    _check_settings(directory, notes, settings)
    return Position(*(notes[name] for name in Position._fields))


def seal(directory: Path, measures: dict[str, float]) -> None:
    """Replaces a finished run's state by a note that the run is finished. Call it after the model is saved.

    Args:
        directory: the directory of the run's state.
        measures: the measures of the model; `Run.resume` raises FinishedError with them.
    """
    save_state(directory / _STATE, [], {**read_notes(directory / _STATE), "measures": measures})


def _check_settings(directory: Path, notes: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raises AnotherRunError if the run has other settings."""
    differences = []
    for name, value in settings.items():
        saved = notes["settings"].get(name)
        if saved != value:
            differences.append(f"other {name}" + ("" if name in NAMES else f" ({saved!r}, now {value!r})"))
    if differences:
        kind = "a finished run" if notes["is_finished"] else "an unfinished run"
        raise AnotherRunError(f"{directory} holds {kind} with {', '.join(differences)}", notes["is_finished"])


class Run:
    """A training run that can be interrupted and resumed.

    If several processes train one model, one of them writes the state, and all of them read it.

    Args:
        model: a compiled model with a built optimizer.
        directory: the directory of the run's files, shared by all processes. None: nothing is written.
        settings: values that must be the same when the run is resumed, by name.

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
    """

    def __init__(self, model: keras.Model, directory: Path | None, settings: dict[str, Any]) -> None:
        self.directory = directory
        self.is_chief = distribution.is_chief(model.distribute_strategy)
        self.epoch = 0
        self.step = 0
        self.history: list[dict[str, float]] = []
        self.stopped = False
        self.batches = 0
        self.signal = 0
        self._model = model
        # Python's numbers in place of NumPy's, lists in place of tuples: the form in which a state is read again.
        self._settings = json.loads(json.dumps(settings, default=lambda each: each.item()))
        if directory is not None and self.is_chief:
            directory.mkdir(parents=True, exist_ok=True)  # here, so that a bad path fails before any work
        self._strategy = model.distribute_strategy
        self._loss: list[np.ndarray] = []
        self._best_weights: list[np.ndarray] = []
        self._is_finished = False

    def only_writer(self) -> contextlib.AbstractContextManager[None]:
        """Locks the directory for this run; see `files.only_writer`."""
        if self.directory is None or not self.is_chief:
            return contextlib.nullcontext()
        return files.only_writer(self.directory)

    def resume(self) -> None:
        """Restores the last saved state of the run. Without a state, the run starts at the beginning.

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
        self._best_weights = values[len(variables) :]
        self.epoch, self.step = notes["epoch"], notes["step"]
        self.history, self.stopped = notes["history"], notes["stopped"]
        if self.step:
            self._loss = [variable.numpy() for variable in self._model.metrics_variables]

    def restore_loss(self) -> None:
        """Restores the mean loss so far, if the run was resumed in the middle of an epoch."""
        for variable, value in zip(self._model.metrics_variables, self._loss, strict=False):
            variable.assign(value)
        self._loss = []

    def end_epoch(self, logs: Mapping[str, float]) -> None:
        """Adds the finished epoch to the history."""
        self.epoch, self.step = self.epoch + 1, 0
        self.history.append({"epoch": self.epoch, **logs})

    def is_due_anywhere(self, is_due: bool) -> bool:
        """Checks whether `is_due` is true in any process. Their clocks differ, but `save` needs all of them at once."""
        return distribution.true_in_any_process(self._strategy, is_due)

    def save(self) -> None:
        """Saves the state, from which `resume` continues."""
        if self.directory is None:
            return
        notes = {**self.position()._asdict(), "history": self.history, "settings": self._settings}
        notes["is_finished"] = self._is_finished
        # Reading a metric sums over all processes, so all of them read here, and only the chief writes.
        values = [variable.numpy() for variable in self._variables()]
        if self.is_chief:
            save_state(self.directory / _STATE, [*values, *self._best_weights], notes)
        distribution.true_in_any_process(self._strategy, True)  # all processes wait until the state is written

    def position(self) -> Position:
        return Position(self.epoch, self.step, self.batches, self.stopped)

    def keep_best(self) -> None:
        """Keeps the current weights as the best ones."""
        self._best_weights = [variable.numpy() for variable in self._model.weights]

    def finish(self) -> None:
        """Restores the best weights, if any were kept, and removes all of the state except weights."""
        for variable, value in zip(self._model.weights, self._best_weights, strict=bool(self._best_weights)):
            variable.assign(value)
        self._best_weights = []
        if not self._is_finished:
            self._is_finished = True
            self.save()
            if self.directory is not None and self.is_chief:
                files.remove_leftovers(self.directory)

    def _variables(self) -> list[keras.Variable]:
        """Lists the variables of the state: weights and seeds; until the run is finished, also optimizer and loss."""
        if self._is_finished:
            return list(self._model.variables)
        optimizer = self._model.optimizer
        scale = getattr(optimizer, "inner_optimizer", optimizer).schedule.scale  # Keras wraps it with mixed_float16
        return [*self._model.variables, *optimizer.variables, *self._model.metrics_variables, scale]
