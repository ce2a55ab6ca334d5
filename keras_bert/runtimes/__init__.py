"""Exports to other runtimes, with Keras's exporters and the vendors' converters.

- `export_onnx`: ONNX Runtime, for servers without TensorFlow, on CPUs (int8) and GPUs (float16), and transformers.js.
- `export_openvino`: OpenVINO, for Intel's processors.
- `export_litert`: LiteRT (TensorFlow Lite), for phones, browsers and MediaPipe.
"""

from keras_bert.runtimes.litert_export import export_litert
from keras_bert.runtimes.onnx_export import export_onnx
from keras_bert.runtimes.openvino_export import export_openvino

__all__ = ["export_litert", "export_onnx", "export_openvino"]
