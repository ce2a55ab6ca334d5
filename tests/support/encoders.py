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
# What EuroBERT and NeoBERT change, but for rotary positions.
LLAMA = {
    "type_vocab_size": 0,
    "layer_norm_epsilon": 1e-5,
    "activation": "silu",
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "pooler": False,
    "embedding_norm": False,
    "pre_norm": True,
    "norm": "rms_norm",
    "attention_bias": False,
    "feed_forward_bias": False,
    "gated": True,
}
# Fields of every switch.
SWITCHES = {
    "modern": MODERN,
    "llama": {**LLAMA, "rope_theta": 50.0, "num_key_value_heads": 2, "head_dim": 8},
    "relative": {"relative_buckets": 8, "type_vocab_size": 0},
    "disentangled": {"disentangled_buckets": 4, "type_vocab_size": 0},
    "scaled": {"rope_theta": 50.0, "rope_factor": 4.0, "gated": True, "intermediate_bias": False},
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
