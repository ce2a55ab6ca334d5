"""BertSparseEncoder: encodes texts as weights of tokens (Formal et al. 2021, "SPLADE v2")."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.answers.columns import Targets
from keras_bert.answers.similarity import are_text_numbers
from keras_bert.answers.tokens import SparseEncoder, WeightAnswers
from keras_bert.choices import SPARSE_POOLINGS, check_choice
from keras_bert.data import Examples
from keras_bert.data.task_files import SparseFiles
from keras_bert.encoder import BertEncoder
from keras_bert.formats.libraries import sparse_encoder
from keras_bert.loss_table import LOSSES, default_loss
from keras_bert.tasks import losses
from keras_bert.tasks.base.by_length import GraphByLength
from keras_bert.tasks.base.columns import Inputs
from keras_bert.tasks.base.compared import ComparesTexts
from keras_bert.tasks.base.storable import Part
from keras_bert.tasks.base.task import ToTrain
from keras_bert.tasks.heads import MaskedLMHead
from keras_bert.tasks.losses.sentence_losses import SpladeLoss
from keras_bert.tasks.masked_lm import GraphTokenTexts, token_texts
from keras_bert.tasks.sentence import Similarity
from keras_bert.tasks.steps.gradient_cache import Column
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor
from keras_bert.text.strings import as_strings


class TokenWeights(WeightAnswers, Similarity):
    """The weights of rows of texts, learned as `Similarity`, by dot products, with FLOPS."""

    def loss(self) -> keras.losses.Loss:
        return SpladeLoss(_loss_named(default_loss("vectors")))

    def loss_for(self, targets: Targets, columns: int) -> keras.losses.Loss:
        return self.loss() if are_text_numbers(targets) else SpladeLoss(super().loss_for(targets, columns))


def _loss_named(name: str) -> keras.losses.Loss:
    """Makes a loss of sentence vectors; a ranking loss compares dot products."""
    return losses.chosen(name, "vectors", **{"scale": 1.0, "normalize": False} if LOSSES[name].in_batch else {})


@keras.saving.register_keras_serializable(package="keras_bert")
class BertSparseEncoder(SparseEncoder, ComparesTexts):
    """A model that weights the tokens of the vocabulary: the tokens of a text, and others of similar meaning.

    Use it for search with an inverted index: most weights are 0, so the index can hold them. The similarity of two
    texts is the dot product of their weights.

    A weight is `max over positions of log(1 + max(0, logit))`, with the logits of the masked language modeling head:
    Formal et al. 2021, "SPLADE v2: Sparse Lexical and Expansion Model for Information Retrieval", section 3. The model
    must have been trained for this, as models for sentence-transformers' SparseEncoder are; `fine_tune` trains one,
    from a masked language model and columns of texts, `(queries, positives)`, maybe with negatives, by `SpladeLoss`.

    Args:
        encoder, preprocessor: see `BertTask`. The preprocessor has no stride.
        pooling: "max", or "sum" over the positions.
        activation: "relu"; or "log1p_relu", which takes the logarithm twice.
        query_table: whether queries get their weights from a table, without the network: 0 for a token that is not in
            the query, else the token's own weight, such as its rarity. The table comes from a preset; in a new model
            all weights are 1. Geng et al. 2024, "Towards Competitive Search Relevance For Inference-Free Learned
            Sparse Retrievers". Training leaves it as it is, unless `model.query_weights.trainable` is True.

    Call arguments:
        inputs: texts, or packed inputs, see `BertTask`. Or a tuple of columns, queries first.

    Returns:
        float32 `[batch, vocab_size]`: the weights, 0 or more; for columns `[batch, columns, vocab_size]`.

    Example:
        >>> model = BertSparseEncoder.from_preset("bert-books")  # in practice, a SPLADE model
        >>> len(model.encode("a film", top_k=3))
        3
    """

    kind = TokenWeights()
    REQUIRED_HEAD = "masked language modeling head, which computes the weights"
    PARTS = (
        Part(
            "query_weights",
            lambda model: None if model.query_weights is None else [model.query_weights],
            must_be_equal="query_table",
            is_in_graph=False,
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
        check_choice("pooling", pooling, SPARSE_POOLINGS)
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
            self.query_weights = self.add_weight(shape=shape, initializer="ones", dtype="float32", name="query_weights")
            self.query_weights.trainable = False  # may become True: a tape watches what it was made for
        self.built = True

    @classmethod
    def to_train(cls, settings: SparseFiles, preset: str | Path, examples: Examples) -> ToTrain:
        arguments = {"sequence_length": settings.sequence_length, "query_table": settings.query_table or None}
        model = cls.from_preset(preset, **arguments)
        if model.query_weights is not None:
            model.query_weights.trainable = settings.train_query_table
        elif settings.train_query_table:
            raise ValueError(f"train_query_table needs a table, but {preset} has none; add query_table")
        loss = SpladeLoss(_loss_named(settings.chosen_loss), settings.document_weight, settings.query_weight)
        return model, {"loss": loss, "mini_batch_size": settings.mini_batch_size}

    def call(self, inputs: Inputs, training: bool | None = None) -> Tensor:
        if isinstance(inputs, tuple | list):
            return self.encoded_columns(inputs, training)
        return self._encode_packed(self.packed(inputs), training)

    def text_columns(self, columns: Sequence[Inputs], training: bool | None = None) -> list[Column]:
        network = functools.partial(self._encode_packed, training=training)
        first = network if self.query_weights is None else self._look_up
        tokenize = self.preprocessor.tokenizer.tokenize
        return [
            Column(
                texts if isinstance(texts, dict) else self.packed_column(number, tokenize(texts)),
                network if number else first,
                (self.encoder.config.vocab_size,),
            )
            for number, texts in enumerate(columns)
        ]

    def tokenized(self, number: int, texts: list[str]) -> tuple[tf.RaggedTensor, np.ndarray]:
        segment = self.preprocessor.tokenizer.tokenize(as_strings(texts))
        return segment, self._by_length.lengths([segment])

    def packed_column(self, number: int, segment: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        if number or self.query_weights is None:
            return self.preprocessor.pack(segment)
        ids = segment[:, : self.preprocessor.longest]  # the table has no special tokens
        return {"input_word_ids": ids.to_tensor(), "input_mask": tf.ones_like(ids).to_tensor()}

    def _look_up(self, packed: dict[str, Tensor]) -> Tensor:
        """Looks up the weights of queries in the table, float32 `[batch, vocab_size]`."""
        ids, mask = packed["input_word_ids"], packed["input_mask"]
        rows, size = tf.zeros_like(ids) + tf.range(tf.shape(ids)[0])[:, None], self.encoder.config.vocab_size
        counts = tf.scatter_nd(tf.stack([rows, ids], axis=-1), mask, [tf.shape(ids)[0], size])
        assert self.query_weights is not None  # the caller has checked it
        table = ops.pad(self.query_weights, [[0, size - self.query_weights.shape[0]]])
        return ops.cast(counts > 0, "float32") * table

    def _encode_packed(self, packed: dict[str, Tensor], training: bool | None = None) -> Tensor:
        hidden = self.encoder(packed, training=training)["sequence_output"]
        logits = self.head(hidden, embeddings=self.encoder.embeddings.word_embeddings.embeddings)
        logits = ops.where(ops.expand_dims(packed["input_mask"] > 0, -1), logits, 0)  # [batch, seq_length, vocab_size]
        if self.pooling == "max":  # log(1 + x) keeps the order, so take it of the maxima: there are far fewer of them
            return self._weights(ops.max(logits, axis=1, initial=0.0))
        return ops.sum(self._weights(logits), axis=1)

    @property
    def query_table(self) -> np.ndarray | None:
        return None if self.query_weights is None else ops.convert_to_numpy(self.query_weights)

    def _query_ids(self, texts: Iterable[str]) -> list[np.ndarray]:
        return [*self.preprocessor.tokenizer.tokenize(as_strings(list(texts))).numpy()]

    def _weights(self, logits: Tensor) -> Tensor:
        """Converts logits to weights, float32: 0 for those below 0."""
        weights = ops.log1p(ops.relu(ops.cast(logits, "float32")))
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
