"""Hidden states of texts that were cut into windows."""

from typing import Any

from keras import ops

from keras_bert.encoder import BertEncoder

POOLS = ("mean", "max")


def pooled_output(encoder: BertEncoder, inputs: dict[str, Any], pool: str, training: bool | None = None) -> Any:
    """The encoder's `pooled_output`; where texts have windows, their mean or (elementwise) maximum over these.

    Args:
        encoder: runs on every window by itself.
        inputs: as the encoder takes them, or with windows: int `[batch, windows, seq_length]`, where a window of
            nothing but padding is none.
        pool: "mean" or "max".

    Returns:
        float `[batch, hidden]`.
    """
    if len(inputs["input_word_ids"].shape) == 2:
        return encoder(inputs, training=training)["pooled_output"]
    batch, windows, seq_length = ops.shape(inputs["input_word_ids"])
    flat = {name: ops.reshape(each, (-1, seq_length)) for name, each in inputs.items()}
    pooled = encoder(flat, training=training)["pooled_output"]
    pooled = ops.reshape(pooled, (batch, windows, encoder.config.hidden_size))
    is_window = ops.any(inputs["input_mask"] > 0, axis=-1, keepdims=True)  # [batch, windows, 1]
    if pool == "max":
        lowest = ops.min(pooled, axis=1, keepdims=True)
        return ops.max(ops.where(is_window, pooled, lowest), axis=1)
    is_window = ops.cast(is_window, pooled.dtype)
    return ops.sum(pooled * is_window, axis=1) / ops.sum(is_window, axis=1)
