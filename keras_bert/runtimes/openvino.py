"""OpenVINO: exports to its IR, with Keras's exporter, and OpenVINO's own tools for float16 and int8."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from keras_bert.engines.runtime import Inputs, Run, opening
from keras_bert.extras import import_extra
from keras_bert.runtime_table import RUNTIMES
from keras_bert.tensors import TRANSFORMERS_OUTPUTS

if TYPE_CHECKING:
    import numpy as np

    from keras_bert.runtimes.export import HeadModel, PackedModel


def convert(packed: PackedModel | HeadModel, path: Path, float16: bool = False, int8: bool = False) -> None:
    openvino = import_extra("openvino", "openvino", "runtimes")
    nncf = import_extra("nncf", "nncf", "runtimes") if int8 else None
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        float_path = str(Path(directory) / path.name)
        packed.export(float_path, format="openvino", input_signature=packed.signature(), verbose=False)
        model = openvino.Core().read_model(float_path)
        for output in model.outputs:
            names = output.get_names()
            output.get_tensor().set_names(names | {TRANSFORMERS_OUTPUTS.get(name, name) for name in names})
        if nncf:
            nncf.set_log_level(logging.ERROR)
            with contextlib.redirect_stdout(io.StringIO()):  # hides nncf's tables and progress bars
                model = nncf.compress_weights(model)
        openvino.save_model(model, path, compress_to_fp16=float16)


def open(path: Path, threads: int | None = None) -> Run:
    """Opens a file in float32, whatever type the processor is fastest in."""
    import numpy as np

    openvino = import_extra("openvino", "openvino", "runtimes")
    settings = {"INFERENCE_PRECISION_HINT": "f32", **({} if threads is None else {"INFERENCE_NUM_THREADS": threads})}
    with opening(path, RUNTIMES["openvino"].title):
        model = openvino.Core().compile_model(path, "CPU", settings)
    local = threading.local()  # a request can serve one thread at a time
    inputs = {each.get_any_name(): each.element_type.to_dtype() for each in model.inputs}

    def run(values: Inputs) -> dict[str, np.ndarray]:
        if not hasattr(local, "request"):
            local.request = model.create_infer_request()
        found = local.request.infer({name: np.asarray(values[name], dtype) for name, dtype in inputs.items()})
        return {name: found[output] for output in model.outputs for name in output.get_names()}

    return run
