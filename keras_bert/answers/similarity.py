"""Vectors of texts that are compared, with scores, a better model's vectors or nothing; and searches among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_bert.answers import Answers, Score, metrics
from keras_bert.answers.answerer import Answerer, Setting
from keras_bert.answers.columns import Labels, Targets, Texts, as_float32, columns_of, one_or_many
from keras_bert.answers.vector_metrics import (
    Compare,
    cosines,
    pair_classification,
    retrieval,
    similarities,
    triplet_accuracy,
)
from keras_bert.counted import counted
from keras_bert.formats.libraries import sentence_transformers


class TextVectors(NamedTuple):
    """The texts of a row, the anchor and one or more others, and the vector of each, or those of its tokens."""

    texts: tuple[str, ...]
    vectors: Sequence[np.ndarray]  # float32 [size], or [tokens, size]


class VectorAnswers(Answers[TextVectors]):
    """The vectors of rows (anchor, positive, negative, ...), compared by "cosine" or "dot".

    =========================  ==============================  ===========================================
    Labels                     Default loss                    Measures
    =========================  ==============================  ===========================================
    None                       `MultipleNegativesRankingLoss`  a search for each anchor's positives among
                                                               all texts except anchors; with negatives,
                                                               also `triplet_accuracy`
    of pairs, all 0 or 1       `CoSENTLoss`                    average precision, best F1, best accuracy
    of pairs, other numbers    `CoSENTLoss`                    `spearman` and `pearson`
    a better model's scores    `MarginMSELoss`                 `spearman` and `pearson` of the margins
    a better model's vectors   `VectorMSELoss`                 `cosine`, the mean
    =========================  ==============================  ===========================================
    """

    FIELD = "embedding"

    def __init__(self, similarity: str | Compare = "cosine", corpus: Mapping[str, np.ndarray] | None = None) -> None:
        self.similarity = similarity  # a function for vectors of tokens
        self.corpus = corpus or {}  # further texts to search, and their vectors, for `Score.details`

    def _targets(self, labels: Any) -> np.ndarray:
        """Converts scores of pairs, several scores a row, or vectors to float32."""
        return scores_of(labels)

    def targets_of(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> Targets:
        """Makes the targets of rows of texts; without labels, they are those of `text_numbers`."""
        targets = self.targets(labels)
        if len(columns) < 2 and (targets is None or len(targets.shape) < 2):
            raise ValueError(
                "vectors learn from texts that are compared: x is a tuple of two lists, (anchors, positives), or of "
                "more, with negatives"
            )
        if len(counts := {len(column) for column in columns}) > 1:
            raise ValueError(f"the columns have {' and '.join(counted(count, 'text') for count in sorted(counts))}")
        if targets is None:
            return text_numbers(columns)
        if len(targets) != len(columns[0]):
            raise ValueError(f"got {counted(columns[0], 'row')} of texts, but {len(targets):,} of scores")
        if len(targets.shape) == 1 and len(columns) > 3:
            raise ValueError(f"got {len(columns)} columns of texts, but one score a row; give one for each text")
        return targets

    def score(self, answers: Sequence[TextVectors], labels: Labels | None) -> Score:
        columns = list(zip(*(row.vectors for row in answers), strict=True))  # of each, the vectors of its rows
        if labels is None:
            return Score(self._measure_search(answers, columns), compute_details=lambda: self._search(answers))
        references = scores_of(labels)
        if are_vectors(references, len(columns)):
            references = references[:, None] if references.ndim == 2 else references
            references = np.broadcast_to(references, (*references.shape[:1], len(columns), *references.shape[2:]))
            column_cosines = [cosines(each, references[:, column]) for column, each in enumerate(columns)]
            return Score({"cosine": float(np.mean(column_cosines))})
        if len(columns) > 2:
            compare = self.similarity if callable(self.similarity) else "dot"
            scores = [similarities(columns[0], each, compare) for each in columns[1:]]
            return Score(correlations_of_margins(references, np.stack(scores, axis=1)))
        pair_similarities = similarities(columns[0], columns[1], self.similarity)
        measure = pair_classification if set(references.tolist()) == {0.0, 1.0} else metrics.correlation
        return Score(measure(references, pair_similarities))

    def right_answers(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> list[TextVectors]:
        shape = () if labels is None else scores_of(labels).shape
        size = shape[-1] if len(shape) > 1 else 1  # of a better model's vectors
        rows = list(zip(*columns, strict=True))[: 2 if labels is None else None]  # a search needs no more
        return [TextVectors(row, [*np.ones((len(row), size), np.float32)]) for row in rows]

    def _measure_search(self, answers: Sequence[TextVectors], columns: Sequence[Any]) -> dict[str, float]:
        found = VectorAnswers(self.similarity)._search(answers, at=(1, 10))  # without the corpus
        measures = {name: found[name] for name in ("ndcg@10", "mrr@10", "accuracy@1", "recall@10")}
        if len(columns) > 2:
            parts = [triplet_accuracy(columns[0], columns[1], each, self.similarity) for each in columns[2:]]
            measures["triplet_accuracy"] = float(np.mean([each["triplet_accuracy"] for each in parts]))
        return measures

    def _search(self, answers: Sequence[TextVectors], at: Sequence[int] = (1, 3, 5, 10, 100)) -> dict[str, float]:
        """Measures how well anchors find their positives among all other texts, by `retrieval`."""
        index, vectors, anchors, relevant = {}, [], {}, []
        for row in answers:
            anchor = anchors.setdefault(row.texts[0], len(anchors))
            if anchor == len(relevant):
                relevant.append((row.vectors[0], set()))
            for text, vector in zip(row.texts[1:], row.vectors[1:], strict=True):
                if index.setdefault(text, len(index)) == len(vectors):
                    vectors.append(vector)
            relevant[anchor][1].add(index[row.texts[1]])
        vectors += [vector for text, vector in self.corpus.items() if text not in index]
        queries, positives = zip(*relevant, strict=True)
        return retrieval(queries, vectors, positives, at, self.similarity)


def correlations_of_margins(labels: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """Correlates the margins of scores, `[rows, 1 + negatives]`, with a better model's scores or margins."""
    return metrics.correlation(*(np.ravel(margins_of(each, scores.shape[1] - 1)) for each in (labels, scores)))


def are_text_numbers(targets: Targets) -> bool:
    """Checks whether targets, a tensor or an array, come from `text_numbers`, and are not scores or vectors."""
    return len(targets.shape) == 2 and "float" not in str(targets.dtype)


def are_vectors(scores: Targets, columns: int) -> bool:
    """Checks whether targets are vectors (one for all columns of texts, or one for each), not scores."""
    return len(scores.shape) == 3 or (len(scores.shape) == 2 and scores.shape[1] > columns)


def margins_of(y_true: Targets, negatives: int) -> Targets:
    """Converts scores, `[batch, 1 + negatives]`, to margins, float32 `[batch, negatives]`; margins stay as they are."""
    y_true = y_true[:, None] if len(y_true.shape) == 1 else y_true
    count = y_true.shape[1]
    if count == negatives + 1:
        return y_true[:, :1] - y_true[:, 1:]
    if count != negatives:
        raise ValueError(
            f"got {counted(count, 'score')} a row; with {counted(negatives, 'negative')} it takes {negatives + 1} (of "
            f"the positive and the negatives) or {negatives} (margins)"
        )
    return y_true


def scores_of(y: Labels) -> np.ndarray:
    """Converts finite scores, `[rows]` or several a row, or vectors to float32."""
    scores = as_float32(y, "scores")
    if bad := np.flatnonzero(~np.isfinite(scores.reshape(len(scores), -1)).all(axis=1)).tolist():
        raise ValueError(f"score {bad[0]} (from 0) is {scores[bad[0]]}, which is not finite")
    return scores


def text_numbers(columns: Sequence[Sequence[str]]) -> np.ndarray:
    """Gives each text a number, so that equal texts have equal numbers: int32 `[rows, columns]`."""
    numbers: dict[str, int] = {}
    return np.array([[numbers.setdefault(text, len(numbers)) for text in column] for column in columns], np.int32).T


class ComparedEncoder(Answerer):
    """What encodes texts for a comparison: it is measured on columns of texts, anchors first."""

    kind: VectorAnswers

    def _encode_column(self, number: int, texts: Sequence[str], progress: bool | None = None) -> Sequence[np.ndarray]:
        """Encodes texts as those of a column, which is numbered from 0."""
        raise NotImplementedError

    def columns(self, x: Texts) -> tuple[Sequence[str], ...]:
        return columns_of(x, None)

    def answers(self, x: Texts, progress: bool | None = None) -> list[TextVectors]:
        """Encodes the texts of each row of columns; a text that a column repeats is encoded once."""
        columns, by_column = [list(column) for column in columns_of(x, None)], []
        for number, column in enumerate(columns):
            texts = list(dict.fromkeys(column))
            vectors = dict(zip(texts, self._encode_column(number, texts, progress), strict=True))
            by_column.append([vectors[text] for text in column])
        return list(map(TextVectors, zip(*columns, strict=True), zip(*by_column, strict=True)))

    def kind_with(self, corpus: Sequence[str]) -> VectorAnswers:
        """Makes the kind whose `Score.details` also search further texts."""
        texts = list(dict.fromkeys(corpus))
        return VectorAnswers(self.kind.similarity, dict(zip(texts, self._encode_column(1, texts), strict=True)))


class SentenceEncoder(ComparedEncoder):
    """What encodes texts as vectors."""

    VERB = "encode"
    SETTINGS = (
        Setting("pooling", str),
        Setting("normalize", bool),
        Setting("dense", (dict, None), lambda model: _dense_settings(model.dense)),
        Setting("prompts", (dict, None)),
        Setting("default_prompt", (str, None)),
        Setting("include_prompt", bool),
        Setting("column_prompts", (list, None)),
        Setting("truncate_dim", (int, None)),
        Setting("matryoshka_dimensions", (list, None)),
        Setting("similarity", str),
        Setting("window_pooling", str),
    )
    prompts: Mapping[str, str]
    default_prompt: str | None
    column_prompts: Sequence[str | None]
    similarity: str
    include_prompt: bool

    @property
    def vector_size(self) -> int:
        """The number of values of a vector."""
        raise NotImplementedError

    def _count_tokens(self, prompt: str) -> int:
        """Counts the tokens of a prompt, special ones not included."""
        raise NotImplementedError

    def prompt_text(self, name: str | None) -> str:
        """Returns a prompt's text; None: the default, "": no prompt. Raises TypeError; ValueError if there is none."""
        name = self.default_prompt if name is None else name
        names = ", ".join(self.prompts) or "no prompts"
        if not isinstance(name, str | None):
            raise TypeError(f"prompt is {name!r:.60} ({type(name).__name__}); expected a name; this model has {names}")
        sentence_transformers.check_prompt(name, self.prompts)
        return self.prompts[name] if name else ""

    def _column_prompt(self, column: int) -> str:
        names = self.column_prompts or [None]
        return self.prompt_text(names[min(column, len(names) - 1)])

    def _encode_column(self, number: int, texts: Sequence[str], progress: bool | None = None) -> np.ndarray:
        prompt = self._column_prompt(number)
        return self._stack(self._by_length(texts, 1024, progress, prompt, skipped=self._count_skipped(prompt)))

    def _count_skipped(self, prompt: str) -> int:
        """Counts the tokens, [CLS] and the prompt's, that the pooling skips. Raises ValueError if all are."""
        longest = self.preprocessor.longest
        if not prompt or (self.include_prompt and prompt.isascii() and len(prompt) + 2 < longest):
            return 0  # ASCII has at most as many tokens as characters
        first = 1 + self._count_tokens(prompt)
        if first + 1 >= longest and self.preprocessor.stride is None:
            raise ValueError(
                f"the prompt {prompt!r:.60} has {counted(first - 1, 'token')}, which leaves no room for texts in rows "
                f"of {longest}; use a shorter prompt, or longer rows"
            )
        return 0 if self.include_prompt else first

    def encode(
        self,
        text: str | Iterable[str],
        batch_tokens: int = 1024,
        progress: bool | None = None,
        prompt: str | None = None,
    ) -> np.ndarray:
        """Encodes a text, or any number of texts, in batches of similar length, which need little padding.

        Args:
            text: a str, or many: a list or any iterable, read lazily.
            batch_tokens: the most tokens in a batch, padding included; a longer text is a batch of its own. The default
                fits a CPU's caches; use more on a GPU.
            progress: whether to show a progress bar on standard error; by default if that is a terminal and the work
                takes longer than a second, elsewhere a line a minute.
            prompt: the name of the prompt to put before each text, such as "query". None: the default prompt; "": no
                prompt.

        Returns:
            float32 `[vector_size]`; for many texts `[number of texts, vector_size]`, in the order of the texts.

        Raises:
            TypeError: a text is not a str.
            ValueError: `batch_tokens` is less than 1; there is no such prompt, or it leaves no room for texts; or a
                vector is not finite, which a damaged model may cause.

        Warns:
            UserWarning: the number of texts that were truncated to the model's maximum length.
        """
        is_one, texts = one_or_many(text)
        prompt = self.prompt_text(prompt)
        rows = self._by_length(texts, batch_tokens, progress, prompt, skipped=self._count_skipped(prompt))
        vectors = self._stack(rows)
        return vectors[0] if is_one else vectors

    def _stack(self, rows: list[np.ndarray]) -> np.ndarray:
        return np.stack(rows) if rows else np.zeros((0, self.vector_size), np.float32)

    def encode_counted(
        self, texts: Iterable[str], batch_tokens: int = 1024, prompt: str | None = None
    ) -> tuple[np.ndarray, int]:
        """Encodes texts as `encode`, without a bar: float32 `[texts, vector_size]`; counts the truncated texts."""
        prompt = self.prompt_text(prompt)
        skipped = self._count_skipped(prompt)
        rows, truncated = self._by_length.counted(texts, batch_tokens, False, prompt, skipped=skipped)
        return self._stack(rows), truncated


def _dense_settings(dense: Any) -> dict[str, Any] | None:
    if dense is None:
        return None
    return {"units": dense.units, "activation": dense.activation.__name__, "use_bias": dense.use_bias}
