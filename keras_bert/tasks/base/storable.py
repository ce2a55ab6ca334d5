"""Storable: reads and writes a task's files, which include its head, labels and settings."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar, cast

import keras
import numpy as np

from keras_bert import files, formats
from keras_bert.answers.answerer import Setting
from keras_bert.choices import LONG_TEXTS
from keras_bert.config import BertConfig
from keras_bert.counted import counted, either
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.frozen import FreezesLayers, freeze, frozen_layers
from keras_bert.encoder.weights import load_weights, values_by_name
from keras_bert.formats import Preset, hugging_face, model_files
from keras_bert.formats.hugging_face import default_labels
from keras_bert.formats.libraries import modules
from keras_bert.formats.saved import CRF, Saved, has_task, own_settings, read, write
from keras_bert.head_table import HEADS
from keras_bert.inference import ranges as int8_ranges
from keras_bert.tasks.base.low_precision import SetsPrecision, ranges_of_weights
from keras_bert.text import BertPreprocessor
from keras_bert.text.preprocessor import load_tokenizer

# Attributes of a preprocessor that presets hold.
_ROWS = ("sequence_length", "truncation", "stride", "max_sequence_length")
_CONFIG_FIELDS = frozenset(field.name for field in dataclasses.fields(BertConfig))


Settings: TypeAlias = "dict[str, Any]"  # arguments of a constructor, as JSON values


class Part(NamedTuple):
    """Weights besides those of the encoder and the heads: a part of `formats.Saved`."""

    name: str
    weights: Callable[[Any], list[keras.Variable] | None]  # of a model; None: it has no such part
    must_be_equal: str | None = None  # the setting that must be the saved one; None: the head must fit
    is_in_graph: bool = True  # whether the graph of an export computes with it; else the export holds it beside


class UntrainedWarning(UserWarning):
    """A warning that a model has a new, randomly initialized head that the user did not ask for; it must be trained."""


class RowSettings(NamedTuple):
    """The arguments of `from_preset` that decide how texts become rows; None: the saved value or the default."""

    sequence_length: int | None = None
    long_text: str | None = None
    stride: int | None = None
    special_tokens_in_text: bool | None = None


T = TypeVar("T", bound="Storable")


class Storable(SetsPrecision, FreezesLayers):
    """A model with an encoder that reads and writes presets, checkpoints for other programs, and Keras's configuration.

    What its files hold is data: the attributes of the class, and the value `formats.saved.Saved`.
    """

    HEAD: ClassVar[str | None] = None  # the head of the task: a key of the family's heads
    HEADS: ClassVar[tuple[tuple[str, str | None], ...]] = ()  # of a task with several: head, the setting that adds it
    REQUIRED_HEAD: ClassVar[str] = ""  # of a task that cannot start with a new head: what an error calls it
    SETTINGS: ClassVar[tuple[Setting, ...]] = ()  # the arguments of the class besides encoder and preprocessor
    PARTS: ClassVar[tuple[Part, ...]] = ()  # its weights besides the encoder's and the heads'
    LIBRARY: ClassVar[str | None] = None  # the class of sentence-transformers that reads its files
    READS_SPECIAL_TOKENS: ClassVar[bool] = False  # whether it always recognizes special tokens in texts
    # The default length of a row, of a task that must have one; of a model with fewer positions, their number.
    ROW_LENGTH: ClassVar[int | None] = None
    # The most tokens in a row and the stride, by default, of a task that always reads windows.
    WINDOWS: ClassVar[tuple[int, int] | None] = None

    head: keras.Layer  # of a task with a `HEAD`

    _untrained: str | None = None  # a warning for the first answer, see `warn_if_untrained`

    @property
    def heads(self) -> dict[str, keras.Layer]:
        """The heads by name, as in checkpoints."""
        return {} if self.HEAD is None else {self.HEAD: self.head}

    @classmethod
    def is_in(cls, preset: Preset) -> bool:
        """Checks whether a preset has the head of this task."""
        return has_task(preset, cls.__name__, cls.HEAD, cls.LIBRARY)

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
        make = cast("Callable[..., T]", cls)  # Keras says nothing of its arguments
        with Preset.open(handle, fields.get("activation")) as preset:
            checkpoint = preset.checkpoint
            saved = read(preset, cls.__name__, cls.HEAD, _types(cls), cls.LIBRARY)
            arguments = _arguments(cls, preset, saved, user_settings)
            heads = cls.HEADS or (() if cls.HEAD is None else ((cls.HEAD, None),))
            for name, setting in heads:
                if setting is not None:
                    arguments.setdefault(setting, name in checkpoint.heads)
            new_heads = {name for name, each in heads if each is None or arguments[each]} - checkpoint.heads
            if fields.get("pooling", "first") != "first":
                fields.setdefault("pooler", False)  # a pooler reads the first token
            elif any(checkpoint.config.reads_pooler(head) for head in new_heads):
                fields.setdefault("pooler", True)  # masked language models have none
            encoder = BertEncoder.from_preset(preset, **fields, **({} if dtype is None else {"dtype": dtype}))
            preprocessor = _load_preprocessor(cls, preset, saved, encoder.config, rows)
            with _name_file_in_errors(preset.directory / hugging_face.CONFIG, () if user_settings else saved.own):
                model = make(encoder, preprocessor, **arguments)
            _load_weights(model, preset, saved)
            _warn_about_heads(model, preset, saved)
            model._ranges = int8_ranges.read_ranges(preset.directory)
            if model._ranges is not None and ranges_of_weights(model._ranges, model.encoder) is None:
                path = preset.directory / model_files.INT8_RANGES
                warnings.warn(f"{path} belongs to other weights, and is not used; calibrate again", stacklevel=2)
        if precision != "float32":
            model.set_precision(precision)
        return model

    def settings(self) -> Settings:
        """Returns the constructor's arguments except `encoder` and `preprocessor`, as JSON values."""
        settings = {}
        for setting in self.SETTINGS:
            value = getattr(self, setting.name) if setting.value is None else setting.value(self)
            if value is not False or not setting.is_left_out:
                settings[setting.name] = _plain(value)
        return settings

    def saved(self) -> Saved:
        """Makes the value that presets hold."""
        ranges = ranges_of_weights(self._ranges, self.encoder)
        weights = _parts(self)
        for part in self.PARTS:
            weights[part.name] = {each.name: keras.ops.convert_to_numpy(each) for each in part.weights(self) or []}
        return dataclasses.replace(
            self.saved_settings(),
            weights={name: each for name, each in weights.items() if each},
            extra={} if ranges is None else {model_files.INT8_RANGES: int8_ranges.to_arrays(ranges)},
        )

    def saved_settings(self) -> Saved:
        """Makes `saved()` without weights."""
        settings, rows = self.settings(), {}
        if self.preprocessor is not None:
            rows = {name: getattr(self.preprocessor, name) for name in _ROWS}
            if self.preprocessor.tokenizer.special_tokens_in_text and not self.READS_SPECIAL_TOKENS:
                rows["special_tokens_in_text"] = True
        return Saved(
            self.encoder.config,
            {},
            type(self).__name__,
            self.LIBRARY,
            settings,
            settings.get("labels"),
            preprocessor=rows,
            max_length=None if self.preprocessor is None else self.preprocessor.longest,
            tokenizer=self.preprocessor,
        )

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
        write(directory, self.saved(), overwrite)

    def save_checkpoint(self, directory: str | Path, format: str, overwrite: bool = False) -> None:
        """Writes a checkpoint for another program, without labels; see `BertEncoder.save_checkpoint`."""
        formats.write(directory, self.encoder.config, _parts(self), format, overwrite)

    def get_config(self) -> Settings:
        return {
            **super().get_config(),
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "preprocessor": keras.saving.serialize_keras_object(self.preprocessor),
            **self.settings(),
            **frozen_layers(self),
        }

    @classmethod
    def from_config(cls: type[T], config: Settings, custom_objects: object = None) -> T:
        parts = {name: keras.saving.deserialize_keras_object(config[name]) for name in ("encoder", "preprocessor")}
        arguments = {**config, **parts}
        frozen = arguments.pop("frozen", None)
        return freeze(cls(**arguments), frozen)


def _plain(value: Any) -> Any:
    """Copies what Keras tracks in subclasses of dict and list."""
    return dict(value) if isinstance(value, dict) else list(value) if isinstance(value, list) else value


def _parts(model: Storable) -> dict[str, dict[str, np.ndarray]]:
    """Collects the weights of encoder and heads, by part and name."""
    return {
        "encoder": values_by_name(model.encoder),
        **{name: values_by_name(each) for name, each in model.heads.items()},
    }


def read_own_settings(task: type[Storable], preset: Preset) -> Settings:
    """Reads the settings that this task wrote into `config.json`; empty if another task did."""
    return own_settings(preset, task.__name__, _types(task))[0]


def _types(task: type[Storable]) -> dict[str, files.JsonShape]:
    return {setting.name: setting.types for setting in task.SETTINGS}


def _arguments(task: type[Storable], preset: Preset, saved: Saved, user_settings: Settings) -> Settings:
    """Merges the constructor's arguments: the user's replace the saved ones."""
    if task.REQUIRED_HEAD and task.HEAD not in saved.weights:
        raise ValueError(f"{preset.handle} has no {task.REQUIRED_HEAD}")
    arguments = {**saved.settings, **user_settings}
    source = preset.directory / hugging_face.CONFIG
    if "crf" in saved.weights and "crf" not in arguments:
        raise ValueError(
            f"{preset.directory / CRF} holds the transitions of a CRF, but {source} has no "
            f"{hugging_face.SETTINGS}.model.crf: another program replaced it. Copy the old one back; or pass crf, "
            "a scheme such as 'BIO' or True, or False to leave the CRF out"
        )
    if "labels" not in _types(task) or "labels" in arguments:
        return arguments
    if _types(task)["labels"] is not list:  # it may have one score in place of labels
        labels = saved.labels or default_labels(2)
        return {**arguments, "labels": labels} if saved.head_size == 2 else arguments
    if saved.labels is None:
        problem = f"no names for its {counted(saved.head_size, 'label')}" if saved.head_size else "no head of this task"
        raise ValueError(f"{preset.directory} has {problem}; give the names of your labels: labels=[...]")
    return {**arguments, "labels": saved.labels}


def _load_preprocessor(
    task: type[Storable], preset: Preset, saved: Saved, config: BertConfig, rows: RowSettings
) -> BertPreprocessor | None:
    """Loads the preprocessor. Its arguments are those of `from_preset`, then the saved ones, then the task's."""
    settings, positions, arguments = saved.preprocessor, config.max_positions, {}
    if task.WINDOWS is not None:
        return _load_windows(task.WINDOWS, preset, settings, positions, rows)
    if task.READS_SPECIAL_TOKENS:
        if rows.special_tokens_in_text is False:
            raise ValueError("special_tokens_in_text is False, but masks in texts are special tokens; leave it out")
        if keras.backend.backend() != "tensorflow":
            return None
        try:
            tokenizer = load_tokenizer(preset, special_tokens_in_text=True)
            config.check_vocabulary(tokenizer.vocabulary_size, tokenizer.is_whole)
        except FileNotFoundError:
            return None
        except ValueError as error:
            warnings.warn(f"this model takes packed inputs only, because of its tokenizer: {error}", stacklevel=3)
            return None
        arguments = {"tokenizer": tokenizer, "max_sequence_length": positions}
    if task.LIBRARY is not None:
        longer = int(rows.sequence_length) if isinstance(rows.sequence_length, Integral) else 0  # than the file says
        arguments["max_sequence_length"] = min(max(saved.max_length or positions, longer), positions)
    settings = {"sequence_length": None, **settings, **arguments}
    if rows.sequence_length is not None:
        settings["sequence_length"] = rows.sequence_length
    if task.ROW_LENGTH is not None:
        settings["sequence_length"] = settings["sequence_length"] or min(task.ROW_LENGTH, positions)
    if rows.special_tokens_in_text is not None:
        settings["special_tokens_in_text"] = rows.special_tokens_in_text
    settings |= _long_text_settings(rows.long_text, rows.stride, settings["sequence_length"] or positions, settings)
    longest, source = saved.preprocessor.get("max_sequence_length"), preset.directory / hugging_face.CONFIG
    if longest is not None and longest > positions:
        if settings["sequence_length"] is None:
            raise ValueError(
                f"{source}: {hugging_face.SETTINGS}.preprocessor.max_sequence_length is {longest}, but this model has "
                f"{positions} positions"
            )
        settings["max_sequence_length"] = positions  # without effect: rows have the fixed `sequence_length`
    own = [name for name, value in saved.preprocessor.items() if settings.get(name) == value]
    with _name_file_in_errors(source, own):
        return BertPreprocessor.from_preset(preset, **settings)


def _load_windows(
    defaults: tuple[int, int], preset: Preset, settings: Mapping[str, Any], positions: int, rows: RowSettings
) -> BertPreprocessor:
    """Loads a preprocessor that makes windows, padded to the longest row of their batch."""
    if rows.long_text not in (None, "windows"):
        raise ValueError(f"long_text is {rows.long_text!r}; contexts are always read in windows")
    special = rows.special_tokens_in_text
    reads_special = {"special_tokens_in_text": settings.get("special_tokens_in_text") if special is None else special}
    if settings and rows == RowSettings(special_tokens_in_text=special):
        return BertPreprocessor.from_preset(preset, **{**settings, **reads_special})
    saved_length = settings.get("sequence_length") or settings.get("max_sequence_length")
    length = (saved_length or min(defaults[0], positions)) if rows.sequence_length is None else rows.sequence_length
    if length > positions:
        raise ValueError(f"sequence_length is {length}, but this model has {positions} positions")
    stride = (settings.get("stride") or defaults[1]) if rows.stride is None else rows.stride
    return BertPreprocessor.from_preset(
        preset, sequence_length=None, max_sequence_length=length, stride=stride, **reads_special
    )


def _load_weights(model: Storable, preset: Preset, saved: Saved) -> None:
    """Loads the heads and the model's other parts, if they fit its labels and settings."""
    fits = False
    for name, head in model.heads.items():
        if name in saved.weights:
            fits = "labels" not in _types(type(model)) or _head_fits(preset, saved, model.labels)
            if fits:
                load_weights(head, preset.checkpoint, name)
    for part in model.PARTS:
        if part.must_be_equal is not None:
            ours, theirs = (each.get(part.must_be_equal) for each in (model.settings(), saved.settings))
            fits = ours == theirs
            if ours and theirs and not fits:
                warnings.warn(
                    f"{preset.directory} has a trained {part.name} layer, {theirs}; for {ours} a new one is drawn at "
                    f"random, and must be trained. To use the trained one, leave {part.must_be_equal} out",
                    stacklevel=3,
                )
        variables = part.weights(model)
        if variables and fits and part.name in saved.weights:
            values = saved.read(part.name, {each.name: tuple(each.shape) for each in variables})
            for each in variables:
                each.assign(values[each.name])


def _head_fits(preset: Preset, saved: Saved, labels: list[str] | None) -> bool:
    """Checks whether the head has these labels, or as many without names (LABEL_0, ...); warns if not."""
    count = 1 if labels is None else len(labels)
    has_names = labels is not None and saved.labels not in (None, default_labels(saved.head_size))
    is_same = labels is not None and saved.labels == labels
    if is_same or (count == saved.head_size and not has_names):
        return True
    saved_names = _abbreviate(saved.labels or default_labels(saved.head_size))
    new_names = "one score" if labels is None else _abbreviate(labels)
    advice = "leave labels out, or give its names in its order" if labels else "load it as a BertClassifier"
    warnings.warn(
        f"{preset.directory} has a trained head for {saved_names}; for {new_names} a new one is randomly "
        f"initialized, and must be trained. To use the trained one, {advice}",
        stacklevel=4,  # where from_preset was called
    )
    return False


def _warn_about_heads(model: Storable, preset: Preset, saved: Saved) -> None:
    """Warns of trained parts of a preset that this model does not use, and of a head that the preset lacks."""
    kind, own = type(model).__name__, [part.name for part in model.PARTS]
    trained = {name: f"head for {each.learns}" for name, each in HEADS.items() if each.learns and name in saved.weights}
    if modules.has_dense(preset):
        trained["dense"] = "Dense layer of a sentence encoder"
    if unused := [part for name, part in trained.items() if name not in (*model.heads, *own)]:
        message = f"{preset.directory} has a trained {' and a '.join(unused)}, which a {kind} does not use"
        warnings.warn(message, stacklevel=3)
    has_labels = getattr(model, "labels", None) is not None  # whoever names labels asks for a new head
    if model.HEAD is None or model.HEAD in saved.weights or has_labels:
        return
    message = f"{preset.directory} has no head of a {kind}: a new one is randomly initialized, and must be trained"
    if trained or (preset.home / modules.MODULES).is_file():
        warnings.warn(message, UntrainedWarning, stacklevel=3)
    else:  # the preset is only pre-trained: it is there to start from
        model._untrained = message


def _abbreviate(labels: list[str]) -> str:
    return ", ".join(labels[:4]) + (", ..." if len(labels) > 4 else "")


def _split_arguments(task: type[Storable], user_settings: Settings) -> tuple[Settings, Settings]:
    """Splits the arguments of `from_preset` into fields of `BertConfig` and, first of all, arguments of the task."""
    argument_names = [*_types(task)]
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


@contextlib.contextmanager
def _name_file_in_errors(path: Path, values: Collection[str]) -> Iterator[None]:
    """Adds the path of a file to errors about the values that were read from it."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if not values or str(path.parent) in str(error):
            raise
        raise ValueError(f"{path}, of {', '.join(values)}: {error}") from error


def _long_text_settings(long_text: str | None, stride: int | None, longest: int, saved: Settings) -> Settings:
    """Converts the choice of `from_preset` to `truncation` and `stride`. The saved rule for pairs stays."""
    if stride is not None and long_text != "windows":
        raise ValueError(f"stride is {stride}, but only windows have a stride: pass long_text='windows'")
    rule = saved.get("truncation")
    truncation = rule if rule in ("longest_first", "odd_to_longer") else None
    if long_text is None:
        return {}
    if long_text not in LONG_TEXTS:
        raise ValueError(f"long_text is {long_text!r}; expected {either(LONG_TEXTS)}")
    way = LONG_TEXTS[long_text]
    return {"truncation": way.truncation or truncation, "stride": stride or longest // 2 if way.has_windows else None}
