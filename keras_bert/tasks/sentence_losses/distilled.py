"""Distillation losses: learning a better model's vectors, or a reranker's scores."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_bert.tasks.sentence_losses.vector_columns import columns_of_vectors


@keras.saving.register_keras_serializable(package="keras_bert")
class MarginMSELoss(keras.losses.Loss):
    """The squared difference of this model's margins and those of a better model. A margin is how much a positive's
    score is above a negative's; scores are dot products of vectors, or a reranker's logits.

    Hofstätter et al. 2020, "Improving Efficient Neural Ranking Models with Cross-Architecture Knowledge Distillation",
    section 3.2. With vectors of length 1, margins are -2 to 2, and the better model's should be in that range, too.

    Call arguments:
        y_true: the better model's scores of the texts in columns 1 and later, `[batch, columns - 1]`; or its margins,
            `[batch, columns - 2]`, for one negative also `[batch]`.
        y_pred: vectors `[batch, columns, size]`: queries, positives, and one or more negatives; or a reranker's logits
            of positives and negatives, `[batch, columns - 1]`.

    Returns:
        float32 `[batch]`, the mean over the negatives; its mean when called.

    Raises:
        ValueError: the number of scores does not fit the number of columns.

    Example:
        >>> vectors = ops.array([[[1.0, 0.0], [1.0, 0.0], [0.6, 0.8]]])
        >>> [round(float(MarginMSELoss()(scores, vectors)), 4) for scores in ([0.4], [[9.0, 8.4]])]
        [0.0, 0.04]
    """

    def __init__(self, name: str = "margin_mse", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        if len(y_pred.shape) == 2 and y_pred.shape[1] > 1:
            scores = ops.cast(y_pred, "float32")  # [batch, 1 + negatives]
        else:
            query, *others = columns_of_vectors(y_pred, 3, None, normalize=False)
            scores = ops.stack([ops.sum(query * each, axis=-1) for each in others], axis=1)
        margins = scores[:, :1] - scores[:, 1:]
        return ops.mean(ops.square(margins - margins_of(y_true, margins.shape[1])), axis=1)


def margins_of(y_true: Any, negatives: int) -> Any:
    """Scores `[batch, 1 + negatives]`, or margins -> margins, float32 `[batch, negatives]`.

    Raises:
        ValueError: the number of scores is wrong.
    """
    y_true = ops.cast(y_true, "float32")
    y_true = y_true[:, None] if len(y_true.shape) == 1 else y_true
    found = y_true.shape[1]
    if found == negatives + 1:
        return y_true[:, :1] - y_true[:, 1:]
    if found != negatives:
        raise ValueError(
            f"there are {found} scores a row; with {negatives} negatives it takes {negatives + 1} (of the positive and "
            f"the negatives) or {negatives} (margins)"
        )
    return y_true


@keras.saving.register_keras_serializable(package="keras_bert")
class VectorMSELoss(keras.losses.Loss):
    """The squared difference of a text's vector and a better model's vector for this text, or for a translation of it.

    Reimers and Gurevych 2020, "Making Monolingual Sentence Embeddings Multilingual using Knowledge Distillation",
    section 3.

    Call arguments:
        y_true: the better model's vectors, `[batch, size]` for all columns, or `[batch, columns, size]`.
        y_pred: vectors `[batch, columns, size]`, one column or more.

    Returns:
        float32 `[batch]`, the mean over columns and values; its mean when called.

    Raises:
        ValueError: the vectors differ in size, or the number of columns is wrong.
    """

    def __init__(self, name: str = "vector_mse", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        y_true = ops.cast(y_true, "float32")
        y_true = y_true[:, None] if len(y_true.shape) == 2 else y_true
        if y_true.shape[2] != y_pred.shape[2]:
            raise ValueError(
                f"the better model's vectors have {y_true.shape[2]} values, this model's {y_pred.shape[2]}; a layer "
                f"dense={{'units': {y_true.shape[2]}, 'activation': 'linear'}} gives this model as many"
            )
        if y_true.shape[1] not in (1, y_pred.shape[1]):
            raise ValueError(f"there are {y_pred.shape[1]} columns of texts, but vectors of {y_true.shape[1]}")
        return ops.mean(ops.square(ops.cast(y_pred, "float32") - y_true), axis=(1, 2))
