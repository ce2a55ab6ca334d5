"""Token, position and segment embeddings, summed (Devlin et al. 2018, section 3.2 and figure 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.disentangled import Distances, select_distances
from keras_bert.encoder.layers import Dropout, LayerMaker
from keras_bert.encoder.positions import RelativeBias, relative_bias
from keras_bert.encoder.unpadding import Unpadding, same_document
from keras_bert.shapes import embedding_layers
from keras_bert.tensors import Tensor


class BertEmbeddings(keras.layers.Layer):
    """`LayerNorm(token + position + type)`, dropout, and a dense layer if `config.embedding_size` is set."""

    # Models with rotary or disentangled attention have no position embeddings. Families without segments have no type
    # embeddings.

    def __init__(self, config: BertConfig, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.make = make = LayerMaker(embedding_layers(config), config, self.dtype_policy)
        self.word_embeddings = make("word")
        self.position_embeddings = make("position")
        self.type_embeddings = make("type")
        self.relative_table = make("relative")  # these two names are in files of Keras
        self.distances_table = make("distances")
        self.distances_norm = make("distances_norm")
        self.norm = make("norm")
        self.dropout = Dropout(config.hidden_dropout, dtype=self.dtype_policy, name="dropout")
        self.projection = make("projection")

    def build(self, input_shape: Any = None) -> None:
        self.make.build()

    def call(
        self,
        word_ids: Tensor,  # int [batch, seq_length], as the next two
        unpadding: Unpadding,
        type_ids: Tensor | None = None,  # None: all tokens are in the first segment
        document_ids: Tensor | None = None,  # None: each sequence is one text
        training: bool | None = None,
        token_embedding: Callable[[Tensor], Tensor] | None = None,  # in place of the layer's own
    ) -> Tensor:
        hidden = (token_embedding or self.word_embeddings)(unpadding.tokens(word_ids))  # [tokens, width]
        if self.position_embeddings is not None:
            hidden = hidden + self.position_embeddings(unpadding.tokens(self._positions(word_ids, document_ids)))
        if self.type_embeddings is not None:
            # Without type ids, the vector of type 0 is broadcast.
            types = ops.zeros((1,), "int32") if type_ids is None else unpadding.tokens(type_ids)
            hidden = hidden + self.type_embeddings(types)
        hidden = hidden if self.norm is None else self.norm(hidden)
        hidden = self.dropout(hidden, training=training)
        return hidden if self.projection is None else self.projection(hidden)

    def relative(self, length: int | Tensor) -> RelativeBias | Distances | None:
        """Computes what distances in texts of this length add to all layers' scores; None if they add nothing."""
        if self.relative_table is not None:
            return relative_bias(self.relative_table, length)
        if self.distances_table is None:
            return None
        buckets = np.arange(self.distances_table.input_dim, dtype="int32")
        return select_distances(self.distances_norm(self.distances_table(buckets)), self.config.max_positions, length)

    def _positions(self, word_ids: Tensor, document_ids: Tensor | None) -> Tensor:
        """Counts each text's tokens from 0, or from `pad_token_id + 1` without padding (Liu et al. 2019, fairseq)."""
        if not self.config.positions_after_padding:
            return _cumulative_sum(ops.ones_like(word_ids, "int32"), document_ids) - 1
        is_token = ops.cast(ops.not_equal(word_ids, self.config.pad_token_id), "int32")
        return _cumulative_sum(is_token, document_ids) * is_token + self.config.pad_token_id


def _cumulative_sum(values: Tensor, document_ids: Tensor | None) -> Tensor:
    """Computes the cumulative sums within each text: int32 `[batch, seq_length]` -> the same shape."""
    if document_ids is None:
        return ops.cumsum(values, axis=1)
    is_up_to_token = ops.tril(ops.cast(same_document(document_ids), "int32"))  # [batch, token, token before it]
    return ops.sum(is_up_to_token * ops.expand_dims(values, 1), axis=2)
