"""BertSentenceEncoder: embeddings of texts (Reimers and Gurevych 2019, "Sentence-BERT")."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.answers.columns import Targets
from keras_bert.answers.similarity import SentenceEncoder, TextVectors, VectorAnswers, are_text_numbers, are_vectors
from keras_bert.choices import POOLINGS, WINDOW_POOLINGS, check_choice
from keras_bert.data import Examples
from keras_bert.data.examples import check_characters
from keras_bert.data.task_files import EmbedFiles
from keras_bert.encoder import BertEncoder
from keras_bert.formats import Preset
from keras_bert.formats.libraries.modules import DENSE_ACTIVATIONS
from keras_bert.formats.libraries.sentence_transformers import SIMILARITIES
from keras_bert.tasks import losses
from keras_bert.tasks.base.by_length import GraphByLength
from keras_bert.tasks.base.columns import Inputs
from keras_bert.tasks.base.compared import ComparesTexts
from keras_bert.tasks.base.storable import Part
from keras_bert.tasks.base.task import ToTrain
from keras_bert.tasks.heads import pooling as poolings
from keras_bert.tasks.heads.long_text import pool_windows, sequence_output
from keras_bert.tasks.kinds import Kind
from keras_bert.tasks.losses.sentence_losses import MatryoshkaLoss, VectorMSELoss
from keras_bert.tasks.steps.gradient_cache import Column
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor
from keras_bert.text.packing import count_tokens
from keras_bert.text.strings import as_strings


class Similarity(VectorAnswers, Kind[TextVectors]):
    """The vectors of rows; `VectorAnswers` lists what the labels and the default losses are."""

    def loss(self) -> keras.losses.Loss:
        return losses.default("vectors")

    def loss_for(self, targets: Targets, columns: int) -> keras.losses.Loss:
        if are_text_numbers(targets):
            return self.loss()
        if are_vectors(targets, columns):
            return VectorMSELoss()
        return losses.default("vectors", is_pair=columns == 2, has_scores=True)


@keras.saving.register_keras_serializable(package="keras_bert")
class BertSentenceEncoder(SentenceEncoder, ComparesTexts):
    """A model that embeds texts as vectors, so that the `similarity` of two vectors measures how close the texts are.

    Use it for search, clustering and near-duplicates, where each text is encoded once. To score few pairs more
    precisely, use `BertReranker`.

    Args:
        encoder, preprocessor: see `BertTask`.
        pooling: how to pool the hidden states of all tokens but padding: "mean"; "cls", the first token's; "max",
            elementwise; "lasttoken", the last token's; "mean_sqrt_len_tokens", their sum divided by the square root of
            their number; or "weightedmean", weighted by their positions, from 1.
        normalize: whether each vector gets length 1.
        dense: a layer after the pooling: `{"units": int, "activation": str, "use_bias": bool}`, as of
            `keras.layers.Dense`. The activation is "linear", "tanh", "relu" or "gelu".
        prompts: texts to put before a text, by name, such as `{"query": "query: ", "passage": "passage: "}`.
        default_prompt: the name of the prompt for texts that `encode` gets without a prompt's name.
        include_prompt: whether the pooling includes the prompt's tokens.
        column_prompts: for columns of texts (anchors, positives, ...), the name of each column's prompt, such as
            `("query", "passage")`; further columns take the last name. A column with None, and by default every column,
            takes the default prompt.
        truncate_dim: the number of values of a vector to keep, for models that were trained for it (Kusupati et al.
            2022, "Matryoshka Representation Learning"). With `normalize`, the truncated vector gets length 1.
        matryoshka_dimensions: the sizes that the vectors were trained for, to which clients of `export_serving` may
            shorten them.
        similarity: how vectors are compared, in a search and in measures: "cosine"; or "dot", the dot product, in which
            longer vectors count more. For vectors of length 1 both are the same.
        window_pooling: "mean" or "max": how the vectors of a long text's windows become one, if the preprocessor has a
            stride (`from_preset(..., long_text="windows")`). A prompt stands in the first window only.

    Call arguments:
        texts: a string tensor `[batch]`, or a list of str, which get the default prompt. Or a tuple of two or more such
            columns, whose texts are compared with each other.

    Returns:
        float32 `[batch, vector_size]`, each vector of length 1 if `normalize`; for columns `[batch, columns,
        vector_size]`, as the losses in `keras_bert.tasks.losses.sentence_losses` take them.

    Example:
        >>> from keras_bert import BertSentenceEncoder
        >>> model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
        >>> cat, kitten, tax = model.encode(["a cat", "a kitten", "income tax"])
        >>> bool(cat @ kitten > cat @ tax)
        True
    """

    PARTS = (Part("dense", lambda model: model.dense and model.dense.weights, must_be_equal="dense"),)
    READS_WINDOWS = True

    def __init__(
        self,
        encoder: BertEncoder,
        preprocessor: BertPreprocessor,
        pooling: str = "mean",
        normalize: bool = True,
        dense: Mapping[str, Any] | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt: str | None = None,
        include_prompt: bool = True,
        column_prompts: Sequence[str | None] | None = None,
        truncate_dim: int | None = None,
        similarity: str = "cosine",
        window_pooling: str = "mean",
        matryoshka_dimensions: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        check_choice("pooling", pooling, POOLINGS)
        check_choice("window_pooling", window_pooling, WINDOW_POOLINGS)
        check_choice("similarity", similarity, SIMILARITIES)
        super().__init__(encoder, preprocessor, **kwargs)
        self.pooling = pooling
        self.similarity = similarity
        self.window_pooling = window_pooling
        self.normalize = normalize
        self.prompts = _checked_prompts(prompts or {})
        self.include_prompt = include_prompt
        self.default_prompt = default_prompt or None
        column_prompts = column_prompts or []
        if isinstance(column_prompts, str) or not isinstance(column_prompts, Sequence):
            raise TypeError(f"column_prompts are {column_prompts!r:.60}; expected a list with a name for each column")
        self.column_prompts = list(column_prompts)
        for name in (default_prompt, *self.column_prompts):
            self.prompt_text(name)  # raises
        self.dense = None if dense is None else _make_dense(encoder.config.hidden_size, dense)
        size = encoder.config.hidden_size if self.dense is None else self.dense.units
        sizes: list[Any] = [size if truncate_dim is None else truncate_dim, *(matryoshka_dimensions or ())]
        for number, value in enumerate(sizes):
            if not isinstance(value, Integral) or not 1 <= int(value) <= size:
                name = "matryoshka_dimensions has" if number else "truncate_dim is"
                raise ValueError(f"{name} {value!r}, but this model's vectors have {size} values")
        self.truncate_dim = truncate_dim
        self.matryoshka_dimensions = matryoshka_dimensions and list(matryoshka_dimensions)
        compute = lambda segments, skipped: self._encode_packed(preprocessor.pack(segments), skipped, False)  # noqa: E731
        self._by_length = GraphByLength(preprocessor, compute, self._graphs)
        self.built = True

    @classmethod
    def to_train(cls, settings: EmbedFiles, preset: str | Path, examples: Examples) -> ToTrain:
        prompts = (settings.query_prompt, settings.positive_prompt)
        arguments: dict[str, Any] = {} if prompts == (None, None) else {"column_prompts": prompts}
        loss = losses.chosen(settings.chosen_loss, "vectors")
        if settings.matryoshka_dims:
            loss = MatryoshkaLoss(loss, settings.matryoshka_dims)
            arguments["matryoshka_dimensions"] = settings.matryoshka_dims
        model = cls.from_preset(preset, sequence_length=settings.sequence_length, **arguments)
        return model, {"loss": loss, "mini_batch_size": settings.mini_batch_size}

    @property
    def kind(self) -> Similarity:
        return Similarity(self.similarity)

    @property
    def vector_size(self) -> int:
        """The number of values of a vector."""
        size = self.encoder.config.hidden_size if self.dense is None else self.dense.units
        return self.truncate_dim or size

    def call(self, inputs: Inputs, training: bool | None = None) -> Tensor:
        if not isinstance(inputs, tuple | list):
            # Packed inputs do not show which prompt they hold, so the pooling leaves none out.
            prompt = "" if isinstance(inputs, dict) else self.prompt_text(None)
            return self._encode_packed(self.packed(_prepend(prompt, inputs)), self._count_skipped(prompt), training)
        return self.encoded_columns(inputs, training)

    def text_columns(self, columns: Sequence[Inputs], training: bool | None = None) -> list[Column]:
        packed_columns = []
        for number, texts in enumerate(columns):
            prompt = self._column_prompt(number)
            vectors = functools.partial(self._encode_packed, skipped=self._count_skipped(prompt), training=training)
            packed_columns.append(Column(self.packed(_prepend(prompt, texts)), vectors, (self.vector_size,)))
        return packed_columns

    def _encode_packed(self, packed: dict[str, Tensor], skipped: int, training: bool | None = None) -> Tensor:
        """Encodes packed inputs as vectors. The pooling leaves out the first `skipped` tokens."""
        hidden, mask = sequence_output(self.encoder, packed, training), packed["input_mask"]
        if len(mask.shape) == 2:
            return self._pool(hidden, mask, skipped)
        batch, windows, length = ops.shape(mask)
        is_window = ops.any(mask > 0, axis=-1, keepdims=True)
        tokens = ops.where(is_window, mask, 1)  # in a window of padding, whose vector counts nothing, it must be finite
        if skipped:
            tokens = ops.concatenate([tokens[:, :1] * _after(skipped, tokens[:, :1]), tokens[:, 1:]], axis=1)
        vectors = self._pool(
            ops.reshape(hidden, (batch * windows, length, hidden.shape[-1])), ops.reshape(tokens, (-1, length))
        )
        vectors = ops.reshape(vectors, (batch, windows, self.vector_size))
        vectors = pool_windows(vectors, packed, self.window_pooling)
        return ops.normalize(vectors, axis=-1) if self.normalize else vectors

    def _pool(self, hidden: Tensor, mask: Tensor, skipped: int = 0) -> Tensor:
        """Pools hidden states, `[batch, seq_length, hidden]`, by a mask to vectors, without `skipped` tokens."""
        mask = ops.cast(mask * _after(skipped, mask) if skipped else mask, "float32")
        pool = getattr(poolings, POOLINGS[self.pooling].function)
        vectors = pool(ops.cast(hidden, "float32"), ops.expand_dims(mask, -1))
        if self.dense is not None:
            vectors = self.dense(vectors)
        vectors = vectors[:, : self.truncate_dim]
        return ops.normalize(vectors, axis=-1) if self.normalize else vectors

    def _count_tokens(self, prompt: str) -> int:
        with tf.init_scope():
            return len(self.preprocessor.tokenizer.tokenize(prompt))

    def serve(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Serves `text`, string `[batch]`, with `embedding`, float32 `[batch, vector_size]`, as a call computes it.

        `token_count`, int32 `[batch]`, is the number of tokens that the model reads of each text.
        """
        prompt = self.prompt_text(None)
        packed = self.packed(_prepend(prompt, text))
        vectors = self._encode_packed(packed, self._count_skipped(prompt), training=False)
        return {"embedding": vectors, "token_count": count_tokens(packed)}

    def serve_packed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `embedding`, float32 `[batch, vector_size]`, and the encoder's `sequence_output`."""
        hidden = self.encoder(inputs, training=False)["sequence_output"]
        return {"embedding": self._pool(hidden, inputs["input_mask"]), "sequence_output": hidden}

    @property
    def head_shapes(self) -> dict[str, tuple[int | None, ...]]:
        leaves_out = not self.include_prompt and any(self.prompts.values())
        if not leaves_out and self.preprocessor.stride is None:
            return {}
        return {"sequence_output": (None, None, self.encoder.config.hidden_size), "input_mask": (None, None)}

    def serve_head(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `embedding`, float32 `[batch, vector_size]`, of `sequence_output` and the mask of tokens to pool."""
        return {"embedding": self._pool(inputs["sequence_output"], inputs["input_mask"])}

    def tokenized(self, number: int, texts: list[str]) -> tuple[tf.RaggedTensor, np.ndarray]:
        segment = self.preprocessor.tokenizer.tokenize(_prepend(self._column_prompt(number), as_strings(texts)))
        return segment, self._by_length.lengths([segment])

    def packed_column(self, number: int, segment: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        return self.preprocessor.pack(segment)

    # -- Files

    @classmethod
    def to_compare(cls, handle: str | Path | Preset, **arguments: Any) -> BertSentenceEncoder:
        """Loads a model whose vectors can be compared by dot product: for the cosine, they get length 1.

        Use it instead of `from_preset`, with the same arguments, for a search: a vector index computes dot products.

        Example:
            >>> from keras_bert import BertSentenceEncoder
            >>> model = BertSentenceEncoder.to_compare("all-MiniLM-L6-v2")
            >>> model.similarity, model.normalize
            ('cosine', True)
        """
        with Preset.open(handle) as preset:
            normalize = True if preset.sentence_settings.similarity == "cosine" else None
            return cls.from_preset(preset, normalize=normalize, **arguments)


def _after(skipped: int, mask: Tensor) -> Tensor:
    """Marks all positions (last axis) but the first `skipped` with 1, in the shape and type of a mask."""
    return ops.cast(ops.cumsum(ops.ones_like(mask), axis=-1) > skipped, mask.dtype)


def _prepend(prompt: str, texts: Inputs) -> Inputs:
    """Puts a prompt before each text of a string tensor; packed inputs stay as they are."""
    return tf.strings.join([prompt, texts]) if prompt and not isinstance(texts, dict) else texts


def _checked_prompts(prompts: Mapping[str, str]) -> dict[str, str]:
    """Checks prompts, and returns them by name. A name that is an int becomes a str, as in a preset's files."""
    if not isinstance(prompts, Mapping):
        raise TypeError(f"prompts are {prompts!r:.60} ({type(prompts).__name__}); expected a dict: name -> text")
    for name, text in prompts.items():
        if not isinstance(name, str | int) or not isinstance(text, str):
            raise TypeError(f"prompts have {name!r:.60}: {text!r:.60}; expected a name and a text, both str")
        check_characters(text, f"the prompt {name!r}")  # raises for half a surrogate pair, which cannot be saved
    return {str(name): text for name, text in prompts.items()}


def _make_dense(inputs: int, settings: Mapping[str, Any]) -> keras.layers.Dense:
    defaults = {"units": None, "activation": "tanh", "use_bias": True}
    if not isinstance(settings, Mapping) or not {"units"} <= set(settings) <= set(defaults):
        raise ValueError(f"dense is {settings!r:.80}; expected a dict of {', '.join(defaults)}")
    units, activation, use_bias = {**defaults, **settings}.values()
    check_choice("the activation of dense", activation, DENSE_ACTIVATIONS)
    layer = keras.layers.Dense(units, activation, use_bias, dtype="float32", name="dense")
    layer.build((None, inputs))
    return layer
