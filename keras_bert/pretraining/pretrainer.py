"""BertPretrainer: an encoder with the heads of both pre-training objectives (Devlin et al. 2018, section 3.1)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_bert.encoder import BertEncoder
from keras_bert.tasks.heads import ClassifierHead
from keras_bert.tasks.masked_lm import POSITIONS, BertMaskedLM
from keras_bert.tasks.preset import RowSettings, TaskPreset
from keras_bert.tasks.task import BertTask
from keras_bert.tasks.teaching import divergence, weighted_mean
from keras_bert.text import BertPreprocessor

# The names of outputs, losses and metrics.
MASKED_LM, NEXT_SENTENCE = "masked_lm", "next_sentence"
SEQUENCE_OUTPUT = "sequence_output"  # only for the loss of a student

# DistilBERT's alpha_mlm, alpha_ce and alpha_cos, 2 : 5 : 1, scaled to sum to 1, so that gradients do not grow.
_LABELS, _ANSWERS, _HIDDEN = 2 / 8, 5 / 8, 1 / 8
_LENGTH = 128


@keras.saving.register_keras_serializable(package="keras_bert")
class BertPretrainer(BertTask):
    """An encoder with a masked language modeling head and, for pairs, a head for next sentence or sentence order.

    Only masked positions are projected to the vocabulary.

    Args:
        encoder: a `BertEncoder`; for pairs, with a pooler.
        preprocessor: its tokenizer is saved with the model.
        pairs: whether there is a head for pairs. RoBERTa's family has none.

    Call arguments:
        inputs: the encoder's inputs, and `masked_lm_positions`, int `[batch, predictions]`.

    Returns:
        A dict:
            `masked_lm`: float32 `[batch, predictions, vocab_size]`, logits of the tokens;
            `next_sentence`, if `pairs`: float32 `[batch, 2]`, logits of "it follows" and "it does not";
            `sequence_output`: float32 `[batch, seq_length, hidden]`, the encoder's last hidden states.

    Raises:
        ValueError: as the encoder; or the vocabulary is not the encoder's, or the family has no such head.

    Example:
        >>> import numpy as np
        >>> from keras_bert import BertConfig
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=8)
        >>> model = BertPretrainer(BertEncoder(BertConfig.tiny()), preprocessor)
        >>> packed = preprocessor((["I [MASK] a cat"], ["it is black"]))
        >>> outputs = model({**packed, "masked_lm_positions": np.array([[2]])})
        >>> tuple(outputs["masked_lm"].shape), tuple(outputs["next_sentence"].shape)
        ((1, 1, 30522), (1, 2))
    """

    def __init__(self, encoder: BertEncoder, preprocessor: BertPreprocessor, pairs: bool = True, **kwargs: Any) -> None:
        super().__init__(encoder, preprocessor, **kwargs)
        self.pairs = pairs
        self.masked_lm = BertMaskedLM(encoder, dtype=encoder.dtype_policy, name=MASKED_LM)
        self.next_sentence = None
        if pairs:
            self.next_sentence = ClassifierHead(
                encoder.config, NEXT_SENTENCE, 2, dropout_rate=0.0, dtype=encoder.dtype_policy, name=NEXT_SENTENCE
            )
            self.next_sentence.build()
        self.built = True

    def call(self, inputs: dict[str, Any], training: bool | None = None) -> dict[str, Any]:
        packed = {name: value for name, value in inputs.items() if name != POSITIONS}
        outputs = self.encoder(packed, training=training)
        hidden = outputs["sequence_output"]
        found = {MASKED_LM: self.masked_lm.logits(hidden, inputs[POSITIONS]), SEQUENCE_OUTPUT: hidden}
        if self.next_sentence is not None:
            found[NEXT_SENTENCE] = self.next_sentence(outputs["pooled_output"], training=training)
        return {name: ops.cast(value, "float32") for name, value in found.items()}

    # Keras needs a loss and targets for every output, so it gets the logits only.

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        return super().compute_loss(x, y, self._logits(y_pred), sample_weight, training)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        return super().compute_metrics(x, y, self._logits(y_pred), sample_weight)

    def _logits(self, outputs: dict[str, Any]) -> dict[str, Any]:
        return {name: outputs[name] for name in self._objectives}

    def training_loss(self) -> dict[str, keras.losses.Loss]:
        """`L_MLM + L_NSP`: the mean cross-entropies of the predictions and of the pairs of a batch."""
        return {name: self.masked_lm.training_loss() for name in self._objectives}

    def training_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        """The accuracies. The perplexity is `exp(masked_lm_loss)`."""
        return {name: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")] for name in self._objectives}

    @property
    def _objectives(self) -> tuple[str, ...]:
        return (MASKED_LM, NEXT_SENTENCE) if self.pairs else (MASKED_LM,)

    @property
    def heads(self) -> dict[str, keras.Layer]:
        heads = {MASKED_LM: self.masked_lm.head, NEXT_SENTENCE: self.next_sentence}
        return {name: heads[name] for name in self._objectives}

    def check_teacher(self, teacher: Any) -> None:
        super().check_teacher(teacher)
        widths = [model.encoder.config.hidden_size for model in (teacher, self)]
        if widths[0] != widths[1]:
            raise ValueError(f"the teacher's hidden_size is {widths[0]}, the student's {widths[1]}; make both equal")

    def distillation_loss(
        self, loss: Any, teacher: Any, x: Any, y_pred: Any, sample_weight: Any, temperature: float
    ) -> Any:
        """DistilBERT's losses: on the labels, on the teacher's answers, and `1 - cos` of the hidden states."""
        theirs = {name: ops.stop_gradient(value) for name, value in teacher(x, training=False).items()}
        apart = divergence(theirs[MASKED_LM], y_pred[MASKED_LM], temperature)  # [batch, predictions]
        directions = [ops.normalize(each[SEQUENCE_OUTPUT], axis=-1) for each in (theirs, y_pred)]
        cosine = ops.sum(directions[0] * directions[1], axis=-1)  # [batch, seq_length]
        return (
            _LABELS * loss
            + _ANSWERS * weighted_mean(apart, sample_weight[MASKED_LM])
            + _HIDDEN * weighted_mean(1.0 - cosine, x["input_mask"])
        )

    @classmethod
    def _heads(cls, arguments: dict[str, Any]) -> tuple[str, ...]:
        return (MASKED_LM, NEXT_SENTENCE) if arguments.get("pairs", True) else (MASKED_LM,)

    @classmethod
    def _read_preprocessor(cls, found: TaskPreset, encoder: BertEncoder, rows: RowSettings) -> BertPreprocessor:
        length = rows.sequence_length or found.preprocessor.get("sequence_length") or _LENGTH
        return super()._read_preprocessor(found, encoder, rows._replace(sequence_length=length))

    def settings(self) -> dict[str, Any]:
        return {"pairs": self.pairs}
