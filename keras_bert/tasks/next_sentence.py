"""BertNextSentence: whether a text follows another (Devlin et al. 2018, section 3.1, task 2; Lan et al. 2019, 3.1)."""

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
    """Says of two texts how likely the second follows the first, as BERT was trained to; for ALBERT, which was trained
    on two texts that follow each other, whether they are in order.

    Args:
        encoder, preprocessor, dropout: as for every task. The preprocessor gives no windows.

    Call arguments:
        inputs: pairs of texts, or packed inputs, as for every task.

    Returns:
        float32 `[batch, 2]`: logits of "it follows" and "it does not". That the first is label 0 is so in
        google-research/bert (`is_random_next`, create_pretraining_data.py), google-research/albert and `transformers`.

    Raises:
        ValueError: a bad argument, or the family was not trained so.

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
        """The probability that a text follows another, or of many pairs.

        Args:
            a, b: a str each, or as many of both: what comes first and what may follow.
            batch_tokens: how many pieces to compute at a time, padding included.
            progress: whether to show a progress bar; by default on a terminal, if it takes longer than a second.

        Returns:
            A float, 0 to 1; of many pairs, float32 `[pairs]`.

        Raises:
            TypeError, ValueError: one is a str and the other is not, something is not a str, or they are not as many.

        Warns:
            UserWarning: how many pairs were longer than the model's greatest length, and were cut there.
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
        """What a server answers to `text` and `text_pair`, string `[batch]`: `probability`, float32 `[batch]`."""
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
