"""The encoder, from ids to hidden states, in `keras.ops`: it runs on Keras's TensorFlow, JAX and PyTorch backends."""

import keras_bert.optimizers  # noqa: F401  registers AdamW: a .keras file may hold a model that it trained
from keras_bert.encoder.encoder import BertEncoder
from keras_bert.encoder.summary import summarize

__all__ = ["BertEncoder", "summarize"]
