"""The table of runtimes, by name. It needs no TensorFlow.

A runtime also has its files in `formats/model_files.py`, and its function in `__init__`. Each has a command: see
`cli/export.py`.
"""

from keras_bert.runtimes.litert import LITERT
from keras_bert.runtimes.onnx import ONNX
from keras_bert.runtimes.openvino import OPENVINO

RUNTIMES = {"onnx": ONNX, "openvino": OPENVINO, "litert": LITERT}
