"""Saved: a task's model as a value, between its files and the model. `read` and `write` are the only ways there."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from keras_bert import files
from keras_bert.checkpoint_table import CHECKPOINT_FORMATS
from keras_bert.choices import ENCODER_POOLINGS
from keras_bert.config import BertConfig
from keras_bert.formats import hugging_face, model_card, model_files
from keras_bert.formats.libraries import cross_encoder, multi_vector, sentence_transformers, sparse_encoder
from keras_bert.formats.libraries.modules import MODULES
from keras_bert.formats.model_files import CRF, PARTS
from keras_bert.formats.preset import Preset
from keras_bert.formats.row_translator import table_of
from keras_bert.formats.weight_files import read_checked, write_checked
from keras_bert.head_table import HEADS
from keras_bert.presets import PresetFiles, resolve
from keras_bert.shapes import Shape
from keras_bert.task_table import OF_HEAD, TASKS

_OWN_FILES = ("dense", "crf", "query_weights")  # parts whose weights are in files of their own
# The arguments of a preprocessor in config.json. The last one is written only if it is True.
_PREPROCESSOR: dict[str, files.JsonShape] = {
    "sequence_length": (int, None),
    "truncation": (str, None),
    "stride": (int, None),
    "max_sequence_length": (int, None),
    "special_tokens_in_text": (bool, None),
}
_OWN = {"task": (str, None), "preprocessor": (_PREPROCESSOR, None), "model": (dict, None)}
CONFIG: dict[str, files.JsonShape] = {"problem_type": (str, None), hugging_face.SETTINGS: (_OWN, None)}


class TokenizerWriter(Protocol):
    def save_preset(self, directory: str | Path, overwrite: bool = False) -> None: ...


class Library(Protocol):
    """A module of `libraries/` with the files of a class of sentence-transformers."""

    Settings: Any  # what they hold, a NamedTuple

    def read(self, preset: PresetFiles) -> Any: ...  # Settings

    def write(
        self, directory: Path, settings: Any, config: BertConfig, weights: Mapping[str, np.ndarray], tokenizer: Any
    ) -> list[str]: ...  # names of the files, or patterns of them


# By the class of sentence-transformers that reads the files, in the order in which files are asked for it.
LIBRARIES: dict[str, Library] = {
    "MultiVectorEncoder": multi_vector,
    "CrossEncoder": cross_encoder,
    "SparseEncoder": sparse_encoder,
    "SentenceTransformer": sentence_transformers,
}
# Of those with layers after the encoder: what reads their weights.
_READ_WEIGHTS = {name: vars(each)["read_weights"] for name, each in LIBRARIES.items() if hasattr(each, "read_weights")}
_CRF_NOTE = f"""\
A conditional random field follows the head: its scores of transitions are in `{CRF}`, which only `keras_bert`
reads. `transformers` gives the emissions, the logits of each token: the best label of a word by itself is not always
the answer of this model.
"""
_POOLING_NOTE = """\
The head reads the mean of all tokens{scaled}, not the first token, and only `keras_bert` computes it. `transformers`
reads the encoder; the head's weights have names of their own, `{pooling}_pooled.*`.
"""

# Name -> values; or what reads them, and raises ValueError if they have not the shapes that it gets.
Weights: TypeAlias = "Mapping[str, np.ndarray] | Callable[[Mapping[str, Shape]], Mapping[str, np.ndarray]]"


@dataclass(frozen=True)
class Saved:
    """A task's model as its files hold it."""

    config: BertConfig
    weights: Mapping[str, Weights]  # of "encoder", the heads, and "dense", "crf" or "query_weights"
    task: str  # the name of its class
    library: str | None = None  # the class of sentence-transformers that reads it, a key of `LIBRARIES`
    settings: Mapping[str, Any] = field(default_factory=dict)  # arguments of the class, as JSON values
    labels: list[str] | None = None  # in the order of the logits
    head_size: int = 0  # the number of logits of the task's head; 0 without one
    preprocessor: Mapping[str, Any] = field(default_factory=dict)  # its arguments
    max_length: int | None = None  # of a row in tokens, as the library's files say
    tokenizer: TokenizerWriter | None = None
    extra: Mapping[str, tuple[Mapping[str, np.ndarray], Mapping[str, str]]] = field(
        default_factory=dict
    )  # name -> file
    own: Collection[str] = ()  # the settings that were in this package's section of `config.json`

    def read(self, part: str, shapes: Mapping[str, Shape]) -> Mapping[str, np.ndarray]:
        """Reads a part's weights, of these shapes."""
        weights = self.weights[part]
        return weights(shapes) if callable(weights) else weights


def read(
    preset: Preset, task: str, head: str | None, types: Mapping[str, files.JsonShape], library: str | None
) -> Saved:
    """Reads a model of the class `task`, whose settings have these `types`; those of another task's model stay out."""
    checkpoint = preset.checkpoint
    weights: dict[str, Weights] = {
        part: functools.partial(checkpoint.read, part) for part in ("encoder", *sorted(checkpoint.heads))
    }
    (head_size,) = (checkpoint.shapes(head) if head in checkpoint.heads else {}).get("logits/bias", (0,))
    values = _entries_of(preset)
    settings, preprocessor = own_settings(preset, task, types, values)
    own, labels, max_length = [*settings], None, None
    if head in checkpoint.heads:
        labels, settings = _labels_and_settings(preset, types, values, settings)
    if library is not None:
        theirs = preset.once(LIBRARIES[library].read)
        max_length = theirs.max_length
        if getattr(theirs, "is_declared", True):
            settings |= _in_types(theirs, types)
            if library == "CrossEncoder" and head_size > 2:
                raise ValueError(
                    f"{preset.handle} has {head_size} outputs for a pair, not one score; load it as a BertClassifier"
                )
        if settings.get("dense"):
            weights["dense"] = functools.partial(_read_dense, preset, library)
    if settings.get("query_table"):
        weights["query_weights"] = lambda shapes: {
            name: sparse_encoder.read_query_weights(preset, size) for name, (size,) in shapes.items()
        }
    if "crf" in types and (settings.get("crf") or (preset.directory / CRF).is_file()):
        weights["crf"] = functools.partial(_read_crf, preset, head_size)
    return Saved(
        checkpoint.config, weights, task, library, settings, labels, head_size, preprocessor, max_length, own=own
    )


def _labels_and_settings(
    preset: Preset, types: Collection[str], values: Mapping[str, Any], settings: dict[str, Any]
) -> tuple[list[str] | None, dict[str, Any]]:
    """Reads the labels of a task that has some, and adds what they are to its settings."""
    if "labels" not in types:
        return None, settings
    if "problem_type" in types and values.get("problem_type"):
        settings = {"problem_type": values["problem_type"], **settings}
    return hugging_face.labels_of(values, preset.directory / hugging_face.CONFIG), settings


def _in_types(theirs: Any, types: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in theirs._asdict().items() if name in types and value is not None}


def has_task(preset: Preset, task: str, head: str | None, library: str | None) -> bool:
    """Checks whether a preset has the head of a task, and says that it is this task's if others have the same."""
    if head is None:
        return library is not None and getattr(preset.once(LIBRARIES[library].read), "is_declared", False)
    checkpoint = preset.checkpoint
    if head not in checkpoint.heads:
        return False
    if library is None:
        return True
    if HEADS[str(head)].learns is None:
        return preset.once(LIBRARIES[library].read).is_declared
    size = checkpoint.shapes(head).get("logits/bias")
    if size == (2,):  # the head of any classifier looks the same, so ask for settings that a reranker saved
        values = preset.json(hugging_face.CONFIG, CONFIG) if CHECKPOINT_FORMATS[checkpoint.format].has_settings else {}
        return (values.get(hugging_face.SETTINGS) or {}).get("task") == task
    return size == (1,) and preset.once(LIBRARIES[library].read).is_declared


def task_of(preset: Preset, among: Collection[str] | None = None) -> str:
    """Finds the class that a preset was fine-tuned for, by its head; without a head, the sentence encoder.

    With `among`, only these classes count: a classifier, too, has vectors of texts.
    """
    found = (task for task in TASKS if task.is_found and (among is None or task.model in among))
    fitting = {task.head: task.model for task in found if has_task(preset, task.model, task.head, task.library)}
    if len(fitting) > 1:
        raise ValueError(f"{preset.directory} has {' and '.join(map(str, reversed(fitting)))}; load it by its class")
    return next(iter(fitting.values()), OF_HEAD[None].model)


def read_export(
    preset: Preset, types: Mapping[str, Mapping[str, files.JsonShape]], has_library_files: bool = True
) -> Saved:
    """Reads what `write_settings` or, without library files, `write_configuration` wrote, with `types` of each task."""
    values = preset.json(hugging_face.CONFIG, CONFIG)
    task = (values.get(hugging_face.SETTINGS) or {}).get("task")
    if task is None:  # of an encoder
        return Saved(preset.config, {}, "")
    row = next((each for each in TASKS if each.model == task), None)
    if row is None or task not in types:
        source = preset.directory / hugging_face.CONFIG
        raise ValueError(f"{source}: the task is {task!r:.60}, which this version does not know; install a later one")
    settings, preprocessor = own_settings(preset, task, types[task], values)
    labels, settings = _labels_and_settings(preset, types[task], values, settings)
    if row.library is not None and has_library_files:
        settings |= _in_types(preset.once(LIBRARIES[row.library].read), types[task])
    return Saved(preset.config, {}, task, row.library, settings, labels, preprocessor=preprocessor)


def own_settings(
    preset: Preset, task: str, types: Mapping[str, files.JsonShape], values: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads a task's settings and its preprocessor's, as `write` wrote them; empty if another task wrote the files."""
    values = _entries_of(preset) if values is None else values
    own = values.get(hugging_face.SETTINGS) or {}
    if own.get("task") != task:
        return {}, {}
    parts = [dict(own.get(name) or {}) for name in ("model", "preprocessor")]
    for part, values, known in zip(("model", "preprocessor"), parts, (types, _PREPROCESSOR), strict=True):
        source = f"{preset.directory / hugging_face.CONFIG}: {hugging_face.SETTINGS}.{part}"
        if unknown := [name for name in values if name not in known]:
            raise ValueError(
                f"{source} has {', '.join(unknown)}, which no {task} has; known are {', '.join(known)}. Was it saved "
                "by a later version?"
            )
        files.check_json(values, {name: known[name] for name in values}, source)
    return parts[0], parts[1]


def _entries_of(preset: Preset) -> Mapping[str, Any]:
    """Returns the content of `config.json`, or what the weights' format implies of labels and task."""
    checkpoint = preset.checkpoint
    values = preset.json(hugging_face.CONFIG, CONFIG) if CHECKPOINT_FORMATS[checkpoint.format].has_settings else {}
    return {**values, **checkpoint.entries}


def _read_dense(preset: Preset, library: str, shapes: Mapping[str, Shape]) -> Mapping[str, np.ndarray]:
    values = preset.once(_READ_WEIGHTS[library])
    for name, shape in shapes.items():
        if values[name].shape != shape:
            raise ValueError(
                f"the {name} of Dense in {preset.directory} has the shape {list(values[name].shape)}; vectors of this "
                f"encoder need {list(shape)}"
            )
    return values


def _read_crf(preset: Preset, labels: int, shapes: Mapping[str, Shape]) -> Mapping[str, np.ndarray]:
    path = files.find(preset.directory, CRF)
    values, _ = read_checked(path)
    if {name: value.shape for name, value in values.items()} != shapes:
        raise ValueError(f"{path} does not hold the transitions of {labels} labels; copy the right file there")
    return values


def write(directory: str | Path, saved: Saved, overwrite: bool = False) -> None:
    """Writes a model. It replaces a model of any format; files in the directory that belong to no model stay."""
    directory = Path(directory)
    tokenizer = () if saved.tokenizer is None else model_files.TOKENIZER
    existing = model_files.present(directory, (*model_files.MODEL, *tokenizer, *model_files.SETTINGS))
    files.refuse_to_overwrite(directory, existing, overwrite)
    weights = {part: saved.read(part, {}) for part in saved.weights if part not in _OWN_FILES}
    written = [*hugging_face.FILES, *saved.extra]
    with model_files.replacing(directory, (*model_files.MODEL, *model_files.SETTINGS), written, overwrite):
        elsewhere = () if saved.library == "CrossEncoder" else _library_settings(saved)
        hugging_face.write(directory, saved.config, weights, _entries(saved, elsewhere))
        if saved.tokenizer is not None:
            saved.tokenizer.save_preset(directory, overwrite)
        for name, (arrays, texts) in saved.extra.items():
            write_checked(directory / name, arrays, texts)
        if "crf" in saved.weights:
            write_checked(directory / CRF, saved.read("crf", {}), {})
            written.append(CRF)
        written += _write_library_files(directory, saved)
    write_card(directory, saved)


def write_card(directory: str | Path, saved: Saved, training: model_card.Training | None = None) -> None:
    """Writes the model card, with what is known of the training."""
    heads = saved.weights.keys() - {"encoder", *_OWN_FILES}
    base = None if training is None or training.base is None else resolve(training.base)
    model_card.write(
        directory,
        saved.config,
        heads,
        task=saved.task,
        labels=saved.labels,
        reads_pairs=bool(saved.settings.get("pairs")),
        library=saved.library,
        note=note(saved.config, saved.settings, "crf" in saved.weights),
        licence=base and model_card.licence_of(base),
        training=training,
    )


def write_settings(directory: str | Path, saved: Saved, parts: Collection[str]) -> None:
    """Writes the settings beside an export's graph and tokenizer, and the weights of parts that the graph has not."""
    write_configuration(directory, saved)
    _write_library_files(Path(directory), saved)
    if weights := {name: each for part in parts for name, each in saved.read(part, {}).items()}:
        write_checked(Path(directory) / PARTS, weights, {})


def write_configuration(directory: str | Path, saved: Saved) -> None:
    """Writes a `config.json` with all settings, even those that another library has in files of its own."""
    heads = saved.weights.keys() - {"encoder", *_OWN_FILES}
    values = {**hugging_face.model_values(saved.config, heads), **_entries(saved, ())}
    files.write_texts(directory, {hugging_face.CONFIG: files.to_json(values)})


def _entries(saved: Saved, elsewhere: Collection[str]) -> dict[str, object]:
    """Makes the entries of `config.json` about labels, task and settings, without those that are elsewhere."""
    entries: dict[str, object] = {} if saved.labels is None else hugging_face.label_entries(saved.labels)
    if "problem_type" in saved.settings:
        entries["problem_type"] = saved.settings["problem_type"]
    if not saved.config.num_layers and "normalize" in saved.settings:  # for model2vec
        entries["normalize"] = saved.settings["normalize"]
    if sizes := saved.settings.get("matryoshka_dimensions"):
        entries["matryoshka_dimensions"] = sizes
    if saved.library == "CrossEncoder" and saved.labels is None:  # of labels, `CrossEncoder` returns logits
        entries |= cross_encoder.entries(saved.settings["activation"])
    elsewhere = {"labels", "problem_type", *elsewhere}
    settings = {name: value for name, value in saved.settings.items() if name not in elsewhere}
    return {
        **entries,
        hugging_face.SETTINGS: {"task": saved.task, "model": settings, "preprocessor": dict(saved.preprocessor)},
    }


def _library_settings(saved: Saved) -> dict[str, Any]:
    """Returns the settings that sentence-transformers' files hold."""
    fields = () if saved.library is None else LIBRARIES[saved.library].Settings._fields
    return {name: saved.settings[name] for name in fields if name in saved.settings}


def note(config: BertConfig, settings: Mapping[str, Any], has_crf: bool) -> str:
    """Writes a paragraph for the model card on what `transformers` does not compute; "" if it computes everything."""
    if has_crf:
        return _CRF_NOTE
    if "problem_type" not in settings or config.pooler or not table_of(config).pools_unusually(config):
        return ""
    scaled = " scaled to length 1" * ENCODER_POOLINGS[config.pooling].is_scaled
    return _POOLING_NOTE.format(pooling=config.pooling, scaled=scaled)


def _write_library_files(directory: Path, saved: Saved) -> list[str]:
    """Writes sentence-transformers' files. Returns their names, or patterns of them."""
    if saved.library is None:
        return []
    make = LIBRARIES[saved.library].Settings
    declared = {"is_declared": True} if "is_declared" in make._fields else {}
    settings = make(**{**declared, "max_length": saved.max_length, **_library_settings(saved)})
    weights = {name: each for part in saved.weights.keys() & _OWN_FILES for name, each in saved.read(part, {}).items()}
    return LIBRARIES[saved.library].write(directory, settings, saved.config, weights, saved.tokenizer)


def read_library_files(preset: Preset, vocabulary_size: int | None) -> tuple[str, Any, dict[str, np.ndarray]] | None:
    """Reads the class of sentence-transformers that a model is of, its settings, and the weights of their modules."""
    for library, files_of in LIBRARIES.items():
        if library == "SentenceTransformer" and not (preset.home / MODULES).is_file():
            return None
        settings: Any = preset.once(files_of.read)
        if getattr(settings, "is_declared", True):
            weights = dict(preset.once(_READ_WEIGHTS[library])) if library in _READ_WEIGHTS else {}
            if getattr(settings, "query_table", False) and vocabulary_size is not None:
                weights["query_weights"] = sparse_encoder.read_query_weights(preset, vocabulary_size)
            return library, settings, weights
    return None
