"""The parameters, memory and operations of an encoder, from its configuration."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from keras_bert.config import BertConfig
from keras_bert.shapes import Dense, Shape, encoder_layers, shapes

_LAYER = "layer"
_FLOAT32 = 4  # bytes


@dataclass(frozen=True)
class PartSummary:
    """The size of a part of a model that has weights."""

    name: str  # such as "embeddings/word", "layer/attention/qkv" or "masked_lm/transform"
    shapes: tuple[Shape, ...]  # of its weights
    copies: int = 1  # each has its own weights
    uses: int = 1  # in a forward pass, summed over the copies

    @property
    def parameters(self) -> int:
        """The number of parameters of all copies."""
        return self.copies * sum(map(math.prod, self.shapes))


@dataclass(frozen=True)
class Summary:
    """The result of `summarize`; its docstring has the formulas."""

    config: BertConfig
    batch_size: int  # of the training step
    sequence_length: int  # of the training step
    parts: tuple[PartSummary, ...]  # in the order of a forward pass
    activation_bytes: int  # of a training step
    flops_per_token: float  # operations of a forward pass

    @property
    def parameters(self) -> int:
        """The number of parameters of all parts."""
        return sum(part.parameters for part in self.parts)

    @property
    def weight_bytes(self) -> int:
        """The size of the parameters in float32, in bytes."""
        return _FLOAT32 * self.parameters

    @property
    def training_bytes(self) -> int:
        """The memory of a training step, in bytes: weights, gradients, AdamW's two moments, and activations."""
        return 4 * self.weight_bytes + self.activation_bytes


def summarize(
    config: BertConfig,
    heads: Mapping[str, Mapping[str, Shape]] | None = None,
    batch_size: int = 32,
    sequence_length: int = 128,
) -> Summary:
    """Counts an encoder's parameters, and estimates the cost of running and training it, all in float32.

    Use it to compare architectures, or to see whether a training step fits into memory. Let N = sequence_length,
    R = batch_size N, H the width, L the layers, A the heads, I the feed-forward layers' width, E the embeddings' width.

    Operations of a forward pass per token (a multiplication and an addition are two):

    ===========================  ==================================================================
    dense layers, each layer     2 (3 H H + H H + 2 H I); with a gate, 3 H I in place of 2 H I
    Q K^T and weights V          4 H K in each layer, with K = N keys per query;
                                 in layers with local attention, K = 3 min(local_window / 2, N)
    disentangled attention       4 H (2 N - 1) in each layer; the distances' own products not counted
    projection of embeddings     2 E H, if there is one
    pooler                       2 H H / N, if there is one
    ===========================  ==================================================================

    Key and value layers are narrower with fewer key/value heads. With `head_dim`, heads are A `head_dim` wide together,
    in place of H. Elementwise operations and heads are not counted.

    Memory of a training step: weights, gradients and AdamW's two moments, all of the same size, and activations. The
    activations are L R (16 H + 5 I + 2 A K) numbers, with a gate 7 I in place of 5 I. This is an estimate: the factors
    were measured with TensorFlow on a CPU, with dropout and masks, without XLA. Activations of heads are not counted.

    Args:
        config: the architecture.
        heads: the shapes of each head's weights, as from `Checkpoint.shapes`.
        batch_size, sequence_length: the sequences of a training step, and the tokens of each.

    Raises:
        ValueError: `batch_size` is less than 1, or `sequence_length` is not within the model's positions.

    Example:
        >>> from keras_bert import BertConfig
        >>> summary = summarize(BertConfig.base())
        >>> summary.parameters, summary.weight_bytes, round(summary.flops_per_token / 1e6)
        (109482240, 437928960, 175)
        >>> summary.parts[0]
        PartSummary(name='embeddings/word', shapes=((30522, 768),), copies=1, uses=1)
    """
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; expected at least 1")
    if not 1 <= sequence_length <= config.max_positions:
        raise ValueError(f"sequence_length is {sequence_length}; this model has {config.max_positions} positions")
    parts = _parts(config, heads or {})
    activation_bytes = _FLOAT32 * batch_size * _activations(config, sequence_length)
    flops = _flops_per_token(config, sequence_length)
    return Summary(config, batch_size, sequence_length, parts, activation_bytes, flops)


def _parts(config: BertConfig, heads: Mapping[str, Mapping[str, Shape]]) -> tuple[PartSummary, ...]:
    shapes_of_part: dict[str, list[Shape]] = {}
    blocks: dict[str, set[str]] = {}  # part -> the blocks that have it
    for name, shape in shapes(config, "encoder").items():
        block, in_block, layer = name.rpartition("/")[0].partition("/") if name.startswith("block_") else ("", "", "")
        part = f"{_LAYER}/{layer}" if in_block else name.rpartition("/")[0]
        blocks.setdefault(part, set()).add(block)
        if block == min(blocks[part]):  # the first block may lack a norm; the others are alike
            shapes_of_part.setdefault(part, []).append(shape)
    for head, weights in heads.items():
        for name, shape in weights.items():
            shapes_of_part.setdefault(f"{head}/{name}".rpartition("/")[0], []).append(shape)
    uses = _uses(config)

    def counts(part: str) -> tuple[int, int]:
        with_part = blocks.get(part, {part})
        return len(with_part), sum(uses[block] for block in with_part)

    return tuple(PartSummary(name, tuple(part_shapes), *counts(name)) for name, part_shapes in shapes_of_part.items())


def _uses(config: BertConfig) -> Mapping[str, int]:
    """Counts the layers that use a block, such as "block_0"; 1 for other parts."""
    layers = Counter(f"block_{config.group_of(layer)}" for layer in range(config.num_layers))
    return defaultdict(lambda: 1, layers)


def _flops_per_token(config: BertConfig, length: int) -> float:
    layers = encoder_layers(config).items()
    dense = {name: 2 * layer.inputs * layer.units for name, layer in layers if isinstance(layer, Dense)}
    pooler = dense.pop("pooler", 0) / length
    uses = _uses(config)
    flops = sum(each * uses[name.partition("/")[0]] for name, each in dense.items())
    flops += 4 * config.qkv_sizes[0] * sum(_keys(config, length))
    if config.disentangled_buckets is not None:
        flops += config.num_layers * 4 * config.qkv_sizes[0] * (2 * length - 1)
    return flops + pooler


def _activations(config: BertConfig, length: int) -> int:
    """Estimates the number of activations of one sequence in a training step."""
    per_token = 16 * config.hidden_size + (7 if config.gated else 5) * config.intermediate_size
    return length * (config.num_layers * per_token + 2 * config.num_heads * sum(_keys(config, length)))


def _keys(config: BertConfig, length: int) -> list[int]:
    """Counts the keys per query of each layer."""
    nearby = 3 * min(max(config.local_window // 2, 1), length)  # a block of a `Band` and the two beside it
    return [nearby if config.is_local(layer) else length for layer in range(config.num_layers)]
