"""Losses for training sentence vectors, for `compile` and `fine_tune`.

A `BertSentenceEncoder` that is called with several columns of texts gives vectors, float32 `[batch, columns, size]`.
The anchors are column 0. A loss compares the vectors of a row with each other, and some with those of other rows. The
vectors may have any length.

    MultipleNegativesRankingLoss   (anchor, positive), or (anchor, positive, negative, ...)
    CoSENTLoss, AnglELoss          (first, second) with a score: how alike they are
    CosineSimilarityLoss           the same, with scores from -1 to 1
    ContrastiveLoss                (first, second) with 1 (alike) or 0
    TripletLoss                    (anchor, positive, negative)
    MatryoshkaLoss                 around any of them: for vectors that can be cut
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

_LOWEST = -1e9  # of float32 scores: its exponential is 0


@keras.saving.register_keras_serializable(package="keras_bert")
class MultipleNegativesRankingLoss(keras.losses.Loss):
    """Cross-entropy of finding an anchor's positive among all positives and negatives of the batch.

    `-log(exp(s cos(a_i, p_i)) / sum_j exp(s cos(a_i, c_j)))`, where the candidates `c` are the columns 1 and later of
    all rows: Henderson et al. 2017, "Efficient Natural Language Response Suggestion", section 4; InfoNCE, van den Oord
    et al. 2018. A large batch has many negatives. Under several replicas, each has its own.

    Args:
        scale: the factor of the cosines; 1 / temperature.
        symmetric: whether half of the loss is that of finding each positive's anchor among all anchors (Günther et al.
            2023, "Jina Embeddings 2", section 5).

    Call arguments:
        y_true: `[batch, columns]`, a number for each text: equal texts have equal numbers. A candidate that is the
            anchor, or a positive of the same text as the anchor, is no negative. Of another shape, it is ignored.
        y_pred: vectors `[batch, columns, size]`, two columns or more.

    Returns:
        float32 `[batch]`; its mean when called.

    Example:
        >>> vectors = ops.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
        >>> round(float(MultipleNegativesRankingLoss(scale=1.0)(ops.zeros([2]), vectors)), 4)  # log(1 + 1 / e)
        0.3133
    """

    def __init__(
        self, scale: float = 20.0, symmetric: bool = False, name: str = "multiple_negatives_ranking", **kwargs: Any
    ) -> None:
        super().__init__(name=name, **kwargs)
        if not scale > 0:
            raise ValueError(f"scale is {scale}; expected a number above 0")
        self.scale = scale
        self.symmetric = symmetric

    def call(self, y_true: Any, y_pred: Any) -> Any:
        columns = _columns(y_pred, 2, None)
        anchors, candidates = columns[0], ops.concatenate(columns[1:])  # [batch, size], [candidates, size]
        scores = self.scale * ops.matmul(anchors, ops.transpose(candidates))  # [batch, candidates]
        own = ops.eye(ops.shape(anchors)[0], ops.shape(candidates)[0], dtype="bool")
        if tuple(y_true.shape[1:]) == (len(columns),):
            scores = ops.where(ops.logical_and(_alike(y_true), ops.logical_not(own)), _LOWEST, scores)
        right = ops.sum(ops.where(own, scores, 0.0), axis=1)
        among_candidates = ops.logsumexp(scores, axis=1)
        if not self.symmetric:
            return among_candidates - right
        of_positives = scores[:, : ops.shape(anchors)[0]]
        return (among_candidates + ops.logsumexp(of_positives, axis=0)) / 2 - right

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale, "symmetric": self.symmetric}


def _alike(numbers: Any) -> Any:
    """Numbers of texts `[batch, columns]` -> bool `[batch, candidates]`: whether a candidate must be no negative."""
    anchors, positives = numbers[:, 0], numbers[:, 1]
    candidates = ops.reshape(ops.transpose(numbers[:, 1:]), (-1,))
    same_anchor = ops.cast(anchors[:, None] == anchors[None], "float32")  # [batch, batch]
    is_positive = ops.cast(positives[:, None] == candidates[None], "float32")  # [batch, candidates]
    of_same_anchor = ops.matmul(same_anchor, is_positive) > 0
    return ops.logical_or(of_same_anchor, anchors[:, None] == candidates[None])


@keras.saving.register_keras_serializable(package="keras_bert")
class CoSENTLoss(keras.losses.Loss):
    """Makes the cosines of pairs have the order of their scores.

    `log(1 + sum exp(s (cos_i - cos_j)))` over all pairs i and j of the batch where j has the higher score: Huang et al.
    2024, "CoSENT: Consistent Sentence Embedding via Similarity Ranking". Scores may be any numbers.

    Args:
        scale: the factor of the cosines.

    Call arguments:
        y_true: the scores `[batch]`.
        y_pred: vectors `[batch, 2, size]`.

    Returns:
        float32, one number for the batch.

    Example:
        >>> vectors = ops.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]])
        >>> right, wrong = (float(CoSENTLoss()(scores, vectors)) for scores in ([5.0, 1.0], [1.0, 5.0]))
        >>> right < 1e-6, wrong
        (True, 20.0)
    """

    def __init__(self, scale: float = 20.0, name: str = "cosent", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.scale = scale

    def similarities(self, first: Any, second: Any) -> Any:
        """Vectors of length 1, `[batch, size]` each -> `[batch]`."""
        return ops.sum(first * second, axis=-1)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        similarities = self.scale * self.similarities(*_columns(y_pred, 2))
        scores = _scores(y_true)
        apart = similarities[:, None] - similarities[None]
        apart = ops.where(scores[:, None] < scores[None], apart, _LOWEST)
        return ops.logsumexp(ops.concatenate([ops.zeros([1]), ops.reshape(apart, (-1,))]))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale": self.scale}


@keras.saving.register_keras_serializable(package="keras_bert")
class AnglELoss(CoSENTLoss):
    """`CoSENTLoss` of angles between complex numbers, whose gradients do not vanish where a cosine is about 1 or -1.

    The halves of a vector are the real and the imaginary parts: Li and Li 2024, "AoE: Angle-optimized Embeddings for
    Semantic Textual Similarity", section 3.3. Arguments and shapes are those of `CoSENTLoss`; `size` is even.
    """

    def __init__(self, scale: float = 20.0, name: str = "angle", **kwargs: Any) -> None:
        super().__init__(scale, name=name, **kwargs)

    def similarities(self, first: Any, second: Any) -> Any:
        if first.shape[-1] % 2:
            raise ValueError(f"the vectors have {first.shape[-1]} values; AnglELoss takes halves, so an even number")
        (real, imaginary), (other_real, other_imaginary) = (ops.split(each, 2, axis=-1) for each in (first, second))
        sines = ops.sum(imaginary * other_real - real * other_imaginary, axis=-1)
        return ops.abs(super().similarities(first, second) + sines)


@keras.saving.register_keras_serializable(package="keras_bert")
class CosineSimilarityLoss(keras.losses.Loss):
    """The squared difference of the cosine of two vectors and the score of the pair: Reimers and Gurevych 2019,
    "Sentence-BERT", section 3.

    Call arguments:
        y_true: the scores `[batch]`, from -1 to 1.
        y_pred: vectors `[batch, 2, size]`.

    Returns:
        float32 `[batch]`; its mean when called.
    """

    def __init__(self, name: str = "cosine_similarity", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        first, second = _columns(y_pred, 2)
        return ops.square(ops.sum(first * second, axis=-1) - _scores(y_true))


@keras.saving.register_keras_serializable(package="keras_bert")
class ContrastiveLoss(keras.losses.Loss):
    """Brings pairs together that are alike, and others at least `margin` apart, by the cosine distance `d = 1 - cos`.

    `y d^2 / 2 + (1 - y) max(0, margin - d)^2 / 2`: Hadsell et al. 2006, "Dimensionality Reduction by Learning an
    Invariant Mapping", section 2.1.

    Args:
        margin: the distance at which pairs that are not alike are far enough apart, 0 to 2.

    Call arguments:
        y_true: `[batch]`, 1 (alike) or 0.
        y_pred: vectors `[batch, 2, size]`.

    Returns:
        float32 `[batch]`; its mean when called.
    """

    def __init__(self, margin: float = 0.5, name: str = "contrastive", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.margin = margin

    def call(self, y_true: Any, y_pred: Any) -> Any:
        first, second = _columns(y_pred, 2)
        distances, alike = 1 - ops.sum(first * second, axis=-1), _scores(y_true)
        too_near = ops.square(ops.relu(self.margin - distances))
        return 0.5 * (alike * ops.square(distances) + (1 - alike) * too_near)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "margin": self.margin}


@keras.saving.register_keras_serializable(package="keras_bert")
class TripletLoss(keras.losses.Loss):
    """`max(0, |a - p| - |a - n| + margin)`: Reimers and Gurevych 2019, "Sentence-BERT", section 3; their margin is 1.

    The distances are of the vectors as they are: those of length 1 are at most 2 apart.

    Args:
        margin: how much further from the anchor a negative must be than a positive.

    Call arguments:
        y_true: is ignored.
        y_pred: vectors `[batch, 3, size]`: anchor, positive, negative.

    Returns:
        float32 `[batch]`; its mean when called.
    """

    def __init__(self, margin: float = 1.0, name: str = "triplet", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.margin = margin

    def call(self, y_true: Any, y_pred: Any) -> Any:
        anchor, positive, negative = _columns(y_pred, 3, normalize=False)
        return ops.relu(_distances(anchor, positive) - _distances(anchor, negative) + self.margin)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "margin": self.margin}


@keras.saving.register_keras_serializable(package="keras_bert")
class MatryoshkaLoss(keras.losses.Loss):
    """The weighted sum of a loss on the whole vectors and on their first values, so that they can be cut.

    Kusupati et al. 2022, "Matryoshka Representation Learning", section 3. What is left of a vector gets length 1. A
    model that was trained so is used with `truncate_dim`.

    Args:
        loss: one of this module's.
        dims: the numbers of values, such as `[384, 256, 128, 64]`; the whole vector should be one of them.
        weights: the weight of each; by default 1.

    Call arguments:
        y_true, y_pred: as the loss takes them.

    Returns:
        As the loss.

    Raises:
        ValueError: there are no dims, one is below 1 or above the size of the vectors, or the weights differ in number.

    Example:
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
            raise ValueError(f"there are {len(self.dims)} dims, but {len(self.weights)} weights")

    def call(self, y_true: Any, y_pred: Any) -> Any:
        if max(self.dims) > y_pred.shape[-1]:
            raise ValueError(f"dims has {max(self.dims)}, but the vectors have {y_pred.shape[-1]} values")
        parts = [ops.normalize(y_pred[..., :dim], axis=-1) for dim in self.dims]
        losses = (weight * self.loss.call(y_true, part) for weight, part in zip(self.weights, parts, strict=True))
        return sum(losses)

    def get_config(self) -> dict[str, Any]:
        loss = keras.saving.serialize_keras_object(self.loss)
        return {**super().get_config(), "loss": loss, "dims": self.dims, "weights": self.weights}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> MatryoshkaLoss:
        return cls(**{**config, "loss": keras.saving.deserialize_keras_object(config["loss"])})


# By name, for commands; each can be made without arguments.
LOSSES = {
    "multiple_negatives_ranking": MultipleNegativesRankingLoss,
    "cosent": CoSENTLoss,
    "angle": AnglELoss,
    "cosine_similarity": CosineSimilarityLoss,
    "contrastive": ContrastiveLoss,
    "triplet": TripletLoss,
}


def _columns(vectors: Any, least: int, most: int | None = 0, normalize: bool = True) -> list[Any]:
    """Vectors `[batch, columns, size]` -> those of each column, `[batch, size]`, by default with length 1."""
    most = least if most == 0 else most
    found = vectors.shape[1] if len(vectors.shape) == 3 else 1
    if found < least or (most and found > most):
        expected = f"{least}" if most else f"{least} or more"
        raise ValueError(f"the model was given {found} columns of texts; this loss compares {expected}")
    vectors = ops.cast(vectors, "float32")
    vectors = ops.normalize(vectors, axis=-1) if normalize else vectors
    return [vectors[:, column] for column in range(found)]


def _scores(y_true: Any) -> Any:
    return ops.reshape(ops.cast(y_true, "float32"), (-1,))


def _distances(one: Any, other: Any) -> Any:
    # The root has no gradient at 0.
    return ops.sqrt(ops.maximum(ops.sum(ops.square(one - other), axis=-1), 1e-12))
