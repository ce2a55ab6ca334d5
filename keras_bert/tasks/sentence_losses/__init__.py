"""Losses for training sentence vectors, for `compile` and `fine_tune`.

Called with several columns of texts, a `BertSentenceEncoder` returns vectors, float32 `[batch, columns, size]`. Column
0 holds the anchors. A loss compares the vectors of a row with each other, and some with those of other rows. The
vectors may have any length.

    MultipleNegativesRankingLoss   (anchor, positive), or (anchor, positive, negative, ...)
    CoSENTLoss, AnglELoss          (first, second) with the score of their similarity
    CosineSimilarityLoss           the same, with scores from -1 to 1
    ContrastiveLoss                (first, second) with 1 (similar) or 0
    TripletLoss                    (anchor, positive, negative)
    MarginMSELoss                  (anchor, positive, negative, ...) with a better model's scores or margins
    VectorMSELoss                  (text, ...) with a better model's vectors
    MatryoshkaLoss                 around any of them, for vectors that can be truncated
"""

from keras_bert.tasks.sentence_losses.distilled import MarginMSELoss, VectorMSELoss
from keras_bert.tasks.sentence_losses.in_batch import MultipleNegativesRankingLoss
from keras_bert.tasks.sentence_losses.matryoshka import MatryoshkaLoss
from keras_bert.tasks.sentence_losses.ordered import AnglELoss, CoSENTLoss
from keras_bert.tasks.sentence_losses.pairs_alone import ContrastiveLoss, CosineSimilarityLoss, TripletLoss

__all__ = [
    "AnglELoss",
    "CoSENTLoss",
    "ContrastiveLoss",
    "CosineSimilarityLoss",
    "MarginMSELoss",
    "MatryoshkaLoss",
    "MultipleNegativesRankingLoss",
    "TripletLoss",
    "VectorMSELoss",
]

# By name, for commands; each can be made without arguments. A file has no vectors.
LOSSES = {
    "multiple_negatives_ranking": MultipleNegativesRankingLoss,
    "cosent": CoSENTLoss,
    "angle": AnglELoss,
    "cosine_similarity": CosineSimilarityLoss,
    "contrastive": ContrastiveLoss,
    "triplet": TripletLoss,
    "margin_mse": MarginMSELoss,
}
