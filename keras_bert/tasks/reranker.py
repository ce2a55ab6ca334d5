"""BertReranker: scores how well a passage answers a query (Nogueira and Cho 2019, "Passage Re-ranking with BERT")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.answers.columns import Labels, Targets, Texts, checked_labels
from keras_bert.answers.ranking import RankingAnswers, Reranker, are_scores, check_pairs
from keras_bert.answers.similarity import scores_of
from keras_bert.choices import check_choice
from keras_bert.data import Examples
from keras_bert.data.task_files import RankFiles
from keras_bert.encoder import BertEncoder
from keras_bert.formats.libraries import cross_encoder
from keras_bert.tasks import losses
from keras_bert.tasks.base.columns import Inputs, as_arrays
from keras_bert.tasks.base.lists import ReadsLists
from keras_bert.tasks.base.task import ToTrain
from keras_bert.tasks.kinds import Kind
from keras_bert.tasks.kinds.classes import ACTIVATIONS
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor
from keras_bert.text.packing import count_tokens


class Ranking(RankingAnswers, Kind["float | list[float]"]):
    """Logits of pairs or lists; `RankingAnswers` lists what the labels and the default losses are."""

    def loss(self) -> keras.losses.Loss:
        return losses.default("rankings", is_pair=True)

    def loss_for(self, targets: Targets, columns: int) -> keras.losses.Loss:
        is_pair = columns == 2
        return losses.default("rankings", is_pair, not is_pair and are_scores(np.asarray(targets), columns - 1))

    def _check_tensor(self, values: np.ndarray) -> None:
        if values.size == len(values):
            self._targets(values)
        else:  # of packed lists
            scores_of(values)


@keras.saving.register_keras_serializable(package="keras_bert")
class BertReranker(Reranker, ReadsLists):
    """A cross-encoder: a model that reads a query and a passage together, and scores how well the passage answers.

    It is exact and slow. Let a vector search find some hundred candidates, and rank these with the reranker.

    A head may have two labels, as monoBERT's has (Nogueira et al. 2019, "Multi-Stage Document Ranking with BERT"). The
    logit of a pair is then `logit_2 - logit_1`, whose sigmoid is the probability of the second label.

    Args:
        encoder, preprocessor: see `BertTask`. The preprocessor has no stride.
        activation: turns the logit into a score: "sigmoid" (scores from 0 to 1) or "identity".
        dropout: the rate before the head; by default the encoder's `hidden_dropout`.
        labels: the names of two labels, "no answer" first and "answer" second; by default the head has a single output.

    Call arguments:
        inputs: pairs of a query and a passage, or packed inputs, see `BertTask`. Or lists, as a tuple: queries, then
            two or more columns of passages. Packed lists are int `[batch, passages, seq_length]` each.

    Returns:
        float32 `[batch, 1]`: logits; for lists `[batch, passages]`, as `tasks.losses.ranking_losses` takes them.

    Example:
        >>> from keras_bert import BertConfig
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=None)
        >>> model = BertReranker(BertEncoder(BertConfig.tiny()), preprocessor)  # random weights
        >>> [sorted(answer) for answer in model.rank("how many legs?", ["A cat has four legs.", "It rains."])]
        [['index', 'score', 'text'], ['index', 'score', 'text']]
    """

    kind = Ranking()

    def __init__(
        self,
        encoder: BertEncoder,
        preprocessor: BertPreprocessor,
        activation: str = "sigmoid",
        dropout: float | None = None,
        labels: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        labels = None if labels is None else checked_labels(labels, min_count=2)
        if labels is not None and len(labels) > 2:
            raise ValueError(f"labels are {', '.join(labels)}; a reranker has two: no answer, and an answer")
        check_choice("activation", activation, cross_encoder.ACTIVATIONS)
        super().__init__(encoder, preprocessor, **kwargs)
        self.activation = activation
        self.labels = labels
        self._add_head(1 if labels is None else 2, dropout)

    @classmethod
    def to_train(cls, settings: RankFiles, preset: str | Path, examples: Examples) -> ToTrain:
        model = cls.from_preset(preset, sequence_length=settings.sequence_length)
        return model, {"loss": losses.chosen(settings.loss, "rankings")}

    def call(self, inputs: Inputs, training: bool | None = None) -> Tensor:
        if not isinstance(inputs, dict):
            check_pairs(isinstance(inputs, tuple | list))
        logits, passages = self._logits_of_pairs(inputs, training)
        if self.labels is not None:
            logits = logits[:, 1:] - logits[:, :1]  # softmax's second probability is the sigmoid of the difference
        return ops.reshape(ops.cast(logits, "float32"), (-1, passages))

    def scores_of(self, logits: Tensor) -> Tensor:
        """Converts logits to scores of the same shape, float32. High logits have equal scores after a sigmoid."""
        return ACTIVATIONS[self.activation](ops.convert_to_tensor(logits))

    def serve(self, text: tf.Tensor, text_pair: tf.Tensor) -> dict[str, tf.Tensor]:
        """Serves `text` and `text_pair`, string `[batch]` each, with `score`, float32 `[batch]`.

        `text` may also be a single query, string `[1]`: all passages in `text_pair` are then scored for it.
        `logit`, float32 `[batch]`, orders passages whose scores are equal; `token_count`, int32 `[batch]`, is the
        number of tokens that the model reads of each pair.
        """
        text = tf.repeat(text, tf.where(tf.size(text) == 1, tf.size(text_pair), 1))
        packed = self.packed((text, text_pair))
        logit = self(packed, training=False)[:, 0]
        return {"score": self.scores_of(logit), "logit": logit, "token_count": count_tokens(packed)}

    def serve_packed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `logits`, float32 `[batch, 1]`, and `score`, `[batch]`."""
        logits = self(inputs, training=False)
        return {"logits": logits, "score": self.scores_of(logits[:, 0])}

    # -- Training on pairs, or on lists: queries, and columns of passages

    def arrays(self, x: Texts | Inputs, y: Labels | None) -> tuple[Inputs, Targets | None]:
        if isinstance(x, tuple) and len(x) > 2 and isinstance(x[0], list | np.ndarray):
            return as_arrays(x), self.kind.targets_of(self.columns(x), y)
        return super().arrays(x, y)
