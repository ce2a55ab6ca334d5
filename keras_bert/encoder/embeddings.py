"""Token, position and segment embeddings, summed (Devlin et al. 2018, section 3.2 and figure 2)."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.disentangled import Distances, distances_of
from keras_bert.encoder.layers import EmbeddingTable, dense, dropout, embedding, norm
from keras_bert.encoder.layout import Layout
from keras_bert.encoder.positions import relative_bias


class BertEmbeddings(keras.layers.Layer):
    """`LayerNorm(token + position + type)`, dropout, and a dense layer if embeddings are narrower than hidden states.

    There are no position embeddings if attention is rotary or disentangled, and no type embeddings in families without
    segments.

    Args:
        config: the architecture.

    Call arguments:
        word_ids: int `[batch, seq_length]`.
        layout: maps sequences to rows, one per token.
        type_ids: int `[batch, seq_length]`, or None: all tokens are in the first segment.
        words: token ids -> embeddings, float `[rows, width]`; by default the layer's own table.

    Returns:
        float `[rows, hidden]`: a row per token, sequence after sequence.
    """

    def __init__(self, config: BertConfig, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.word_embeddings = embedding(config, config.vocab_size, self.dtype_policy, "word")
        self.position_embeddings = self._table(config.position_rows, "position")
        self.type_embeddings = self._table(config.type_vocab_size, "type")
        self.relative_table = None
        if config.relative_buckets is not None:
            buckets, heads = config.relative_buckets, config.num_heads
            self.relative_table = embedding(config, buckets, self.dtype_policy, "relative", width=heads)
        self.distances_table = self.distances_norm = None
        if config.disentangled_buckets is not None:
            rows, width = 2 * config.disentangled_buckets, config.hidden_size
            self.distances_table = embedding(config, rows, self.dtype_policy, "distances", width)
            self.distances_norm = norm(config, self.dtype_policy, "distances_norm")
        self.norm = norm(config, self.dtype_policy, "norm") if config.embedding_norm else None
        self.dropout = dropout(config.hidden_dropout, self.dtype_policy)
        is_narrow = config.embedding_size is not None
        self.projection = dense(config, config.hidden_size, self.dtype_policy, "projection") if is_narrow else None

    def _table(self, rows: int, name: str) -> EmbeddingTable | None:
        return embedding(self.config, rows, self.dtype_policy, name) if rows else None

    def build(self, input_shape: Any = None) -> None:
        tables = (self.word_embeddings, self.position_embeddings, self.type_embeddings)
        for table in (*tables, self.relative_table, self.distances_table):
            if table is not None:
                table.build()
        if self.distances_norm is not None:
            self.distances_norm.build((None, self.config.hidden_size))
        if self.norm is not None:
            self.norm.build((None, self.config.embedding_width))
        if self.projection is not None:
            self.projection.build((None, self.config.embedding_width))

    def call(
        self, word_ids: Any, layout: Layout, type_ids: Any = None, training: bool | None = None, words: Any = None
    ) -> Any:
        hidden = (words or self.word_embeddings)(layout.rows(word_ids))  # [rows, width]
        if self.position_embeddings is not None:
            hidden = hidden + self.position_embeddings(layout.rows(self._positions(word_ids, layout)))
        if self.type_embeddings is not None:
            # Without type ids, one row is broadcast.
            types = ops.zeros((1,), "int32") if type_ids is None else layout.rows(type_ids)
            hidden = hidden + self.type_embeddings(types)
        hidden = hidden if self.norm is None else self.norm(hidden)
        hidden = self.dropout(hidden, training=training)
        return hidden if self.projection is None else self.projection(hidden)

    def attention_bias(self, length: Any) -> Any:
        """float32 `[num_heads, length, length]`: the bias that all layers add to their attention scores, or None."""
        return None if self.relative_table is None else relative_bias(self.relative_table, length)

    def distances(self, length: Any) -> Distances | None:
        """The embeddings of distances in texts of this length, for disentangled attention in all layers; else None."""
        if self.distances_table is None:
            return None
        table = self.distances_norm(self.distances_table(np.arange(self.distances_table.input_dim, dtype="int32")))
        return distances_of(table, self.config.max_positions, length)

    def _positions(self, word_ids: Any, layout: Layout) -> Any:
        """int `[batch, seq_length]`: 0, 1, 2, ...; some families do not count padding (Liu et al. 2019, fairseq)."""
        if not self.config.positions_after_padding:
            return layout.cumulated(ops.ones_like(word_ids, "int32")) - 1
        is_token = ops.cast(ops.not_equal(word_ids, self.config.pad_token_id), "int32")
        return layout.cumulated(is_token) * is_token + self.config.pad_token_id
