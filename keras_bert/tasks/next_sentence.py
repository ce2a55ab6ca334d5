"""BertNextSentence: next-sentence prediction (Devlin et al. 2018, section 3.1, task 2; Lan et al. 2019, 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_bert.answers.tokens import NextSentenceAnswers, NextSentenceScorer
from keras_bert.encoder import BertEncoder
from keras_bert.tasks.base.columns import Inputs
from keras_bert.tasks.base.task import BertTask
from keras_bert.tasks.kinds import Kind
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor


class NextSentence(NextSentenceAnswers, Kind[float]):
    """Labels of pairs: 0 (the second text follows) or 1 (it does not)."""

    def loss(self) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@keras.saving.register_keras_serializable(package="keras_bert")
class BertNextSentence(NextSentenceScorer, BertTask):
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

    kind = NextSentence()
    REQUIRED_HEAD = "next-sentence head; BERT's original checkpoints have one"

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

    def serve(self, text: tf.Tensor, text_pair: tf.Tensor) -> dict[str, tf.Tensor]:
        """Serves `text` and `text_pair`, string `[batch]` each, with `probability`, float32 `[batch]`."""
        return {"probability": _probability(self((text, text_pair), training=False))}

    def serve_packed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `logits`, float32 `[batch, 2]`, and `probability`, float32 `[batch]`."""
        logits = self(inputs, training=False)
        return {"logits": logits, "probability": _probability(logits)}


def _probability(logits: Tensor) -> Tensor:
    """Converts logits, float `[batch, 2]`, to the probability of label 0, `[batch]`."""
    return ops.softmax(logits)[:, 0]
