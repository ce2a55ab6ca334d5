"""Attention weights with known values."""

import numpy as np
import pytest

TEXTS = ('say "a" <script>window.ran = 1</script>', "<img src=x onerror='window.ran = 1'> שלום 😀 &amp; ${a}")
TOKENS = ["[CLS]", "</script><script>window.ran = 1</script>", "[SEP]", "שלום", "😀", "[SEP]"]


def vectors_of(weights):
    """Queries and keys that give these weights: key n is 1 in dimension n and 0 in the others."""
    size = weights.shape[-1]
    queries = np.log(weights / weights.sum(-1, keepdims=True) + 1e-7) * size**0.5
    return queries, np.broadcast_to(np.eye(size, dtype=np.float32), weights.shape)


@pytest.fixture
def weights():
    """2 layers of 10 heads. Head n: 0.9 for the token n places after, and 0.02, just visible, for the others."""
    from keras_bert.visualize.attention_weights import AttentionWeights

    size = len(TOKENS)
    weights = np.full((2, 10, size, size), 0.02, np.float32)
    for head in range(10):
        for token in range(size):
            weights[:, head, token, (token + head) % size] = 0.9
    return AttentionWeights(TEXTS, TOKENS, 3, weights, *vectors_of(weights))
