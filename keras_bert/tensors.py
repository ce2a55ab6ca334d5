"""Types: tensors of any of Keras's backends, and the dict that encoders return."""

from __future__ import annotations

from typing import Any, TypeAlias, TypedDict

Tensor: TypeAlias = Any  # of Keras's backend: tf.Tensor, jax.Array or torch.Tensor, or a keras.KerasTensor


class EncoderOutputs(TypedDict):
    """The outputs of a `BertEncoder`; H is `hidden_size`."""

    pooled_output: Tensor  # [batch, H]
    sequence_output: Tensor  # [batch, seq_length, H]
    encoder_outputs: list[Tensor]  # num_layers of [batch, seq_length, H]
    default: Tensor  # pooled_output
