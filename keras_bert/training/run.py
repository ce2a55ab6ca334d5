"""A run: one training, which can be interrupted and resumed. Its state, and digests of what it reads."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert import files
from keras_bert.formats.weight_files import read_checked, write_checked
from keras_bert.training import distribution
from keras_bert.training.batches import columns_in

if TYPE_CHECKING:
    from keras_bert.answers.columns import Labels, Texts
    from keras_bert.pretraining.records import Records
    from keras_bert.recipe import FineTuningWithTeacher, PretrainingWithTeacher
    from keras_bert.tasks.base.task import BertTask

STATE = files.STATE
# The names of digests in the settings of a run. Messages show only the names: a digest tells a reader nothing.
WEIGHTS = "weights of its preset"
CONFIGURATION = "configuration of the model"
EXAMPLES = "examples"
VALIDATION = "validation examples"
TEACHER = "teacher"
_DIGESTS = (WEIGHTS, CONFIGURATION, EXAMPLES, VALIDATION, TEACHER)


class RunError(ValueError):
    """The directory of a run holds another run, or a state that cannot be used."""


class Position(NamedTuple):
    """The progress of a run."""

    epoch: int  # the number of finished epochs
    step: int  # the number of finished batches of the first unfinished epoch
    batches: int  # the number of batches of the last epoch that was started
    stopped: bool  # whether training has ended before its last epoch


class Run:
    """A training that can be interrupted and resumed. Of several processes, one writes the state, and all read it."""

    def __init__(self, directory: str | Path | None) -> None:
        self.advice = "choose another directory, or delete this one to start again"  # at the end of an error
        self.advice_if_finished = ""  # after it, if the run is finished
        self.directory = Path(directory) if directory else None  # of the state; None: nothing is written
        self.is_chief = True  # whether this process shows progress, and writes
        self.epoch = self.step = self.batches = 0  # as in `Position`
        self.stopped = False
        self.history: list[dict[str, float]] = []  # of each finished epoch
        self.measures: dict[str, float] | None = None  # of a model that is written already; see `RunOfFiles`
        self._loss: list[np.ndarray] = []
        self._best_weights: list[np.ndarray] = []
        self._is_finished = False
        for path in self.directory.glob("*") if self.directory else ():
            files.refuse_link(path)

    @property
    def position(self) -> Position:
        return Position(self.epoch, self.step, self.batches, self.stopped)

    @property
    def place(self) -> str:
        """The position in words; empty if only a log would show it."""
        return ""

    def log_epoch(self, measures: str) -> None:
        """Logs the measures of the epoch, if the run has a log."""

    @contextlib.contextmanager
    def opened(
        self, model: BertTask, settings: Mapping[str, Any], further: Sequence[keras.Variable] = ()
    ) -> Iterator[None]:
        """Locks the directory in this block, and restores the saved state of a compiled model, if there is one.

        Raises RunError if the state is damaged, or has other settings. `further`: what else the state holds until the
        run is finished.
        """
        self._model, self._strategy, self._further = model, model.distribute_strategy, further
        self.is_chief = distribution.is_chief(self._strategy)
        # Python's numbers in place of NumPy's, lists in place of tuples: the form in which a state is read again.
        self._settings = json.loads(json.dumps(settings, default=lambda each: each.item()))
        with self.only_writer():
            self._resume()
            yield

    def only_writer(self) -> contextlib.AbstractContextManager[None]:
        """Locks the directory for this run; see `files.only_writer`."""
        if self.directory is None or not self.is_chief:
            return contextlib.nullcontext()
        return files.only_writer(self.directory)

    def _resume(self) -> None:
        if (saved := self.load()) is None:
            return
        values, notes = saved
        self.check_settings(notes, self._settings)
        self.history, self.stopped, self._is_finished = notes["history"], notes["stopped"], notes["is_finished"]
        self.epoch, self.step = notes["epoch"], notes["step"]
        if "measures" in notes:
            self.check_model_is_there()
            self.measures = notes["measures"]
            return
        variables = self._variables()
        self._assign(variables, values[: len(variables)])
        self._best_weights = values[len(variables) :]
        if self.step:
            self._loss = [variable.numpy() for variable in self._model.metrics_variables]

    def check_model_is_there(self) -> None:
        """Raises RunError if the model of a finished run is not where the run saves one."""
        problem = f"{self.directory} holds a finished run, whose model is saved elsewhere; load that"
        raise RunError(f"{problem}, or {self.advice}")

    def saved_position(self, settings: Mapping[str, Any]) -> Position | None:
        """Reads the position of the saved state; None if there is none. Raises RunError if it has other settings."""
        if (saved := self.load()) is None:
            return None
        self.check_settings(saved[1], settings)
        return Position(*(saved[1][name] for name in Position._fields))

    def saved_setting(self, name: str) -> Any:
        """Reads a setting of the saved state; None without a state. Raises RunError for a damage."""
        return None if (saved := self.load()) is None else saved[1]["settings"].get(name)

    def restore_loss(self) -> None:
        """Restores the mean loss so far, if the run was resumed in the middle of an epoch."""
        for variable, value in zip(self._model.metrics_variables, self._loss, strict=False):
            variable.assign(value)
        self._loss = []

    def add_epoch(self, logs: Mapping[str, float]) -> None:
        """Adds a finished epoch to the history."""
        self.epoch, self.step = self.epoch + 1, 0
        self.history.append({"epoch": self.epoch, **logs})

    @property
    def best_epoch(self) -> int:
        """The index of the epoch whose first measure on the validation examples is highest."""
        first_measure = next(name for name in self.history[-1] if name.startswith("val_"))
        values = [epoch[first_measure] for epoch in self.history]
        return values.index(max(values))

    def keep_best(self) -> None:
        """Keeps the current weights as the best ones."""
        self._best_weights = [variable.numpy() for variable in self._model.weights]

    def save(self) -> None:
        """Saves the state, from which the same run is resumed."""
        if self.directory is None:
            return
        notes = {**self.position._asdict(), "history": self.history, "settings": self._settings}
        notes["is_finished"] = self._is_finished
        # Reading a metric sums over all processes, so all of them read here, and only the chief writes.
        values = [variable.numpy() for variable in self._variables()]
        if self.is_chief:
            save_state(self.directory / STATE, [*values, *self._best_weights], notes)
        distribution.true_in_any_process(self._strategy, True)  # all processes wait until the state is written

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
        """Lists the variables of the state: weights and seeds; until the run is finished, also all others."""
        if self._is_finished:
            return list(self._model.variables)
        optimizer = self._model.optimizer
        scale = getattr(optimizer, "inner_optimizer", optimizer).schedule.scale  # Keras wraps it with mixed_float16
        return [*self._model.variables, *optimizer.variables, *self._model.metrics_variables, scale, *self._further]

    def _assign(self, variables: Sequence[keras.Variable], values: Sequence[np.ndarray]) -> None:
        """Assigns the values of the state to variables. Raises RunError if their number or shapes differ."""
        if len(values) != len(variables):
            raise self.error(f"{self.directory} holds {len(values)} variables, but the model has {len(variables)}")
        for variable, value in zip(variables, values, strict=True):
            if value.shape != tuple(variable.shape):
                shapes = f"{value.shape}, but in this model {tuple(variable.shape)}"
                raise self.error(f"{self.directory} holds another model: there {variable.path} has shape {shapes}")
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)

    def load(self) -> tuple[list[np.ndarray], dict[str, Any]] | None:
        """Loads the values and the notes of the saved state; None if there is none. Raises RunError for a damage."""
        if self.directory is None or not (self.directory / STATE).exists():
            return None
        try:
            return load_state(self.directory / STATE)
        except ValueError as error:
            raise self.error(str(error)) from None

    def check_settings(self, notes: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        """Raises RunError if the notes of a state have other settings."""
        differences = []
        for name, value in settings.items():
            saved = notes["settings"].get(name)
            if saved != value:
                differences.append(f"other {name}" + ("" if name in _DIGESTS else f" ({saved!r}, now {value!r})"))
        if differences:
            kind = "a finished run" if notes["is_finished"] else "an unfinished run"
            further = self.advice_if_finished if notes["is_finished"] else ""
            problem = f"{self.directory} holds {kind} with {', '.join(differences)}; continue with the same ones"
            raise RunError(f"{problem}, {self.advice}{further}")

    def error(self, problem: str) -> RunError:
        return RunError(f"{problem}; {self.advice}")


def save_state(path: Path, values: Sequence[np.ndarray], notes: dict[str, Any]) -> None:
    """Writes the values of variables, notes in JSON, and a checksum into a safetensors file, over an older one."""
    # The keys are numbers, because Keras numbers the names of layers anew in each process.
    write_checked(path, {str(i): value for i, value in enumerate(values)}, {"notes": json.dumps(notes)})


def load_state(path: Path) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Reads the values and the notes that `save_state` wrote. Raises ValueError if a single bit is damaged."""
    numbered, metadata = read_checked(path)
    if "notes" not in metadata:
        raise ValueError(f"{path} is damaged: it has no notes")
    return list(numbered.values()), json.loads(metadata["notes"])


# -- What a run depends on. It is resumed only if all of it is the same; of what is large, its digest.

_RECORD_BYTES = 1 << 20  # read of each file, because a corpus may have a terabyte of records


def settings_of_run(
    model: BertTask,
    recipe: FineTuningWithTeacher | PretrainingWithTeacher,
    teacher: BertTask | None,
    examples: object,  # their digest, or those of each phase
    validation: object,
    further: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """Lists what a run depends on: the fields of its recipe, digests of what it reads, and further settings."""
    temperature = None if teacher is None else recipe.temperature  # which does not matter without a teacher
    of_teacher = None if teacher is None else digest(teacher.weights)
    settings = {TEACHER: of_teacher, **vars(recipe), "temperature": temperature, **digests_of_model(model)}
    return {**settings, **(further or {}), EXAMPLES: examples, VALIDATION: validation}


def digest(parts: Iterable[bytes | keras.Variable | tf.Tensor]) -> str:
    """Computes a SHA-256 of bytes, and of the bytes of variables and tensors."""
    return files.sha256(
        part if isinstance(part, bytes) else keras.ops.convert_to_numpy(part).tobytes() for part in parts
    )


def digests_of_model(model: BertTask) -> dict[str, str | None]:
    """Computes digests of the weights of a model's preset, and of its configuration."""
    # New weights, such as a head's, are left out, because each run of a program draws others. Weights learned since
    # loading are left out, too, so that an interrupted notebook cell may run again.
    encoder, preprocessor = model.encoder, model.preprocessor
    assert preprocessor is not None  # the preprocessor makes the examples
    names = ("truncation", "sequence_length", "max_sequence_length", "pad_to_multiple_of", "stride")
    settings = [sorted(model.heads), encoder.config.to_dict(), model.settings()]
    settings += [{name: getattr(preprocessor, name) for name in names}, preprocessor.tokenizer.get_config()]
    configuration = json.dumps(settings, sort_keys=True, default=repr)
    digests = {WEIGHTS: encoder.preset_digest, CONFIGURATION: digest([configuration.encode()])}
    return {**digests, "dtype": encoder.dtype_policy.name}


def digest_of_examples(x: Texts, y: Labels | None) -> str:
    """Computes a digest of examples and, if there are any, their labels."""
    columns = (*columns_in(x), () if y is None else y)
    return digest(part for column in columns for part in (*map(_to_bytes, column), b"\0"))


def _to_bytes(value: object) -> bytes:
    if isinstance(value, np.ndarray) or tf.is_tensor(value):
        value = np.asarray(value).tolist()
    return repr(value).encode(errors="surrogatepass") + b"\n"


def digest_of_records(records: Records) -> str:
    """Computes a digest of the names, the sizes and the first bytes of a corpus's files."""

    def beginning(path: Path) -> bytes:
        with path.open("rb") as file:
            return file.read(_RECORD_BYTES)

    paths = [Path(path) for path in records.files]
    return digest(part for path in paths for part in (_to_bytes((path.name, path.stat().st_size)), beginning(path)))
