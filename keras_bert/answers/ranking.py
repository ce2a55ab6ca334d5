"""Scores of passages: of pairs with a label from 0 to 1, or of lists, queries with several passages each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypedDict, overload

import numpy as np

from keras_bert.answers import Answers, Score, metrics
from keras_bert.answers.activations import ACTIVATIONS
from keras_bert.answers.answerer import DROPOUT, Answerer, Setting
from keras_bert.answers.columns import (
    Labels,
    Pair,
    Targets,
    Texts,
    as_float32,
    check_top_k,
    columns_of,
    one_or_many,
    plain_labels,
    read_lists,
)
from keras_bert.answers.similarity import correlations_of_margins, scores_of
from keras_bert.counted import counted


class RankingAnswers(Answers["float | list[float]"]):
    """Logits of pairs; for lists, of all passages of each query. A sigmoid would make high ones equal.

    ========================================  ===================  =========================================
    Labels                                    Default loss         Measures
    ========================================  ===================  =========================================
    of pairs, 0 (no answer) to 1 (an answer)  binary crossentropy  `average_precision`; 0.5 is an answer
    of lists, grades 0, 1, 2 ...              `LambdaLoss`         `ndcg@10`, `mrr@10`
    of lists, a better model's scores or      `MarginMSELoss`      `spearman` and `pearson` of the margins
    margins
    ========================================  ===================  =========================================
    """

    PROBLEM_TYPE = "regression"  # labels are numbers
    FIELD = "score"

    def _targets(self, labels: Any) -> Targets:
        """Converts the labels of pairs to float32 `[examples, 1]`."""
        if not isinstance(labels, list | tuple | np.ndarray):
            return labels
        targets = as_float32(labels, "labels, from 0 (no answer) to 1 (an answer),")
        if targets.size != len(labels):
            raise ValueError(f"labels are an array of shape {targets.shape}; expected one number for each pair")
        targets = targets.reshape(len(labels), 1)
        if outside := np.flatnonzero(~((targets >= 0) & (targets <= 1))).tolist():
            raise ValueError(
                f"label {outside[0]} is {labels[outside[0]]}; expected a number from 0 (no answer) to 1 (an answer)"
            )
        return targets

    def targets_of(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> Targets:
        if len(columns) == 2:
            return super().targets_of(columns, labels)
        if len(counts := {len(column) for column in columns}) > 1:
            raise ValueError(f"the columns have {' and '.join(counted(count, 'text') for count in sorted(counts))}")
        return labels_of_lists(labels, len(columns[0]), len(columns) - 1)

    def score(self, answers: Sequence[float | list[float]], labels: Labels | None) -> Score:
        if len(answers) and isinstance(answers[0], list):
            scores = np.array(answers)
            return Score(measure_ranking(scores, labels_of_lists(labels, *scores.shape)))
        are_answers = np.ravel(self.targets(labels)) >= 0.5
        measures = metrics.average_precision(are_answers, answers)
        return Score(measures, baselines={"average_precision": float(are_answers.mean())})

    def right_answers(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> list[Any]:
        if len(columns) == 2:
            return np.ravel(self.targets(labels)).tolist()
        numbers = labels_of_lists(labels, len(columns[0]), len(columns) - 1)
        margins = np.pad(-numbers, [(0, 0), (len(columns) - 1 - numbers.shape[1], 0)])
        return (numbers if numbers.shape == margins.shape else margins).tolist()


def labels_of_lists(labels: Labels | None, queries: int, passages: int) -> np.ndarray:
    """Converts labels, scores or margins of passages to float32 `[queries, numbers]`; None: the first is the answer."""
    if labels is None:
        return np.eye(1, passages, dtype=np.float32).repeat(queries, axis=0)
    numbers = scores_of(plain_labels(labels))
    if len(numbers) != queries:
        raise ValueError(f"got {counted(queries, 'query', 'queries')}, but labels for {len(numbers):,}")
    numbers = numbers.reshape(queries, -1)
    if numbers.shape[1] not in (passages, passages - 1):
        raise ValueError(
            f"got {counted(passages, 'passage')} a query, but {counted(numbers.shape[1], 'label')}; give one for each "
            "passage, or margins: the score of the first passage minus that of each other one"
        )
    return numbers


def are_scores(labels: np.ndarray, passages: int) -> bool:
    """Checks whether labels are a teacher's scores or margins, not relevance grades: 0, 1, 2 ..."""
    return labels.shape[1] != passages or bool(np.any((labels < 0) | (labels != np.round(labels))))


def measure_ranking(scores: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Measures the ranking of passages by scores, float `[queries, passages]`, against `labels_of_lists`."""
    if are_scores(labels, scores.shape[1]):
        return correlations_of_margins(labels, scores)
    labels = np.asarray(labels, np.float64)
    # Of equal scores, the lower grade ranks first: a model that tells no passages apart earns nothing by their order.
    ranked = np.take_along_axis(labels, np.lexsort((labels, -scores), axis=1), axis=1)[:, :10]
    best = -np.sort(-labels, axis=1)[:, :10]
    discounts = 1 / np.log2(np.arange(ranked.shape[1]) + 2)
    dcg, ideal_dcg = (((2**each - 1) * discounts).sum(axis=1) for each in (ranked, best))  # Burges et al. 2005, 6
    is_relevant = ranked > 0
    reciprocal_ranks = np.where(is_relevant.any(axis=1), 1 / (is_relevant.argmax(axis=1) + 1), 0)
    ndcg = np.divide(dcg, ideal_dcg, out=np.zeros_like(dcg), where=ideal_dcg > 0)
    return {"ndcg@10": float(ndcg.mean()), "mrr@10": float(reciprocal_ranks.mean())}


class RankedPassage(TypedDict):
    """A passage that answers a query: its place in the passages, its score and its text."""

    index: int
    score: float
    text: str


class ScoresPairs(Answerer):
    """What gives a pair of texts a score."""

    VERB = "score"
    text_names = ("text", "text_pair")

    @overload
    def score(self, text: str, text_pair: str, batch_tokens: int = 1024, progress: bool | None = None) -> float: ...
    @overload
    def score(
        self, text: Iterable[str], text_pair: Iterable[str], batch_tokens: int = 1024, progress: bool | None = None
    ) -> np.ndarray: ...
    def score(
        self,
        text: str | Iterable[str],
        text_pair: str | Iterable[str],
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> float | np.ndarray:
        """Scores one pair or many: how well a passage answers a query, or the probability that a text follows another.

        Args:
            text, text_pair: the query and the passage, or the first and the second text: two str, or two lists of the
                same length.
            batch_tokens, progress: see `BertClassifier.classify`, for errors and warnings, too.

        Returns:
            A float; for many pairs, float32 `[pairs]`.
        """
        self.warn_if_untrained()
        is_one, pairs = one_or_many(text, text_pair)
        scores = self._scores(pairs, batch_tokens, progress)
        return float(scores[0]) if is_one else scores.astype(np.float32)

    def _scores(self, pairs: Iterable[str] | list[Pair], batch_tokens: int, progress: bool | None) -> np.ndarray:
        """Computes the scores of pairs, float `[pairs]`."""
        raise NotImplementedError


class RanksPassages(Answerer):
    """What ranks passages by how well they answer a query."""

    @overload
    def rank(
        self,
        query: str,
        passages: Iterable[str],
        top_k: int | None = None,
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> list[RankedPassage]: ...
    @overload
    def rank(
        self,
        query: Iterable[str],
        passages: Iterable[Iterable[str]],
        top_k: int | None = None,
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> list[list[RankedPassage]]: ...
    def rank(
        self,
        query: str | Iterable[str],
        passages: Iterable[str] | Iterable[Iterable[str]],
        top_k: int | None = None,
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> list[RankedPassage] | list[list[RankedPassage]]:
        """Ranks passages by how well they answer a query, the best first.

        `BertReranker` ranks by logits, as equal scores may have different ones. `BertMultiVectorEncoder` ranks by
        `similarity`, and encodes each text once, so many queries with the same passages cost little.

        Args:
            query: a str, or many.
            passages: a list of str; for many queries, one such list for each.
            top_k: the number of best passages to return; by default all.
            batch_tokens, progress: see `BertClassifier.classify`, for errors and warnings, too.

        Returns:
            A list of dicts, the best passage first: its `index` in `passages`, its `score`, and its `text`. For many
            queries, a list of these.

        Raises:
            TypeError, ValueError: as `BertClassifier.classify`; or `top_k` is less than 1.
        """
        if top_k is not None:
            check_top_k(top_k)
        self.warn_if_untrained()
        is_one, queries, lists = read_lists(query, passages, ("query", "queries", "passage", "passages"))
        ranked = []
        for texts, (keys, scores) in zip(lists, self._scored(queries, lists, batch_tokens, progress), strict=True):
            order = np.argsort(-keys, kind="stable")[:top_k].tolist()
            ranked.append([RankedPassage(index=each, score=float(scores[each]), text=texts[each]) for each in order])
        return ranked[0] if is_one else ranked

    def _scored(
        self, queries: Sequence[str], lists: Sequence[Sequence[str]], batch_tokens: int, progress: bool | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Scores the passages of each query: what they are ranked by, and their scores, float `[passages]`."""
        raise NotImplementedError


class Reranker(ScoresPairs, RanksPassages):
    """What scores how well passages answer queries."""

    SETTINGS = (Setting("activation", str), DROPOUT, Setting("labels", (list, None)))
    kind = RankingAnswers()
    activation: str

    def _scores(self, pairs: Iterable[str] | list[Pair], batch_tokens: int, progress: bool | None) -> np.ndarray:
        return ACTIVATIONS[self.activation](self._logits(pairs, batch_tokens, progress))

    def _scored(
        self, queries: Sequence[str], lists: Sequence[Sequence[str]], batch_tokens: int, progress: bool | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        pairs = [Pair(each, text) for each, texts in zip(queries, lists, strict=True) for text in texts]
        logits = self._logits(pairs, batch_tokens, progress)
        scores, first = ACTIVATIONS[self.activation](logits), 0
        for texts in lists:
            rows = slice(first, first := first + len(texts))
            yield logits[rows], scores[rows]

    def _logits(
        self, pairs: Iterable[str] | list[Pair], batch_tokens: int = 1024, progress: bool | None = False
    ) -> np.ndarray:
        """Computes the logits of pairs, float32 `[pairs]`."""
        return np.reshape(self._by_length(pairs, batch_tokens, progress), -1).astype(np.float32)

    def columns(self, x: Texts) -> tuple[Sequence[str], ...]:
        columns = columns_of(x, None)
        check_pairs(len(columns) > 1)
        return columns

    def answers(self, x: Texts, progress: bool | None = None) -> list[float | list[float]]:
        """Computes the logit of each pair; for lists, those of all passages of each query."""
        self.warn_if_untrained()
        queries, *passages = self.columns(x)
        logits = [self._logits(one_or_many(queries, each)[1], progress=progress) for each in passages]
        return (logits[0] if len(logits) == 1 else np.stack(logits, axis=1)).tolist()


def check_pairs(are_pairs: bool) -> None:
    if not are_pairs:
        raise ValueError(
            "this model takes pairs, a query and a passage: a tuple of two, (queries, passages), or of a table also a "
            "text_pair_column"
        )
