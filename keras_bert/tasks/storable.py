"""Storable: reads and writes a task's files, which include its head, labels and settings."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import keras
import numpy as np

from keras_bert import files, formats
from keras_bert.config import BertConfig
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.weights import load_weights, values_by_name
from keras_bert.formats import Preset, hugging_face, model_files, sentence_transformers
from keras_bert.formats.hugging_face import SETTINGS as _SETTINGS
from keras_bert.inference import ranges as int8_ranges
from keras_bert.tasks.columns import checked_labels
from keras_bert.text import BertPreprocessor

_SAVED = {
    "sequence_length": (int, None),
    "truncation": (str, None),
    "stride": (int, None),
    "max_sequence_length": (int, None),
}
_PREPROCESSOR_TYPES = {**_SAVED, "special_tokens_in_text": (bool, None)}  # the last one is saved only if it is True
_CONFIG_TYPES = {
    "problem_type": (str, None),
    _SETTINGS: ({"task": (str, None), "preprocessor": (_PREPROCESSOR_TYPES, None), "model": (dict, None)}, None),
}
# Name in an argument's annotation -> type in JSON.
_JSON_TYPES = {
    **{kind.__name__: kind for kind in (bool, int, float, str)},
    "None": None,
    "Mapping": dict,
    "Sequence": list,
}
# The head of a fine-tuned model -> what it predicts for, as messages say. Heads of pre-training are left out: a preset
# that has no other heads is a model to start from.
_FINE_TUNED_HEADS = {"sequence": "texts", "tokens": "words", "spans": "answers to questions"}
_NOT_SETTINGS = ("self", "encoder", "preprocessor", "kwargs")  # arguments of constructors that are not settings
_CONFIG_FIELDS = frozenset(field.name for field in dataclasses.fields(BertConfig))


Settings: TypeAlias = "dict[str, Any]"  # arguments of a constructor, as JSON values


class UntrainedWarning(UserWarning):
    """A warning that a model has a new, randomly initialized head that the user did not ask for; it must be trained."""


class RowSettings(NamedTuple):
    """The arguments of `BertTask.from_preset` that decide how texts become rows of the encoder's input.

    None is the saved value or, if nothing was saved, the default of `BertPreprocessor`.
    """

    sequence_length: int | None = None
    long_text: str | None = None
    stride: int | None = None
    special_tokens_in_text: bool | None = None


@dataclasses.dataclass(frozen=True)
class TaskPreset:
    """One task's part of an open preset: its head, labels and settings, and how it shortens texts.

    Attributes:
        files: the preset.
        hugging_face: the content of Hugging Face's `config.json`; empty in other formats.
        has_head: whether the preset has weights of the task's head.
        head_size: the number of labels of the head; 0 without a head or labels.
        settings: the model's settings, as `save_preset` wrote them; empty if the preset was saved by another task.
        preprocessor: the preprocessor's arguments, as `save_preset` wrote them; empty in the same case.
    """

    files: Preset
    hugging_face: dict[str, Any]
    has_head: bool
    head_size: int
    settings: Settings
    preprocessor: Settings

    @classmethod
    def read(cls, preset: Preset, task: type[Storable]) -> TaskPreset:
        """Reads a task's part of a preset.

        Raises:
            FileNotFoundError: the directory lacks a file.
            ValueError: a file is damaged.
        """
        checkpoint = preset.checkpoint
        has_head = task.HEAD in checkpoint.heads
        (head_size,) = (checkpoint.shapes(task.HEAD) if task.HEAD and has_head else {}).get("logits/bias", (0,))
        config = preset.json(hugging_face.CONFIG, _CONFIG_TYPES) if checkpoint.format == "hugging_face" else {}
        saved = config.get(_SETTINGS) or {}
        if saved.get("task") != task.__name__:
            saved = {}
        settings, preprocessor = (saved.get(name) or {} for name in ("model", "preprocessor"))
        allowed = {"model": _setting_types(task), "preprocessor": _PREPROCESSOR_TYPES}
        for part, values in (("model", settings), ("preprocessor", preprocessor)):
            source = f"{preset.directory / hugging_face.CONFIG}: {_SETTINGS}.{part}"
            if unknown := [name for name in values if name not in allowed[part]]:
                raise ValueError(
                    f"{source} has {', '.join(unknown)}, which no {task.__name__} has; known are "
                    f"{', '.join(allowed[part])}. Was it saved by a later version?"
                )
            files.check_json(values, {name: allowed[part][name] for name in values}, source)
        return cls(preset, config, has_head, head_size, settings, preprocessor)

    @property
    def source(self) -> Path:
        """The path of `config.json`, for messages."""
        return self.files.directory / hugging_face.CONFIG

    @property
    def saved_labels(self) -> list[str] | None:
        """The names of the head's labels, in the order of the logits; None without a head or names."""
        if not self.has_head:
            return None
        return hugging_face.labels_of(self.hugging_face, self.source)

    def labels(self, user_labels: Sequence[str] | None) -> list[str]:
        """Chooses the labels of a model: those of the user, else those of the head.

        Args:
            user_labels: the user's labels, or None.

        Raises:
            ValueError: there are neither.
        """
        if user_labels is not None:
            return checked_labels(user_labels)
        saved = self.saved_labels
        if saved is None:
            problem = f"no names for its {self.head_size} labels" if self.head_size else "no head of this task"
            raise ValueError(f"{self.files.directory} has {problem}; give the names of your labels: labels=[...]")
        return saved

    def head_fits(self, labels: list[str] | None) -> bool:
        """Checks whether the head fits labels: it has the same names, or no names and the same number.

        For labels without names, `transformers` writes LABEL_0, LABEL_1, ...

        Args:
            labels: the labels of the model; None: the model has a single output, a score.

        Warns:
            UserWarning: a trained head does not fit, and is left out, perhaps by mistake.
        """
        saved_labels, count = self.saved_labels, 1 if labels is None else len(labels)
        has_names = labels is not None and saved_labels not in (None, _default_labels(self.head_size))
        is_same = labels is not None and saved_labels == labels
        if is_same or (count == self.head_size and not has_names):
            return True
        if self.has_head:
            saved_names = _abbreviate(saved_labels or _default_labels(self.head_size))
            new_names = "one score" if labels is None else _abbreviate(labels)
            advice = "leave labels out, or give its names in its order" if labels else "load it as a BertClassifier"
            warnings.warn(
                f"{self.files.directory} has a trained head for {saved_names}; for {new_names} a new one is randomly "
                f"initialized, and must be trained. To use the trained one, {advice}",
                stacklevel=5,  # where from_preset was called
            )
        return False

    @property
    def trained_parts(self) -> dict[str, str]:
        """The fine-tuned parts of the preset besides the encoder, with their names in messages."""
        parts = {
            name: f"head for {objects}"
            for name, objects in _FINE_TUNED_HEADS.items()
            if name in self.files.checkpoint.heads
        }
        if sentence_transformers.has_dense(self.files):
            parts["dense"] = "Dense layer of a sentence encoder"
        return parts

    @property
    def is_to_start_from(self) -> bool:
        """Whether the preset is only pre-trained, not fine-tuned for a task."""
        return not self.trained_parts and not (self.files.home / sentence_transformers.MODULES).is_file()

    def load_preprocessor(self, positions: int, rows: RowSettings, **arguments: Any) -> BertPreprocessor:
        """Loads the preprocessor.

        Args:
            positions: the number of positions of the model.
            rows: the arguments of `from_preset`, which replace the other two kinds of settings.
            **arguments: arguments of `BertPreprocessor.from_preset`, which replace saved settings.

        Raises:
            FileNotFoundError: the preset has no tokenizer.
            ValueError: an argument is bad.
        """
        settings = {"sequence_length": None, **self.preprocessor, **arguments}
        if rows.sequence_length is not None:
            settings["sequence_length"] = rows.sequence_length
        if rows.special_tokens_in_text is not None:
            settings["special_tokens_in_text"] = rows.special_tokens_in_text
        settings |= _long_text_settings(rows.long_text, rows.stride, settings["sequence_length"] or positions, settings)
        longest = self.preprocessor.get("max_sequence_length")
        if longest is not None and longest > positions:
            if settings["sequence_length"] is None:
                raise ValueError(
                    f"{self.source}: {_SETTINGS}.preprocessor.max_sequence_length is {longest}, but this model has "
                    f"{positions} positions"
                )
            settings["max_sequence_length"] = positions  # without effect: rows have the fixed `sequence_length`
        saved = [name for name, value in self.preprocessor.items() if settings.get(name) == value]
        with _name_file_in_errors(self.source, saved):
            return BertPreprocessor.from_preset(self.files, **settings)

    def load_preprocessor_up_to(self, longest: int | None, encoder: BertEncoder, rows: RowSettings) -> BertPreprocessor:
        """Loads a preprocessor that truncates texts to the model's positions and, unless None, to `longest` tokens."""
        positions = encoder.config.max_positions
        return self.load_preprocessor(positions, rows, max_sequence_length=min(longest or positions, positions))


T = TypeVar("T", bound="Storable")

if TYPE_CHECKING:

    class _Model:
        """The parts of `keras.Model` and `LowPrecision` that the mixin uses."""

        _current_ranges: int8_ranges.Int8Ranges | None

        def __init__(self, encoder: BertEncoder, preprocessor: BertPreprocessor | None, **kwargs: Any) -> None: ...
        def get_config(self) -> Settings: ...
        def set_precision(self, precision: str) -> None: ...
        def _load_ranges(self, directory: Path) -> None: ...
        def _save_ranges(self, directory: Path) -> None: ...
else:
    _Model = object


class Storable(_Model):
    """A mixin that reads and writes a task: presets, checkpoints for other programs, and Keras's configuration.

    The class must be a Keras model with an `encoder`, a `preprocessor`, and a layer `head` if it has a `HEAD`. A task
    overrides its settings, the methods that read its preprocessor and heads, and those for its own files.
    """

    HEAD: ClassVar[str | None] = None  # the head of the task: a key of the family's heads
    # Settings that Hugging Face's or sentence-transformers' files hold, so that config.json does not repeat them.
    SETTINGS_IN_OTHER_FILES: ClassVar[tuple[str, ...]] = ()
    PARTS: ClassVar[tuple[str, ...]] = ()  # a preset's parts with weights, besides the encoder and the heads
    FILES: ClassVar[tuple[str, ...]] = ()  # the files of a preset that only this task has
    READS_SPECIAL_TOKENS: ClassVar[bool] = False  # whether it always recognizes special tokens in texts

    encoder: BertEncoder
    preprocessor: BertPreprocessor | None
    head: keras.Layer  # of a task with a `HEAD`

    _untrained: str | None = None  # a warning for the first answer, see `_warn_if_untrained`

    @property
    def heads(self) -> dict[str, keras.Layer]:
        """The heads by name, as in checkpoints."""
        return {} if self.HEAD is None else {self.HEAD: self.head}

    @classmethod
    def is_in(cls, preset: Preset) -> bool:
        """Checks whether a preset has the head of this task."""
        return cls.HEAD in preset.checkpoint.heads

    @classmethod
    def from_preset(
        cls: type[T],
        handle: str | Path | Preset,
        *,
        sequence_length: int | None = None,
        long_text: str | None = None,
        stride: int | None = None,
        special_tokens_in_text: bool | None = None,
        dtype: str | keras.DTypePolicy | None = None,
        precision: str = "float32",
        **settings: Any,
    ) -> T:
        """Loads the encoder and the tokenizer of a preset, and this task's head if the preset has one.

        If a new head reads the pooler and the preset has no pooler, the model gets a new pooler.

        Args:
            handle: a directory, the name of a preset, or `hf://org/name`, see `presets.resolve`; or an open preset.
            sequence_length: the length of every row in tokens; for a question answerer, the most tokens in a row. By
                default the saved length; without one, rows are as long as the longest text of their batch, up to the
                model's positions.
            long_text: how to fit longer texts: "truncate" cuts the end off, "head_tail" cuts the middle out, "windows"
                splits the text. By default the saved choice, else "truncate".
            stride: the number of tokens from the start of one window to the start of the next; by default half of a
                row.
            special_tokens_in_text: whether to recognize special tokens, such as markers of entities that the model
                adds, in the texts, rather than split them like other text. By default the saved choice, else no. Leave
                it off for texts from untrusted sources.
            dtype: a Keras dtype policy, for training.
            precision: the precision of inference, see `set_precision`: "float32", "bfloat16" or "int8".
            **settings: arguments of the class, by default the saved ones; or fields of `BertConfig`, such as
                `hidden_dropout=0.0`.

        Raises:
            FileNotFoundError: there is no such preset, or it lacks a file.
            TypeError, ValueError: a file is damaged, or an argument is bad.

        Warns:
            UserWarning: in one of these cases:

                - the preset has a trained head that is not used, because it has other labels or belongs to another
                  task;
                - a new head is randomly initialized, although the preset is a model for a task;
                - int8 ranges are not used, because they belong to other weights.
        """
        fields, user_settings = _split_arguments(
            cls, {name: value for name, value in settings.items() if value is not None}
        )
        rows = RowSettings(sequence_length, long_text, stride, special_tokens_in_text)
        with Preset.open(handle, fields.get("activation")) as opened:
            preset, checkpoint = TaskPreset.read(opened, cls), opened.checkpoint
            arguments = cls._arguments(preset, user_settings)
            new_heads = set(cls._heads(arguments)) - checkpoint.heads
            if fields.get("pooling", "first") != "first":
                fields.setdefault("pooler", False)  # a pooler reads the first token
            elif any(checkpoint.config.reads_pooler(head) for head in new_heads):
                fields.setdefault("pooler", True)  # masked language models have none
            encoder = BertEncoder.from_preset(opened, **fields, **({} if dtype is None else {"dtype": dtype}))
            preprocessor = cls._read_preprocessor(preset, encoder, rows)
            with _name_file_in_errors(preset.source, () if user_settings else preset.settings):
                model = cls(encoder, preprocessor, **arguments)
            model._load_heads(preset)
            model._load_own_files(preset)
            model._warn_about_heads(preset)
            model._load_ranges(opened.directory)
        if precision != "float32":
            model.set_precision(precision)
        return model

    @classmethod
    def _arguments(cls, preset: TaskPreset, user_settings: Settings) -> Settings:
        """Merges the constructor's arguments, without encoder and preprocessor: the user's replace the preset's."""
        return {**preset.settings, **user_settings}

    @classmethod
    def _heads(cls, arguments: Settings) -> tuple[str, ...]:
        """Lists the names of the heads that a model made with these arguments has."""
        return () if cls.HEAD is None else (cls.HEAD,)

    @classmethod
    def _read_preprocessor(cls, preset: TaskPreset, encoder: BertEncoder, rows: RowSettings) -> BertPreprocessor | None:
        return preset.load_preprocessor(encoder.config.max_positions, rows)

    def _load_heads(self, preset: TaskPreset) -> None:
        """Loads the heads of a preset."""
        checkpoint = preset.files.checkpoint
        for name, head in self.heads.items():
            if name in checkpoint.heads and self._loads_head(preset):
                load_weights(head, checkpoint, name)

    def _load_own_files(self, preset: TaskPreset) -> None:
        """Loads weights from the files that only this task has."""

    def _warn_about_heads(self, preset: TaskPreset) -> None:
        """Warns of trained parts of a preset that this model does not use, and of a head that the preset lacks."""
        kind = type(self).__name__
        if unused := [part for name, part in preset.trained_parts.items() if name not in (*self.heads, *self.PARTS)]:
            message = f"{preset.files.directory} has a trained {' and a '.join(unused)}, which a {kind} does not use"
            warnings.warn(message, stacklevel=3)
        has_labels = getattr(self, "labels", None) is not None  # whoever names labels asks for a new head
        if self.HEAD is None or preset.has_head or has_labels:
            return
        message = (
            f"{preset.files.directory} has no head of a {kind}: a new one is randomly initialized, and must be trained"
        )
        if preset.is_to_start_from:
            self._untrained = message
        else:
            warnings.warn(message, UntrainedWarning, stacklevel=3)

    def _warn_if_untrained(self) -> None:
        """Warns once, before the first answer, if the head is new, was not asked for and has not been trained."""
        message, self._untrained = self._untrained, None
        if message and not np.any(self.head.logits.bias):  # training leaves no bias at exactly 0
            warnings.warn(message, UntrainedWarning, stacklevel=3)

    def _loads_head(self, preset: TaskPreset) -> bool:
        """Checks whether to load the heads of a preset."""
        return True

    def settings(self) -> Settings:
        """Returns the constructor's arguments except `encoder` and `preprocessor`, as JSON values."""
        return {}

    def hugging_face_settings(self) -> dict[str, object]:
        """Returns entries for Hugging Face's `config.json`, such as the labels, under the names of `transformers`."""
        return {}

    def save_preset(self, directory: str | Path, overwrite: bool = False) -> None:
        """Writes weights, settings, the tokenizer's files, and the int8 ranges if they belong to these weights.

        `from_preset` and `transformers` read the directory; sentence-transformers reads sentence encoders and
        rerankers.

        Args:
            directory: created if missing; files in it that belong to no model stay.
            overwrite: whether to replace a model. All its files are removed, even those that this model does not have.

        Raises:
            FileExistsError: there are files of a model and `overwrite` is False.
        """
        directory = Path(directory)
        tokenizer = () if self.preprocessor is None else model_files.TOKENIZER
        existing = model_files.present(directory, (*model_files.MODEL, *tokenizer, *model_files.SETTINGS))
        files.refuse_to_overwrite(directory, existing, overwrite)
        entries = {**self.hugging_face_settings(), **_config_entries(self)}
        options = {"settings": entries, "kept": self._own_files, "note": self.card_note}
        formats.write(directory, self.encoder.config, self.parts(), overwrite=overwrite, **options)
        if self.preprocessor is not None:
            self.preprocessor.save_preset(directory, overwrite)
        self._save_ranges(directory)
        self._save_own_files(directory, overwrite)

    def save_settings(self, directory: str | Path) -> None:
        """Writes the files of `save_preset` without the encoder's weights and the tokenizer's files."""
        values = hugging_face.model_values(self.encoder.config, self.heads)
        values |= {**self.hugging_face_settings(), **_config_entries(self)}
        files.write_texts(directory, {hugging_face.CONFIG: files.to_json(values)})
        self._save_own_files(Path(directory), overwrite=True)

    @property
    def card_note(self) -> str:
        """A paragraph for the model card on what `transformers` does not compute; empty if it computes everything."""
        return ""

    @property
    def _own_files(self) -> tuple[str, ...]:
        """The names of this model's files in a preset, besides weights, configuration and tokenizer."""
        return (*self.FILES, *([] if self._current_ranges is None else [int8_ranges.FILE]))

    def _save_own_files(self, directory: Path, overwrite: bool) -> None:
        """Writes the files that only this task has."""

    def save_checkpoint(self, directory: str | Path, format: str, overwrite: bool = False) -> None:
        """Writes a checkpoint for another program, without labels; see `BertEncoder.save_checkpoint`."""
        formats.write(directory, self.encoder.config, self.parts(), format, overwrite)

    def parts(self) -> dict[str, dict[str, np.ndarray]]:
        """Collects the weights of encoder and heads, by part and name, as `formats.write` takes them."""
        heads = {name: values_by_name(head) for name, head in self.heads.items()}
        return {"encoder": values_by_name(self.encoder), **heads}

    def get_config(self) -> Settings:
        return {
            **super().get_config(),
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "preprocessor": keras.saving.serialize_keras_object(self.preprocessor),
            **self.settings(),
        }

    @classmethod
    def from_config(cls: type[T], config: Settings, custom_objects: object = None) -> T:
        parts = {name: keras.saving.deserialize_keras_object(config[name]) for name in ("encoder", "preprocessor")}
        return cls(**{**config, **parts})


def _default_labels(size: int) -> list[str]:
    return [f"LABEL_{i}" for i in range(size)]


def _abbreviate(labels: list[str]) -> str:
    return ", ".join(labels[:4]) + (", ..." if len(labels) > 4 else "")


def _split_arguments(task: type[Storable], user_settings: Settings) -> tuple[Settings, Settings]:
    """Splits the arguments of `from_preset` into fields of `BertConfig` and arguments of the task.

    A name that both have, such as `pooling`, is the task's.

    Raises:
        TypeError: there is no such argument.
    """
    argument_names = _argument_names(task)
    if unknown := [name for name in user_settings if name not in {*argument_names, *_CONFIG_FIELDS, "name"}]:
        if "num_labels" in unknown and "labels" in argument_names:
            raise TypeError(f"{task.__name__}.from_preset takes the labels' names, not num_labels: labels=[...]")
        raise TypeError(
            f"{task.__name__}.from_preset has no argument {', '.join(unknown)}; it takes sequence_length, long_text, "
            f"stride, special_tokens_in_text, dtype, {', '.join(argument_names)}, and the fields of BertConfig"
        )
    fields = {
        name: value for name, value in user_settings.items() if name in _CONFIG_FIELDS and name not in argument_names
    }
    return fields, {name: value for name, value in user_settings.items() if name not in fields}


def _argument_names(task: type[Storable]) -> list[str]:
    return [name for name in inspect.signature(task.__init__).parameters if name not in _NOT_SETTINGS]


def _setting_types(task: type[Storable]) -> dict[str, tuple[type | None, ...]]:
    """Reads the types of the settings that `_config_entries` writes from annotations, for `files.check_json`."""
    parameters = inspect.signature(task.__init__).parameters
    shape = {}
    for name in _argument_names(task):
        if name not in task.SETTINGS_IN_OTHER_FILES or name == "truncate_dim":  # which `config.json` had once
            kinds = re.findall(r"\w+", re.sub(r"\[.*\]", "", str(parameters[name].annotation)))
            shape[name] = tuple(_JSON_TYPES[kind] for kind in kinds)
    return shape


@contextlib.contextmanager
def _name_file_in_errors(path: Path, values: Collection[str]) -> Iterator[None]:
    """Adds the path of a file to errors about the values read from it.

    Args:
        path: the file.
        values: the names of the values from it; if there are none, errors stay as they are.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        if not values or str(path.parent) in str(error):
            raise
        raise ValueError(f"{path}, of {', '.join(values)}: {error}") from error


def _long_text_settings(long_text: str | None, stride: int | None, longest: int, saved: Settings) -> Settings:
    """Converts the choice of `from_preset` to the preprocessor's `truncation` and `stride`.

    Args:
        long_text, stride: see `from_preset`.
        longest: the length of a row in tokens.
        saved: the saved arguments of the preprocessor, whose rule for pairs stays; None: the rule of the format.

    Raises:
        ValueError: there is a stride without windows, or no such choice.
    """
    if stride is not None and long_text != "windows":
        raise ValueError(f"stride is {stride}, but only windows have a stride: pass long_text='windows'")
    rule = saved.get("truncation")
    truncation = rule if rule in ("longest_first", "odd_to_longer") else None
    choices = {
        None: {},
        "truncate": {"truncation": truncation, "stride": None},
        "head_tail": {"truncation": "head_tail", "stride": None},
        "windows": {"truncation": truncation, "stride": stride or longest // 2},
    }
    if long_text not in choices:
        raise ValueError(f"long_text is {long_text!r}; expected truncate, head_tail or windows")
    return choices[long_text]


def _config_entries(model: Storable) -> dict[str, object]:
    """Returns a model's entries in `config.json`, which `TaskPreset.read` reads."""
    settings = {name: value for name, value in model.settings().items() if name not in model.SETTINGS_IN_OTHER_FILES}
    preprocessor = {}
    if model.preprocessor is not None:
        preprocessor = {name: getattr(model.preprocessor, name) for name in _SAVED}
        if model.preprocessor.tokenizer.special_tokens_in_text and not model.READS_SPECIAL_TOKENS:
            preprocessor["special_tokens_in_text"] = True
    return {_SETTINGS: {"task": type(model).__name__, "model": settings, "preprocessor": preprocessor}}
