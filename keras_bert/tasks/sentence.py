"""BertSentenceEncoder: embeddings of texts (Reimers and Gurevych 2019, "Sentence-BERT")."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert import files, presets
from keras_bert.encoder import BertEncoder
from keras_bert.formats import hugging_face, sentence_transformers
from keras_bert.tasks.by_length import ByLength
from keras_bert.tasks.replicas import Replicated
from keras_bert.text import BertPreprocessor, loading
from keras_bert.text.strings import as_strings


def _mean(hidden: Any, mask: Any) -> Any:
    return ops.sum(hidden * mask, axis=1) / ops.maximum(ops.sum(mask, axis=1), 1.0)


def _cls(hidden: Any, mask: Any) -> Any:
    return hidden[:, 0]


def _max(hidden: Any, mask: Any) -> Any:
    return ops.max(ops.where(mask > 0, hidden, -3.4028235e38), axis=1)


# float32 [batch, seq_length, hidden], float32 [batch, seq_length, 1] (1 = token) -> [batch, hidden]
_POOLINGS = {"mean": _mean, "cls": _cls, "max": _max}


@keras.saving.register_keras_serializable(package="keras_bert")
class BertSentenceEncoder(Replicated, keras.Model):
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

    def __init__(
        self, encoder: BertEncoder, preprocessor: BertPreprocessor, pooling: str = "mean", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if pooling not in _POOLINGS:
            raise ValueError(f"pooling must be one of {', '.join(_POOLINGS)}, not {pooling!r}")
        encoder.config.check_vocabulary(preprocessor.tokenizer.vocabulary_size)
        self.encoder = encoder
        self.preprocessor = preprocessor
        self.pooling = pooling
        self._by_length = ByLength(preprocessor, lambda texts: self._vectors(preprocessor.pack(texts), training=False))

    def __call__(self, texts: Any, **kwargs: Any) -> Any:
        # Keras takes only tensors as positional arguments, hence here and not in call.
        return super().__call__(texts if isinstance(texts, keras.KerasTensor) else as_strings(texts), **kwargs)

    def call(self, texts: Any, training: bool | None = None) -> Any:
        return self._vectors(self.preprocessor(texts), training)

    def serve(self, text: Any) -> dict[str, Any]:
        """The serving signature: string `[batch]` -> `embedding`, float32 `[batch, hidden]`, as from a call."""
        return {"embedding": self(text, training=False)}

    def encode(
        self,
        texts: Iterable[str],
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> np.ndarray:
        """Encodes any number of texts, batched by similar length so that little work is spent on padding.

        Args:
            texts: a list or any iterable, read lazily.
            batch_tokens: the tokens per batch, padding included. The default fits a CPU's caches; use more on a GPU.
            progress: whether to show a progress bar on standard error; by default if that is a terminal and the work
                takes longer than a second.

        Returns:
            float32 `[number of texts, hidden]`, in the order given, each row of length 1.

        Raises:
            TypeError: `texts` is a single str, or something in it is not a str.
            ValueError: `batch_tokens` is less than one sequence of maximum length.

        Warns:
            UserWarning: the number of texts that were truncated to the model's maximum length.
        """
        results = [np.zeros((0, self.encoder.config.hidden_size), np.float32)]
        results.extend(np.stack(chunk) for chunk in self._by_length(texts, batch_tokens, progress))
        return np.concatenate(results)

    def encode_counted(self, texts: Iterable[str], batch_tokens: int = 1024) -> tuple[np.ndarray, int]:
        """The result of `encode` and the number of truncated texts, without progress bar and warning."""
        results, cut = [np.zeros((0, self.encoder.config.hidden_size), np.float32)], 0
        for chunk, cut_here in self._by_length.counted(texts, batch_tokens, progress=False):
            results.append(np.stack(chunk))
            cut += cut_here
        return np.concatenate(results), cut

    def _vectors(self, inputs: dict[str, Any], training: bool | None) -> Any:
        hidden = self.encoder(inputs, training=training)["sequence_output"]
        mask = ops.expand_dims(ops.cast(inputs["input_mask"], "float32"), -1)  # [batch, seq_length, 1]
        pooled = _POOLINGS[self.pooling](ops.cast(hidden, "float32"), mask)
        return ops.normalize(pooled, axis=-1)

    @classmethod
    def from_preset(cls, handle: str | Path, **kwargs: Any) -> BertSentenceEncoder:
        """A sentence encoder from a preset: sentence-transformers' layout, or a plain BERT (then with mean pooling).

        Args:
            handle: a directory, a preset's name, or `hf://org/name`; see `presets.resolve`.
            **kwargs: for the encoder, such as `dtype`.

        Raises:
            FileNotFoundError: there is no such preset, or it lacks a file.
            ValueError: a file is damaged, or asks for something that is not supported.
        """
        directory = presets.resolve(handle)
        settings = sentence_transformers.read(directory)
        encoder = BertEncoder.from_preset(directory, **kwargs)
        longest = min(settings.max_length or encoder.config.max_positions, encoder.config.max_positions)
        preprocessor = BertPreprocessor.from_preset(directory, sequence_length=None, max_sequence_length=longest)
        return cls(encoder, preprocessor, settings.pooling)

    def save_preset(self, directory: str | Path, overwrite: bool = False) -> None:
        """Writes weights, vocabulary and settings, for `from_preset` and `SentenceTransformer(directory)`.

        Raises:
            FileExistsError: such a file exists and `overwrite` is False.
        """
        directory = Path(directory)
        names = (*hugging_face.FILES, *loading.FILES, *sentence_transformers.FILES)
        files.refuse_to_overwrite(directory, names, overwrite)  # before any of them is written
        self.encoder.save_preset(directory, overwrite)
        self.preprocessor.save_preset(directory, overwrite)
        settings = sentence_transformers.SentenceSettings(self.pooling, self.preprocessor.max_sequence_length)
        sentence_transformers.write(directory, self.encoder.config.hidden_size, settings, overwrite)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "encoder": keras.saving.serialize_keras_object(self.encoder),
            "preprocessor": keras.saving.serialize_keras_object(self.preprocessor),
            "pooling": self.pooling,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> BertSentenceEncoder:
        parts = {name: keras.saving.deserialize_keras_object(config[name]) for name in ("encoder", "preprocessor")}
        return cls(**{**config, **parts})
