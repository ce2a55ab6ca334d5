"""The kind of a reranker: pairs with a label from 0 to 1, or lists, which are queries with several passages each."""

from __future__ import annotations

import keras
import numpy as np

from keras_bert.answers.columns import Targets
from keras_bert.answers.ranking import RankingAnswers, are_scores
from keras_bert.answers.similarity import scores_of
from keras_bert.tasks import losses
from keras_bert.tasks.kinds import Kind


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
