"""BertNextSentence: next-sentence prediction (Devlin et al. 2018, section 3.1, task 2; Lan et al. 2019, 3.1)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.encoder import BertEncoder
from keras_bert.tasks import preset
from keras_bert.tasks.task import BertTask
from keras_bert.text import BertPreprocessor


@keras.saving.register_keras_serializable(package="keras_bert")
class BertNextSentence(BertTask):
    """Predicts whether the second text of a pair follows the first, as BERT was pre-trained to; for ALBERT, whether two
    texts that follow each other are in order.

    Args:
        encoder, preprocessor, dropout: see `BertTask`. The preprocessor has no stride.

    Call arguments:
        inputs: pairs of texts, or packed inputs, see `BertTask`.

    Returns:
        float32 `[batch, 2]`: logits of "it follows" (label 0) and "it does not", in the order of
        google-research/bert (`is_random_next`, create_pretraining_data.py), google-research/albert and `transformers`.

    Raises:
        ValueError: a bad argument, or the family has no such head.

    Example:
        >>> from keras_bert import BertConfig
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=None)
        >>> model = BertNextSentence(BertEncoder(BertConfig.tiny()), preprocessor)  # drawn at random
        >>> model.score(["He went home.", "He ate."], ["There he slept.", "Then he slept."]).shape
        (2,)
    """

    HEAD = "next_sentence"

    def __init__(
        self, encoder: BertEncoder, preprocessor: BertPreprocessor, dropout: float | None = None, **kwargs: Any
    ) -> None:
        if preprocessor.stride is not None:
            raise ValueError(f"stride is {preprocessor.stride}, but whether a text follows is not asked of windows")
        super().__init__(encoder, preprocessor, 2, dropout, **kwargs)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        if not isinstance(inputs, dict | tuple | list):
            raise ValueError("this model takes pairs: a tuple of two, (texts, texts)")
        pooled = self.encoder(self.packed(inputs), training=training)["pooled_output"]
        return ops.cast(self.head(pooled, training=training), "float32")

    def score(
        self,
        a: str | Iterable[str],
        b: str | Iterable[str],
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> Any:
        """The probability that a text follows another, for one pair or many.

        Args:
            a, b: the first and second text, each a str; or as many of both.
            batch_tokens: the tokens per batch, padding included.
            progress: whether to show a progress bar; by default on a terminal, if it takes longer than a second.

        Returns:
            A float, 0 to 1; for many pairs, float32 `[pairs]`.

        Raises:
            TypeError, ValueError: only one is a str, an item is not a str, or their numbers differ.

        Warns:
            UserWarning: the number of pairs that were truncated to the model's maximum length.
        """
        if isinstance(a, str) and isinstance(b, str):
            return float(self.score([a], [b], batch_tokens, progress)[0])
        if isinstance(a, str | bytes) or isinstance(b, str | bytes):
            raise TypeError("of two texts, one is a single str and the other is not; pass two str, or as many of both")
        a, b = list(a), list(b)
        if len(a) != len(b):
            raise ValueError(f"there are {len(a):,} first texts, but {len(b):,} second ones")
        pairs = list(zip(a, b, strict=True))
        logits = [row for chunk in self._by_length(pairs, batch_tokens, progress) for row in chunk]
        return ops.convert_to_numpy(_probability(np.reshape(logits, (-1, 2)).astype(np.float32)))

    def serve(self, text: Any, text_pair: Any) -> dict[str, Any]:
        """The serving signature: `text`, `text_pair`, string `[batch]` -> `probability`, float32 `[batch]`."""
        return {"probability": _probability(self((text, text_pair), training=False))}

    @classmethod
    def from_preset(cls, handle: str | Path, **kwargs: Any) -> BertNextSentence:
        """The encoder and the head of a preset, such as Hugging Face's `BertForPreTraining` saves.

        Args:
            handle: a directory, a preset's name, or `hf://org/name`; see `presets.resolve`.
            **kwargs: `sequence_length`, `dtype`: see `preset.read`.

        Raises:
            FileNotFoundError: there is no such preset, or it lacks a file.
            ValueError: a file is damaged, or the preset has no such head.
        """
        found = preset.read(handle, cls.HEAD, **kwargs)
        if not found.has_head:
            raise ValueError(f"{handle} has no head that says whether a text follows another; BERT's checkpoints have")
        model = cls(found.encoder, found.preprocessor, **found.settings)
        preset.load_head(model, found)
        return model


def _probability(logits: Any) -> Any:
    """float `[batch, 2]` -> `[batch]`."""
    return ops.softmax(logits)[:, 0]
