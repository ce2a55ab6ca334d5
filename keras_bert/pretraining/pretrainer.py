"""A new model, and the heads of both pre-training objectives (Devlin et al. 2018, section 3.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_bert.answers.answerer import Setting
from keras_bert.choices import OBJECTIVES, check_choice
from keras_bert.config import BertConfig
from keras_bert.encoder import BertEncoder
from keras_bert.formats import FAMILIES, read_config
from keras_bert.sizes import published_size
from keras_bert.tasks.base.task import BertTask
from keras_bert.tasks.heads import ClassifierHead
from keras_bert.tasks.kinds import Kind, TaughtBatch
from keras_bert.tasks.masked_lm import POSITIONS, BertMaskedLM
from keras_bert.tasks.steps.training_step import LossTerm, count_averaged, divergence, weighted_mean
from keras_bert.text import BertPreprocessor, WordPieceTokenizer, load_tokenizer
from keras_bert.text.tokenizer import Tokenizer


def read_vocabulary(path: str | Path) -> Tokenizer:
    """Reads the tokenizer of a directory, or of an uncased `vocab.txt`. Raises ValueError if the file has capitals."""
    path = Path(path)
    if path.is_dir():
        return load_tokenizer(path)
    tokenizer = WordPieceTokenizer(path)
    special = set(tokenizer.special_tokens.values())
    for token in tokenizer.vocabulary:
        if token != token.lower() and token not in special and not token.startswith("[unused"):
            raise ValueError(
                f"{path} has capitals, such as {token!r}, but a single file is read as an uncased vocabulary; "
                "pass a directory with a tokenizer_config.json, as `keras-bert vocab --cased` writes it"
            )
    return tokenizer


def read_size(size: str) -> BertConfig:
    """Reads the configuration of a size ("tiny", "albert-base"), or that in a `config.json`."""
    name = published_size(size)
    return BertConfig.named(name) if name else read_config(size)


def config_of(size: str, tokenizer: Tokenizer, pairs: bool) -> BertConfig:
    """Makes the configuration of a new model, of a size as in `read_size`, for a tokenizer."""
    config, tokens, padding = read_size(size), tokenizer.vocabulary_size, tokenizer.pad_token_id
    if published_size(size):
        # A layer's output has the variance hidden_size * range^2. This range gives every size that of BERT-Base. A
        # model as narrow as BERT-Tiny is too small to overfit. For the figures, see "Rates" in docs/benchmarks.md.
        changes: dict[str, Any] = {"initializer_range": round(0.02 * (768 / config.hidden_size) ** 0.5, 2)}
        if config.hidden_size <= 128:
            changes |= {"hidden_dropout": 0.0, "attention_dropout": 0.0}
        config = dataclasses.replace(config, vocab_size=tokens, pad_token_id=padding, **changes)
    else:
        try:
            config.check_vocabulary(tokens, tokenizer.is_whole)
        except ValueError as error:
            raise ValueError(f"{size}: {error}") from None
    if config.pad_token_id != padding:
        raise ValueError(f"{size}: pad_token_id is {config.pad_token_id}, but it is {padding} in the vocabulary")
    if pairs and "next_sentence" not in FAMILIES[config.family].heads:
        raise ValueError(f"{config.family} has no head for pairs; choose the objective 'sentences'")
    return config


# The names of outputs, losses and metrics.
MASKED_LM, NEXT_SENTENCE = "masked_lm", "next_sentence"
SEQUENCE_OUTPUT = "sequence_output"  # read only by the loss of a student

# Each term of the loss is a mean over one of these units: the columns of `AccumulatedBatch.shares`.
MASKED_TOKENS, PAIRS, TOKENS = UNITS = range(3)

# DistilBERT's alpha_mlm, alpha_ce and alpha_cos, 2 : 5 : 1, scaled to sum to 1, so that gradients do not grow.
_LABEL_WEIGHT, _LOGIT_WEIGHT, _HIDDEN_WEIGHT = 2 / 8, 5 / 8, 1 / 8


@dataclasses.dataclass(frozen=True)
class Objectives(Kind[Any]):
    """The objectives of pre-training; labels are a dict of targets, by output."""

    hidden_size: int

    def plain(self, labels: Any) -> Any:
        return labels

    def check_teacher(self, teacher: Kind[Any]) -> None:
        assert isinstance(teacher, Objectives)
        if teacher.hidden_size != self.hidden_size:
            raise ValueError(
                f"the teacher's hidden_size is {teacher.hidden_size}, the student's {self.hidden_size}; make both equal"
            )

    def distillation_terms(self, batch: TaughtBatch) -> list[LossTerm]:
        """Computes DistilBERT's losses: on the labels, on the teacher's logits, and `1 - cos` of the hidden states."""
        teacher_logits, student_logits = (each[MASKED_LM] for each in batch.outputs)
        divergences = divergence(teacher_logits, student_logits, batch.temperature)  # [batch, predictions]
        unit_vectors = [ops.normalize(each[SEQUENCE_OUTPUT], axis=-1) for each in batch.outputs]
        cosine = ops.sum(unit_vectors[0] * unit_vectors[1], axis=-1)  # [batch, seq_length]
        logit_term = weighted_mean(divergences, batch.sample_weight[MASKED_LM])
        hidden_term = weighted_mean(1.0 - cosine, batch.inputs["input_mask"])
        return [
            *(each._replace(weight=_LABEL_WEIGHT * each.weight) for each in batch.terms),
            logit_term._replace(weight=_LOGIT_WEIGHT, unit=MASKED_TOKENS),
            hidden_term._replace(weight=_HIDDEN_WEIGHT, unit=TOKENS),
        ]


@keras.saving.register_keras_serializable(package="keras_bert")
class BertPretrainer(BertTask):
    """An encoder with a masked language modeling head and, for pairs, a head for next sentence or sentence order.

    Use it to pre-train from scratch, or to continue on the text of a domain. Only masked positions are projected to the
    vocabulary.

    Args:
        encoder: a `BertEncoder`; for pairs, with a pooler.
        preprocessor: a `BertPreprocessor`, whose tokenizer is saved with the model.
        pairs: whether there is a head for pairs. RoBERTa's family has none. `from_preset` makes one, by default, only
            if the preset has one.
        objective: what this head learns, "next_sentence" or "sentence_order"; by default the latter in ALBERT only.

    Call arguments:
        inputs: the encoder's inputs, and `masked_lm_positions`, int `[batch, predictions]`.

    Returns:
        A dict:
            `masked_lm`: float32 `[batch, predictions, vocab_size]`, logits of the tokens;
            `next_sentence`, if `pairs`: float32 `[batch, 2]`, logits of "it follows" and "it does not";
            `sequence_output`: float32 `[batch, seq_length, hidden]`, the encoder's last hidden states.

    Raises:
        ValueError: as the encoder; or the vocabulary is not the encoder's, or the family has no head for pairs.

    Example:
        >>> import numpy as np
        >>> model = BertPretrainer.from_preset("bert-books", special_tokens_in_text=True)
        >>> packed = model.preprocessor((["She opened the [MASK]."], ["It was dark inside."]))
        >>> outputs = model({**packed, "masked_lm_positions": np.array([[4]])})
        >>> tuple(outputs["masked_lm"].shape), tuple(outputs["next_sentence"].shape)
        ((1, 1, 8000), (1, 2))
    """

    SETTINGS = (Setting("pairs", bool), Setting("objective", str))
    HEADS = ((MASKED_LM, None), (NEXT_SENTENCE, "pairs"))
    ROW_LENGTH = 128

    preprocessor: BertPreprocessor

    def __init__(
        self, encoder: BertEncoder, preprocessor: BertPreprocessor, pairs: bool = True, objective: str | None = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(encoder, preprocessor, **kwargs)
        self.pairs = pairs
        if not pairs or objective in (None, "sentences"):
            of_pairs = "sentence_order" if encoder.config.family == "albert" else "next_sentence"
            objective = of_pairs if pairs else "sentences"
        check_choice("objective", objective, OBJECTIVES)
        self.objective = objective
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
        encoded = self.encoder(packed, training=training)
        hidden = encoded["sequence_output"]
        outputs = {MASKED_LM: self.masked_lm.logits(hidden, inputs[POSITIONS]), SEQUENCE_OUTPUT: hidden}
        if self.next_sentence is not None:
            outputs[NEXT_SENTENCE] = self.next_sentence(encoded["pooled_output"], training=training)
        return {name: ops.cast(value, "float32") for name, value in outputs.items()}

    def compile(self, *args: Any, loss_weights: Mapping[str, float] | None = None, **kwargs: Any) -> None:
        """Compiles as Keras does, and keeps `loss_weights` for `label_terms`."""
        super().compile(*args, loss_weights=loss_weights, **kwargs)
        self._loss_weights = dict(loss_weights or {})

    def label_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        """Computes the mean losses over masked tokens and over pairs. Keras would weight both by a batch's rows."""
        terms = []
        for name, unit in zip(self._objectives, UNITS, strict=False):
            loss, labels, weights = (
                each[name] if isinstance(each, Mapping) else each for each in (self.loss, y, sample_weight)
            )
            mean = keras.losses.get(loss)(labels, y_pred[name], weights)
            count = count_averaged(loss, labels, y_pred[name], weights)
            terms.append(LossTerm(mean, count, self._loss_weights.get(name, 1.0), unit))
        return terms

    @property
    def _loss_names(self) -> tuple[str | None, ...]:
        # Keras reports no separate loss for a single objective. A teacher adds two terms without a name.
        return (*(f"{name}_loss" if self.pairs else None for name in self._objectives), None, None)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        # Keras needs a target for every output, and `sequence_output` has none.
        return super().compute_metrics(x, y, {name: y_pred[name] for name in self._objectives}, sample_weight)

    def training_loss(self) -> dict[str, keras.losses.Loss]:
        """Makes the terms of `L_MLM + L_NSP`: mean cross-entropies over the predictions and the pairs of a batch."""
        return {name: self.masked_lm.training_loss() for name in self._objectives}

    def training_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        """Makes an accuracy for each objective. The perplexity is `exp(masked_lm_loss)`."""
        return {name: [keras.metrics.SparseCategoricalAccuracy(name="accuracy")] for name in self._objectives}

    @property
    def _objectives(self) -> tuple[str, ...]:
        return (MASKED_LM, NEXT_SENTENCE) if self.pairs else (MASKED_LM,)

    @property
    def heads(self) -> dict[str, keras.Layer]:
        heads = {MASKED_LM: self.masked_lm.head, NEXT_SENTENCE: self.next_sentence}
        return {name: heads[name] for name in self._objectives}

    @property
    def kind(self) -> Objectives:
        return Objectives(self.encoder.config.hidden_size)
