"""A vector for each token (late interaction): what encodes queries and documents, compares and ranks them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from types import ModuleType
from typing import Any, overload

import numpy as np

from keras_bert.answers.answerer import Setting
from keras_bert.answers.by_length import ByLength
from keras_bert.answers.columns import Labels, one_or_many
from keras_bert.answers.ranking import RanksPassages
from keras_bert.answers.similarity import ComparedEncoder, TextVectors, VectorAnswers
from keras_bert.choices import check_choice
from keras_bert.formats.libraries.multi_vector import marker_of

KINDS = ("query", "document")  # of texts
_MAX_PRODUCTS = 2**24  # dot products that are in memory at a time
NO_TOKENS = -1e9  # the score of a document all of whose tokens are skipped: below that of any other


class TokenVectorAnswers(VectorAnswers):
    """The vectors of the tokens of rows, float32 `[tokens, vector_size]` of each text, compared by MaxSim."""

    FIELD = "embeddings"

    def __init__(self, mean: bool = False) -> None:
        super().__init__(functools.partial(max_similarities, mean=mean))
        self.mean = mean

    def right_answers(self, columns: Sequence[Sequence[Any]], labels: Labels | None) -> list[TextVectors]:
        rows = super().right_answers(columns, labels)
        return [TextVectors(texts, [each[None] for each in vectors]) for texts, vectors in rows]


class MultiVectorEncoder(RanksPassages, ComparedEncoder):
    """What encodes each token of a text as a vector."""

    VERB = "encode"
    SETTINGS = (
        Setting("dense", ([dict], None)),
        Setting("normalize", bool),
        Setting("prompts", ({str: str}, None)),
        Setting("query_length", (int, None)),
        Setting("query_expansion", (dict, None)),
        Setting("skipped_tokens", ([str], None)),
        Setting("token_pooling", (dict, None)),
        Setting("mean_maxsim", bool),
    )
    prompts: Mapping[str, str]
    query_length: int | None
    query_expansion: Mapping[str, Any] | None
    skipped_tokens: Sequence[str]
    token_pooling: Mapping[str, Any] | None
    mean_maxsim: bool
    _rows: Mapping[str, ByLength]  # kind -> what computes texts: vectors, then 1 for a token that counts, else 0

    @property
    def kind(self) -> TokenVectorAnswers:
        return TokenVectorAnswers(self.mean_maxsim)

    @property
    def vector_size(self) -> int:
        """The number of values of a vector."""
        raise NotImplementedError

    def _read_settings(self, preprocessor: Any, rows_of: Callable[..., Any]) -> dict[str, Any]:
        """Finds the tokens that settings name, and makes the preprocessor of each kind by `rows_of` a tokenizer."""
        tokenizer, expansion = preprocessor.tokenizer, self.query_expansion
        self._markers = {kind: marker_of(self.prompts.get(kind, ""), tokenizer) for kind in KINDS}
        self._expansion_id = tokenizer.mask_token_id
        if expansion and expansion["token"] is not None:
            if expansion["token"] not in tokenizer.vocabulary:
                raise ValueError(f"the token of query_expansion, {expansion['token']!r:.60}, is not in the vocabulary")
            self._expansion_id = tokenizer.vocabulary.index(expansion["token"])
        skipped = set(self.skipped_tokens)
        # int32 [vocab_size]: 1 for a token that counts in documents
        self._counting = np.array([token not in skipped for token in tokenizer.vocabulary], np.int32)
        queries = rows_of(
            tokenizer,
            sequence_length=None,
            max_sequence_length=self.query_length or preprocessor.longest,
            pad_to_multiple_of=1 if expansion is None else expansion["length"],  # at least that long, for `expand`
        )
        return {"query": queries, "document": preprocessor}

    def _first_token(self, kind: str) -> list[int]:
        """Lists the id of the marker of a kind, or nothing."""
        marker = self._markers[kind]
        return [self.preprocessor.tokenizer.vocabulary.index(marker)] if marker else []

    def _to_count(self, packed: Mapping[str, Any], kind: str, xp: Any) -> tuple[Any, Any]:
        """Makes the inputs of packed texts, and a mask of the tokens that count; `xp`: `numpy` or `keras.ops`."""
        if kind == "document":
            return packed, packed["input_mask"] * xp.take(self._counting, packed["input_word_ids"])
        if self.query_expansion is None:
            return packed, packed["input_mask"]
        return expand(packed, self.query_expansion["length"], self._expansion_id, self.query_expansion["attend"], xp)

    @overload
    def encode(
        self, text: str, batch_tokens: int = 1024, progress: bool | None = None, kind: str = "document"
    ) -> np.ndarray: ...
    @overload
    def encode(
        self, text: Iterable[str], batch_tokens: int = 1024, progress: bool | None = None, kind: str = "document"
    ) -> list[np.ndarray]: ...
    def encode(
        self, text: str | Iterable[str], batch_tokens: int = 1024, progress: bool | None = None, kind: str = "document"
    ) -> np.ndarray | list[np.ndarray]:
        """Encodes the tokens of a text, or of many, in batches of similar length.

        Args:
            text: a str, or many.
            batch_tokens, progress: see `BertSentenceEncoder.encode`.
            kind: "query" or "document": what the text is. Each has its own prompt and length; queries may be expanded,
                and tokens of documents skipped or pooled.

        Returns:
            float32 `[tokens, vector_size]`; for many texts a list of them, in their order.

        Raises:
            TypeError: a text is not a str.
            ValueError: `kind` is another word; `batch_tokens` is less than 1; or a vector is not finite.

        Warns:
            UserWarning: the number of texts that were truncated to the most tokens of their kind.
        """
        check_choice("kind", kind, KINDS)
        is_one, texts = one_or_many(text)
        rows = self._rows[kind](texts, batch_tokens, progress, self._text_before(kind), kind=kind)
        vectors = self._of_tokens(rows, kind)
        return vectors[0] if is_one else vectors

    def _of_tokens(self, rows: list[np.ndarray], kind: str) -> list[np.ndarray]:
        """Selects the vectors of the tokens that count, and pools those of documents."""
        vectors = [row[row[:, -1] > 0, :-1] for row in rows]
        if kind == "query" or self.token_pooling is None:
            return vectors
        return [pool_tokens(each, **self.token_pooling) for each in vectors]

    def encode_counted(self, texts: Iterable[str], batch_tokens: int = 1024) -> tuple[list[np.ndarray], int]:
        """Encodes documents as `encode`, without a progress bar, and counts the truncated ones in place of a warning.

        Returns:
            float32 `[tokens, vector_size]` of each text, and the number of truncated texts.
        """
        before = self._text_before("document")
        rows, truncated = self._rows["document"].counted(texts, batch_tokens, False, before, kind="document")
        return self._of_tokens(rows, "document"), truncated

    def _encode_column(self, number: int, texts: Sequence[str], progress: bool | None = None) -> list[np.ndarray]:
        return self.encode(texts, progress=progress, kind="document" if number else "query")

    def _text_before(self, kind: str) -> str:
        """Returns the text before texts of a kind: its prompt without the marker."""
        return self.prompts.get(kind, "")[len(self._markers[kind]) :]

    def _least(self, kind: str) -> int:
        """Returns the least number of tokens of a text of a kind, whatever its length."""
        return 0 if kind != "query" or self.query_expansion is None else self.query_expansion["length"]

    def encode_query(self, text: str | Iterable[str], batch_tokens: int = 1024, progress: bool | None = None) -> Any:
        """Encodes a query, or many: `encode(..., kind="query")`."""
        return self.encode(text, batch_tokens, progress, kind="query")

    def encode_document(self, text: str | Iterable[str], batch_tokens: int = 1024, progress: bool | None = None) -> Any:
        """Encodes a document, or many: `encode(..., kind="document")`."""
        return self.encode(text, batch_tokens, progress)

    def similarity(
        self, queries: np.ndarray | Sequence[np.ndarray], documents: np.ndarray | Sequence[np.ndarray]
    ) -> np.ndarray:
        """Compares queries with documents by MaxSim: for each token of a query, the most similar one of a document.

        MaxSim is the sum, over the tokens of the query, of the maximum dot product with a token of the document; with
        `mean_maxsim` their mean. Khattab and Zaharia 2020, "ColBERT", equation 3.

        Args:
            queries, documents: the vectors of one text, float `[tokens, vector_size]`, or a list of them, as
                `encode_query` and `encode_document` return them.

        Returns:
            float32 `[queries, documents]`. A document without vectors, as all its tokens are skipped, gets -1e9.

        Raises:
            ValueError: vectors have another shape.

        Example:
            >>> from keras_bert import BertMultiVectorEncoder
            >>> model = BertMultiVectorEncoder.from_preset("all-MiniLM-L6-v2", query_expansion=None)
            >>> documents = model.encode_document(["a kitten sleeps", "income tax"])
            >>> model.similarity(model.encode_query("cats"), documents).argmax().item()
            0
        """
        queries, documents = (self._list_of_vectors(each) for each in (queries, documents))
        return max_similarities(queries, documents, self.mean_maxsim)

    def _list_of_vectors(self, vectors: np.ndarray | Sequence[np.ndarray]) -> list[np.ndarray]:
        arrays = [vectors] if isinstance(vectors, np.ndarray) and vectors.ndim == 2 else list(vectors)
        for each in arrays:
            if np.ndim(each) != 2 or np.shape(each)[1] != self.vector_size:
                raise ValueError(
                    f"got vectors of shape {list(np.shape(each))}; expected [tokens, {self.vector_size}], or a list of "
                    "such arrays"
                )
        return arrays

    def _scored(
        self, queries: Sequence[str], lists: Sequence[Sequence[str]], batch_tokens: int, progress: bool | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        numbers = {text: number for number, text in enumerate(dict.fromkeys(text for texts in lists for text in texts))}
        documents: list[np.ndarray] = self.encode([*numbers], batch_tokens, progress)
        for vectors, texts in zip(self.encode(queries, batch_tokens, progress, "query"), lists, strict=True):
            scores = self.similarity(vectors, [documents[numbers[text]] for text in texts])[0]
            yield scores, scores


def max_similarities(queries: Sequence[np.ndarray], documents: Sequence[np.ndarray], mean: bool = False) -> np.ndarray:
    """Compares queries with documents by MaxSim, or its mean: `[tokens, size]` of each -> `[queries, documents]`."""
    scores = np.full((len(queries), len(documents)), NO_TOKENS, np.float32)
    counts = np.array([len(each) for each in documents])
    columns = np.flatnonzero(counts)
    if not len(columns):
        return scores
    vectors = np.concatenate([documents[column] for column in columns.tolist()])
    starts = np.cumsum(counts[columns]) - counts[columns]
    for row, query in enumerate(queries):
        size = max(1, _MAX_PRODUCTS // len(vectors))
        sums = [
            np.maximum.reduceat(query[first : first + size] @ vectors.T, starts, axis=1).sum(axis=0)
            for first in range(0, len(query), size)
        ]
        scores[row, columns] = np.sum(sums, axis=0) / (len(query) if mean else 1)
    return scores


# -- The rows of a kind of texts, in the graph and in arrays


def expand(packed: Mapping[str, Any], length: int, token: int, attend: bool, xp: ModuleType) -> tuple[Any, Any]:
    """Replaces padding by `token` in `length` positions of queries: the inputs, and a mask of the tokens that count."""
    ids, mask = packed["input_word_ids"], packed["input_mask"]
    is_new = xp.where(xp.arange(xp.shape(mask)[1], dtype="int32") < length, 1 - mask, 0)
    counts = mask + is_new
    ids = xp.where(is_new > 0, xp.full_like(ids, token), ids)
    return {**packed, "input_word_ids": ids, "input_mask": counts if attend else mask}, counts


def check_served(pooling: Mapping[str, Any] | None) -> None:
    """Raises ValueError if documents are pooled, which a graph does not."""
    if pooling is not None:
        raise ValueError(
            f"token_pooling is {dict(pooling)}, which is computed outside of a graph; load the model with "
            "token_pooling={'factor': 1, 'normalize': False} to export it, and pool what it returns"
        )


# -- Arguments


def checked_prompts(prompts: Mapping[str, str] | None) -> dict[str, str]:
    """Checks the prompts of queries and documents, and returns those that are not empty."""
    prompts = {} if prompts is None else prompts
    if not isinstance(prompts, Mapping) or not all(isinstance(each, str) for each in prompts.values()):
        raise TypeError(f"prompts are {prompts!r:.80}; expected a dict: 'query' and 'document' -> texts")
    for name in prompts:
        check_choice("a prompt", name, KINDS)
    return {name: prompts[name] for name in KINDS if prompts.get(name)}


def checked_expansion(
    expansion: Mapping[str, Any] | None, query_length: int | None, longest: int
) -> dict[str, Any] | None:
    """Checks the length of queries and their expansion, and returns that with its defaults."""
    for name, value in (
        ("query_length", query_length),
        ("query_expansion.length", (expansion or {}).get("length", 32)),
    ):
        if value is not None and (not isinstance(value, Integral) or isinstance(value, bool) or value < 3):
            raise ValueError(f"{name} is {value!r}; expected a number of tokens, at least 3")
    if expansion is None:
        return None
    values = {"length": 32, "attend": False, "token": None, **expansion}
    if len(values) > 3 or not isinstance(values["attend"], bool) or not isinstance(values["token"], str | None):
        raise ValueError(f"query_expansion is {expansion!r:.80}; expected a dict of length, attend and token")
    if values["length"] > (query_length or longest):
        raise ValueError(
            f"query_expansion makes {values['length']} tokens of each query, but queries have at most "
            f"{query_length or longest}; use a longer query_length"
        )
    return values


# -- Pooling of a document's tokens


def checked_pooling(pooling: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Checks the arguments of `pool_tokens`, and returns them with their defaults; None: it would change nothing."""
    if pooling is None:
        return None
    values = {"factor": 1.0, "protected": 1, "normalize": True, **pooling}
    factor, protected, normalize = (values[name] for name in ("factor", "protected", "normalize"))
    are_numbers = isinstance(factor, float | int) and isinstance(protected, Integral) and isinstance(normalize, bool)
    if len(values) > 3 or not are_numbers or not factor >= 1 or protected < 0:
        raise ValueError(
            f"token_pooling is {pooling!r:.80}; expected a dict of factor (1 or more), protected (0 or more tokens) "
            "and normalize"
        )
    return values if factor > 1 or normalize else None


def pool_tokens(vectors: np.ndarray, factor: float, protected: int = 1, normalize: bool = True) -> np.ndarray:
    """Replaces clusters of a document's tokens by their means: float32 `[tokens, vector_size]`."""
    # Ward's method clusters cosine distances, `factor` tokens on average; the first `protected` stay. Clavié et al.
    # 2024, "Reducing the Footprint of Multi-Vector Retrieval with Minimal Performance Impact via Token Pooling".
    rest = vectors[protected:]
    number = max(int(len(rest) // factor), 1)
    if number < len(rest):
        labels = _ward(np.clip(1 - rest @ rest.T, 0, 2).astype(np.float64), number)
        means = [rest[labels == label].mean(axis=0) for label in np.unique(labels)]
        vectors = np.concatenate([vectors[:protected], means])
    if normalize:
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
    return vectors.astype(np.float32)


def _ward(distances: np.ndarray, number: int) -> np.ndarray:
    """Merges nearest clusters (Lance and Williams 1967) until a number is left: int `[points]`, first points."""
    squares = distances**2
    np.fill_diagonal(squares, np.inf)
    labels, sizes = np.arange(len(squares)), np.ones(len(squares))
    for _ in range(len(squares) - number):
        one, other = sorted(np.unravel_index(np.argmin(squares), squares.shape))
        total = sizes + sizes[one] + sizes[other]
        merged = (sizes + sizes[one]) * squares[one] + (sizes + sizes[other]) * squares[other]
        merged = (merged - sizes * squares[one, other]) / total
        merged[[one, other]] = np.inf
        squares[one] = squares[:, one] = merged
        squares[other] = squares[:, other] = np.inf
        sizes[one] += sizes[other]
        labels[labels == other] = one
    return labels
