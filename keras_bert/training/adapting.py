"""Training of a part of an encoder: without its lowest layers, or with low-rank changes only (LoRA)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import keras

from keras_bert.encoder import BertEncoder
from keras_bert.encoder.lora import merge
from keras_bert.tasks.task import BertTask


@contextlib.contextmanager
def adapting(model: BertTask, frozen_layers: int = 0, lora_rank: int | None = None) -> Iterator[None]:
    """Inside this block, only a part of a model's weights is trainable.

    `frozen_layers` freezes the embeddings and the lowest N layers. `lora_rank` freezes the embeddings and all layers,
    and adds the product of two trainable matrices, `A [hidden, rank]` and `B [rank, 3 * hidden]`, to the kernel of each
    dense layer for query, key and value (Hu et al. 2021, section 4.1, with alpha = rank; there, query and value have a
    product each). With both, LoRA changes only the layers above the frozen ones. The pooler and the head are always
    trainable.

    After the block, the products are part of the kernels, and the frozen weights are trainable again.

    Raises:
        ValueError: there are fewer layers, a frozen layer shares weights with one that is not frozen, or LoRA has no
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
    encoder = model.encoder
    lowest = _lowest_blocks(encoder, frozen_layers)
    frozen = [encoder.embeddings, *encoder.blocks[:lowest]] if lowest else []
    adapted = []
    if lora_rank is not None:
        frozen = [encoder.embeddings, *encoder.blocks]
        adapted = [block.attention.qkv for block in encoder.blocks[lowest:]]
        _check_lora(lora_rank, adapted)
    with contextlib.ExitStack() as afterwards:
        afterwards.callback(model.retrace)
        for variable in (variable for layer in frozen for variable in layer.trainable_variables):
            variable.trainable = False  # not of the layer, which would set all variables in it
            afterwards.callback(setattr, variable, "trainable", True)
        for dense in adapted:
            dense.enable_lora(lora_rank)
            afterwards.callback(merge, dense)
        model.retrace()
        yield


def _lowest_blocks(encoder: BertEncoder, layers: int) -> int:
    """The number of blocks that the lowest layers are."""
    config = encoder.config
    if not 0 <= layers <= config.num_layers:
        raise ValueError(f"frozen_layers is {layers}, but this model has {config.num_layers} layers; 0 freezes nothing")
    shared_by = config.num_layers // config.groups
    if layers % shared_by:
        raise ValueError(
            f"frozen_layers is {layers}, but in this model each {shared_by} layers share their weights; expected a "
            f"multiple of {shared_by}"
        )
    return layers // shared_by


def _check_lora(rank: int, adapted: list[keras.layers.Dense]) -> None:
    if rank < 1:
        raise ValueError(f"lora_rank is {rank}; expected 1 or more, or None for no LoRA")
    if not adapted:
        raise ValueError(f"lora_rank is {rank}, but all layers are frozen: there is none for LoRA to change")
    if any(dense.lora_enabled for dense in adapted):
        raise ValueError("LoRA is enabled already; train it as it is, with lora_rank=None, or merge it first")
