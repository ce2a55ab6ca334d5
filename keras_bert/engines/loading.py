"""Opens the directory of an export as a model, without TensorFlow and Keras."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert.engines.models import Engine, RuntimeModel
from keras_bert.formats import Preset, hugging_face, saved
from keras_bert.formats.saved import CONFIG, PARTS, Saved, read_export
from keras_bert.formats.tokenizers.tokenizer_json import ALL_IN_ONE
from keras_bert.formats.weight_files import read_checked
from keras_bert.runtime_table import LOADABLE, Runtime
from keras_bert.task_table import TASKS, Task
from keras_bert.text.arrays.preprocessor import ArrayPreprocessor


def _model_class(task: Task) -> type[RuntimeModel]:
    """Imports the class of a task's exports, or makes it of what answers its texts."""
    if task.engine is not None:
        file, name = task.engine.split(".")
        return getattr(importlib.import_module(f"keras_bert.engines.{file}"), name)
    file, name = task.answerer.split(".")
    answerer = getattr(importlib.import_module(f"keras_bert.answers.{file}"), name)
    return type(f"Runtime{name}", (answerer, RuntimeModel), {"TASK": task.model})


MODELS = {task.model: _model_class(task) for task in TASKS}


@dataclass(frozen=True)
class Reading:
    """How an export reads texts: the settings of its task, labels if it has some, and its tokenizer."""

    settings: Mapping[str, Any]
    labels: list[str] | None
    preprocessor: ArrayPreprocessor

    @functools.cached_property
    def ids(self) -> dict[str, int]:
        """The id of each token, by its text."""
        texts = self.preprocessor.tokenizer.token_texts()
        return {text: index for index, text in reversed([*enumerate(texts)])}


def load(directory: str | Path, threads: int | None = None) -> RuntimeModel:
    """Opens the directory that `export_onnx` or `export_openvino` wrote, as a model with the verbs of its task.

    Use it from Python: ONNX Runtime answers a single text faster than TensorFlow does, in less memory. It imports
    neither TensorFlow nor Keras. Hugging Face's `tokenizers` splits the texts, with the ids that `BertPreprocessor`
    gives to ordinary text; the guide about runtimes lists the exceptions.

    Args:
        directory: of the export.
        threads: the number of threads that compute; by default the runtime's choice, one for each core.

    Returns:
        A `RuntimeModel`: its methods are those of the task's model in Keras, such as `classify` of a `BertClassifier`.

    Raises:
        FileNotFoundError: there is no export for ONNX Runtime or OpenVINO, or a file of the tokenizer is missing.
        ImportError: the extra `runtimes` is not installed.
        ValueError: a file is damaged, or of a newer version.

    Example:
        >>> from keras_bert.runtimes import load
        >>> load("minilm-onnx").encode(["I love pizza", "It rains"]).shape  # doctest: +SKIP
        (2, 384)
    """
    directory = Path(directory)
    runtime = runtime_of(directory)
    if runtime is None:
        names = " and no ".join(each.file for each in LOADABLE)
        writers = " or ".join(f"export_{each.name}" for each in LOADABLE)
        raise FileNotFoundError(f"{directory} has no {names}; {writers} writes such a directory")
    with Preset.open(directory) as preset:
        read, preprocessor = read_texts(preset)
    model = MODELS.get(read.task, RuntimeModel)
    optional = [each.name for each in model.SETTINGS if isinstance(each.types, tuple) and None in each.types]
    labels = {} if read.labels is None else {"labels": read.labels}
    settings = {**dict.fromkeys(optional), **read.settings, **labels}
    if missing := [each.name for each in model.SETTINGS if each.name not in settings and not each.is_left_out]:
        raise ValueError(
            f"{directory}: config.json lacks {', '.join(missing)} of the model; export it again with this version"
        )
    return model(_engine(directory, runtime, threads), preprocessor, settings)


def read_texts(preset: Preset, has_library_files: bool = True) -> tuple[Saved, ArrayPreprocessor]:
    """Reads the settings of an export, and what tokenizes its texts. Raises as `load`; see `read_export`."""
    types = {task: {each.name: each.types for each in model.SETTINGS} for task, model in MODELS.items()}
    saved = read_export(preset, types, has_library_files)
    rows, positions = saved.preprocessor, preset.config.max_positions
    longest = min(rows.get("sequence_length") or rows.get("max_sequence_length") or positions, positions)
    preprocessor = ArrayPreprocessor.from_preset(
        preset,
        special_tokens_in_text=rows.get("special_tokens_in_text") or False,
        sequence_length=None,
        max_sequence_length=longest,
        truncation=rows.get("truncation"),
        stride=rows.get("stride"),
    )
    return saved, preprocessor


def export_in(handle: str | Path | Preset) -> Path | None:
    """Finds the export that a handle names; None for other models, also where an export lies beside weights."""
    directory = handle.home if isinstance(handle, Preset) else Path(handle)
    if not directory.is_dir() or runtime_of(directory) is None:
        return None
    with Preset.open(directory) as preset:
        return None if hugging_face.recognizes(preset) else directory


def task_of(handle: str | Path | Preset, among: Collection[str] | None = None) -> str:
    """Names the class of a preset or an export, as `saved.task_of`; "" for an export of an encoder without a task."""
    with Preset.open(handle) as preset:
        return saved.task_of(preset, among) if export_in(preset) is None else task_of_export(preset) or ""


def task_of_export(preset: Preset) -> str | None:
    """Names the class of Keras's model that was exported; None: an encoder without a task."""
    return (preset.json(hugging_face.CONFIG, CONFIG).get(hugging_face.SETTINGS) or {}).get("task")


def runtime_of(directory: Path) -> Runtime | None:
    """Finds the runtime of the export in a directory that `load` opens; None: there is none."""
    return next((each for each in LOADABLE if (directory / each.file).is_file()), None)


def _engine(directory: Path, runtime: Runtime, threads: int | None) -> Engine:
    head, parts = directory / (runtime.head or ""), directory / PARTS
    read = [*runtime.files, PARTS, hugging_face.CONFIG, ALL_IN_ONE]
    options = {} if threads is None else {"threads": threads}
    return Engine(
        runtime.open(directory / runtime.file, **options),
        runtime.open(head, **options) if head.is_file() else None,
        read_checked(parts)[0] if parts.is_file() else {},
        sorted(path for pattern in read for path in directory.glob(pattern)),
    )
