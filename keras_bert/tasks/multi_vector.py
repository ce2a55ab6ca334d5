"""BertMultiVectorEncoder: encodes each token of a text as a vector (Khattab and Zaharia 2020, "ColBERT")."""

from __future__ import annotations

import contextlib
import functools
import string
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.answers import token_vectors
from keras_bert.answers.columns import Targets
from keras_bert.answers.similarity import TextVectors, are_text_numbers, are_vectors
from keras_bert.answers.token_vectors import MultiVectorEncoder, TokenVectorAnswers
from keras_bert.data import Examples
from keras_bert.data.task_files import TokenVectorFiles
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.unpadding import fixed_shapes
from keras_bert.formats import Preset
from keras_bert.formats.libraries.multi_vector import checked_dense
from keras_bert.loss_table import LOSSES
from keras_bert.tasks import losses
from keras_bert.tasks.base.by_length import GraphByLength, Graphs
from keras_bert.tasks.base.columns import Inputs
from keras_bert.tasks.base.compared import ComparesTexts
from keras_bert.tasks.base.storable import Part
from keras_bert.tasks.base.task import ToTrain
from keras_bert.tasks.kinds import Kind
from keras_bert.tasks.losses.sentence_losses import MarginMSELoss, maxsim
from keras_bert.tasks.steps.gradient_cache import Column
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor
from keras_bert.text.packing import count_tokens

NEW = {  # of a model that is made for training, as ColBERT's
    "query_length": 32,
    "query_expansion": {"length": 32},
    "skipped_tokens": [*string.punctuation],
}


class TokenVectors(TokenVectorAnswers, Kind[TextVectors]):
    """The vectors of rows of texts, learned by in-batch ranking, or from a better model's scores."""

    @property
    def scale(self) -> float:
        """The factor of scores in ranking losses: a mean is from -1 to 1, a sum as large as the query is long."""
        return 20.0 if self.mean else 1.0

    def loss(self) -> keras.losses.Loss:
        return losses.default("token_vectors", scale=self.scale)

    def loss_for(self, targets: Targets, columns: int) -> keras.losses.Loss:
        if are_text_numbers(targets):
            return self.loss()
        if columns < 3 or are_vectors(targets, columns):
            raise ValueError(
                "vectors of tokens learn from texts without labels, or from a better model's scores of two or more "
                "texts for each query"
            )
        is_scores = len(targets.shape) == 2 and targets.shape[1] == columns - 1
        return losses.default("token_vectors", has_scores=True) if is_scores else MarginMSELoss()


@keras.saving.register_keras_serializable(package="keras_bert")
class BertMultiVectorEncoder(MultiVectorEncoder, ComparesTexts):
    """A model that encodes each token of a text as a vector, and compares texts by their most similar tokens.

    Use it to rank texts more precisely than by one vector of each, where each document is still encoded only once.
    `BertReranker` is more precise and slower: it reads each pair.

    Khattab and Zaharia 2020, "ColBERT: Efficient and Effective Passage Search via Contextualized Late Interaction over
    BERT". The model must have been trained for this, as models for ColBERT, PyLate or sentence-transformers'
    MultiVectorEncoder are; `fine_tune` trains one. It learns from columns of texts, `(queries, positives)`, maybe
    followed by negatives, with `MultipleNegativesRankingLoss`; and from a better model's scores of two or more texts
    for each query, with `DistillKLDivLoss` (Santhanam et al. 2022, "ColBERTv2") or `MarginMSELoss`.

    Args:
        encoder, preprocessor: see `BertTask`. Its longest row is the length of documents.
        dense: layers between hidden states and vectors, by default none. Each is a dict of `units`, `activation`
            ("linear", "tanh", "relu" or "gelu"), `use_bias`, and `use_residual`, which adds the layer's input.
        normalize: whether each vector gets length 1.
        prompts: texts to put before "query" and "document". A prompt may begin with a token of the vocabulary, such as
            ColBERT's markers "[Q] " and "[D] ", or "[unused0] ".
        query_length: the most tokens of a query; by default that of documents.
        query_expansion: how to fill up short queries, or None: a dict of `length` (of each query, in tokens), `token`
            (by default the mask), and `attend`, whether other tokens attend to it.
        skipped_tokens: tokens of documents that get no vector, such as punctuation.
        token_pooling: how to pool similar tokens of a document, or None: a dict of `factor`, the tokens of a cluster on
            average, `protected`, the number of first tokens that stay, and `normalize`, whether means get length 1.
        mean_maxsim: whether `similarity` is the mean over the tokens of a query, in place of the sum.

    Call arguments:
        inputs: documents, or packed inputs of any texts, see `BertTask`. Or a tuple of columns, queries first.

    Returns:
        float32 `[batch, seq_length, vector_size]`: the vectors; zeros for padding and skipped tokens. For columns
        `[batch, columns, seq_length, vector_size + 1]`, as the losses in `keras_bert.tasks.losses.sentence_losses` take
        them: the last value is 1 for a token that counts, else 0.

    Example:
        >>> from keras_bert import BertMultiVectorEncoder
        >>> model = BertMultiVectorEncoder.from_preset("all-MiniLM-L6-v2")  # in practice, a ColBERT
        >>> model.encode("a film").shape  # [CLS] a film [SEP]
        (4, 384)
        >>> model.rank("a movie", ["taxes", "a film"])[0]["text"]
        'a film'
    """

    _rows: Mapping[str, _GraphOfKind]

    PARTS = (Part("dense", lambda model: model.projection, must_be_equal="dense"),)

    def __init__(
        self,
        encoder: BertEncoder,
        preprocessor: BertPreprocessor,
        dense: Sequence[Mapping[str, Any]] | None = None,
        normalize: bool = True,
        prompts: Mapping[str, str] | None = None,
        query_length: int | None = None,
        query_expansion: Mapping[str, Any] | None = None,
        skipped_tokens: Sequence[str] | None = None,
        token_pooling: Mapping[str, Any] | None = None,
        mean_maxsim: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(encoder, preprocessor, **kwargs)
        self.dense = checked_dense(dense or ())
        self.normalize = normalize
        self.prompts = token_vectors.checked_prompts(prompts)
        self.query_length = query_length
        self.query_expansion = token_vectors.checked_expansion(query_expansion, query_length, preprocessor.longest)
        self.skipped_tokens = list(skipped_tokens or ())
        self.token_pooling = token_vectors.checked_pooling(token_pooling)
        self.mean_maxsim = mean_maxsim
        with tf.init_scope():
            preprocessors = self._read_settings(preprocessor, BertPreprocessor)
        self._rows = {
            kind: _GraphOfKind(each, self._compute, self._graphs, self._first_token(kind), self._least(kind))
            for kind, each in preprocessors.items()
        }
        self._by_length = self._rows["document"]
        self.projection = self._make_projection()
        self.built = True

    def _make_projection(self) -> list[keras.Variable]:
        """Makes the weights of the layers between hidden states and vectors: "kernel_0", "bias_0", "residual_0", ..."""
        inputs, weights = self.encoder.config.hidden_size, []
        for number, layer in enumerate(self.dense):
            units = layer["units"]
            shapes: dict[str, tuple[int, ...]] = {"kernel": (inputs, units)}
            if layer["use_bias"]:
                shapes["bias"] = (units,)
            if layer["use_residual"] and inputs != units:
                shapes["residual"] = (inputs, units)
            for name, shape in shapes.items():
                settings = {"name": f"{name}_{number}", "initializer": "zeros" if name == "bias" else "glorot_uniform"}
                weights.append(self.add_weight(shape=shape, dtype="float32", **settings))
            inputs = units
        return weights

    @property
    def vector_size(self) -> int:
        return self.dense[-1]["units"] if self.dense else self.encoder.config.hidden_size

    @property
    def kind(self) -> TokenVectors:
        return TokenVectors(self.mean_maxsim)

    @classmethod
    def to_train(cls, settings: TokenVectorFiles, preset: str | Path, examples: Examples) -> ToTrain:
        with Preset.open(preset) as opened:
            new = {} if cls.is_in(opened) else dict(NEW)
            if new or settings.vector_size:
                new["dense"] = [{"units": settings.vector_size or 128}]
            model = cls.from_preset(opened, sequence_length=settings.sequence_length, **new)
        scale = {"scale": model.kind.scale} if settings.loss and LOSSES[settings.loss].in_batch else {}
        loss = losses.chosen(settings.loss, "token_vectors", **scale)
        return model, {"loss": loss, "mini_batch_size": settings.mini_batch_size}

    def call(self, inputs: Inputs, training: bool | None = None) -> Tensor:
        if isinstance(inputs, tuple | list):
            return self.encoded_columns(inputs, training)
        packed = inputs if isinstance(inputs, dict) else self._pack("document", inputs)
        return self._encode_packed(packed, "document", training)[0]

    def text_columns(self, columns: Sequence[Inputs], training: bool | None = None) -> list[Column]:
        kinds = ["query", *["document"] * (len(columns) - 1)]
        packed = [
            each if isinstance(each, dict) else self._pack(kind, each)
            for kind, each in zip(kinds, columns, strict=True)
        ]
        sizes = [each["input_mask"].shape[1] for each in packed]
        longest = None if None in sizes else max(sizes)
        tokens = longest or ops.max(ops.stack([ops.shape(each["input_mask"])[1] for each in packed]))

        def vectors(packed: dict[str, Tensor], kind: str) -> Tensor:
            found, counts = self._encode_packed(packed, kind, training)
            counts = ops.cast(ops.expand_dims(counts, -1), "float32")
            if self.mean_maxsim and kind == "query":
                found = found / ops.maximum(ops.sum(counts, axis=1, keepdims=True), 1)  # then a sum is the mean
            rows = ops.concatenate([found, counts], axis=-1)
            return ops.pad(rows, [[0, 0], [0, tokens - ops.shape(rows)[1]], [0, 0]])

        shape = (longest, self.vector_size + 1)
        return [
            Column(each, functools.partial(vectors, kind=kind), shape, self._least(kind))
            for kind, each in zip(kinds, packed, strict=True)
        ]

    def tokenized(self, number: int, texts: list[str]) -> tuple[tf.RaggedTensor, np.ndarray]:
        kind = "document" if number else "query"
        rows = self._rows[kind]
        segments = rows.tokenize([*texts], self._text_before(kind))
        lengths, longest = rows.lengths(segments), rows.longest
        if kind == "query" and (truncated := int(np.sum(lengths > longest))):
            message = f"queries truncated to {longest} tokens: {truncated:,} of {len(texts):,}"
            warnings.warn(message, stacklevel=6)
            lengths = np.minimum(lengths, longest)
        return segments[0], lengths

    def packed_column(self, number: int, segment: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        return self._rows["document" if number else "query"].pack([segment])

    def _pack(self, kind: str, texts: Tensor) -> dict[str, Tensor]:
        """Packs texts of a kind, string `[batch]`, with their prompt."""
        before, rows = self._text_before(kind), self._rows[kind]
        return rows.pack(rows._segments(tf.strings.join([before, texts]) if before else texts))

    def _encode_packed(
        self, packed: Mapping[str, Tensor], kind: str, training: bool | None = None
    ) -> tuple[Tensor, Tensor]:
        """Encodes packed inputs of a kind: vectors, and a mask of the tokens that count, int `[batch, seq_length]`."""
        packed, counts = self._to_count(packed, kind, ops)
        # The expansion's tokens may attend to others that do not attend to them: these are padding that is computed.
        is_expanded = kind == "query" and self.query_expansion is not None
        with fixed_shapes() if is_expanded else contextlib.nullcontext():
            hidden = self.encoder(packed, training=training)["sequence_output"]
        return self._project(hidden) * ops.cast(ops.expand_dims(counts, -1), "float32"), counts

    def _project(self, hidden: Tensor) -> Tensor:
        """Converts hidden states, `[batch, seq_length, hidden]`, to vectors, `[batch, seq_length, vector_size]`."""
        vectors, weights = ops.cast(hidden, "float32"), {each.name: each for each in self.projection}
        for number, layer in enumerate(self.dense):
            outputs = ops.matmul(vectors, weights[f"kernel_{number}"])
            if layer["use_bias"]:
                outputs = outputs + weights[f"bias_{number}"]
            outputs = keras.activations.get(layer["activation"])(outputs)
            if layer["use_residual"]:
                residual = weights.get(f"residual_{number}")
                outputs = outputs + (vectors if residual is None else ops.matmul(vectors, residual))
            vectors = outputs
        return ops.normalize(vectors, axis=-1) if self.normalize else vectors

    def _compute(self, segments: tuple[tf.RaggedTensor, ...], kind: str) -> tf.Tensor:
        """Computes the vectors of tokenized texts, and the mask: float32 `[batch, seq_length, vector_size + 1]`."""
        vectors, counts = self._encode_packed(self._rows[kind].pack(segments), kind, training=False)
        return ops.concatenate([vectors, ops.cast(ops.expand_dims(counts, -1), "float32")], axis=-1)

    def serve(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Serves documents, `text`, string `[batch]`.

        `embeddings`, float32 `[batch, seq_length, vector_size]`, are the vectors, and `mask`, int32 `[batch,
        seq_length]`, is 1 for the tokens that have one: not for padding and skipped tokens. `token_count`, int32
        `[batch]`, is the number of tokens that the model reads of each text.
        """
        token_vectors.check_served(self.token_pooling)
        packed = self._pack("document", text)
        vectors, counts = self._encode_packed(packed, "document", training=False)
        return {"embeddings": vectors, "mask": counts, "token_count": count_tokens(packed)}

    def serve_query(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Serves queries, with the outputs of `serve` but the number of tokens."""
        vectors, counts = self._encode_packed(self._pack("query", text), "query", training=False)
        return {"embeddings": vectors, "mask": counts}

    def serve_rerank(self, text: tf.Tensor, text_pair: tf.Tensor) -> dict[str, tf.Tensor]:
        """Serves pairs of a query and a document, string `[batch]`, with `score`, float32 `[batch]`, their MaxSim.

        `token_count`, int32 `[batch]`, is the number of tokens that the model reads of both. Equal queries are encoded
        once.
        """
        queries, rows = tf.unique(text)
        columns = self.text_columns([queries, text_pair], training=False)
        queries, documents = (each.vectors(each.packed) for each in columns)
        query_tokens, document_tokens = (count_tokens(each.packed) for each in columns)
        scores = maxsim(tf.gather(queries, rows), documents)
        return {"score": scores, "token_count": tf.gather(query_tokens, rows) + document_tokens}

    @property
    def serve_more(self) -> dict[str, Callable[..., dict[str, tf.Tensor]]]:
        """The functions of further signatures, by name."""
        return {"query": self.serve_query, "rerank": self.serve_rerank}

    def serve_packed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `embeddings` of all positions, float32 `[batch, seq_length, vector_size]`."""
        return {"embeddings": self._project(self.encoder(inputs, training=False)["sequence_output"])}


class _GraphOfKind(GraphByLength):
    """`GraphByLength` for queries or documents, whose marker is their first token."""

    def __init__(
        self, preprocessor: BertPreprocessor, compute: Any, graphs: Graphs, first_token: list[int], least_length: int
    ) -> None:
        super().__init__(preprocessor, compute, graphs)
        self._first_token, self._least_length = first_token, least_length
        self.pack, self.longest = preprocessor.pack, preprocessor.longest

    def _segments(self, *columns: tf.Tensor) -> list[tf.RaggedTensor]:
        (tokens,) = super()._segments(*columns)
        first = [tf.fill([tokens.nrows(), 1], each) for each in self._first_token]
        return [tf.concat([*first, tokens], axis=1)]

    def _lengths(self, segments: Sequence[tf.RaggedTensor]) -> tf.Tensor:
        return tf.maximum(super()._lengths(segments), self._least_length)
