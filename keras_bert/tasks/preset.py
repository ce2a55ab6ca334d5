"""Reads and writes a task's part of a preset: the head, labels, settings, and how long texts are shortened."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from keras_bert import files, formats, presets
from keras_bert.config import BertConfig
from keras_bert.encoder import BertEncoder
from keras_bert.formats import hugging_face, sentence_transformers
from keras_bert.tasks.label_names import checked_labels
from keras_bert.text import BertPreprocessor

if TYPE_CHECKING:
    from keras_bert.tasks.task import BertTask

# The key of our settings in config.json: {"task": "BertClassifier", "preprocessor": {}, "model": {}}.
_SETTINGS = "keras_bert"
_OF_PREPROCESSOR = {
    "sequence_length": (int, None),
    "truncation": (str, None),
    "stride": (int, None),
    "max_sequence_length": (int, None),
}
_SHAPE = {
    "problem_type": (str, None),
    _SETTINGS: ({"task": (str, None), "preprocessor": (_OF_PREPROCESSOR, None), "model": (dict, None)}, None),
}
# Annotations of arguments -> types in JSON.
_JSON_TYPES = {
    **{kind.__name__: kind for kind in (bool, int, float, str)},
    "None": None,
    "Mapping": dict,
    "Sequence": list,
}
# Heads of fine-tuned models -> what they are for. Those of pre-training are in models to start from.
_FINE_TUNED = {"sequence": "texts", "tokens": "words", "spans": "answers to questions"}
_GIVEN = ("self", "encoder", "preprocessor", "kwargs")  # the arguments of a constructor that from_preset does not take
_FIELDS = frozenset(field.name for field in dataclasses.fields(BertConfig))


class UntrainedWarning(UserWarning):
    """A model has a new head, drawn at random, though nobody asked for one; it must be trained."""


class RowSettings(NamedTuple):
    """The arguments of `BertTask.from_preset` for the rows of a model."""

    sequence_length: int | None = None
    long_text: str | None = None
    stride: int | None = None


class TaskPreset(NamedTuple):
    """A task's part of a preset.

    Attributes:
        handle: as the caller gave it, for messages.
        directory: the preset's directory.
        hugging_face: Hugging Face's `config.json`; empty in other formats.
        family: the model's family.
        heads: the heads that the preset has weights for.
        has_head: whether the task's head is one of them.
        head_size: the number of labels of the head; 0 without a head or labels.
        settings: the model's settings, as `save_preset` wrote them; empty if it wrote another task.
        preprocessor: the preprocessor's arguments, in the same way.
    """

    handle: str
    directory: Path
    hugging_face: dict[str, Any]
    family: str
    heads: tuple[str, ...]
    has_head: bool
    head_size: int
    settings: dict[str, Any]
    preprocessor: dict[str, Any]

    @property
    def saved_labels(self) -> list[str] | None:
        """The names of the head's labels, in the order of the logits; None without a head or names."""
        if not self.has_head:
            return None
        return hugging_face.labels_of(self.hugging_face, self.directory / hugging_face.CONFIG)

    def labels(self, given: Sequence[str] | None) -> list[str]:
        """The given labels, or the head's.

        Raises:
            ValueError: there are none.
        """
        if given is None and self.saved_labels is None:
            found = f"no names for its {self.head_size} labels" if self.head_size else "no head of this task"
            raise ValueError(f"{self.directory} has {found}; give the names of your labels: labels=[...]")
        return self.saved_labels if given is None else checked_labels(given)

    def head_fits(self, labels: list[str] | None) -> bool:
        """Whether the head fits these labels: it has the same names, or no names and the same number.

        Without names, `transformers` writes LABEL_0, LABEL_1, ...

        Args:
            labels: the model's labels; None: it has a single output, a score.

        Warns:
            UserWarning: a trained head does not fit, and is left out, perhaps by mistake.
        """
        saved, count = self.saved_labels, 1 if labels is None else len(labels)
        has_names = labels is not None and saved not in (None, _unnamed(self.head_size))
        if saved == labels is not None or (count == self.head_size and not has_names):
            return True
        if self.has_head:
            theirs = _listed(saved or _unnamed(self.head_size))
            ours = "one score" if labels is None else _listed(labels)
            advice = "leave labels out, or give its names in its order" if labels else "load it as a BertClassifier"
            warnings.warn(
                f"{self.directory} has a trained head for {theirs}; for {ours} a new one is drawn at random, and must "
                f"be trained. To use the trained one, {advice}",
                stacklevel=5,  # where from_preset was called
            )
        return False

    @property
    def trained_parts(self) -> dict[str, str]:
        """The parts of a model for a task, apart from the encoder -> their names for messages."""
        parts = {name: f"head for {of}" for name, of in _FINE_TUNED.items() if name in self.heads}
        if sentence_transformers.has_dense(self.directory):
            parts["dense"] = "Dense layer of a sentence encoder"
        return parts

    @property
    def is_to_start_from(self) -> bool:
        """Whether the preset is a pre-trained model, not one for a task."""
        return not self.trained_parts and not (self.directory / sentence_transformers.MODULES).is_file()


def _unnamed(size: int) -> list[str]:
    return [f"LABEL_{i}" for i in range(size)]


def _listed(labels: list[str]) -> str:
    return ", ".join(labels[:4]) + (", ..." if len(labels) > 4 else "")


def split(task: type[BertTask], given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits the arguments of `from_preset` into fields of `BertConfig` and arguments of the task.

    A name that both have, such as `pooling`, is the task's.

    Raises:
        TypeError: there is no such argument.
    """
    known = _arguments_of(task)
    if unknown := [name for name in given if name not in {*known, *_FIELDS, "name"}]:
        raise TypeError(
            f"{task.__name__}.from_preset has no argument {', '.join(unknown)}; it takes sequence_length, long_text, "
            f"stride, dtype, {', '.join(known)}, and the fields of BertConfig"
        )
    fields = {name: value for name, value in given.items() if name in _FIELDS and name not in known}
    return fields, {name: value for name, value in given.items() if name not in fields}


def _arguments_of(task: type[BertTask]) -> list[str]:
    return [name for name in inspect.signature(task.__init__).parameters if name not in _GIVEN]


def _shape_of(task: type[BertTask]) -> dict[str, Any]:
    """The types of the settings that `entries` writes, for `files.check_json`."""
    parameters = inspect.signature(task.__init__).parameters
    shape = {}
    for name in _arguments_of(task):
        if name not in task.STATED_ELSEWHERE:
            kinds = re.findall(r"\w+", re.sub(r"\[.*\]", "", str(parameters[name].annotation)))
            shape[name] = tuple(_JSON_TYPES[kind] for kind in kinds)
    return shape


def read(handle: str | Path, task: type[BertTask]) -> TaskPreset:
    """Reads a task's part of a preset.

    Raises:
        FileNotFoundError: the directory lacks a file.
        ValueError: a file is damaged.
    """
    directory = presets.resolve(handle)
    with formats.open_checkpoint(directory) as checkpoint:
        heads = tuple(checkpoint.heads)
        has_head = task.HEAD in heads
        shapes = checkpoint.shapes(task.HEAD) if has_head else {}
        is_hugging_faces = checkpoint.format == "hugging_face"
        family = checkpoint.config.family
    (head_size,) = shapes.get("logits/bias", (0,))
    config = files.read_json(directory / hugging_face.CONFIG, _SHAPE) if is_hugging_faces else {}
    saved = config.get(_SETTINGS) or {}
    if saved.get("task") != task.__name__:
        saved = {}
    settings, preprocessor = (saved.get(name) or {} for name in ("model", "preprocessor"))
    known = {"model": _shape_of(task), "preprocessor": _OF_PREPROCESSOR}
    for part, values in (("model", settings), ("preprocessor", preprocessor)):
        source = f"{directory / hugging_face.CONFIG}: {_SETTINGS}.{part}"
        if unknown := [name for name in values if name not in known[part]]:
            raise ValueError(
                f"{source} has {', '.join(unknown)}, which no {task.__name__} has; known are {', '.join(known[part])}. "
                "Was it saved by a later version?"
            )
        files.check_json(values, {name: known[part][name] for name in values}, source)
    return TaskPreset(str(handle), directory, config, family, heads, has_head, head_size, settings, preprocessor)


@contextlib.contextmanager
def errors_name(path: Path, values: Collection[str]) -> Iterator[None]:
    """Puts the path of a file into errors about the values that it gave; without values, it is not to blame."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if not values or str(path.parent) in str(error):
            raise
        raise ValueError(f"{path}, of {', '.join(values)}: {error}") from error


def preprocessor(found: TaskPreset, positions: int, rows: RowSettings, **arguments: Any) -> BertPreprocessor:
    """The preprocessor of a preset. The given settings replace the saved ones.

    Args:
        found: the preset.
        positions: the number of positions of the model.
        rows: the arguments of `from_preset`.
        **arguments: further arguments of `BertPreprocessor.from_preset`.

    Raises:
        FileNotFoundError: the preset has no tokenizer.
        ValueError: an argument is bad.
    """
    text = {"sequence_length": None, **found.preprocessor, **arguments}
    if rows.sequence_length is not None:
        text["sequence_length"] = rows.sequence_length
    text |= _long_text(rows.long_text, rows.stride, text["sequence_length"] or positions)
    longest = found.preprocessor.get("max_sequence_length")
    if longest is not None and longest > positions:
        if text["sequence_length"] is None:
            raise ValueError(
                f"{found.directory / hugging_face.CONFIG}: {_SETTINGS}.preprocessor.max_sequence_length is {longest}, "
                f"but this model has {positions} positions"
            )
        text["max_sequence_length"] = positions  # all rows have the same length, whatever the most was
    stated = [name for name, value in found.preprocessor.items() if text.get(name) == value]
    with errors_name(found.directory / hugging_face.CONFIG, stated):
        return BertPreprocessor.from_preset(found.directory, **text)


def preprocessor_up_to(
    stated: int | None, found: TaskPreset, encoder: BertEncoder, rows: RowSettings
) -> BertPreprocessor:
    """The preprocessor of a preset; it cuts texts at the `stated` length, and at the model's positions."""
    positions = encoder.config.max_positions
    return preprocessor(found, positions, rows, max_sequence_length=min(stated or positions, positions))


def _long_text(long_text: str | None, stride: int | None, longest: int) -> dict[str, Any]:
    """The preprocessor's arguments."""
    if stride is not None and long_text != "windows":
        raise ValueError(f"stride is {stride}, but only windows have a stride: pass long_text='windows'")
    choices = {
        None: {},
        "truncate": {"truncation": "longest_first", "stride": None},
        "head_tail": {"truncation": "head_tail", "stride": None},
        "windows": {"truncation": "longest_first", "stride": stride or longest // 2},
    }
    if long_text not in choices:
        raise ValueError(f"long_text is {long_text!r}; expected truncate, head_tail or windows")
    return choices[long_text]


def entries(model: BertTask) -> dict[str, Any]:
    """A model's entries in `config.json`, which `read` reads."""
    settings = {name: value for name, value in model.settings().items() if name not in model.STATED_ELSEWHERE}
    of_text = model.preprocessor and {name: getattr(model.preprocessor, name) for name in _OF_PREPROCESSOR}
    return {_SETTINGS: {"task": type(model).__name__, "model": settings, "preprocessor": of_text or {}}}
