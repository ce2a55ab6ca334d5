"""Exports to other runtimes, with Keras's exporters and the vendors' converters.

- `export_onnx`: ONNX Runtime, for servers without TensorFlow, on CPUs (int8) and GPUs (float16), and transformers.js.
- `export_openvino`: OpenVINO, for Intel's processors.
- `export_litert`: LiteRT (TensorFlow Lite), for phones, browsers and MediaPipe.
- `load`: opens an export for ONNX Runtime or OpenVINO again, to answer texts from Python without TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING

from keras_bert.extras import needing_tensorflow_text

if TYPE_CHECKING:
    from keras_bert.runtimes.litert_export import export_litert
    from keras_bert.runtimes.loading import RuntimeModel, load
    from keras_bert.runtimes.onnx_export import export_onnx
    from keras_bert.runtimes.openvino_export import export_openvino

__all__ = ["RuntimeModel", "export_litert", "export_onnx", "export_openvino", "load"]

_LOADING = ("RuntimeModel", "load")  # which need no TensorFlow


def __getattr__(name: str) -> object:
    """Imports a public name at its first use: `load` needs no TensorFlow."""
    if name not in __all__:
        raise AttributeError(f"module 'keras_bert.runtimes' has no attribute {name!r}")
    module = "loading" if name in _LOADING else name.removeprefix("export_") + "_export"
    with needing_tensorflow_text(name):
        return getattr(importlib.import_module(f"keras_bert.runtimes.{module}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
