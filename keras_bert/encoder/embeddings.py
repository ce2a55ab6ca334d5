"""Piece, position and segment embeddings, summed (Devlin et al. 2018, section 3.2 and figure 2)."""

from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.layers import dropout, embedding, layer_norm


class BertEmbeddings(keras.layers.Layer):
    """`LayerNorm(piece + position + type)`, then dropout.

    Args:
        config: the architecture.

    Call arguments:
        word_ids: int `[batch, seq_length]`.
        type_ids: int `[batch, seq_length]`, or None: every piece belongs to the first segment.

    Returns:
        float `[batch * seq_length, hidden]`: one row a piece, the rows of a sequence one after the other.
    """

    def __init__(self, config: BertConfig, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.word_embeddings = embedding(config, config.vocab_size, self.dtype_policy, "word")
        self.position_embeddings = embedding(config, config.max_positions, self.dtype_policy, "position")
        self.type_embeddings = embedding(config, config.type_vocab_size, self.dtype_policy, "type")
        self.norm = layer_norm(config, self.dtype_policy, "norm")
        self.dropout = dropout(config.hidden_dropout, self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        for table in (self.word_embeddings, self.position_embeddings, self.type_embeddings):
            table.build()
        self.norm.build((None, self.config.hidden_size))

    def call(self, word_ids: Any, type_ids: Any = None, training: bool | None = None) -> Any:
        seq_length = ops.shape(word_ids)[1]
        positions = self.position_embeddings(ops.arange(seq_length, dtype="int32"))  # [seq_length, hidden]
        types = self.type_embeddings(
            ops.zeros((1,), "int32") if type_ids is None else type_ids
        )  # [(batch), 1 or seq, hidden]
        hidden = self.word_embeddings(word_ids) + (positions + types)  # [batch, seq_length, hidden]
        hidden = ops.reshape(hidden, (-1, self.config.hidden_size))
        return self.dropout(self.norm(hidden), training=training)
