"""The encoder: ids -> hidden states. In `keras.ops`, for Keras's TensorFlow, JAX and PyTorch backends."""

from keras_bert.encoder.encoder import BertEncoder

__all__ = ["BertEncoder"]
