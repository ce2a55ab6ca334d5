"""A run: one training, which can be interrupted and resumed. Its state, its output, and digests of what it reads."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from keras_bert import files, precisions
from keras_bert.choices import check_choice
from keras_bert.formats import hugging_face, model_card, model_files
from keras_bert.formats.weight_files import read_checked, write_checked
from keras_bert.progress import on_terminal
from keras_bert.training import distribution, report
from keras_bert.training.batches import columns_in

Log: TypeAlias = Callable[[str], Any]  # gets each line of progress

if TYPE_CHECKING:
    from keras_bert.answers.columns import Labels, Texts
    from keras_bert.pretraining.records import Records
    from keras_bert.tasks.base.task import BertTask

# The names of digests in the settings of a run. Messages show only the names: a digest tells a reader nothing.
WEIGHTS = "weights of its preset"
CONFIGURATION = "configuration of the model"
EXAMPLES = "examples"
VALIDATION = "validation examples"
TEACHER = "teacher"
_DIGESTS = (WEIGHTS, CONFIGURATION, EXAMPLES, VALIDATION, TEACHER)

_STATE = "state.safetensors"
_RUN_FILES = (  # patterns; * may also stand for folders
    _STATE,
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
        self.directory = Path(directory) if directory else None  # of the state; None: nothing is written
        self.output: Path | None = None  # the directory of the model, with the state inside; None: it is not saved
        self.is_chief = True  # whether this process shows progress, and writes
        self.epoch = self.step = self.batches = 0  # as in `Position`
        self.stopped = False
        self.history: list[dict[str, float]] = []  # of each finished epoch
        self.measures: dict[str, float] | None = None  # of the model in `output`; None until the run is sealed
        self._advice = "choose another directory, or delete this one to start again"
        self._advice_if_finished = ""
        self._overwrite = False
        self._inputs: list[Path] = []
        self._describe: Callable[[Position], str] = lambda position: ""
        self._log: Log = lambda line: None
        self._loss: list[np.ndarray] = []
        self._best_weights: list[np.ndarray] = []
        self._is_finished = False
        for path in self.directory.glob("*") if self.directory else ():
            files.refuse_link(path)

    # -- The output directory of a run of files: a model with its report, and in `training/` the state

    @classmethod
    def into(
        cls,
        output: str | Path,
        overwrite: bool,
        inputs: Iterable[str | Path | None] = (),
        describe: Callable[[Position], str] = str,
        log: Log = print,
        has_preset: bool = False,
    ) -> Run:
        """Makes a run whose model is saved in `output`, where `overwrite` lets `clear` remove an old run or model."""
        path = Path(output)
        files.refuse_link(path / files.RUN)
        run = cls(path / files.RUN)
        run.output, run._overwrite, run._describe, run._log = path, overwrite, describe, log
        if has_preset:
            run._advice_if_finished = f"; to train its model further, choose the preset {path} and another output"
        run._inputs = [Path(each) for each in inputs if each is not None]
        run._advice = "choose another output, or start again with overwrite"
        if overwrite and path.is_dir():
            run._check_overwriting(path)
        files.check_run(path, overwrite)
        return run

    def _check_overwriting(self, output: Path) -> None:
        """Raises FileExistsError if the directory has a file that no run writes, or one that this run reads."""
        foreign = sorted(str(path.relative_to(output)) for path in _find_foreign_files(output))
        if foreign:
            listed = ", ".join(foreign[:3]) + (f" and {len(foreign) - 3:,} more" if len(foreign) > 3 else "")
            advice = "move that away, or choose another output"
            raise FileExistsError(f"{output} holds {listed}, which no run wrote; {advice}")
        for path in self._inputs:
            if path.exists() and path.resolve().is_relative_to(output.resolve()):
                raise FileExistsError(f"{path} is read by this run, and overwrite removes it; choose another output")

    @contextlib.contextmanager
    def renewed(self) -> Iterator[Path]:
        """Yields the directory of the state; to overwrite, a new one, which then replaces the old run and model."""
        assert self.directory is not None
        if not self._is_to_clear():
            yield self.directory
            return
        with files.directory_beside(self.directory) as new:
            yield new
            self.clear()
            os.rename(new, self.directory)

    def _is_to_clear(self) -> bool:
        return bool(self.is_chief and self._overwrite and self.output and self.output.exists())

    def clear(self) -> None:
        """Removes the old run and model, with `overwrite`, except README.md: the user may have written that."""
        if not self._is_to_clear():
            return
        assert self.output is not None
        self._check_overwriting(self.output)
        with self.only_writer():
            for path in self.output.iterdir():
                if path.is_file() and path.name != model_card.FILE:
                    path.unlink()
            shutil.rmtree(self.output / files.RUN)
        self._overwrite = False  # once

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

    def log_position(self, settings: Mapping[str, Any], epochs: int) -> None:
        """Logs how far the run in `output` has come. Raises RunError if that has other settings."""
        if self._overwrite or self.directory is None or self.output is None:
            return
        position = self.saved_position(settings)
        line = ""
        if position is None:
            if (self.output / hugging_face.CONFIG).exists():
                raise self._error(f"{self.output} holds a model, but no state of its run in {self.directory}")
            if self.directory.is_dir() and not files.is_empty_directory(self.directory):
                line = f"the run in {self.output} has no saved state; its training begins"
        elif position.stopped or position.epoch >= epochs:
            line = f"the run in {self.output} is finished, after {self._describe(position)}; nothing is trained"
        else:
            line = f"resuming the run in {self.output} after {self._describe(position)}"
        if line and self.is_chief:
            self._log(line)

    def log_epoch(self, measures: str) -> None:
        """Logs the measures of the epoch, unless a progress bar shows them on a terminal."""
        if self.is_chief and not on_terminal():
            self._log(f"{self.place}: {measures}")

    def seal(self, measures: Mapping[str, float]) -> None:
        """Replaces the state by a note that the run is finished. Call it after the model is saved."""
        assert self.directory is not None  # a run with an output has one
        self.measures = {name: value if isinstance(value, int) else float(value) for name, value in measures.items()}
        save_state(self.directory / _STATE, [], {**self._load()[1], "measures": self.measures})
        files.remove_leftovers(self.output or self.directory)

    # -- The state

    def only_writer(self) -> contextlib.AbstractContextManager[None]:
        """Locks the directory for this run; see `files.only_writer`."""
        if self.directory is None or not self.is_chief:
            return contextlib.nullcontext()
        return files.only_writer(self.directory)

    def saved_position(self, settings: Mapping[str, Any]) -> Position | None:
        """Reads the position of the saved state; None if there is none. Raises RunError if it has other settings."""
        if self.directory is None or not (self.directory / _STATE).exists():
            return None
        notes = self._load()[1]
        self._check_settings(notes, settings)
        return Position(*(notes[name] for name in Position._fields))

    def start(self, model: BertTask, settings: Mapping[str, Any], further: Sequence[keras.Variable] = ()) -> None:
        """Takes a compiled model with a built optimizer, and the settings, which `resume` compares with saved ones.

        `further`: what else the state of an unfinished run holds.
        """
        self.is_chief = distribution.is_chief(model.distribute_strategy)
        self._model, self._strategy, self._further = model, model.distribute_strategy, further
        with distribution.chief_first(self._strategy):
            self.clear()
        # Python's numbers in place of NumPy's, lists in place of tuples: the form in which a state is read again.
        self._settings = json.loads(json.dumps(settings, default=lambda each: each.item()))
        if self.directory is not None and self.is_chief:
            self.directory.mkdir(parents=True, exist_ok=True)  # here, so that a bad path fails before any work

    def resume(self) -> None:
        """Restores the saved state, if there is one. Raises RunError if it is damaged, or of another run."""
        if self.directory is None or not (self.directory / _STATE).exists():
            return
        values, notes = self._load()
        self._check_settings(notes, self._settings)
        self.history, self.stopped, self._is_finished = notes["history"], notes["stopped"], notes["is_finished"]
        self.epoch, self.step = notes["epoch"], notes["step"]
        if "measures" in notes:
            self._check_saved_model()
            self.measures = notes["measures"]
            return
        variables = self._variables()
        self._assign(variables, values[: len(variables)])
        self._best_weights = values[len(variables) :]
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

    def save(self) -> None:
        """Saves the state, from which `resume` continues."""
        if self.directory is None:
            return
        notes = {**self.position._asdict(), "history": self.history, "settings": self._settings}
        notes["is_finished"] = self._is_finished
        # Reading a metric sums over all processes, so all of them read here, and only the chief writes.
        values = [variable.numpy() for variable in self._variables()]
        if self.is_chief:
            save_state(self.directory / _STATE, [*values, *self._best_weights], notes)
        distribution.true_in_any_process(self._strategy, True)  # all processes wait until the state is written

    @property
    def position(self) -> Position:
        return Position(self.epoch, self.step, self.batches, self.stopped)

    @property
    def place(self) -> str:
        """The position in words; empty if the run has no output."""
        return self._describe(self.position)

    @property
    def best_epoch(self) -> int:
        """The index of the epoch whose first measure on the validation examples is highest."""
        first_measure = next(name for name in self.history[-1] if name.startswith("val_"))
        values = [epoch[first_measure] for epoch in self.history]
        return values.index(max(values))

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
        """Lists the variables of the state: weights and seeds; until the run is finished, also all others."""
        if self._is_finished:
            return list(self._model.variables)
        optimizer = self._model.optimizer
        scale = getattr(optimizer, "inner_optimizer", optimizer).schedule.scale  # Keras wraps it with mixed_float16
        return [*self._model.variables, *optimizer.variables, *self._model.metrics_variables, scale, *self._further]

    def _load(self) -> tuple[list[np.ndarray], dict[str, Any]]:
        assert self.directory is not None
        try:
            return load_state(self.directory / _STATE)
        except ValueError as error:
            raise self._error(str(error)) from None

    def _assign(self, variables: Sequence[keras.Variable], values: Sequence[np.ndarray]) -> None:
        """Assigns the values of the state to variables. Raises RunError if their number or shapes differ."""
        if len(values) != len(variables):
            raise self._error(f"{self.directory} holds {len(values)} variables, but the model has {len(variables)}")
        for variable, value in zip(variables, values, strict=True):
            if value.shape != tuple(variable.shape):
                shapes = f"{value.shape}, but in this model {tuple(variable.shape)}"
                raise self._error(f"{self.directory} holds another model: there {variable.path} has shape {shapes}")
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)

    def _check_settings(self, notes: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        differences = []
        for name, value in settings.items():
            saved = notes["settings"].get(name)
            if saved != value:
                differences.append(f"other {name}" + ("" if name in _DIGESTS else f" ({saved!r}, now {value!r})"))
        if differences:
            kind = "a finished run" if notes["is_finished"] else "an unfinished run"
            further = self._advice_if_finished if notes["is_finished"] else ""
            problem = f"{self.directory} holds {kind} with {', '.join(differences)}; continue with the same ones"
            raise RunError(f"{problem}, {self._advice}{further}")

    def _check_saved_model(self) -> None:
        """Raises RunError if the model of a sealed run is not in the output."""
        if self.output is None:
            problem = f"{self.directory} holds a finished run, whose model is saved elsewhere; load that"
            raise RunError(f"{problem}, or {self._advice}")
        for name in hugging_face.FILES:
            if not (self.output / name).is_file():
                raise self._error(f"{self.output} holds a finished run, but {name} is missing")

    def _error(self, problem: str) -> RunError:
        return RunError(f"{problem}; {self._advice}")


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


# -- Digests of a run's model, examples and teacher. A run is resumed only if all of them are the same.

_RECORD_BYTES = 1 << 20  # read of each file, because a corpus may have a terabyte of records


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
