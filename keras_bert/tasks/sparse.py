"""BertSparseEncoder: encodes texts as weights of tokens (Formal et al. 2021, "SPLADE v2")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.answers.tokens import SparseEncoder, WeightAnswers
from keras_bert.choices import POOLINGS, check_choice
from keras_bert.encoder import BertEncoder
from keras_bert.formats.libraries import sparse_encoder
from keras_bert.tasks.base.by_length import GraphByLength
from keras_bert.tasks.base.columns import Inputs
from keras_bert.tasks.base.storable import Part
from keras_bert.tasks.base.task import BertTask
from keras_bert.tasks.heads import MaskedLMHead
from keras_bert.tasks.kinds import Kind
from keras_bert.tasks.masked_lm import GraphTokenTexts, token_texts
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor
from keras_bert.text.strings import as_strings


class TokenWeights(WeightAnswers, Kind[dict[str, float]]):
    """No labels; an answer is the weights of a text's tokens."""


@keras.saving.register_keras_serializable(package="keras_bert")
class BertSparseEncoder(SparseEncoder, BertTask):
    """A model that weights the tokens of the vocabulary: the tokens of a text, and others of similar meaning.

    Use it for search with an inverted index: most weights are 0, so the index can hold them. The similarity of two
    texts is the dot product of their weights.

    A weight is `max over positions of log(1 + max(0, logit))`, with the logits of the masked language modeling head:
    Formal et al. 2021, "SPLADE v2: Sparse Lexical and Expansion Model for Information Retrieval", section 3. The model
    must have been trained for this, as models for sentence-transformers' SparseEncoder are.

    Args:
        encoder, preprocessor: see `BertTask`. The preprocessor has no stride.
        pooling: "max", or "sum" over the positions.
        activation: "relu"; or "log1p_relu", which takes the logarithm twice.
        query_table: whether queries get their weights from a table, without the network: 0 for a token that is not in
            the query, else the token's own weight, such as its rarity. The table comes from a preset; in a new model
            all weights are 1. Geng et al. 2024, "Towards Competitive Search Relevance For Inference-Free Learned
            Sparse Retrievers".

    Call arguments:
        inputs: texts, or packed inputs, see `BertTask`.

    Returns:
        float32 `[batch, vocab_size]`: the weights, 0 or more.

    Example:
        >>> model = BertSparseEncoder.from_preset("bert-books")  # in practice, a SPLADE model
        >>> len(model.encode("a film", top_k=3))
        3
    """

    preprocessor: BertPreprocessor
    _by_length: GraphByLength

    kind = TokenWeights()
    REQUIRED_HEAD = "masked language modeling head, which computes the weights"
    PARTS = (
        Part(
            "query_weights", lambda model: _as_list(model.query_weights), must_be_equal="query_table", is_in_graph=False
        ),
    )

    def __init__(
        self,
        encoder: BertEncoder,
        preprocessor: BertPreprocessor,
        pooling: str = "max",
        activation: str = "relu",
        query_table: bool = False,
        **kwargs: Any,
    ) -> None:
        check_choice("pooling", pooling, POOLINGS["sparse"])
        check_choice("activation", activation, sparse_encoder.ACTIVATIONS)
        super().__init__(encoder, preprocessor, **kwargs)
        self.pooling = pooling
        self.activation = activation
        self.token_texts = token_texts(preprocessor.tokenizer)
        compute = lambda segments, top_k: self._highest_weights(preprocessor.pack(segments), top_k)  # noqa: E731
        self._by_length = GraphByLength(preprocessor, compute, self._graphs)
        self.head = MaskedLMHead(encoder.config, dtype=encoder.dtype_policy, name="masked_lm_head")
        self.head.build()
        self.query_weights = None
        if query_table:
            shape = (preprocessor.tokenizer.vocabulary_size,)
            self.query_weights = self.add_weight(
                shape=shape, initializer="ones", dtype="float32", trainable=False, name="query_weights"
            )
        self.built = True

    def call(self, inputs: Inputs, training: bool | None = None) -> Tensor:
        packed = self.packed(inputs)
        hidden = self.encoder(packed, training=training)["sequence_output"]
        logits = self.head(hidden, embeddings=self.encoder.embeddings.word_embeddings.embeddings)
        logits = ops.relu(ops.cast(logits, "float32"))  # [batch, seq_length, vocab_size]
        logits = logits * ops.expand_dims(ops.cast(packed["input_mask"], "float32"), -1)
        if self.pooling == "max":  # log(1 + x) keeps the order, so take it of the maxima: there are far fewer of them
            return self._weights(ops.max(logits, axis=1, initial=0.0))
        return ops.sum(self._weights(logits), axis=1)

    @property
    def query_table(self) -> np.ndarray | None:
        return None if self.query_weights is None else ops.convert_to_numpy(self.query_weights)

    def _query_ids(self, texts: Iterable[str]) -> list[np.ndarray]:
        return [*self.preprocessor.tokenizer.tokenize(as_strings(list(texts))).numpy()]

    def _weights(self, logits: Tensor) -> Tensor:
        """Converts logits of 0 or more to weights. 0 stays 0."""
        weights = ops.log1p(logits)
        return ops.log1p(weights) if self.activation == "log1p_relu" else weights

    def _highest_weights(self, inputs: Inputs, top_k: int | None) -> tf.Tensor:
        """Finds the tokens of highest weight: ids (float32 holds them) and weights, float32 `[batch, tokens, 2]`."""
        # The embedding table may have more rows than the vocabulary has tokens.
        weights = self(inputs, training=False)[:, : self.preprocessor.tokenizer.vocabulary_size]
        counts = tf.math.count_nonzero(weights, axis=1, dtype=tf.int32)
        count = tf.maximum(tf.reduce_max(counts), 0)
        values, ids = tf.math.top_k(weights, count if top_k is None else tf.minimum(count, top_k))
        return tf.stack([tf.cast(ids, tf.float32), values], axis=-1)  # rows of fewer tokens are padded with weight 0

    def serve(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Serves `text`, string `[batch]`, with `tokens`, string, and `weights`, float32, `[batch, tokens]` each.

        The highest weights come first. Rows of texts with fewer tokens are padded with "" and 0.
        """
        highest = self._highest_weights(text, None)
        return {"tokens": GraphTokenTexts(self.token_texts).decode(highest), "weights": highest[..., 1]}

    def serve_packed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `weights` of the tokenizer's vocabulary, float32 `[batch, vocab_size]`."""
        return {"weights": self(inputs, training=False)[:, : self.preprocessor.tokenizer.vocabulary_size]}

    # -- Files


def _as_list(variable: keras.Variable | None) -> list[keras.Variable]:
    return [] if variable is None else [variable]
