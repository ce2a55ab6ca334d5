"""Lists the layers with weights of an encoder and its heads, by name, from the configuration alone.

The encoder and the heads build these layers. `formats` reads and writes their weights. `summarize` counts them.
"""

from __future__ import annotations

from typing import NamedTuple

from keras_bert.config import BertConfig
from keras_bert.head_table import HEADS

Shape = tuple[int, ...]
CLASSIFIERS = tuple(name for name in HEADS if name != "masked_lm")


class Dense(NamedTuple):
    """A dense layer, `x W + b`."""

    inputs: int
    units: int
    bias: bool = True

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shapes of the layer's weights, by name."""
        return {"kernel": (self.inputs, self.units)} | ({"bias": (self.units,)} if self.bias else {})


class Norm(NamedTuple):
    """A normalization over the last axis."""

    width: int
    bias: bool

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shapes of the layer's weights, by name."""
        return {"gamma": (self.width,)} | ({"beta": (self.width,)} if self.bias else {})


class Embedding(NamedTuple):
    """A table of vectors."""

    rows: int
    width: int

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shape of the table, by name."""
        return {"embeddings": (self.rows, self.width)}


Layers = dict[str, Dense | Norm | Embedding]


def _norm(config: BertConfig, width: int) -> Norm:
    return Norm(width, config.norm_bias and config.norm == "layer_norm")


def embedding_layers(config: BertConfig) -> Layers:
    """Lists the layers of the embeddings."""
    width = config.embedding_width
    layers: Layers = {"word": Embedding(config.vocab_size, width)}
    if config.position_rows:
        layers["position"] = Embedding(config.position_rows, width)
    if config.type_vocab_size:
        layers["type"] = Embedding(config.type_vocab_size, width)
    if config.relative_buckets is not None:
        layers["relative"] = Embedding(config.relative_buckets, config.num_heads)
    if config.embedding_norm:
        layers["norm"] = _norm(config, width)
    if config.embedding_size is not None:
        layers["projection"] = Dense(width, config.hidden_size)
    if config.disentangled_buckets is not None:
        layers["distances"] = Embedding(2 * config.disentangled_buckets, config.hidden_size)
        layers["distances_norm"] = _norm(config, config.hidden_size)
    return layers


def block_layers(config: BertConfig, index: int) -> Layers:
    """Lists the layers of a block; `index` counts blocks from 0."""
    hidden, size, bias = config.hidden_size, config.intermediate_size, config.feed_forward_bias
    layers: Layers = {
        "attention/qkv": Dense(hidden, sum(config.qkv_sizes), config.attention_bias),  # one product for Q, K and V
        "attention/output": Dense(config.qkv_sizes[0], hidden, config.attention_bias),
        "attention_norm": _norm(config, hidden),
        "intermediate": Dense(hidden, size * (2 if config.gated else 1), bias and config.intermediate_bias),
        "output": Dense(size, hidden, bias),
        "output_norm": _norm(config, hidden),
    }
    if index == 0 and config.pre_norm and config.embedding_norm:
        del layers["attention_norm"]  # the embeddings are normalized already
    return layers


def encoder_layers(config: BertConfig) -> Layers:
    """Lists all layers of an encoder, such as "block_0/attention/qkv", in the order of a forward pass."""
    layers = {f"embeddings/{name}": layer for name, layer in embedding_layers(config).items()}
    for index in range(config.groups):
        layers |= {f"block_{index}/{name}": layer for name, layer in block_layers(config, index).items()}
    if config.pre_norm:
        layers["final_norm"] = _norm(config, config.hidden_size)
    if config.pooler:
        layers["pooler"] = Dense(config.hidden_size, config.hidden_size)
    return layers


def head_layers(config: BertConfig, head: str, units: int = 0) -> Layers:
    """Lists the layers of a head, "masked_lm" or one of `CLASSIFIERS`; `units` is a classifier's number of logits."""
    hidden, layers = config.hidden_size, {}
    if head == "masked_lm":
        if config.own_decoder:
            if (width := config.decoder_width) is not None:
                layers = {"transform": Dense(hidden, width, False), "projection": Dense(width, hidden, False)}
            return {**layers, "decoder": Dense(hidden, config.vocab_size, config.decoder_bias)}
        width = config.embedding_width
        return {"transform": Dense(hidden, width, not config.head_norm), "norm": _norm(config, width)}
    has_norm = config.head_norm and HEADS[head].learns is not None
    reads_text = HEADS[head].of_text and not config.reads_pooler(head)
    if has_norm or head == "replaced_tokens" or (reads_text and config.sequence_activation is not None):
        layers["transform"] = Dense(hidden, hidden, not has_norm)
    if has_norm:
        layers["norm"] = _norm(config, hidden)
    return {**layers, "logits": Dense(hidden, units)}


def shapes(config: BertConfig, part: str, labels: int | None = None) -> dict[str, Shape]:
    """Lists shapes of weights, such as "block_1/attention/qkv/kernel", of "encoder" or a head with `labels` logits."""
    layers = encoder_layers(config) if part == "encoder" else head_layers(config, part, labels or 0)
    shapes_of_part = {f"{name}/{kind}": shape for name, layer in layers.items() for kind, shape in layer.shapes.items()}
    if part == "masked_lm" and not config.own_decoder:
        shapes_of_part["bias"] = (config.vocab_size,)  # the kernel is the table of token embeddings
    return shapes_of_part
