"""Losses for training rerankers on lists: a query with several passages, for `compile` and `fine_tune`.

Called with (queries, passages, passages, ...), a `BertReranker` returns logits, float32 `[batch, passages]`. Pairs of a
query and one passage are trained with binary cross-entropy, which also takes lists.

    LambdaLoss      labels from 0 up: the order, weighted by nDCG
    ListNetLoss     labels: the passages with the highest of them
    MarginMSELoss   a better model's scores, or its margins; see `keras_bert.tasks.sentence_losses`
"""

import keras

from keras_bert.tasks.ranking_losses.lambda_loss import LambdaLoss
from keras_bert.tasks.ranking_losses.list_net import ListNetLoss
from keras_bert.tasks.sentence_losses.distilled import MarginMSELoss

__all__ = ["LambdaLoss", "ListNetLoss", "MarginMSELoss"]


def binary_cross_entropy() -> keras.losses.Loss:
    """Binary cross-entropy of each pair's logit and its label, from 0 to 1."""
    return keras.losses.BinaryCrossentropy(from_logits=True)


# By name, for commands.
LOSSES = {
    "binary_cross_entropy": binary_cross_entropy,
    "lambda": LambdaLoss,
    "list_net": ListNetLoss,
    "margin_mse": MarginMSELoss,
}
