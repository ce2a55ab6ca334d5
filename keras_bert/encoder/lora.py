"""Low-rank adaptation (Hu et al. 2021, section 4.1) of Keras's dense layers: `dense.enable_lora(rank)`."""

from typing import Any

import keras
from keras import ops


def change(dense: keras.layers.Dense) -> Any:
    """LoRA's change to the kernel `[inputs, units]`: `alpha / rank * A B`, in float32."""
    return dense.lora_alpha / dense.lora_rank * ops.matmul(dense.lora_kernel_a, dense.lora_kernel_b)


def merge(dense: keras.layers.Dense) -> None:
    """Adds LoRA's change to the kernel, and removes LoRA from the layer; the kernel stays frozen.

    Example:
        >>> dense = keras.layers.Dense(3)
        >>> dense.build((None, 2))
        >>> dense.enable_lora(rank=1)
        >>> merge(dense)
        >>> [variable.name for variable in dense.variables]
        ['kernel', 'bias']
    """
    added = change(dense)
    dense.lora_kernel_b.assign(ops.zeros_like(dense.lora_kernel_b))  # graphs traced before still add it
    dense.lora_enabled = False
    dense.lora_rank = dense.lora_alpha = None
    del dense.lora_kernel_a, dense.lora_kernel_b
    dense.kernel.assign_add(added)
