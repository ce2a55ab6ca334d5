"""Exports to OpenVINO's IR, with Keras's exporter, and OpenVINO's own tools for float16 and int8."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from pathlib import Path

from keras_bert.choices import RUNTIMES
from keras_bert.encoder import BertEncoder
from keras_bert.extras import import_extra
from keras_bert.runtimes.comparison import Difference
from keras_bert.runtimes.export import PackedModel, Runtime, write
from keras_bert.runtimes.loading import TRANSFORMERS_NAMES, open_openvino
from keras_bert.runtimes.onnx_export import ALIASES
from keras_bert.tasks.task import BertTask
from keras_bert.text import BertPreprocessor

_PROGRAM = """\
import openvino
model = openvino.compile_model("openvino/openvino_model.xml", "CPU")
found = model({name: np.array(each) for name, each in inputs.items()})
outputs = {name: found[output] for output in model.outputs for name in output.get_names()}"""


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
        model, directory, overwrite, preprocessor: see `export_onnx`.
        precision: the precision of the stored weights: "float32"; "float16", half the size; or "int8", a quarter.

    Returns:
        The difference of each output from Keras's output, on a few sentences, computed in float32.

    Raises:
        See `export_onnx`.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertSentenceEncoder
        >>> model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
        >>> [each.output for each in export_openvino(model, tempfile.mkdtemp())]  # doctest: +SKIP
        ['embedding', 'sequence_output']
    """
    return write(_RUNTIME, model, directory, precision, overwrite, preprocessor)


def _convert(packed: PackedModel, path: Path, precision: str) -> None:
    openvino = import_extra("openvino", "openvino", "runtimes")
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        float_path = str(Path(directory) / path.name)
        packed.export(float_path, format="openvino", input_signature=packed.signature(), verbose=False)
        model = openvino.Core().read_model(float_path)
        for output in model.outputs:
            names = output.get_names()
            output.get_tensor().set_names(names | {ALIASES[name] for name in names if name in ALIASES})
        if precision == "int8":
            nncf = import_extra("nncf", "nncf", "runtimes")
            nncf.set_log_level(logging.ERROR)
            with contextlib.redirect_stdout(io.StringIO()):  # hides nncf's tables and progress bars
                model = nncf.compress_weights(model)
        openvino.save_model(model, path, compress_to_fp16=precision == "float16")


_RUNTIME = Runtime(
    file=RUNTIMES["openvino"],
    names=TRANSFORMERS_NAMES,
    ids_dtype="int64",
    only_answers=False,
    refused={"bfloat16": "OpenVINO uses bfloat16 by itself if the processor can; export float32 or float16"},
    convert=_convert,
    load=open_openvino,
    program=_PROGRAM,
)
