"""Exports to LiteRT (TensorFlow Lite), with Keras's exporter and TensorFlow's converter."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.encoder import BertEncoder
from keras_bert.encoder.encoder import NAMES
from keras_bert.runtimes.comparison import Difference, Run
from keras_bert.runtimes.litert_metadata import add_metadata
from keras_bert.runtimes.packed_model import PackedModel, config_of
from keras_bert.runtimes.runtime_directory import Runtime, write
from keras_bert.tasks.task import BertTask
from keras_bert.text import BertPreprocessor, WordPieceTokenizer

_PROGRAM = """\
from ai_edge_litert.interpreter import Interpreter
run = Interpreter("model.tflite").get_signature_runner()
outputs = run(**{name: np.array(each, np.int32) for name, each in inputs.items()})"""
_ROWS = """\
from ai_edge_litert.interpreter import Interpreter
run = Interpreter("model.tflite").get_signature_runner()
found = [run(**{name: np.array([each[i]], np.int32) for name, each in inputs.items()}) for i in range(len(rows))]
outputs = {name: np.concatenate([each[name] for each in found]) for name in found[0]}"""


def export_litert(
    model: BertTask | BertEncoder,
    directory: str | Path,
    precision: str = "float32",
    overwrite: bool = False,
    preprocessor: BertPreprocessor | None = None,
    sequence_length: int | None = None,
) -> list[Difference]:
    """Writes `directory/model.tflite` for LiteRT, on phones and in browsers, with its tokenizer and a README.

    It has LiteRT's own operations only, and needs no Flex delegate. The inputs are int32 under TF Hub's names, and the
    outputs float32, see the model's `serve_packed`, but without the logits of probabilities and the hidden states of
    vectors. The other files are those of `export_onnx`. A model with a WordPiece vocabulary and segments includes
    metadata, vocabulary and labels for MediaPipe's TextClassifier and TextEmbedder. (They lower-case, and read rows of
    a fixed `sequence_length`.)

    Args:
        model, directory, overwrite, preprocessor: see `export_onnx`.
        precision: the precision of the stored weights: "float32"; "float16", half the size; or "int8", a quarter.
        sequence_length: makes the inputs `[1, sequence_length]`, which is faster, and which phones' accelerators need.
            By default `[batch, seq_length]`, of any size.

    Returns:
        The differences of the outputs from Keras's, on a few sentences.

    Raises:
        See `export_onnx`.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertSentenceEncoder
        >>> model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
        >>> [each.output for each in export_litert(model, tempfile.mkdtemp(), sequence_length=64)]
        ['embedding']
    """
    if sequence_length is not None:
        positions = config_of(model).max_positions
        if not 3 <= sequence_length <= positions:
            raise ValueError(f"sequence_length is {sequence_length}; expected 3 to {positions}, the model's positions")
    shape = (None, None) if sequence_length is None else (1, sequence_length)
    runtime = dataclasses.replace(
        _RUNTIME,
        convert=functools.partial(_convert, shape=shape),
        program=_PROGRAM if sequence_length is None else _ROWS,
    )
    return write(runtime, model, directory, precision, overwrite, preprocessor, sequence_length)


def _convert(packed: PackedModel, path: Path, precision: str, shape: tuple[int | None, int | None]) -> None:
    target: dict[str, Any] = {"supported_ops": [tf.lite.OpsSet.TFLITE_BUILTINS]}
    settings = {} if precision == "float32" else {"optimizations": [tf.lite.Optimize.DEFAULT]}
    if precision == "float16":
        target["supported_types"] = [tf.float16]
    packed.export(
        str(path),
        format="litert",
        input_signature=packed.signature(shape),
        verbose=False,
        target_spec=target,
        **settings,
    )
    tokenizer = getattr(getattr(packed.model, "preprocessor", None), "tokenizer", None)
    if isinstance(tokenizer, WordPieceTokenizer) and len(packed.names_of_inputs) == len(NAMES):
        labels = getattr(packed.model, "labels", None)
        add_metadata(path, tokenizer.vocabulary, dict.fromkeys(("probabilities", "values"), labels) if labels else {})


def _load(path: Path) -> Run:
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:  # TensorFlow has the same class
        Interpreter = tf.lite.Interpreter  # noqa: N806
    run = Interpreter(str(path)).get_signature_runner()
    rows = next(iter(run.get_input_details().values()))["shape_signature"][0]

    def run_all(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        inputs = {name: np.asarray(each, np.int32) for name, each in inputs.items()}
        if rows < 0:
            return run(**inputs)
        count = len(next(iter(inputs.values())))
        found = [run(**{name: each[i : i + 1] for name, each in inputs.items()}) for i in range(count)]
        return {name: np.concatenate([each[name] for each in found]) for name in found[0]}

    return run_all


_RUNTIME = Runtime(
    file="model.tflite",
    names=dict(zip(NAMES, NAMES, strict=True)),
    ids_dtype="int32",
    only_answers=True,
    refused={"bfloat16": "LiteRT does not support bfloat16; export float16, float32 or int8"},
    convert=_convert,
    load=_load,
    program=_PROGRAM,
)
