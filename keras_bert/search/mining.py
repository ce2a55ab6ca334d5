"""Mines hard negatives for pairs of queries and positives from a corpus, by rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tqdm import tqdm

from keras_bert.counted import counted
from keras_bert.embedding.file_embedding import compute_digest
from keras_bert.progress import progress_bar, step
from keras_bert.search import database, neighbours
from keras_bert.search.dense_vectors import encoder_of
from keras_bert.search.neighbours import Neighbours

if TYPE_CHECKING:
    from keras_bert.tasks import BertReranker


_CANDIDATES_PER_NEGATIVE = 10  # candidates per negative, as rules may leave out many


@dataclass(frozen=True, kw_only=True)
class NegativeRules:
    """The rules that choose hard negatives. Scores are the similarities of vectors, or those of a reranker.

    Use a margin if answers in the corpus may be unmarked: a text that scores almost as high as the positive may be one,
    and the margin leaves it out (Moreira et al. 2024, "NV-Retriever", section 3). If a query has several positives, the
    lowest of their scores counts.

    Attributes:
        negatives: the number of negatives per query, highest scores first.
        range_min: the number of highest scores to skip.
        range_max: the number of highest scores to consider; by default, as many as the other rules need.
        absolute_margin: a negative's score is at most the positive's minus this.
        relative_margin: a negative's score is at most the positive's times (1 - this); 0.05 in the paper.
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
                f"range_max is {self.range_max}; with range_min {self.range_min} and "
                f"{counted(self.negatives, 'negative')}, expected {self.range_min + self.negatives} or more"
            )

    def looked_at(self, positives: int) -> int:
        """Computes how many of a query's highest scores to consider. Up to `positives` of them are its positives."""
        if self.range_max is not None:
            return self.range_max
        margins = (self.absolute_margin, self.relative_margin, self.max_score)
        per_negative = 1 if all(each is None for each in margins) else _CANDIDATES_PER_NEGATIVE
        return self.range_min + per_negative * self.negatives + positives

    def choose(
        self,
        scores: np.ndarray,
        of_positives: np.ndarray,
        positives: int = 1,
        logits: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        """Chooses candidates of each query: returns their indices, highest score first, maybe too few or none.

        Args:
            scores: float32 `[queries, candidates]`; -inf marks texts that are not candidates.
            of_positives: float32 `[queries]`: the lowest score of each query's positives.
            positives: the most positives of a query, see `looked_at`.
            logits: a reranker's, for both: their order counts, as a sigmoid makes the scores of high ones equal.
        """
        scores, limit = scores.astype(np.float32), of_positives[:, None].astype(np.float32)
        order, highest = (scores.copy(), limit) if logits is None else (logits[0], logits[1][:, None])
        is_above = order > highest
        if (margin := self.absolute_margin) is not None:
            scores[(scores + np.float32(margin) > limit) | (is_above & (margin >= 0))] = -np.inf
        if (margin := self.relative_margin) is not None:
            scores[(scores > limit - np.abs(limit) * np.float32(margin)) | (is_above & (margin >= 0))] = -np.inf
        if self.max_score is not None:
            scores[scores > self.max_score] = -np.inf
        if self.min_score is not None:
            scores[scores < self.min_score] = -np.inf
        best = np.argsort(-np.where(scores > -np.inf, order, -np.inf), axis=1, kind="stable")
        best = best[:, self.range_min : self.looked_at(positives)]
        generator = np.random.default_rng(self.seed)
        chosen = []
        for row, places in zip(scores, best, strict=True):
            places = places[row[places] > -np.inf]
            if self.sample and len(places) > self.negatives:
                places = places[np.sort(generator.choice(len(places), self.negatives, replace=False))]
            chosen.append(places[: self.negatives])
        return chosen


_QUERIES_AT_A_TIME = 1024


class Triplet(NamedTuple):
    """A query, its positive and a hard negative, with scores: similarities of vectors, or those of a reranker."""

    query: str
    positive: str
    negative: str
    positive_score: float
    negative_score: float


def mine_negatives(
    queries: Sequence[str],
    positives: Sequence[str],
    corpus: Sequence[str] = (),
    preset: str | Path = "all-MiniLM-L6-v2",
    rules: NegativeRules | None = None,
    reranker: BertReranker | None = None,
    batch_tokens: int = 1024,
    progress: bool | None = None,
    encoded: str | Path | None = None,
) -> Iterator[Triplet]:
    """Finds hard negatives: texts close to a query that are not its positives.

    Train on them to improve a search: they are the texts that the model confuses with answers. Candidates are the texts
    of the corpus that are closest to a query, except the query itself and its positives; `rules` choose among them.

    Args:
        queries, positives: pairs. A query may be in several pairs; none of its positives becomes its negative.
        corpus: the texts to choose from, besides all positives. With more than 100,000 texts, the search is
            approximate.
        preset: a preset of a sentence encoder. Its prompts for queries and documents are used, if it has any.
        rules: how to choose among the candidates; by default, the three closest ones.
        reranker: scores positives and candidates, in place of the similarities.
        batch_tokens, progress: see `build_index`.
        encoded: a file for the vectors, so that a call after an interruption does not encode these texts again.

    Yields:
        Triplets: the negatives of each pair, hardest first. A pair may have fewer than `rules.negatives`, or none.

    Raises:
        ValueError: there are no pairs, or the numbers of queries and positives differ.
        FileNotFoundError, ImportError: as `build_index`.

    Example:
        >>> corpus = ["A kitten is a young cat.", "Dogs bark.", "Tax is due in May."]
        >>> found = mine_negatives(["what is a kitten?"], corpus[:1], corpus, rules=NegativeRules(negatives=1))
        >>> [triplet.negative for triplet in found]
        ['Dogs bark.']
    """
    from keras_bert.text.arguments import list_of_str

    rules = rules or NegativeRules()
    queries, positives = list_of_str(queries, "queries", "query"), list_of_str(positives, "positives", "positive")
    corpus = list_of_str(corpus, "corpus")
    if len(queries) != len(positives) or not queries:
        raise ValueError(f"got {counted(queries, 'query', 'queries')}, but {counted(positives, 'positive')}")
    neighbours.import_faiss()  # raises
    positives_of: dict[str, list[str]] = {}
    for query, positive in dict.fromkeys(zip(queries, positives, strict=True)):
        positives_of.setdefault(query, []).append(positive)
    texts = list(dict.fromkeys([*corpus, *positives]))
    from keras_bert.tasks.registry import load_to_compare

    model = load_to_compare(preset)
    digest, vectors = compute_digest(model), {}
    with database.writing(Path(encoded) if encoded else None) as file:
        for role, some in (("document", texts), ("query", list(positives_of))):
            texts_by_key = {database.compute_key(digest, role, text): text for text in some}
            file.encode(texts_by_key, encoder_of(model, role, batch_tokens), progress)
            vectors[role] = file.vectors(texts_by_key, model.vector_size)
    with progress_bar(len(positives_of), "queries", progress) as bar:
        yield from _mine(positives_of, texts, vectors["query"], vectors["document"], rules, reranker, bar)


def _mine(
    positives_of: dict[str, list[str]],
    texts: list[str],
    query_vectors: np.ndarray,
    text_vectors: np.ndarray,
    rules: NegativeRules,
    reranker: BertReranker | None,
    bar: tqdm,
) -> Iterator[Triplet]:
    index = Neighbours.empty(text_vectors.shape[1], len(texts))
    index.add(text_vectors)
    numbers = {text: number for number, text in enumerate(texts)}
    max_positives = max(map(len, positives_of.values()))
    queries = list(positives_of)
    for first in range(0, len(queries), _QUERIES_AT_A_TIME):
        batch = queries[first : first + _QUERIES_AT_A_TIME]
        vectors = query_vectors[first : first + len(batch)]
        wanted = rules.looked_at(max_positives) + max_positives
        scores, nearest = index.nearest(vectors, wanted + 1)  # one more, as the query itself may be in the corpus
        positive_numbers = [[numbers[text] for text in positives_of[query]] for query in batch]
        positive_scores = [
            text_vectors[places] @ vector for places, vector in zip(positive_numbers, vectors, strict=True)
        ]
        logits = None
        if reranker is not None:
            with step(bar, len(batch)):
                candidates = [[texts[number] for number in row if number >= 0] for row in nearest]
                order, scores = np.full_like(scores, -np.inf), np.full_like(scores, -np.inf)
                for row, row_logits in enumerate(_logits(reranker, batch, candidates)):
                    order[row, : len(row_logits)] = row_logits
                    scores[row, : len(row_logits)] = np.asarray(reranker.scores_of(row_logits))
                positive_logits = _logits(reranker, batch, [positives_of[query] for query in batch])
                positive_scores = [np.asarray(reranker.scores_of(each)) for each in positive_logits]
                logits = order, np.array([each.min() for each in positive_logits], np.float32)
        for row, query in enumerate(batch):
            excluded = [*positive_numbers[row], numbers.get(query, -1), -1]
            scores[row, np.isin(nearest[row], excluded)] = -np.inf
            if query not in numbers:
                scores[row, wanted:] = -np.inf
        lowest_scores = np.array([each.min() for each in positive_scores], np.float32)
        for row, places in enumerate(rules.choose(scores, lowest_scores, max_positives, logits)):
            for positive, score in zip(positives_of[batch[row]], positive_scores[row].tolist(), strict=True):
                for place in places:
                    negative = texts[nearest[row, place]]
                    yield Triplet(batch[row], positive, negative, score, float(scores[row, place]))


def _logits(reranker: BertReranker, queries: list[str], texts: list[list[str]]) -> list[np.ndarray]:
    """Computes the logits of the texts of each query."""
    repeated = [query for query, query_texts in zip(queries, texts, strict=True) for _ in query_texts]
    logits = reranker.answers((repeated, [text for query_texts in texts for text in query_texts]))
    return np.split(np.asarray(logits, np.float32), np.cumsum([len(query_texts) for query_texts in texts])[:-1])
