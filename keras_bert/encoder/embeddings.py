"""Token, position and segment embeddings, summed (Devlin et al. 2018, section 3.2 and figure 2)."""

from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder.layers import dense, dropout, embedding, layer_norm
from keras_bert.encoder.layout import Layout


class BertEmbeddings(keras.layers.Layer):
    """`LayerNorm(token + position + type)`, dropout, and a dense layer if embeddings are narrower than hidden states.

    Args:
        config: the architecture.

    Call arguments:
        word_ids: int `[batch, seq_length]`.
        layout: selects the tokens that become rows.
        type_ids: int `[batch, seq_length]`, or None: all tokens are in the first segment.
        words: token ids -> their embeddings, float `[rows, width]`; by default the layer's own.

    Returns:
        float `[rows, hidden]`: a row per token, sequence after sequence.
    """

    def __init__(self, config: BertConfig, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        self.word_embeddings = embedding(config, config.vocab_size, self.dtype_policy, "word")
        self.position_embeddings = embedding(config, config.position_rows, self.dtype_policy, "position")
        has_types = config.type_vocab_size > 0
        self.type_embeddings = (
            embedding(config, config.type_vocab_size, self.dtype_policy, "type") if has_types else None
        )
        self.norm = layer_norm(config, self.dtype_policy, "norm")
        self.dropout = dropout(config.hidden_dropout, self.dtype_policy)
        is_narrow = config.embedding_size is not None
        self.projection = dense(config, config.hidden_size, self.dtype_policy, "projection") if is_narrow else None

    def build(self, input_shape: Any = None) -> None:
        for table in (self.word_embeddings, self.position_embeddings, self.type_embeddings):
            if table is not None:
                table.build()
        self.norm.build((None, self.config.embedding_width))
        if self.projection is not None:
            self.projection.build((None, self.config.embedding_width))

    def call(
        self, word_ids: Any, layout: Layout, type_ids: Any = None, training: bool | None = None, words: Any = None
    ) -> Any:
        hidden = (words or self.word_embeddings)(layout.rows(word_ids))  # [rows, width]
        hidden = hidden + self.position_embeddings(layout.rows(self._positions(word_ids, layout)))
        if self.type_embeddings is not None:
            # Without type ids, a single row is broadcast.
            types = ops.zeros((1,), "int32") if type_ids is None else layout.rows(type_ids)
            hidden = hidden + self.type_embeddings(types)
        hidden = self.dropout(self.norm(hidden), training=training)
        return hidden if self.projection is None else self.projection(hidden)

    def _positions(self, word_ids: Any, layout: Layout) -> Any:
        """int `[batch, seq_length]`: 0, 1, 2, ...; in some families padding has none (Liu et al. 2019, fairseq)."""
        if not self.config.positions_after_padding:
            return layout.cumulated(ops.ones_like(word_ids, "int32")) - 1
        is_token = ops.cast(ops.not_equal(word_ids, self.config.pad_token_id), "int32")
        return layout.cumulated(is_token) * is_token + self.config.pad_token_id
