"""Exports to ONNX Runtime, OpenVINO and LiteRT, with Keras's exporters and the vendors' converters."""

from keras_bert.runtimes.litert_export import export_litert
from keras_bert.runtimes.onnx_export import export_onnx
from keras_bert.runtimes.openvino_export import export_openvino

__all__ = ["export_litert", "export_onnx", "export_openvino"]
