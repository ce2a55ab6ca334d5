"""The rules that choose a query's hard negatives among the texts close to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_MORE = 10  # candidates per negative, as rules may leave out many


@dataclass(frozen=True, kw_only=True)
class NegativeRules:
    """The rules that choose hard negatives. Scores are the similarities of vectors, or those of a reranker.

    A text that scores almost as high as the positive may be an unmarked answer: margins leave it out (Moreira et al.
    2024, "NV-Retriever", section 3). If a query has several positives, the one with the lowest score counts.

    Attributes:
        negatives: the number of negatives per query, highest scores first.
        range_min: the number of highest scores to skip.
        range_max: the number of highest scores to consider; by default, as many as the other rules need.
        absolute_margin: a negative's score is at least this much below the positive's.
        relative_margin: a negative's score is at most (1 - this) times the positive's; 0.05 in the paper.
        min_score, max_score: the limits of a negative's score.
        sample: whether to draw negatives at random from the range, instead of taking the highest scores.
        seed: the seed of these draws.

    Raises:
        ValueError: a number is out of range.

    Example:
        >>> rules = NegativeRules(negatives=2, absolute_margin=0.1)
        >>> rules.choose(np.array([[0.9, 0.75, 0.5, 0.2]], np.float32), np.array([0.8], np.float32))
        [array([2, 3])]
    """

    negatives: int = 3
    range_min: int = 0
    range_max: int | None = None
    absolute_margin: float | None = None
    relative_margin: float | None = None
    min_score: float | None = None
    max_score: float | None = None
    sample: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.negatives < 1:
            raise ValueError(f"negatives is {self.negatives}; expected 1 or more")
        if self.range_min < 0:
            raise ValueError(f"range_min is {self.range_min}; expected 0 or more")
        if self.range_max is not None and self.range_max < self.range_min + self.negatives:
            raise ValueError(
                f"range_max is {self.range_max}; with range_min {self.range_min} and {self.negatives} negatives, "
                f"expected {self.range_min + self.negatives} or more"
            )

    def looked_at(self, positives: int) -> int:
        """The number of a query's highest scores to consider; up to `positives` of them are its positives."""
        if self.range_max is not None:
            return self.range_max
        margins = (self.absolute_margin, self.relative_margin, self.max_score)
        per_negative = 1 if all(each is None for each in margins) else _MORE
        return self.range_min + per_negative * self.negatives + positives

    def choose(self, scores: np.ndarray, of_positives: np.ndarray, positives: int = 1) -> list[np.ndarray]:
        """The indices of the chosen candidates of each query, highest score first; there may be too few, or none.

        Args:
            scores: float32 `[queries, candidates]`; -inf marks texts that are not candidates.
            of_positives: float32 `[queries]`: the lowest score of each query's positives.
            positives: see `looked_at`.
        """
        scores, limit = scores.astype(np.float32), of_positives[:, None].astype(np.float32)
        if self.absolute_margin is not None:
            scores[scores + np.float32(self.absolute_margin) > limit] = -np.inf
        if self.relative_margin is not None:
            scores[scores > limit - np.abs(limit) * np.float32(self.relative_margin)] = -np.inf
        if self.max_score is not None:
            scores[scores > self.max_score] = -np.inf
        if self.min_score is not None:
            scores[scores < self.min_score] = -np.inf
        order = np.argsort(-scores, axis=1, kind="stable")[:, self.range_min : self.looked_at(positives)]
        generator = np.random.default_rng(self.seed)
        chosen = []
        for row, places in zip(scores, order, strict=True):
            places = places[row[places] > -np.inf]
            if self.sample and len(places) > self.negatives:
                places = places[np.sort(generator.choice(len(places), self.negatives, replace=False))]
            chosen.append(places[: self.negatives])
        return chosen
