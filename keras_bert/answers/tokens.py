"""Answers about tokens and pairs of models that are pre-trained, not fine-tuned, and the weights of sparse encoders."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypedDict, overload

import numpy as np

from keras_bert.answers import Answers, Score, metrics, only_answer, share_of_most_frequent
from keras_bert.answers.activations import softmax
from keras_bert.answers.answerer import DROPOUT, Answerer, Setting
from keras_bert.answers.columns import Labels, Pair, Targets, Texts, check_top_k, columns_of, one_or_many
from keras_bert.answers.ranking import ScoresPairs
from keras_bert.answers.similarity import ComparedEncoder, TextVectors, VectorAnswers
from keras_bert.text.arguments import SPACES, list_of_str

_QUERIES_AT_A_TIME = 256  # to compare with documents


class FilledAnswers(Answers[Mapping[str, object]]):
    """The tokens in place of masks."""

    def fields(self, answer: Mapping[str, object]) -> Mapping[str, object]:
        return {"filled": answer["text"], "masks": answer["masks"]}


class NextSentenceAnswers(Answers[float]):
    """Labels of pairs: 0 (the second text follows) or 1 (it does not). An answer is the probability of label 0."""

    PROBLEM_TYPE = "regression"  # labels are numbers
    FIELD = "probability"

    def _targets(self, labels: Any) -> Targets:
        if not isinstance(labels, list | tuple | np.ndarray):
            return labels
        if bad := [row for row, label in enumerate(labels) if label not in (0, 1)]:
            raise ValueError(
                f"label {bad[0]} (from 0) is {labels[bad[0]]!r}; expected 0 (it follows) or 1 (it does not)"
            )
        return np.array(labels, np.int32)

    def score(self, answers: Sequence[float], labels: Labels) -> Score:
        labels, predictions = np.asarray(labels), (np.asarray(answers) < 0.5).astype(int)
        return Score(
            metrics.accuracy(labels, predictions),
            (predictions != labels).astype(float),
            baselines={"accuracy": share_of_most_frequent(labels.tolist())},
            only_answer=only_answer(map(str, predictions), labels.tolist()),
        )

    def right_answers(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> list[float]:
        return [1.0 - label for label in np.asarray(labels)]


def dot_products(queries: Sequence[np.ndarray], documents: Sequence[np.ndarray]) -> np.ndarray:
    """Computes the dot products of ids with weights, `[tokens, 2]` each -> float32 `[queries, documents]`."""
    products = np.zeros((len(queries), len(documents)), np.float32)
    for first in range(0, len(queries), _QUERIES_AT_A_TIME):
        some = queries[first : first + _QUERIES_AT_A_TIME]
        ids = np.unique(np.concatenate([query[:, 0] for query in some]))
        weights = np.zeros((len(ids), len(some)), np.float32)
        for number, query in enumerate(some):
            weights[np.searchsorted(ids, query[:, 0]), number] = query[:, 1]
        for number, document in enumerate(documents):
            shared = document[np.isin(document[:, 0], ids)]
            products[first : first + len(some), number] = shared[:, 1] @ weights[np.searchsorted(ids, shared[:, 0])]
    return products


class WeightAnswers(VectorAnswers):
    """The weights of the tokens of rows, float32 `[tokens, 2]` of each text: ids and weights, compared by products."""

    FIELD = "weights"

    def __init__(self) -> None:
        super().__init__(dot_products)

    def right_answers(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> list[TextVectors]:
        rows = super().right_answers(columns, labels)
        return [TextVectors(texts, [np.ones((1, 2), np.float32)] * len(texts)) for texts, _ in rows]


class TokenAnswer(TypedDict):
    """A candidate for a mask, and its probability, 0 to 1."""

    token: str
    probability: float


class FilledText(TypedDict):
    """A text with its masks filled, and the candidates for each mask; see `BertMaskedLM.fill`."""

    text: str
    masks: list[list[TokenAnswer]]


NO_PREPROCESSOR = (
    "this BertMaskedLM has no preprocessor, so it takes packed inputs only; give it one, or load a preset that "
    "has a tokenizer"
)


class TokenTexts:
    """A decoder of candidates, alone or in place of a mask; tokens but `special_ids` may include the space before."""

    def __init__(self, texts: list[str], mask: str, includes_space: bool, special_ids: Collection[int]) -> None:
        self.texts, self.mask = texts, mask
        self.filled = texts if includes_space else [text.removeprefix("##") for text in texts]
        self.strips_space = [
            text.startswith("##") or (includes_space and i not in special_ids) for i, text in enumerate(texts)
        ]

    def fill(self, text: str, ids: Sequence[int]) -> str:
        """Replaces the first masks of a text by these tokens; the rest stays as it is."""
        *before, last = text.split(self.mask)
        filled, begins_text = "", False
        for number, part in enumerate(before):
            if number >= len(ids):  # truncated
                filled += part + self.mask
                continue
            strips = self.strips_space[ids[number]]
            part = part.rstrip(SPACES) if strips else part
            begins_text |= number == 0 and strips and not part
            filled += part + self.filled[ids[number]]
        return (filled.removeprefix(" ") if begins_text else filled) + last


def fill_masks(predict: Callable[[np.ndarray], np.ndarray], ids: np.ndarray, mask_id: int, top_k: int) -> np.ndarray:
    """Fills a row's masks, the surest (by log odds) first: float64 `[masks, top_k, 2]`, ids and probabilities."""
    ids, positions = ids.copy(), np.flatnonzero(ids == mask_id)
    filled, is_open = np.zeros((len(positions), top_k, 2)), np.ones(len(positions), bool)
    while is_open.any():
        logits = predict(ids)[positions].astype(np.float32)
        order = np.argsort(-logits, axis=1, kind="stable")[:, :top_k]
        best = order[:, 0]
        others = logits.copy()
        others[np.arange(len(best)), best] = np.finfo(np.float32).min
        largest = others.max(axis=1)
        rest = largest + np.log(np.exp(others - largest[:, None]).sum(axis=1))
        log_odds = logits[np.arange(len(best)), best] - rest
        places = np.flatnonzero(is_open)
        mask = int(places[log_odds[places].argmax()])  # an open one, also where no logit is finite
        filled[mask, :, 0] = order[mask]
        filled[mask, :, 1] = softmax(logits[mask])[order[mask]]
        ids[positions[mask]] = best[mask]
        is_open[mask] = False
    return filled


class MaskFiller(Answerer):
    """What fills the masks of texts."""

    VERB = "fill"
    kind = FilledAnswers()
    token_texts: TokenTexts  # of a model with a preprocessor

    @overload
    def fill(self, text: str, top_k: int = 5, batch_tokens: int = 1024, progress: bool | None = None) -> FilledText: ...
    @overload
    def fill(
        self, text: Iterable[str], top_k: int = 5, batch_tokens: int = 1024, progress: bool | None = None
    ) -> list[FilledText]: ...
    def fill(
        self, text: str | Iterable[str], top_k: int = 5, batch_tokens: int = 1024, progress: bool | None = None
    ) -> FilledText | list[FilledText]:
        """Fills the masks in a text, or in many texts.

        Several masks in a text are filled one by one, the most probable token first. Each token is predicted with the
        earlier ones in place.

        Args:
            text: a str, or many, each with at least one mask token: `[MASK]` or `<mask>`, depending on the tokenizer.
            top_k: the number of candidates for each mask.
            batch_tokens, progress: see `BertClassifier.classify`.

        Returns:
            A dict, or for many texts a list of dicts, with two keys. `text` is the text with its masks filled. `masks`
            has for each mask, in the order of the text, a list of `top_k` dicts with `token` and `probability`, 0 to 1,
            most probable first. A WordPiece token keeps its `##`; others keep the space before them.

        Raises:
            TypeError: a text is not a str.
            ValueError: the model has no preprocessor; a text has no mask, or has one beyond the model's maximum length;
                or `top_k` is not between 1 and the size of the vocabulary.

        Example:
            >>> from keras_bert import BertMaskedLM
            >>> answer = BertMaskedLM.from_preset("bert-books").fill("She opened the [MASK] and went in.", top_k=3)
            >>> answer["text"], [each["token"] for each in answer["masks"][0]]
            ('She opened the door and went in.', ['door', 'floor', 'table'])
        """
        if self.preprocessor is None:
            raise ValueError(NO_PREPROCESSOR)
        tokens = self.preprocessor.tokenizer.vocabulary_size
        check_top_k(top_k, tokens, ", the vocabulary's size")
        is_one, texts = one_or_many(text)
        texts = list_of_str(texts)
        outputs = self._by_length(texts, batch_tokens, progress, top_k=top_k)
        outputs = [output[output[:, 0, 1] > 0] for output in outputs]  # each [masks, top_k, 2]
        _check_masks(self.preprocessor, texts, [len(output) for output in outputs])
        results = [self._filled(*each) for each in zip(texts, outputs, strict=True)]
        return results[0] if is_one else results

    def _filled(self, text: str, output: np.ndarray) -> FilledText:
        """Makes the answer for a text from its candidates, float `[masks, top_k, 2]`: ids and probabilities."""
        ids, probabilities = output[..., 0].astype(int).tolist(), output[..., 1].tolist()
        masks: list[list[TokenAnswer]] = [
            [{"token": self.token_texts.texts[i], "probability": p} for i, p in zip(*each, strict=True)]
            for each in zip(ids, probabilities, strict=True)
        ]
        return {"text": self.token_texts.fill(text, [each[0] for each in ids]), "masks": masks}


class NextSentenceScorer(ScoresPairs):
    """What predicts whether a text follows another."""

    SETTINGS = (DROPOUT,)
    kind = NextSentenceAnswers()

    def _scores(self, pairs: Iterable[str] | list[Pair], batch_tokens: int, progress: bool | None) -> np.ndarray:
        return _as_probabilities(self._by_length(pairs, batch_tokens, progress))

    def answers(self, x: Texts, progress: bool | None = None) -> list[float]:
        _, pairs = one_or_many(*columns_of(x))
        return self._scores(pairs, 1024, progress).tolist()

    def _served(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        return {"probability": softmax(outputs.reshape(-1, 2))[:, 0].astype(np.float32)}


class SparseEncoder(ComparedEncoder):
    """What encodes texts as weights of tokens."""

    VERB = "encode"
    SETTINGS = (
        Setting("pooling", str),
        Setting("activation", str),
        Setting("query_table", bool, lambda model: model.query_weights is not None),
    )
    kind = WeightAnswers()
    token_texts: TokenTexts

    @property
    def query_table(self) -> np.ndarray | None:
        """The weights of queries' tokens, float32 `[vocab_size]`, if the model has a table of them."""
        raise NotImplementedError

    def _query_ids(self, texts: Iterable[str]) -> list[np.ndarray]:
        """Tokenizes queries, without special tokens."""
        raise NotImplementedError

    @overload
    def encode(
        self, text: str, top_k: int | None = None, batch_tokens: int = 1024, progress: bool | None = None
    ) -> dict[str, float]: ...
    @overload
    def encode(
        self, text: Iterable[str], top_k: int | None = None, batch_tokens: int = 1024, progress: bool | None = None
    ) -> list[dict[str, float]]: ...
    def encode(
        self,
        text: str | Iterable[str],
        top_k: int | None = None,
        batch_tokens: int = 1024,
        progress: bool | None = None,
    ) -> dict[str, float] | list[dict[str, float]]:
        """Computes the weights of tokens for a text, or for many.

        Args:
            text: a str, or many.
            top_k: the number of tokens to return, highest weights first; by default all whose weight is not 0.
            batch_tokens, progress: see `BertClassifier.classify`, for errors and warnings, too.

        Returns:
            A dict from token to weight, highest first; for many texts, a list of them. A WordPiece token keeps its
            `##`.

        Raises:
            ValueError: `top_k` is less than 1.
        """
        if top_k is not None:
            check_top_k(top_k)
        is_one, texts = one_or_many(text)
        weights = self._by_token(_not_0(self._by_length(texts, batch_tokens, progress, top_k=top_k)))
        return weights[0] if is_one else weights

    def encode_counted(self, texts: Iterable[str], batch_tokens: int = 1024) -> tuple[list[np.ndarray], int]:
        """Computes ids and weights of tokens, float32 `[tokens, 2]` per text, and counts the truncated texts."""
        rows, truncated = self._by_length.counted(texts, batch_tokens, False, top_k=None)
        return _not_0(rows), truncated

    @overload
    def encode_query(self, text: str, top_k: int | None = None) -> dict[str, float]: ...
    @overload
    def encode_query(self, text: Iterable[str], top_k: int | None = None) -> list[dict[str, float]]: ...
    def encode_query(
        self, text: str | Iterable[str], top_k: int | None = None
    ) -> dict[str, float] | list[dict[str, float]]:
        """Computes the weights of tokens for a query, or for many: by the table, or as `encode` if there is none.

        Arguments, results, errors and warnings are those of `encode`. `[CLS]` and `[SEP]` are not among the tokens.

        Example:
            >>> from keras_bert import BertConfig, BertEncoder, BertPreprocessor, BertSparseEncoder
            >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=None)
            >>> model = BertSparseEncoder(BertEncoder(BertConfig.tiny()), preprocessor, query_table=True)
            >>> model.encode_query("a film")
            {'a': 1.0, 'film': 1.0}
        """
        if top_k is not None:
            check_top_k(top_k)
        is_one, texts = one_or_many(text)
        weights = self._by_token(self.query_rows(list(texts), top_k))
        return weights[0] if is_one else weights

    def _encode_column(self, number: int, texts: Sequence[str], progress: bool | None = None) -> list[np.ndarray]:
        if number == 0:
            return self.query_rows(list(texts), progress=progress)
        return _not_0(self._by_length(texts, 1024, progress, top_k=None))

    def query_rows(self, texts: list[str], top_k: int | None = None, progress: bool | None = None) -> list[np.ndarray]:
        """Computes ids and weights of the tokens of queries, float32 `[tokens, 2]` each; see `encode_query`."""
        table = self.query_table
        if table is None:
            return _not_0(self._by_length(texts, 1024, progress, top_k=top_k))
        segments, longest = self._query_ids(texts), self.preprocessor.longest
        if truncated := sum(len(ids) > longest for ids in segments):
            warnings.warn(f"queries truncated to {longest} tokens, the model's maximum: {truncated}", stacklevel=2)
        rows = []
        for ids in segments:
            ids = np.unique(ids[:longest])
            ids = ids[table[ids] != 0]
            ids = ids[np.argsort(-table[ids], kind="stable")][:top_k]
            rows.append(np.stack([ids.astype(np.float32), table[ids]], axis=-1))
        return rows

    def _by_token(self, rows: list[np.ndarray]) -> list[dict[str, float]]:
        """Converts ids and weights, float32 `[tokens, 2]` per text, to dicts from token to weight."""
        tokens = self.token_texts.texts
        return [{tokens[int(i)]: weight for i, weight in row.tolist()} for row in rows]


def _not_0(rows: list[np.ndarray]) -> list[np.ndarray]:
    """Keeps the weights of texts, float32 `[tokens, 2]` each, that are not 0."""
    return [row[row[:, 1] > 0] for row in rows]


def _check_masks(preprocessor: Any, texts: list[str], counts: list[int]) -> None:
    mask = preprocessor.tokenizer.special_tokens["mask_token"]
    for number, (text, count) in enumerate(zip(texts, counts, strict=True)):
        if mask not in text:
            raise ValueError(f"text {number} (from 0) has no {mask}: {text!r:.60}")
        if text.count(mask) > count:
            problem = f"text {number} (from 0) has {mask} {text.count(mask)} times"
            raise ValueError(
                f"{problem}, but only {count} in the {preprocessor.longest} tokens that are read; shorten it"
            )


def _as_probabilities(outputs: list[np.ndarray]) -> np.ndarray:
    """Converts the model's outputs for pairs, `[2]` each, to float64 `[pairs]`: nearly equal logits stay different."""
    return softmax(np.reshape(outputs, (-1, 2)).astype(np.float64))[:, 0]
