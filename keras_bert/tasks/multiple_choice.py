"""BertMultipleChoice: chooses the best of several answers to a question (Devlin et al. 2018, section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.answers.choices import ChoiceAnswer, ChoiceAnswers, Chooser, check_choices
from keras_bert.answers.columns import Labels, Targets, Texts
from keras_bert.encoder import BertEncoder
from keras_bert.tasks.base.columns import Inputs
from keras_bert.tasks.base.lists import ReadsLists
from keras_bert.tasks.kinds import Kind
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor


class Choices(ChoiceAnswers, Kind[ChoiceAnswer]):
    """The number of the right choice, from 0. The measure is `accuracy`."""

    def loss(self) -> keras.losses.Loss:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@keras.saving.register_keras_serializable(package="keras_bert")
class BertMultipleChoice(Chooser, ReadsLists):
    """A model that reads a question with each of its choices, and chooses the best one, as for SWAG.

    The head gives each pair a logit. The softmax over the choices of a question gives their probabilities.

    Args:
        encoder, preprocessor, dropout: see `BertTask`. The preprocessor has no stride.

    Call arguments:
        inputs: a tuple of questions, first choices, second choices, ...; or packed, int `[batch, choices, seq_length]`
            each. Pairs, packed or not, have one choice.

    Returns:
        float32 `[batch, choices]`: logits.

    Example:
        >>> from keras_bert import BertConfig
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=None)
        >>> model = BertMultipleChoice(BertEncoder(BertConfig.tiny()), preprocessor)  # random weights
        >>> sorted(model.choose("She opens the door.", ["She walks in.", "It flies."]))
        ['index', 'probabilities', 'probability', 'text']
    """

    ANSWERS_PROGRAM = 'print(outputs["logits"])  # softmax over those of a question gives probabilities'
    kind = Choices()

    def __init__(
        self, encoder: BertEncoder, preprocessor: BertPreprocessor, dropout: float | None = None, **kwargs: Any
    ) -> None:
        super().__init__(encoder, preprocessor, **kwargs)
        self._add_head(1, dropout)

    def call(self, inputs: Inputs, training: bool | None = None) -> Tensor:
        if not isinstance(inputs, dict):
            check_choices(inputs, 1)
        logits, choices = self._logits_of_pairs(inputs, training)
        return ops.reshape(ops.cast(logits, "float32"), (-1, choices))

    def serve(self, question: tf.Tensor, choice: tf.Tensor) -> dict[str, tf.Tensor]:
        """Serves `question` and `choice`, string `[batch]` each, with `logit`, float32 `[batch]`.

        The softmax over the logits of a question's choices gives their probabilities.
        """
        return {"logit": self((question, choice), training=False)[:, 0]}

    def serve_packed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `logits`, float32 `[batch, 1]`, of pairs."""
        return {"logits": self(inputs, training=False)}

    def arrays(self, x: Texts | Inputs, y: Labels | None) -> tuple[Inputs, Targets | None]:
        are_texts = isinstance(x, tuple) and isinstance(x[0], list | np.ndarray)
        return super().arrays(x, self.kind.targets_of(self.columns(x), y) if are_texts and y is not None else y)
