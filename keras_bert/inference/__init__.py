"""Inference in low precision, with TensorFlow's fused oneDNN operations and constant weights."""

from keras_bert.inference.calibration import SAMPLE_TEXTS
from keras_bert.inference.precision import cosine_to_float32, set_precision
from keras_bert.inference.ranges import Int8Ranges, read_ranges, write_ranges
from keras_bert.precisions import INFERENCE as PRECISIONS

__all__ = [
    "PRECISIONS",
    "SAMPLE_TEXTS",
    "Int8Ranges",
    "cosine_to_float32",
    "read_ranges",
    "set_precision",
    "write_ranges",
]
