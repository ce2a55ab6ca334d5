"""The table of runtimes, by name. It needs no TensorFlow."""

from keras_bert.runtimes.litert import LITERT
from keras_bert.runtimes.onnx import ONNX
from keras_bert.runtimes.openvino import OPENVINO

RUNTIMES = {"onnx": ONNX, "openvino": OPENVINO, "litert": LITERT}
