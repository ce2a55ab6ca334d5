"""Types: tensors of any of Keras's backends, and the dict that encoders return; and transformers' names of tensors."""

from __future__ import annotations

from typing import Any, TypeAlias, TypedDict

Tensor: TypeAlias = Any  # of Keras's backend: tf.Tensor, jax.Array or torch.Tensor, or a keras.KerasTensor


class EncoderOutputs(TypedDict):
    """The outputs of a `BertEncoder`; H is `hidden_size`."""

    pooled_output: Tensor  # [batch, H]
    sequence_output: Tensor  # [batch, seq_length, H]
    encoder_outputs: list[Tensor]  # num_layers of [batch, seq_length, H]
    default: Tensor  # pooled_output


# TF Hub's name of an input or an output -> transformers' name.
TRANSFORMERS_INPUTS = {
    "input_word_ids": "input_ids",
    "input_mask": "attention_mask",
    "input_type_ids": "token_type_ids",
}
TRANSFORMERS_OUTPUTS = {"sequence_output": "last_hidden_state", "pooled_output": "pooler_output"}
