"""BertNextSentence: next-sentence prediction (Devlin et al. 2018, section 3.1, task 2; Lan et al. 2019, 3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, overload

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.encoder import BertEncoder
from keras_bert.tasks.base.by_length import ByLength
from keras_bert.tasks.base.columns import Inputs, Texts, columns_of, one_or_many
from keras_bert.tasks.base.storable import DROPOUT
from keras_bert.tasks.base.task import BertTask
from keras_bert.tasks.kinds.pretraining import NextSentence
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor


@keras.saving.register_keras_serializable(package="keras_bert")
class BertNextSentence(BertTask):
    """A model that predicts whether the second text of a pair follows the first, as in BERT's pre-training.

    ALBERT's head predicts whether two consecutive texts are in order. The head comes with a pre-trained checkpoint;
    the model needs no fine-tuning.

    Args:
        encoder, preprocessor, dropout: see `BertTask`. The preprocessor has no stride.

    Call arguments:
        inputs: pairs of texts, or packed inputs, see `BertTask`.

    Returns:
        float32 `[batch, 2]`: logits of "it follows" (label 0) and "it does not", in the order of
        google-research/bert (`is_random_next`, create_pretraining_data.py), google-research/albert and `transformers`.

    Example:
        >>> model = BertNextSentence.from_preset("bert-books")
        >>> model.score("He knocked at the door.", "An old woman opened it.") > 0.5
        True
    """

    preprocessor: BertPreprocessor
    _by_length: ByLength

    kind = NextSentence()
    VERB = "score"
    REQUIRED_HEAD = "next-sentence head; BERT's original checkpoints have one"
    SETTINGS = (DROPOUT,)
    text_names = ("text", "text_pair")

    def __init__(
        self, encoder: BertEncoder, preprocessor: BertPreprocessor, dropout: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(encoder, preprocessor, **kwargs)
        self._add_head(2, dropout)

    def call(self, inputs: Inputs, training: bool | None = None) -> Tensor:
        if not isinstance(inputs, dict | tuple | list):
            raise ValueError("this model takes pairs: a tuple of two, (texts, texts)")
        pooled = self.encoder(self.packed(inputs), training=training)["pooled_output"]
        return ops.cast(self.head(pooled, training=training), "float32")

    @overload
    def score(self, text: str, text_pair: str, batch_tokens: int = 1024, progress: bool | None = None) -> float: ...
    @overload
    def score(
        self, text: Iterable[str], text_pair: Iterable[str], batch_tokens: int = 1024, progress: bool | None = None
    ) -> np.ndarray: ...
    def score(
        self,
        text: str | Iterable[str],
        text_pair: str | Iterable[str],
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> float | np.ndarray:
        """Computes the probability that a text follows another, for one pair or many.

        Args:
            text, text_pair: the first and the second text: two str, or two lists of the same length.
            batch_tokens, progress: see `BertClassifier.classify`.

        Returns:
            A float, 0 to 1; for many pairs, float32 `[pairs]`.

        Raises:
            TypeError, ValueError: only one is a str, an item is not a str, the lists differ in length, or an output is
                not finite, which a damaged model may cause.

        Warns:
            UserWarning: the number of pairs that were truncated to the model's maximum length.
        """
        is_one, pairs = one_or_many(text, text_pair)
        scores = _as_probabilities(self._by_length(pairs, batch_tokens, progress))
        return float(scores[0]) if is_one else scores.astype(np.float32)

    def serve(self, text: tf.Tensor, text_pair: tf.Tensor) -> dict[str, tf.Tensor]:
        """Serves `text` and `text_pair`, string `[batch]` each, with `probability`, float32 `[batch]`."""
        return {"probability": _probability(self((text, text_pair), training=False))}

    def serve_packed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `logits`, float32 `[batch, 2]`, and `probability`, float32 `[batch]`."""
        logits = self(inputs, training=False)
        return {"logits": logits, "probability": _probability(logits)}

    def answers(self, x: Texts, progress: bool | None = None) -> list[float]:
        _, pairs = one_or_many(*columns_of(x))
        return _as_probabilities(self._by_length(pairs, 1024, progress)).tolist()


def _as_probabilities(outputs: list[np.ndarray]) -> np.ndarray:
    """Converts the model's outputs for pairs, `[2]` each, to float64 `[pairs]`: nearly equal logits stay different."""
    return ops.convert_to_numpy(_probability(np.reshape(outputs, (-1, 2)).astype(np.float64)))


def _probability(logits: Tensor) -> Tensor:
    """Converts logits, float `[batch, 2]`, to the probability of label 0, `[batch]`."""
    return ops.softmax(logits)[:, 0]
