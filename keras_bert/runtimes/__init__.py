"""Exports to other runtimes, with Keras's exporters and the vendors' converters.

- `export_onnx`: ONNX Runtime, for servers without TensorFlow, on CPUs (int8) and GPUs (float16), and transformers.js.
- `export_openvino`: OpenVINO, for Intel's processors.
- `export_litert`: LiteRT (TensorFlow Lite), for phones, browsers and MediaPipe.
- `load`: opens an export for ONNX Runtime or OpenVINO again, to answer texts from Python without TensorFlow.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from keras_bert.engines.loading import load
from keras_bert.engines.models import RuntimeModel
from keras_bert.runtime_table import RUNTIMES

if TYPE_CHECKING:
    from keras_bert.encoder import BertEncoder
    from keras_bert.runtimes.comparison import Difference
    from keras_bert.tasks.base.task import BertTask
    from keras_bert.text import BertPreprocessor

__all__ = ["RUNTIMES", "RuntimeModel", "export_litert", "export_onnx", "export_openvino", "load"]


def export_onnx(
    model: BertTask | BertEncoder,
    directory: str | Path,
    precision: str = "float32",
    overwrite: bool = False,
    preprocessor: BertPreprocessor | None = None,
) -> list[Difference]:
    """Writes `directory/onnx/model.onnx` for ONNX Runtime, with its tokenizer and a README.

    Use it to serve a model without TensorFlow, or with transformers.js. The directory also holds `tokenizer.json`, the
    tokenizer's other files, `config.json`, `labels.txt`, and a `README.md` with a program that runs the model.
    sentence-transformers (`backend="onnx"`), optimum and transformers.js find the files by their names.

    The inputs are int64 `[batch, seq_length]`, of any size, under the names of transformers: `input_ids`,
    `attention_mask` and, in families with segments, `token_type_ids`. The outputs are the float32 outputs of the
    model's `serve_packed`. `sequence_output` also has the name `last_hidden_state`, and `pooled_output` the name
    `pooler_output`.

    Args:
        model: a task, or an encoder.
        directory: a new directory.
        precision: of the stored weights: "float32"; "float16", half the size, here for GPUs; or "int8", a quarter.
        overwrite: whether to replace an earlier export.
        preprocessor: the preprocessor of an encoder, for the tokenizer's files; a task has its own.

    Returns:
        The difference of each output from Keras's output, on a few sentences; empty if onnxruntime is not installed.

    Raises:
        FileExistsError: `directory` exists, and `overwrite` is False or the directory is not an earlier export.
        ImportError: the extra `runtimes` is not installed.
        TypeError: `model` is neither a task nor an encoder.
        ValueError: an argument is not supported, or the outputs differ from Keras's by more than the precision allows.
            Nothing is then written.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertSentenceEncoder
        >>> model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
        >>> [each.output for each in export_onnx(model, tempfile.mkdtemp())]  # doctest: +SKIP
        ['embedding', 'sequence_output']
    """
    return RUNTIMES["onnx"].export(model, directory, precision, overwrite, preprocessor)


def export_openvino(
    model: BertTask | BertEncoder,
    directory: str | Path,
    precision: str = "float32",
    overwrite: bool = False,
    preprocessor: BertPreprocessor | None = None,
) -> list[Difference]:
    """Writes `directory/openvino/openvino_model.xml` and `.bin` for OpenVINO, with the tokenizer and a README.

    Use it to serve a model on Intel's processors. Inputs, outputs and the other files are those of `export_onnx`, and
    sentence-transformers (`backend="openvino"`) and optimum find them by their names. On processors that support
    bfloat16, OpenVINO computes any export in it, unless the model is compiled with
    `{"INFERENCE_PRECISION_HINT": "f32"}`.

    Args:
        model, directory, precision, overwrite, preprocessor: see `export_onnx`, also for errors.

    Returns:
        The difference of each output from Keras's output, on a few sentences, computed in float32.
    """
    return RUNTIMES["openvino"].export(model, directory, precision, overwrite, preprocessor)


def export_litert(
    model: BertTask | BertEncoder,
    directory: str | Path,
    precision: str = "float32",
    overwrite: bool = False,
    preprocessor: BertPreprocessor | None = None,
    sequence_length: int | None = None,
) -> list[Difference]:
    """Writes `directory/model.tflite` for LiteRT, on phones and in browsers, with its tokenizer and a README.

    The model has only LiteRT's own operations, and needs no Flex delegate. The inputs are int32 under TF Hub's names.
    The outputs are the float32 outputs of the model's `serve_packed`. Logits are left out if there are probabilities,
    and hidden states if there are vectors. The other files are those of `export_onnx`.

    If the model has a WordPiece vocabulary and segments, the file includes metadata, vocabulary and labels for
    MediaPipe's TextClassifier and TextEmbedder. For these, use an uncased model and a fixed `sequence_length`: they
    lower-case texts and read rows of one length.

    Args:
        model, directory, precision, overwrite, preprocessor: see `export_onnx`, also for errors.
        sequence_length: makes the inputs `[1, sequence_length]`, which is faster, and which phones' accelerators need.
            By default, the inputs are `[batch, seq_length]` of any size.

    Returns:
        The difference of each output from Keras's output, on a few sentences.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertSentenceEncoder
        >>> model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
        >>> [each.output for each in export_litert(model, tempfile.mkdtemp(), sequence_length=64)]
        ['embedding']
    """
    return RUNTIMES["litert"].export(model, directory, precision, overwrite, preprocessor, sequence_length)
