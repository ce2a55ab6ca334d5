"""Exports to other runtimes, with Keras's exporters and the vendors' converters.

- `export_onnx`: ONNX Runtime, for servers without TensorFlow, on CPUs (int8) and GPUs (float16), and transformers.js.
- `export_openvino`: OpenVINO, for Intel's processors.
- `export_litert`: LiteRT (TensorFlow Lite), for phones, browsers and MediaPipe.
- `load`: opens an export for ONNX Runtime or OpenVINO again, to answer texts from Python without TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING

from keras_bert.runtime_table import RUNTIMES
from keras_bert.runtimes.litert import export_litert
from keras_bert.runtimes.onnx import export_onnx
from keras_bert.runtimes.openvino import export_openvino

if TYPE_CHECKING:
    from keras_bert.engines.loading import RuntimeModel, load

__all__ = ["RUNTIMES", "RuntimeModel", "export_litert", "export_onnx", "export_openvino", "load"]


def __getattr__(name: str) -> object:
    """Imports `load` at its first use, because it imports Keras, which the table of runtimes does not need."""
    if name not in __all__:
        raise AttributeError(f"module 'keras_bert.runtimes' has no attribute {name!r}")
    return getattr(importlib.import_module("keras_bert.engines.loading"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
