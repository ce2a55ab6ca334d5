"""A random encoder, and inputs of ids for it, without text."""

from typing import Any

import keras
import numpy as np

from keras_bert import BertConfig, BertEncoder

SMALL = BertConfig(
    vocab_size=50,
    hidden_size=24,
    num_layers=2,
    num_heads=4,
    intermediate_size=40,
    max_positions=32,
    initializer_range=0.4,
)
# What ModernBERT changes.
MODERN = {
    "type_vocab_size": 0,
    "pooler": False,
    "rope_theta": 1000.0,
    "local_rope_theta": 10.0,
    "global_every": 2,
    "local_window": 6,
    "pre_norm": True,
    "norm_bias": False,
    "attention_bias": False,
    "feed_forward_bias": False,
    "gated": True,
}


def random_encoder(seed: int = 0, **changes: Any) -> BertEncoder:
    """An encoder with no weight of zero or one, so that a missing weight shows."""
    keras.utils.set_random_seed(seed)
    encoder = BertEncoder(BertConfig(**{**SMALL.to_dict(), **changes}))
    generator = np.random.default_rng(seed)
    for weight in encoder.weights:
        weight.assign(weight + generator.normal(scale=0.2, size=weight.shape))
    return encoder


def random_inputs(batch: int = 3, seq_length: int = 12, seed: int = 1) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {
        "input_word_ids": generator.integers(0, 50, (batch, seq_length)).astype("int32"),
        "input_mask": np.ones((batch, seq_length), "int32"),
        "input_type_ids": generator.integers(0, 2, (batch, seq_length)).astype("int32"),
    }
