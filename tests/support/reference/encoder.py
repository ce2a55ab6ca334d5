"""BERT's forward pass in numpy, one sequence at a time, written from the papers; no masks, no batches, no fusing."""

import math

import numpy as np

_erf = np.vectorize(math.erf)

ACTIVATIONS = {
    "gelu": lambda x: x * 0.5 * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def layer_norm(x, gamma, beta, epsilon):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return gamma * (x - mean) / np.sqrt(variance + epsilon) + beta


def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def forward(config, weights, word_ids, type_ids):
    """word_ids, type_ids: [seq_length]. Returns the pooled vector, every layer's [seq_length, hidden] and attention.

    weights: Hugging Face's names -> arrays, as they stand in a model.safetensors file.
    """

    def dense(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x, name):
        return layer_norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"], config.layer_norm_epsilon)

    h = weights["embeddings.word_embeddings.weight"][word_ids]
    h = h + weights["embeddings.position_embeddings.weight"][: len(word_ids)]
    h = h + weights["embeddings.token_type_embeddings.weight"][type_ids]
    h = norm(h, "embeddings.LayerNorm")
    width = config.hidden_size // config.num_heads
    layers, attention = [], []
    for i in range(config.num_layers):
        layer = f"encoder.layer.{i}"
        q, k, v = (dense(h, f"{layer}.attention.self.{part}") for part in ("query", "key", "value"))
        heads, scores = [], []
        for a in range(config.num_heads):
            mine = slice(a * width, (a + 1) * width)
            scores.append(softmax(q[:, mine] @ k[:, mine].T / math.sqrt(width)))
            heads.append(scores[-1] @ v[:, mine])
        attended = dense(np.concatenate(heads, axis=-1), f"{layer}.attention.output.dense")
        h = norm(h + attended, f"{layer}.attention.output.LayerNorm")
        inner = ACTIVATIONS[config.activation](dense(h, f"{layer}.intermediate.dense"))
        h = norm(h + dense(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
        layers.append(h)
        attention.append(np.stack(scores))
    return np.tanh(dense(h[0], "pooler.dense")), layers, attention
