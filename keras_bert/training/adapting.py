"""Trains only a part of an encoder: freezes its lowest layers, or adds LoRA."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import keras

from keras_bert import undocumented
from keras_bert.counted import counted
from keras_bert.encoder import BertEncoder
from keras_bert.tasks.base.task import BertTask


@contextlib.contextmanager
def adapting(model: BertTask | BertEncoder, frozen_layers: int = 0, lora_rank: int | None = None) -> Iterator[None]:
    """Makes only a part of a model's weights trainable, inside its block.

    Use it to train with less memory, or to keep a large model from overfitting few examples. `fine_tune` calls it. For
    Keras's `fit`, call `compile` inside the block. In a Keras model of your own, pass the encoder as `model`; the other
    layers stay as they are.

    =================  ===============================  =======================================================
    argument           frozen                           trainable
    =================  ===============================  =======================================================
    `frozen_layers=N`  the embeddings, the lowest N     the layers above N, the pooler, the head
    `lora_rank=r`      the embeddings, all layers       `A` and `B` of each layer, the pooler, the head
    both               the embeddings, all layers       `A` and `B` of the layers above N, the pooler, the head
    =================  ===============================  =======================================================

    LoRA replaces the kernel `W` of each layer's query, key and value projection by `W + A B`, with `A [hidden, rank]`
    and `B [rank, 3 * hidden]` (Hu et al. 2021, section 4.1, with alpha = rank; the paper has separate products for
    query and value).

    When the block ends, `A B` is merged into the kernels, and the frozen weights are trainable again: call `compile`
    once more before you train them with `fit`. Files that are written inside the block hold the sums `W + A B`, too.

    Args:
        model: a task model, or the `BertEncoder` in a Keras model of your own.
        frozen_layers: the number of layers to freeze, from the lowest.
        lora_rank: the rank of `A` and `B`; None: no LoRA.

    Raises:
        TypeError: `model` is neither a task model nor an encoder.
        ValueError: the model has fewer layers, a frozen layer would share weights with a trainable one, or LoRA has no
            layer to change or is enabled already.

    Example:
        >>> from keras_bert import BertClassifier
        >>> model = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["good", "bad"])
        >>> with adapting(model, lora_rank=8):
        ...     sum(variable.value.shape.num_elements() for variable in model.trainable_variables)
        222338
        >>> sum(variable.value.shape.num_elements() for variable in model.trainable_variables)
        22713986
    """
    is_task = isinstance(model, BertTask)
    encoder, reset_graphs = (model.encoder, model.reset_graphs) if is_task else (model, lambda: None)
    if not isinstance(encoder, BertEncoder):
        raise TypeError(
            f"got a {type(model).__name__}; expected a task model, such as BertClassifier, or a BertEncoder"
        )
    lowest, adapted = check_adapting(encoder, frozen_layers, lora_rank)
    frozen = [encoder.embeddings, *encoder.blocks[:lowest]] if lowest else []
    if lora_rank is not None:
        frozen = [encoder.embeddings, *encoder.blocks]
    with contextlib.ExitStack() as afterwards:
        afterwards.callback(reset_graphs)
        for variable in (variable for layer in frozen for variable in layer.trainable_variables):
            variable.trainable = False  # a layer's `trainable` would set all variables in it
            afterwards.callback(setattr, variable, "trainable", True)
        for dense in adapted:
            dense.enable_lora(lora_rank)
            afterwards.callback(undocumented.merge_lora, dense)
        reset_graphs()
        yield


def check_adapting(
    encoder: BertEncoder, frozen_layers: int, lora_rank: int | None
) -> tuple[int, list[keras.layers.Dense]]:
    """Counts the blocks to freeze, and lists the layers that LoRA changes. Raises ValueError as `adapting` does."""
    lowest = _lowest_blocks(encoder, frozen_layers)
    adapted = [] if lora_rank is None else [block.attention.qkv for block in encoder.blocks[lowest:]]
    if lora_rank is not None:
        _check_lora(lora_rank, adapted)
    return lowest, adapted


def _lowest_blocks(encoder: BertEncoder, layers: int) -> int:
    """Counts the blocks that make up the lowest `layers` layers; with shared weights, a block is several layers."""
    config = encoder.config
    if not 0 <= layers <= config.num_layers:
        raise ValueError(f"frozen_layers is {layers}, of {counted(config.num_layers, 'layer')}; 0 freezes nothing")
    groups = [config.group_of(layer) for layer in range(config.num_layers)]
    if layers and groups[layers - 1 : layers] == groups[layers : layers + 1]:
        allowed = ", ".join(str(groups.index(group)) for group in range(config.groups))
        raise ValueError(
            f"frozen_layers is {layers}, but in this model, layers {layers} and {layers + 1} share weights; expected "
            f"{allowed} or {config.num_layers}"
        )
    return len({*groups[:layers]})


def _check_lora(rank: int, adapted: list[keras.layers.Dense]) -> None:
    if rank < 1:
        raise ValueError(f"lora_rank is {rank}; expected 1 or more, or None for no LoRA")
    if not adapted:
        raise ValueError(f"lora_rank is {rank}, but all layers are frozen, so LoRA has no layer to change")
    if any(map(undocumented.has_lora, adapted)):
        raise ValueError("LoRA is already enabled; train it with lora_rank=None, or merge it first")
