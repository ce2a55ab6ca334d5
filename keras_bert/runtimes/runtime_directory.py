"""Writes the directory of an export: the model, its tokenizer and settings, after a comparison with Keras."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from keras_bert import atomic, files
from keras_bert.encoder import BertEncoder
from keras_bert.formats import hugging_face
from keras_bert.formats.hugging_face_tokenizers import ALL_IN_ONE
from keras_bert.runtimes import runtime_card
from keras_bert.runtimes.comparison import Difference, Run, compared, refuse_too_large, sample
from keras_bert.runtimes.packed_model import PackedModel, config_of
from keras_bert.tasks.task import BertTask
from keras_bert.text import BertPreprocessor

LABELS = "labels.txt"


@dataclass(frozen=True)
class Runtime:
    """A runtime, as data and functions.

    Attributes:
        file: the model's path in the directory.
        names: TF Hub's names of the inputs -> the runtime's.
        ids_dtype: the type of the inputs.
        only_answers: whether to leave out outputs that others are computed from.
        refused: a precision that is not supported -> the reason.
        convert: the model, a path and a precision -> writes the file.
        load: the file -> a function from inputs by the runtime's names; None if the runtime is not installed.
        program: Python for the card: `inputs` -> `outputs`.
    """

    file: str
    names: Mapping[str, str]
    ids_dtype: str
    only_answers: bool
    refused: Mapping[str, str]
    convert: Callable[[PackedModel, Path, str], None]
    load: Callable[[Path], Run | None]
    program: str


def write(
    runtime: Runtime,
    model: BertTask | BertEncoder,
    directory: str | Path,
    precision: str,
    overwrite: bool,
    preprocessor: BertPreprocessor | None,
    length: int | None = None,
) -> list[Difference]:
    """Writes a directory for a runtime; see `export_onnx`, `export_openvino` and `export_litert`.

    Args:
        length: the fixed length of the rows, if any.

    Returns:
        The differences from Keras; empty if the runtime is not installed.
    """
    preprocessor = getattr(model, "preprocessor", None) or preprocessor
    _check(runtime, model, precision)
    with atomic.directory_written_whole(Path(directory), runtime.file, overwrite) as unfinished:
        path = unfinished / runtime.file
        path.parent.mkdir(parents=True, exist_ok=True)
        packed_model = PackedModel(model, runtime.names, runtime.ids_dtype, runtime.only_answers)
        runtime.convert(packed_model, path, precision)
        _write_settings(model, preprocessor, unfinished)
        card = runtime_card.text(model, preprocessor, packed_model.names_of_inputs, runtime.program, length)
        atomic.write_texts(unfinished, {runtime_card.FILE: card})
        run = runtime.load(path)
        if run is None:
            return []
        differences = compared(packed_model, run, sample(model, preprocessor, length))
        refuse_too_large(differences, precision)
    return differences


def _check(runtime: Runtime, model: BertTask | BertEncoder, precision: str) -> None:
    if not isinstance(model, BertTask | BertEncoder):
        raise TypeError(f"got a {type(model).__name__}; other runtimes take a task or an encoder of keras_bert")
    if precision in runtime.refused:
        raise ValueError(runtime.refused[precision])
    if precision not in ("float32", "float16", "int8"):
        raise ValueError(f"precision is {precision!r}; expected float32, float16 or int8")
    for label in getattr(model, "labels", None) or ():
        if label.splitlines() not in ([], [label]):
            raise ValueError(
                f"label {label!r} has a line end, such as a line feed or U+2028, and {LABELS} has a label a line; "
                "rename it, for instance in id2label of the model's config.json"
            )
    encoder = model if isinstance(model, BertEncoder) else model.encoder
    if encoder.inference is not None or encoder.compute_dtype != "float32":
        raise ValueError(
            "the model is in low precision; load it in float32, and pass the precision to the export instead"
        )


def _write_settings(model: BertTask | BertEncoder, preprocessor: BertPreprocessor | None, directory: Path) -> None:
    """Writes the tokenizer's files, the configuration, the labels, and the task's own files."""
    if preprocessor is not None:
        preprocessor.save_preset(directory, overwrite=True)
        atomic.write_texts(directory, {ALL_IN_ONE: files.to_json(preprocessor.tokenizer.tokenizer_json())})
    if isinstance(model, BertTask):
        model.save_settings(directory)
        if labels := getattr(model, "labels", None):
            atomic.write_texts(directory, {LABELS: "".join(f"{label}\n" for label in labels)})
    else:
        values = hugging_face.values_of(config_of(model))
        atomic.write_texts(directory, {hugging_face.CONFIG: files.to_json(values)})
