"""ids -> hidden states. Written in `keras.ops`: runs on Keras's TensorFlow, JAX and PyTorch backends."""

from keras_bert.encoder.encoder import BertEncoder

__all__ = ["BertEncoder"]
