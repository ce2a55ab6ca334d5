"""Token, position and segment embeddings, summed (Devlin et al. 2018, section 3.2 and figure 2)."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.disentangled import Distances, select_distances
from keras_bert.encoder.layers import build, dropout, make_layer
from keras_bert.encoder.layout import Layout
from keras_bert.encoder.positions import relative_bias
from keras_bert.shapes import embedding_layers
from keras_bert.tensors import Tensor


class BertEmbeddings(keras.layers.Layer):
    """`LayerNorm(token + position + type)`, dropout, and a dense layer if `config.embedding_size` is set.

    Models with rotary or disentangled attention have no position embeddings. Families without segments have no type
    embeddings.

    Args:
        config: the architecture.

    Call arguments:
        word_ids: int `[batch, seq_length]`.
        layout: maps sequences to rows, one per token.
        type_ids: int `[batch, seq_length]`, or None: all tokens are in the first segment.
        token_embedding: maps token ids to vectors, int `[rows]` -> float `[rows, width]`; by default the layer's own.

    Returns:
        float `[rows, hidden]`: a row per token, sequence after sequence.
    """

    def __init__(self, config: BertConfig, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        layers = embedding_layers(config)
        self.word_embeddings = make_layer(layers, "word", config, self.dtype_policy)
        self.position_embeddings = make_layer(layers, "position", config, self.dtype_policy)
        self.type_embeddings = make_layer(layers, "type", config, self.dtype_policy)
        self.relative_table = make_layer(layers, "relative", config, self.dtype_policy)
        self.distances_table = make_layer(layers, "distances", config, self.dtype_policy)
        self.distances_norm = make_layer(layers, "distances_norm", config, self.dtype_policy)
        self.norm = make_layer(layers, "norm", config, self.dtype_policy)
        self.dropout = dropout(config.hidden_dropout, self.dtype_policy)
        self.projection = make_layer(layers, "projection", config, self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        layers = {
            "word": self.word_embeddings,
            "position": self.position_embeddings,
            "type": self.type_embeddings,
            "relative": self.relative_table,
            "distances": self.distances_table,
            "distances_norm": self.distances_norm,
            "norm": self.norm,
            "projection": self.projection,
        }
        build(embedding_layers(self.config), layers)

    def call(
        self,
        word_ids: Tensor,
        layout: Layout,
        type_ids: Tensor | None = None,
        training: bool | None = None,
        token_embedding: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        hidden = (token_embedding or self.word_embeddings)(layout.rows(word_ids))  # [rows, width]
        if self.position_embeddings is not None:
            hidden = hidden + self.position_embeddings(layout.rows(self._positions(word_ids, layout)))
        if self.type_embeddings is not None:
            # Without type ids, the row of type 0 is broadcast.
            types = ops.zeros((1,), "int32") if type_ids is None else layout.rows(type_ids)
            hidden = hidden + self.type_embeddings(types)
        hidden = hidden if self.norm is None else self.norm(hidden)
        hidden = self.dropout(hidden, training=training)
        return hidden if self.projection is None else self.projection(hidden)

    def attention_bias(self, length: int | Tensor) -> Tensor | None:
        """Computes the bias of all layers' attention scores, float32 `[num_heads, length, length]`, or None."""
        return None if self.relative_table is None else relative_bias(self.relative_table, length)

    def distances(self, length: int | Tensor) -> Distances | None:
        """Embeds the distances in texts of this length, for all layers; None unless attention is disentangled."""
        if self.distances_table is None:
            return None
        table = self.distances_norm(self.distances_table(np.arange(self.distances_table.input_dim, dtype="int32")))
        return select_distances(table, self.config.max_positions, length)

    def _positions(self, word_ids: Tensor, layout: Layout) -> Tensor:
        """Counts positions: int `[batch, seq_length]`.

        They count from 0, or from `pad_token_id + 1` in families that skip padding (Liu et al. 2019, fairseq).
        """
        if not self.config.positions_after_padding:
            return layout.cumulative_sum(ops.ones_like(word_ids, "int32")) - 1
        is_token = ops.cast(ops.not_equal(word_ids, self.config.pad_token_id), "int32")
        return layout.cumulative_sum(is_token) * is_token + self.config.pad_token_id
