"""Losses for training sentence vectors, for `compile` and `fine_tune`.

Called with several columns of texts, a `BertSentenceEncoder` returns vectors, float32 `[batch, columns, size]`. Column
0 holds the anchors. Each loss compares the vectors within a row; some losses also compare vectors of different rows.
The vectors may have any length. A loss is the mean of its float32 `[batch]`, unless it says otherwise.

`MultipleNegativesRankingLoss`, `MarginMSELoss` and `DistillKLDivLoss` also take the vectors of tokens that a
`BertMultiVectorEncoder` returns, float32 `[batch, columns, tokens, size + 1]`, and compare texts by `maxsim`.

==============================  ======================================  =====================================
Loss                            Columns of texts                        Labels
==============================  ======================================  =====================================
`MultipleNegativesRankingLoss`  anchor, positive, maybe negatives       none
`GISTEmbedLoss`                 anchor, positive, maybe negatives       a guide's vectors
`CoSENTLoss`, `AnglELoss`       first, second                           similarities, any numbers
`CosineSimilarityLoss`          first, second                           similarities, -1 to 1
`ContrastiveLoss`               first, second                           1 (similar) or 0
`TripletLoss`                   anchor, positive, negative              none
`MarginMSELoss`                 anchor, positive, negative, ...         a better model's scores or margins
`DistillKLDivLoss`              anchor, positive, negative, ...         a better model's scores
`VectorMSELoss`                 one or more                             a better model's vectors
==============================  ======================================  =====================================

`MatryoshkaLoss` wraps any of these losses, for vectors that can be truncated later; `SpladeLoss`, for sparse ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.answers.similarity import margins_of
from keras_bert.counted import counted, either
from keras_bert.loss_table import LOSSES, losses_of
from keras_bert.tasks.steps.replicas import AroundLoss, all_gather, local_rows
from keras_bert.tensors import Tensor

LOWEST = -1e9  # of float32 scores: its exponential is 0


def columns_of_vectors(
    vectors: Tensor, least: int, most: int | None = 0, normalize: bool = True, may_be_tokens: bool = False
) -> list[Tensor]:
    """Splits vectors, `[batch, columns, size]`, by column; `most` is `least` by default, None for any number.

    Vectors of tokens, `[batch, columns, tokens, size + 1]`, are never normalized.
    """
    are_tokens = len(vectors.shape) == 4
    if not may_be_tokens:
        _check_single(vectors)
    most, normalize = least if most == 0 else most, normalize and not are_tokens
    count = vectors.shape[1] if len(vectors.shape) == 3 or are_tokens else 1
    if count < least or (most and count > most):
        expected = f"{least}" if most else f"{least} or more"
        raise ValueError(f"the model was given {counted(count, 'column')} of texts; this loss compares {expected}")
    vectors = ops.cast(vectors, "float32")
    vectors = ops.normalize(vectors, axis=-1) if normalize else vectors
    return [vectors[:, column] for column in range(count)]


def _check_single(vectors: Tensor) -> None:
    if len(vectors.shape) == 4:
        others = either(LOSSES[name].maker.partition(".")[2] for name in losses_of("token_vectors"))
        raise ValueError(f"this loss compares one vector of each text, not vectors of tokens; for these, take {others}")


def maxsim(queries: Tensor, documents: Tensor) -> Tensor:
    """Computes the MaxSim of queries with documents: for each token of a query, the highest dot product, summed.

    Khattab and Zaharia 2020, "ColBERT", equation 3. The last value of a vector is 1, or 0 for a token that does not
    count, such as padding: `[..., tokens, size + 1]` each -> float32 `[...]`. A document without tokens gets -1e9.
    """
    counts = documents[..., -1] > 0  # [..., document tokens]
    products = ops.matmul(queries[..., :-1], ops.swapaxes(documents[..., :-1], -1, -2))
    highest = ops.max(ops.where(ops.expand_dims(counts, -2), products, LOWEST), axis=-1)  # [..., query tokens]
    return ops.where(ops.any(counts, axis=-1), ops.sum(highest * queries[..., -1], axis=-1), LOWEST)


def _all_scores(anchors: Tensor, candidates: Tensor) -> Tensor:
    """Scores each anchor with each candidate, float32 `[batch, candidates]`."""
    if len(anchors.shape) == 2:
        return ops.matmul(anchors, ops.transpose(candidates))
    if anchors.shape[1] is None:  # else XLA may compile it, which cuts at no number that is computed
        positions = anchors[..., -1] * ops.arange(1, ops.shape(anchors)[1] + 1, dtype="float32")
        anchors = anchors[:, : ops.cast(ops.max(positions, initial=0), "int32")]  # without padding up to documents
    # One anchor after the other: the products of all tokens would take much memory.
    compare = lambda anchor: maxsim(anchor, candidates)  # noqa: E731
    return tf.map_fn(compare, anchors, fn_output_signature=tf.TensorSpec([candidates.shape[0]], tf.float32))


def numbers(y_true: Tensor) -> Tensor:
    """Converts scores or labels to float32 `[batch]`."""
    return ops.reshape(ops.cast(y_true, "float32"), (-1,))


def distances(first: Tensor, second: Tensor) -> Tensor:
    """Computes the Euclidean distances of vectors, `[batch, size]` each -> `[batch]`."""
    squares = ops.sum(ops.square(first - second), axis=-1)
    return ops.sqrt(ops.maximum(squares, 1e-12))  # the gradient of the root is infinite at 0


@keras.saving.register_keras_serializable(package="keras_bert")
class MultipleNegativesRankingLoss(keras.losses.Loss):
    """Cross-entropy of finding an anchor's positive among all positives and negatives of the batch.

    Use it for search, with pairs such as questions and answers, titles and texts, or translations: no scores are
    needed, as the other rows of the batch serve as negatives. A larger batch has more of them and usually gives a
    better model; `mini_batch_size` of `fine_tune` makes room for it.

    `-log(exp(s cos(a_i, p_i)) / sum_j exp(s cos(a_i, c_j)))`, where the candidates `c` are the columns 1 and later of
    all rows: Henderson et al. 2017, "Efficient Natural Language Response Suggestion", section 4; InfoNCE, van den Oord
    et al. 2018. Replicas share their candidates, so the loss is that of the global batch.

    Args:
        scale: the factor of the cosines; 1 / temperature. For vectors of tokens, whose MaxSim is a sum, take 1.
        symmetric: whether half of the loss is the cross-entropy of finding each positive's anchor among all anchors
            (Günther et al. 2023, "Jina Embeddings 2", section 5), as in `MultipleNegativesSymmetricRankingLoss`.
        normalize: whether vectors are compared by their cosine; else by their dot product.

    Call arguments:
        y_true: `[batch, columns]`, an id for each text; equal texts have equal ids, see `text_numbers`. They mask
            duplicates: a candidate identical to the anchor, or to a positive of an identical anchor, is left out of the
            negatives. `y_true` of another shape is ignored.
        y_pred: vectors `[batch, columns, size]`, two columns or more; or those of tokens.

    Example:
        >>> vectors = ops.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
        >>> round(float(MultipleNegativesRankingLoss(scale=1.0)(ops.zeros([2]), vectors)), 4)  # log(1 + 1 / e)
        0.3133
    """

    def __init__(
        self,
        scale: float = 20.0,
        symmetric: bool = False,
        name: str = "multiple_negatives_ranking",
        normalize: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        if not scale > 0:
            raise ValueError(f"scale is {scale}; expected a number above 0")
        self.scale = scale
        self.symmetric = symmetric
        self.normalize = normalize

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        losses = self._compute_losses(all_gather(y_true), all_gather(y_pred))
        return local_rows(losses, ops.shape(y_pred)[0])

    def _compute_losses(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        columns = columns_of_vectors(y_pred, 2, None, self.normalize, may_be_tokens=True)
        anchors, candidates = columns[0], ops.concatenate(columns[1:])  # [batch, size], [candidates, size]
        scores = self.scale * _all_scores(anchors, candidates)
        is_positive = ops.eye(ops.shape(anchors)[0], ops.shape(candidates)[0], dtype="bool")
        if tuple(y_true.shape[1:]) == (len(columns),):
            scores = ops.where(ops.logical_and(_mark_excluded(y_true), ops.logical_not(is_positive)), LOWEST, scores)
        positive_scores = ops.sum(ops.where(is_positive, scores, 0.0), axis=1)
        log_sums = ops.logsumexp(scores, axis=1)
        if not self.symmetric:
            return log_sums - positive_scores
        positive_columns = scores[:, : ops.shape(anchors)[0]]
        return (log_sums + ops.logsumexp(positive_columns, axis=0)) / 2 - positive_scores

    def has_contrast(self, y_true: np.ndarray) -> bool:
        """Checks that a batch has a negative, else there is nothing to learn. `y_true` comes from `text_numbers`."""
        is_positive = np.eye(len(y_true), len(y_true) * (y_true.shape[1] - 1), dtype=bool)
        return not np.all(is_positive | ops.convert_to_numpy(_mark_excluded(ops.convert_to_tensor(y_true))))

    def get_config(self) -> dict[str, object]:
        names = ("scale", "symmetric", "normalize")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


@keras.saving.register_keras_serializable(package="keras_bert")
class MultipleNegativesSymmetricRankingLoss(MultipleNegativesRankingLoss):
    """`MultipleNegativesRankingLoss` in both directions: each positive must find its anchor, too.

    Use it where either text of a pair may be the query, such as translations. Arguments and shapes are those of
    `MultipleNegativesRankingLoss`.

    Example:
        >>> vectors = ops.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.6, 0.8]]])
        >>> round(float(MultipleNegativesSymmetricRankingLoss(scale=1.0)(ops.zeros([2]), vectors)), 4)
        0.4489
    """

    def __init__(
        self,
        scale: float = 20.0,
        symmetric: bool = True,
        name: str = "multiple_negatives_symmetric_ranking",
        **kwargs: Any,
    ) -> None:
        super().__init__(scale, symmetric, name, **kwargs)


def _mark_excluded(numbers: Tensor) -> Tensor:
    """Marks candidates that must not be negatives, bool `[batch, candidates]`, by the ids of texts."""
    anchors, positives = numbers[:, 0], numbers[:, 1]
    candidates = ops.reshape(ops.transpose(numbers[:, 1:]), (-1,))
    same_anchor = ops.cast(anchors[:, None] == anchors[None], "float32")  # [batch, batch]
    is_positive = ops.cast(positives[:, None] == candidates[None], "float32")  # [batch, candidates]
    is_positive_of_same_anchor = ops.matmul(same_anchor, is_positive) > 0
    return ops.logical_or(is_positive_of_same_anchor, anchors[:, None] == candidates[None])


@keras.saving.register_keras_serializable(package="keras_bert")
class GISTEmbedLoss(keras.losses.Loss):
    """In-batch ranking without the negatives that a guide, another sentence encoder, finds closer than the positive.

    Use it in place of `MultipleNegativesRankingLoss` if many texts of a batch answer the same anchor: the guide, a
    better or larger model, finds such false negatives. Anchors and positives are also negatives of each other.
    Solatorio 2024, "GISTEmbed: Guided In-sample Selection of Training Negatives for Text Embedding Fine-tuning",
    section 3. Replicas share their texts, so the loss is that of the global batch.

    Args:
        temperature: the divisor of the cosines.
        margin: a negative counts only if its cosine, by the guide, is at most the positive's minus the margin.
        contrast_anchors, contrast_positives: whether anchors are negatives of anchors, and positives of positives.

    Call arguments:
        y_true: the guide's vectors `[batch, columns, guide_size]`, such as
            `np.stack([guide.encode(anchors), guide.encode(positives)], axis=1)`.
        y_pred: vectors `[batch, columns, size]`, two columns or more.

    Raises:
        ValueError: the guide's vectors are not of as many columns.

    Example:
        >>> vectors = ops.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
        >>> round(float(GISTEmbedLoss(temperature=1.0)(vectors, vectors)), 4)
        1.4119
    """

    def __init__(
        self,
        temperature: float = 0.01,
        margin: float = 0.0,
        contrast_anchors: bool = True,
        contrast_positives: bool = True,
        name: str = "gist_embed",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        if not temperature > 0:
            raise ValueError(f"temperature is {temperature}; expected a number above 0")
        self.temperature, self.margin = temperature, margin
        self.contrast_anchors, self.contrast_positives = contrast_anchors, contrast_positives

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        if len(y_true.shape) != 3 or y_true.shape[1] != y_pred.shape[1]:
            raise ValueError(
                f"the guide's vectors have the shape {tuple(y_true.shape)}; expected vectors of each of the "
                f"{counted(y_pred.shape[1], 'column')} of texts, [rows, columns, size]"
            )
        guide = columns_of_vectors(all_gather(y_true), 2, None)
        own = columns_of_vectors(all_gather(y_pred), 2, None)
        limits = ops.sum(guide[0] * guide[1], axis=-1, keepdims=True) - self.margin  # [batch, 1]
        contrasts = [(0, 0)] * self.contrast_anchors + [(1, 1)] * self.contrast_positives
        scores = []
        for left, right in [(0, 1), *contrasts, *((0, negative) for negative in range(2, len(own)))]:
            is_false = ops.matmul(guide[left], ops.transpose(guide[right])) > limits
            if (left, right) == (0, 1):
                is_false = ops.logical_and(is_false, ops.logical_not(ops.eye(ops.shape(limits)[0], dtype="bool")))
            cosines = ops.matmul(own[left], ops.transpose(own[right])) / self.temperature
            scores.append(ops.where(is_false, LOWEST, cosines))
        positive_scores = ops.sum(own[0] * own[1], axis=-1) / self.temperature
        losses = ops.logsumexp(ops.concatenate(scores, axis=1), axis=1) - positive_scores
        return local_rows(losses, ops.shape(y_pred)[0])

    def get_config(self) -> dict[str, object]:
        names = ("temperature", "margin", "contrast_anchors", "contrast_positives")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


# -- Losses of single pairs and single triplets.


@keras.saving.register_keras_serializable(package="keras_bert")
class CosineSimilarityLoss(keras.losses.Loss):
    """The squared difference of the cosine of two vectors and the score of the pair.

    Use it if scores are cosines that vectors should reproduce. If only the order of the scores matters, as in STS,
    `CoSENTLoss` usually does better. Reimers and Gurevych 2019, "Sentence-BERT", section 3.

    Call arguments:
        y_true: the scores `[batch]`, from -1 to 1.
        y_pred: vectors `[batch, 2, size]`.
    """

    def __init__(self, name: str = "cosine_similarity", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        first, second = columns_of_vectors(y_pred, 2)
        return ops.square(ops.sum(first * second, axis=-1) - numbers(y_true))


@keras.saving.register_keras_serializable(package="keras_bert")
class ContrastiveLoss(keras.losses.Loss):
    """A loss that pulls similar pairs together and pushes dissimilar pairs `margin` apart.

    Use it for pairs with labels 1 (similar) and 0, such as duplicate questions.

    `y d^2 / 2 + (1 - y) max(0, margin - d)^2 / 2` with the cosine distance `d = 1 - cos`: Hadsell et al. 2006,
    "Dimensionality Reduction by Learning an Invariant Mapping", section 2.1.

    Args:
        margin: the distance, 0 to 2, at which a dissimilar pair no longer adds to the loss.

    Call arguments:
        y_true: `[batch]`, 1 (similar) or 0.
        y_pred: vectors `[batch, 2, size]`.
    """

    def __init__(self, margin: float = 0.5, name: str = "contrastive", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.margin = margin

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        first, second = columns_of_vectors(y_pred, 2)
        distances, is_similar = 1 - ops.sum(first * second, axis=-1), numbers(y_true)
        margin_losses = ops.square(ops.relu(self.margin - distances))
        return 0.5 * (is_similar * ops.square(distances) + (1 - is_similar) * margin_losses)

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "margin": self.margin}


@keras.saving.register_keras_serializable(package="keras_bert")
class TripletLoss(keras.losses.Loss):
    """A loss that keeps an anchor `margin` closer to its positive than to its negative.

    Use it for triplets whose texts should be compared only with each other. Otherwise, `MultipleNegativesRankingLoss`
    usually learns more from the same triplets, as it also compares texts of different rows.

    `max(0, |a - p| - |a - n| + margin)`: Reimers and Gurevych 2019, "Sentence-BERT", section 3, where the margin is 1.
    The loss does not normalize vectors. If the model does, two vectors are at most 2 apart.

    Args:
        margin: how much further from the anchor a negative must be than a positive.

    Call arguments:
        y_true: ignored.
        y_pred: vectors `[batch, 3, size]`: anchor, positive, negative.
    """

    def __init__(self, margin: float = 1.0, name: str = "triplet", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.margin = margin

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        anchor, positive, negative = columns_of_vectors(y_pred, 3, normalize=False)
        return ops.relu(distances(anchor, positive) - distances(anchor, negative) + self.margin)

    def has_contrast(self, y_true: np.ndarray) -> bool:
        """Checks that a batch has a negative that differs from its positive. `y_true` comes from `text_numbers`."""
        return bool(np.any(y_true[:, 1] != y_true[:, 2]))

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "margin": self.margin}


# -- Losses that put the similarities of pairs in the order of their scores.


@keras.saving.register_keras_serializable(package="keras_bert")
class CoSENTLoss(keras.losses.Loss):
    """A loss that puts the cosines of pairs in the order of their scores.

    Use it for pairs with graded scores, such as STS: scores may be any numbers, as only their order counts.

    `log(1 + sum exp(s (cos_i - cos_j)))` over all pairs i and j of the batch where j has the higher score: Huang et al.
    2024, "CoSENT: Consistent Sentence Embedding via Similarity Ranking". Replicas share their pairs, so the loss is
    that of the global batch.

    Args:
        scale: the factor of the cosines.

    Call arguments:
        y_true: the scores `[batch]`.
        y_pred: vectors `[batch, 2, size]`.

    Returns:
        float32 `[batch]`: the loss of the batch, repeated for each row.

    Example:
        >>> vectors = ops.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]])
        >>> right, wrong = (float(CoSENTLoss()(scores, vectors)) for scores in ([5.0, 1.0], [1.0, 5.0]))
        >>> right < 1e-6, wrong
        (True, 20.0)
    """

    def __init__(self, scale: float = 20.0, name: str = "cosent", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.scale = scale

    def similarities(self, first: Tensor, second: Tensor) -> Tensor:
        """Computes the similarities of vectors of length 1, `[batch, size]` each -> `[batch]`."""
        return ops.sum(first * second, axis=-1)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        vectors = columns_of_vectors(all_gather(y_pred), 2)
        similarities, scores = self.scale * self.similarities(*vectors), numbers(all_gather(y_true))
        differences = similarities[:, None] - similarities[None]
        differences = ops.where(scores[:, None] < scores[None], differences, LOWEST)
        loss = ops.logsumexp(ops.concatenate([ops.zeros([1]), ops.reshape(differences, (-1,))]))
        return loss + ops.zeros_like(numbers(y_true))

    def has_contrast(self, y_true: np.ndarray) -> bool:
        """Checks that a batch has two scores that differ, else there is nothing to learn."""
        return len(np.unique(y_true)) > 1

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "scale": self.scale}


@keras.saving.register_keras_serializable(package="keras_bert")
class AnglELoss(CoSENTLoss):
    """`CoSENTLoss` of the angles between complex vectors, in place of cosines.

    Use it where `CoSENTLoss` stops improving: near cosines of 1 and -1, the gradient of a cosine vanishes, and that of
    an angle does not. The halves of a vector are the real and the imaginary parts: Li and Li 2024, "AoE:
    Angle-optimized Embeddings for Semantic Textual Similarity", section 3.3. Arguments and shapes are those of
    `CoSENTLoss`; `size` is even.
    """

    def __init__(self, scale: float = 20.0, name: str = "angle", **kwargs: Any) -> None:
        super().__init__(scale, name=name, **kwargs)

    def similarities(self, first: Tensor, second: Tensor) -> Tensor:
        if first.shape[-1] % 2:
            raise ValueError(f"the vectors have {first.shape[-1]} values; AnglELoss needs an even number")
        (real, imaginary), (other_real, other_imaginary) = (ops.split(each, 2, axis=-1) for each in (first, second))
        sines = ops.sum(imaginary * other_real - real * other_imaginary, axis=-1)
        return ops.abs(super().similarities(first, second) + sines)


# -- Distillation losses: the labels are the vectors or the scores of a better model, the teacher.


def _scores(y_pred: Tensor) -> Tensor:
    """Computes the scores of columns 1 and later, float32 `[batch, columns - 1]`; a reranker's logits are scores."""
    if len(y_pred.shape) == 2 and y_pred.shape[1] > 1:
        return ops.cast(y_pred, "float32")
    query, *others = columns_of_vectors(y_pred, 3, None, normalize=False, may_be_tokens=True)
    compare = maxsim if len(query.shape) == 3 else lambda query, other: ops.sum(query * other, axis=-1)
    return ops.stack([compare(query, each) for each in others], axis=1)


@keras.saving.register_keras_serializable(package="keras_bert")
class MarginMSELoss(keras.losses.Loss):
    """The squared difference of a better model's margins and this model's. A margin is `s(q, p) - s(q, n)`.

    Use it to train a sentence encoder or a small reranker on the scores of a large reranker. A score `s` is the dot
    product of two vectors, MaxSim, or a reranker's logit. Hofstätter et al. 2020, "Improving Efficient Neural Ranking
    Models with Cross-Architecture Knowledge Distillation", section 3.2.

    With vectors of length 1, margins are -2 to 2. Scale the better model's scores to that range, too.

    Call arguments:
        y_true: the better model's scores of the texts in columns 1 and later, `[batch, columns - 1]`; or its margins,
            `[batch, columns - 2]`. The margins of one negative may also be `[batch]`.
        y_pred: vectors `[batch, columns, size]`: queries, positives, and one or more negatives; those of tokens; or a
            reranker's logits of positives and negatives, `[batch, columns - 1]`.

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

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        scores = _scores(y_pred)
        margins = scores[:, :1] - scores[:, 1:]
        return ops.mean(ops.square(margins - margins_of(ops.cast(y_true, "float32"), margins.shape[1])), axis=1)


@keras.saving.register_keras_serializable(package="keras_bert")
class DistillKLDivLoss(keras.losses.Loss):
    """The divergence of this model's probabilities of the candidates from a better model's.

    Use it as `MarginMSELoss`, if the better model's scores have another range: the temperature softens both.

    `T^2 KL(softmax(teacher / T) || softmax(student / T))`, where the student's score is the dot product of two vectors,
    MaxSim or a reranker's logit: Lin et al. 2020, "Distilling Dense Representations for Ranking using Tightly-Coupled
    Teachers", section 4.2.

    Args:
        temperature: `T`, above 0.

    Call arguments:
        y_true: the better model's scores of the texts in columns 1 and later, `[batch, columns - 1]`.
        y_pred: as of `MarginMSELoss`.

    Raises:
        ValueError: the number of scores does not fit the number of columns.

    Example:
        >>> vectors = ops.array([[[1.0, 0.0], [1.0, 0.0], [0.6, 0.8]]])
        >>> [round(float(DistillKLDivLoss()(scores, vectors)), 4) for scores in ([[1.0, 0.6]], [[4.0, 0.0]])]
        [0.0, 0.4301]
    """

    def __init__(self, temperature: float = 1.0, name: str = "distill_kl_div", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        if not temperature > 0:
            raise ValueError(f"temperature is {temperature}; expected a number above 0")
        self.temperature = temperature

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        scores, y_true = _scores(y_pred), ops.cast(y_true, "float32")
        if tuple(y_true.shape[1:]) != tuple(scores.shape[1:]):
            count = y_true.shape[1] if len(y_true.shape) > 1 else 1
            raise ValueError(f"got {counted(count, 'score')} a row, but {counted(scores.shape[1], 'text')} to score")
        wanted, found = (ops.log_softmax(each / self.temperature, axis=1) for each in (y_true, scores))
        return self.temperature**2 * ops.sum(ops.exp(wanted) * (wanted - found), axis=1)

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "temperature": self.temperature}


@keras.saving.register_keras_serializable(package="keras_bert")
class VectorMSELoss(keras.losses.Loss):
    """The squared difference of a text's vector and a better model's vector for this text, or for a translation of it.

    Use it to copy a sentence encoder: into a smaller model, or into further languages, from translated sentences.
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

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        _check_single(y_pred)
        y_true = ops.cast(y_true, "float32")
        y_true = y_true[:, None] if len(y_true.shape) == 2 else y_true
        if y_true.shape[2] != y_pred.shape[2]:
            raise ValueError(
                f"the better model's vectors have {y_true.shape[2]} values, this model's {y_pred.shape[2]}; a layer "
                f"dense={{'units': {y_true.shape[2]}, 'activation': 'linear'}} gives this model as many"
            )
        if y_true.shape[1] not in (1, y_pred.shape[1]):
            raise ValueError(f"got {counted(y_pred.shape[1], 'column')} of texts, but vectors of {y_true.shape[1]}")
        return ops.mean(ops.square(ops.cast(y_pred, "float32") - y_true), axis=(1, 2))


@keras.saving.register_keras_serializable(package="keras_bert")
class MatryoshkaLoss(AroundLoss):
    """The weighted sum of a loss over several sizes of truncated vectors, so that vectors can be truncated later.

    Use it if an index must be small or fast: the first 64 or 128 values of a vector then keep most of its meaning.
    Vectors are truncated, then scaled to length 1, then compared by the loss. Use the trained model with
    `truncate_dim`. Kusupati et al. 2022, "Matryoshka Representation Learning", section 3.

    Args:
        loss: a loss of this module.
        dims: the sizes, such as `[384, 256, 128, 64]`; one of them should be the whole size.
        weights: the weight of each size; by default 1.

    Call arguments:
        y_true, y_pred: as the loss takes them.

    Returns:
        A tensor of the shape and type that the loss returns.

    Raises:
        ValueError: there are no dims, one is below 1 or above the size of the vectors, or the weights differ in number.

    Example:
        >>> from keras_bert.tasks.losses.sentence_losses import MultipleNegativesRankingLoss
        >>> loss = MatryoshkaLoss(MultipleNegativesRankingLoss(), dims=[4, 2])
        >>> loss(ops.zeros([2]), ops.ones([2, 2, 4])).shape
        TensorShape([])
    """

    def __init__(
        self,
        loss: keras.losses.Loss,
        dims: Sequence[int],
        weights: Sequence[float] | None = None,
        name: str = "matryoshka",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.loss = loss
        self.dims = list(dims)
        self.weights = [1.0] * len(self.dims) if weights is None else list(weights)
        if not self.dims or min(self.dims) < 1:
            raise ValueError(f"dims is {self.dims}; expected numbers of values, each 1 or more")
        if len(self.weights) != len(self.dims):
            raise ValueError(f"got {counted(self.dims, 'dim')}, but {counted(self.weights, 'weight')}")

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        _check_single(y_pred)
        if max(self.dims) > y_pred.shape[-1]:
            raise ValueError(f"dims has {max(self.dims)}, but the vectors have {y_pred.shape[-1]} values")
        parts = [ops.normalize(y_pred[..., :dim], axis=-1) for dim in self.dims]
        losses = (weight * self.loss.call(y_true, part) for weight, part in zip(self.weights, parts, strict=True))
        return sum(losses)

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "dims": self.dims, "weights": self.weights}


@keras.saving.register_keras_serializable(package="keras_bert")
class SpladeLoss(AroundLoss):
    """A loss of sparse vectors, plus the weighted FLOPS of queries and of all other texts, which makes them sparse.

    Use it to train a `BertSparseEncoder`. FLOPS is `sum_j (mean_i w_ij)^2` over the tokens j and the texts i of the
    global batch: tokens that many texts have cost most (Paria et al. 2020, "Minimizing FLOPs to Learn Efficient Sparse
    Representations"). Its weights grow from 0 with the square of the number of updates, so that the model first learns
    to rank: Formal et al. 2021, "SPLADE v2", sections 2 and 3.3. With larger weights, texts have fewer tokens.

    Args:
        loss: a loss of this module. A search compares dot products, so take those, such as `MarginMSELoss()` or
            `MultipleNegativesRankingLoss(1.0, normalize=False)`.
        document_weight, query_weight: the highest weights of FLOPS.
        ramp_updates: the number of updates until they are reached. By default a third of those of the learning rate's
            schedule, which `fine_tune` sets; without such a schedule, 0. A task of this package counts them; in another
            model, call `follow(optimizer)`.

    Call arguments:
        y_true: as the loss takes it.
        y_pred: vectors `[batch, columns, size]`, queries first.

    Raises:
        ValueError: a weight is negative; or in a call with `ramp_updates` of 1 or more that follows no optimizer.

    Example:
        >>> vectors = ops.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
        >>> base = MultipleNegativesRankingLoss(1.0, normalize=False)
        >>> float(SpladeLoss(base, 2.0, 0.0)(ops.zeros([2]), vectors) - base(ops.zeros([2]), vectors))
        1.0
    """

    def __init__(
        self,
        loss: keras.losses.Loss,
        document_weight: float = 3e-5,
        query_weight: float = 5e-5,
        ramp_updates: int | None = None,
        name: str = "splade",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        if not all(0 <= each < float("inf") for each in (document_weight, query_weight, ramp_updates or 0)):
            raise ValueError(f"{document_weight=}, {query_weight=}, {ramp_updates=}; expected 0 or more of each")
        self.loss, self.document_weight, self.query_weight = loss, document_weight, query_weight
        self.ramp_updates, self._ramp = ramp_updates, 0
        self._optimizer: Any = None

    def follow(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Lets the weights of FLOPS grow with the updates of an optimizer; `compile` of a model calls this."""
        self._optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        updates = getattr(getattr(self._optimizer, "schedule", None), "total_steps", 0)
        self._ramp = updates // 3 if self.ramp_updates is None else self.ramp_updates

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        if self.ramp_updates and self._optimizer is None:
            raise ValueError(f"ramp_updates is {self.ramp_updates}, but nothing counts updates; call follow(optimizer)")
        queries, *documents = columns_of_vectors(all_gather(y_pred), 2, None, normalize=False)
        flops = self.query_weight * _flops(queries) + self.document_weight * _flops(ops.concatenate(documents))
        if self._ramp:
            updates = ops.cast(self._optimizer.iterations, "float32")
            flops = flops * ops.square(ops.minimum(updates / self._ramp, 1.0))
        return self.loss.call(y_true, y_pred) + flops

    def get_config(self) -> dict[str, object]:
        names = ("document_weight", "query_weight", "ramp_updates")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def _flops(vectors: Tensor) -> Tensor:
    return ops.sum(ops.square(ops.mean(vectors, axis=0)))
