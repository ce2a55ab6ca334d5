"""Inference below float32, in TensorFlow's fused oneDNN operations, with weights that are constants."""

from keras_bert.inference.blocks import PRECISIONS, set_precision
from keras_bert.inference.calibration import SAMPLE_TEXTS

__all__ = ["PRECISIONS", "SAMPLE_TEXTS", "set_precision"]
