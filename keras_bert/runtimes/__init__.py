"""Exports to other runtimes, with Keras's exporters and the vendors' converters.

- `export_onnx`: ONNX Runtime, for servers without TensorFlow, on CPUs (int8) and GPUs (float16), and transformers.js.
- `export_openvino`: OpenVINO, for Intel's processors.
- `export_litert`: LiteRT (TensorFlow Lite), for phones, browsers and MediaPipe.
- `load`: opens an export for ONNX Runtime or OpenVINO again, to answer texts from Python without TensorFlow.
"""

from keras_bert.engines.loading import load
from keras_bert.engines.models import RuntimeModel
from keras_bert.runtime_table import RUNTIMES
from keras_bert.runtimes.litert import export_litert
from keras_bert.runtimes.onnx import export_onnx
from keras_bert.runtimes.openvino import export_openvino

__all__ = ["RUNTIMES", "RuntimeModel", "export_litert", "export_onnx", "export_openvino", "load"]
