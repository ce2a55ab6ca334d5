"""BertSentenceEncoder: embeddings of texts (Reimers and Gurevych 2019, "Sentence-BERT")."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.encoder import BertEncoder
from keras_bert.formats import sentence_transformers
from keras_bert.tasks.by_length import ByLength
from keras_bert.tasks.columns import one_or_many
from keras_bert.tasks.preset import Rows, TaskPreset
from keras_bert.tasks.preset import preprocessor as preprocessor_of
from keras_bert.tasks.task import BertTask
from keras_bert.text import BertPreprocessor


def _mean(hidden: Any, mask: Any) -> Any:
    return ops.sum(hidden * mask, axis=1) / ops.maximum(ops.sum(mask, axis=1), 1.0)


def _cls(hidden: Any, mask: Any) -> Any:
    return hidden[:, 0]


def _max(hidden: Any, mask: Any) -> Any:
    return ops.max(ops.where(mask > 0, hidden, -3.4028235e38), axis=1)


# float32 [batch, seq_length, hidden], float32 [batch, seq_length, 1] (1 = token) -> [batch, hidden]
_POOLINGS = {"mean": _mean, "cls": _cls, "max": _max}


@keras.saving.register_keras_serializable(package="keras_bert")
class BertSentenceEncoder(BertTask):
    """Embeds texts as vectors. The dot product of two vectors measures how close their texts are in meaning.

    Args:
        encoder: gives hidden states.
        preprocessor: strings -> the encoder's inputs.
        pooling: how to pool the hidden states: "mean" (over all tokens but padding), "cls" (the first token's) or
            "max" (elementwise, over all tokens but padding).

    Raises:
        ValueError: an unknown pooling, or the vocabulary and the encoder's embedding table differ in size.

    Call arguments:
        texts: a string tensor `[batch]`, or a list of str.

    Returns:
        float32 `[batch, hidden]`, each row of length 1.

    Example:
        >>> from keras_bert import BertSentenceEncoder
        >>> model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
        >>> cat, kitten, tax = model.encode(["a cat", "a kitten", "income tax"])
        >>> bool(cat @ kitten > cat @ tax)
        True
    """

    STATED_ELSEWHERE = ("pooling",)
    FILES = sentence_transformers.FILES

    def __init__(
        self, encoder: BertEncoder, preprocessor: BertPreprocessor, pooling: str = "mean", **kwargs: Any
    ) -> None:
        if pooling not in _POOLINGS:
            raise ValueError(f"pooling must be one of {', '.join(_POOLINGS)}, not {pooling!r}")
        super().__init__(encoder, preprocessor, **kwargs)
        self.pooling = pooling
        self._by_length = ByLength(preprocessor, lambda texts: self(preprocessor.pack(texts), training=False))
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        packed = self.packed(inputs)
        hidden = self.encoder(packed, training=training)["sequence_output"]
        mask = ops.expand_dims(ops.cast(packed["input_mask"], "float32"), -1)  # [batch, seq_length, 1]
        pooled = _POOLINGS[self.pooling](ops.cast(hidden, "float32"), mask)
        return ops.normalize(pooled, axis=-1)

    def serve(self, text: Any) -> dict[str, Any]:
        """The serving signature: string `[batch]` -> `embedding`, float32 `[batch, hidden]`, as from a call."""
        return {"embedding": self(text, training=False)}

    def encode(self, text: str | Iterable[str], batch_tokens: int = 1024, progress: bool | None = None) -> np.ndarray:
        """Encodes a text, or any number of texts, batched by similar length so that little work is spent on padding.

        Args:
            text: a str, or many: a list or any iterable, read lazily.
            batch_tokens: the tokens per batch, padding included. The default fits a CPU's caches; use more on a GPU.
            progress: whether to show a progress bar on standard error; by default if that is a terminal and the work
                takes longer than a second.

        Returns:
            float32 `[hidden]`; for many texts `[number of texts, hidden]`, in the order given. Each vector has length
            1.

        Raises:
            TypeError: a text is not a str.
            ValueError: `batch_tokens` is less than one sequence of maximum length.

        Warns:
            UserWarning: the number of texts that were truncated to the model's maximum length.
        """
        is_one, texts = one_or_many(text)
        results = [np.zeros((0, self.encoder.config.hidden_size), np.float32)]
        results.extend(np.stack(chunk) for chunk in self._by_length(texts, batch_tokens, progress))
        vectors = np.concatenate(results)
        return vectors[0] if is_one else vectors

    def encode_counted(self, texts: Iterable[str], batch_tokens: int = 1024) -> tuple[np.ndarray, int]:
        """The result of `encode` and the number of truncated texts, without progress bar and warning."""
        results, cut = [np.zeros((0, self.encoder.config.hidden_size), np.float32)], 0
        for chunk, cut_here in self._by_length.counted(texts, batch_tokens, progress=False):
            results.append(np.stack(chunk))
            cut += cut_here
        return np.concatenate(results), cut

    def answer_fields(self, *texts: list[str]) -> Iterable[dict[str, Any]]:
        return [{"embedding": vector.tolist()} for vector in self.encode(*texts, progress=False)]

    @classmethod
    def _arguments(cls, found: TaskPreset, given: dict[str, Any]) -> dict[str, Any]:
        settings = sentence_transformers.read(found.directory)
        if not settings.normalized:
            warnings.warn(
                f"{found.directory} asks for vectors of any length; here each gets length 1, which changes dot "
                "products, but not cosines",
                stacklevel=3,
            )
        return {"pooling": settings.pooling, **found.settings, **given}

    @classmethod
    def _read_preprocessor(cls, found: TaskPreset, encoder: BertEncoder, rows: Rows) -> BertPreprocessor:
        positions = encoder.config.max_positions
        longest = min(sentence_transformers.read(found.directory).max_length or positions, positions)
        return preprocessor_of(found, positions, rows, max_sequence_length=longest)

    def save_preset(self, directory: str | Path, overwrite: bool = False) -> None:
        """Writes weights, settings and the tokenizer's files, for `from_preset` and `SentenceTransformer(directory)`;
        see `BertTask.save_preset`."""
        super().save_preset(directory, overwrite)
        longest = self.preprocessor.sequence_length or self.preprocessor.max_sequence_length
        settings = sentence_transformers.SentenceSettings(self.pooling, longest)
        sentence_transformers.write(Path(directory), self.encoder.config.hidden_size, settings, overwrite)

    def settings(self) -> dict[str, Any]:
        return {"pooling": self.pooling}
