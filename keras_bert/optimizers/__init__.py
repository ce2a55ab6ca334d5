"""Optimizers, and the learning rate schedule of BERT's training. They run on every Keras backend."""

from keras_bert.optimizers.adamw import AdamW, WarmupThenDecay
from keras_bert.optimizers.lamb import LAMB

__all__ = ["LAMB", "AdamW", "WarmupThenDecay"]
