"""TextIndex: finds the texts of a corpus that are closest in meaning to a query."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, overload

import numpy as np

from keras_bert.embedding.file_embedding import compute_digest
from keras_bert.search import database, representations
from keras_bert.search.database import Database, Settings
from keras_bert.search.representations import Representation

if TYPE_CHECKING:
    from keras_bert.tasks import BertReranker

_CANDIDATES = 50  # for a reranker, and of each ranking in a hybrid search
_RANK_OFFSET = 60  # in reciprocal ranks, so that the first places weigh little more than the next


class Hit(TypedDict):
    """One result of a search; see `TextIndex.search`."""

    similarity: float
    text: str
    row: dict[str, Any]  # the row of the corpus, by column


class RankedHit(Hit):
    """A hit with the score of a reranker."""

    score: float


class TextIndex:
    """An index that `build_index` made, ready to be searched, from any thread.

    Its files are read page by page, on demand. Each search reads the index as it is then: an addition or a removal by
    another process is found whole or not at all.

    Args:
        directory: the directory of the index.
        preset: the model that made the index; by default, the one that the index names.

    Raises:
        FileNotFoundError: there is no index, or its model is missing.
        ValueError: the index is damaged, or `preset` is another model.
        ImportError: Faiss is not installed, see `build_index`.

    Example:
        >>> import tempfile
        >>> from keras_bert.search import build_index
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "pets.txt").write_text("a cat\\nincome tax\\na kitten\\n")
        >>> _ = build_index(folder / "pets.txt", folder / "index")
        >>> index = TextIndex(folder / "index")
        >>> [hit["text"] for hit in index.search("a small cat", top_k=2)]
        ['a cat', 'a kitten']
    """

    def __init__(self, directory: str | Path, preset: str | Path | None = None) -> None:
        self._directory, self._lock = Path(directory), threading.Lock()
        self._state: _State | None = None
        with self._reading(whole=True) as (_, state):
            settings, self._kind = state.settings, type(state.kept)
        preset = settings.preset if preset is None else preset
        self._model = self._kind.load(preset)
        if compute_digest(self._model) != settings.model:
            raise ValueError(
                f"{preset} is not the model that made {directory}, which is {settings.preset}; use that model, or "
                "index the corpus again in another directory"
            )

    def __len__(self) -> int:
        with self._reading() as (_, state):
            return len(state.ids)

    @property
    def is_exact(self) -> bool:
        """Whether a search compares a query with all texts."""
        with self._reading() as (_, state):
            return state.kept.is_exact

    @overload
    def search(
        self,
        query: str,
        top_k: int = 10,
        reranker: BertReranker | None = None,
        where: Mapping[str, object] | None = None,
        hybrid: bool = False,
    ) -> list[Hit]: ...

    @overload
    def search(
        self,
        query: Iterable[str],
        top_k: int = 10,
        reranker: BertReranker | None = None,
        where: Mapping[str, object] | None = None,
        hybrid: bool = False,
    ) -> list[list[Hit]]: ...

    def search(
        self,
        query: str | Iterable[str],
        top_k: int = 10,
        reranker: BertReranker | None = None,
        where: Mapping[str, object] | None = None,
        hybrid: bool = False,
    ) -> list[Hit] | list[list[Hit]]:
        """Finds the texts that are closest in meaning to a query, or to each of many.

        Args:
            query: a str, or many.
            top_k: the number of texts to find.
            reranker: ranks the 50 closest texts to each query (or `top_k`, if that is more).
            where: a filter, by column: `{"language": "en", "year": {">=": 2025}, "id": [7, 8]}` finds only rows with
                this language, a year from 2025 on, and one of these ids. A list (or range, set, array) holds
                alternatives; a range compares numbers with numbers, dates with dates, and texts with texts, by `>=`,
                `>`, `<=` and `<`. A number, a date, True or False is like its text: 7 is 7.0, "7" and "7e0". Dates and
                times without a zone are UTC. A filter should leave up to some 100,000 rows, as each is compared.
            hybrid: also find texts with words of the query, such as names and numbers of parts (BM25). Texts
                that either ranking puts first come first: the order is by the sum of 1 / (60 + rank).

        Returns:
            A list of dicts, the best text first. Each has `similarity`, the model's similarity of query and text
            (cosine or dot product); `text`; `row`, the whole row of the corpus by column; and with a reranker, its
            `score`, which determines the order. For many queries, a list of such lists.

        Raises:
            TypeError: a query is not a str, or `where` not a dict.
            ValueError: `top_k` is less than 1, a query is blank, no row has a column of `where`, or a range has limits
                of another kind than the cells.

        Warns:
            UserWarning: the number of queries that were truncated to the model's maximum length.
        """
        from keras_bert.answers.columns import check_top_k, one_or_many
        from keras_bert.text.arguments import list_of_str

        check_top_k(top_k)
        is_one, queries = one_or_many(query, names=("query",))
        queries = list_of_str(queries, "query", "query")
        if blank := [number for number, each in enumerate(queries, start=1) if not each.strip()]:
            raise ValueError("query is empty" if is_one else f"query {blank[0]} is empty")
        count = top_k if reranker is None else max(top_k, _CANDIDATES)
        encoded = self._kind.queries(self._model, queries)
        hits: list[list[Hit]] = []
        with self._reading() as (index, state):
            among = None if where is None else np.flatnonzero(np.isin(state.ids, index.choose(where)))
            wanted = max(count, _CANDIDATES) if hybrid else count
            found = state.kept.nearest(index, encoded, wanted, among)
            for query, vector, (products, numbers) in zip(queries, encoded, found, strict=True):
                if hybrid:
                    by_words = state.rank_by_words(index, query, among)[:wanted]
                    numbers = _merge(numbers[numbers >= 0].tolist(), by_words.tolist())[:count]
                    products = state.kept.products(index, vector, numbers)
                hits.append([])
                for product, number in zip(products.tolist(), numbers, strict=True):
                    if number >= 0:
                        row = index.row(int(state.ids[number]))
                        columns = row.columns(state.settings.text_column)
                        hits[-1].append({"similarity": product, "text": row.text, "row": columns})
        if reranker is not None:
            texts = [[hit["text"] for hit in query_hits] for query_hits in hits]
            ranked = reranker.rank(queries, texts, top_k)
            hits = [
                [RankedHit(score=each["score"], **query_hits[each["index"]]) for each in ranking]
                for query_hits, ranking in zip(hits, ranked, strict=True)
            ]
        return hits[0] if is_one else hits

    @contextlib.contextmanager
    def _reading(self, whole: bool = False) -> Iterator[tuple[Database, _State]]:
        """Opens the database for a block, as `database.reading`, with the state of the index in memory."""
        with database.reading(self._directory, whole) as (index, settings):
            with self._lock:
                if self._state is None or self._state.settings.version != settings.version:
                    if self._state is not None and self._state.settings.model != settings.model:
                        raise ValueError(
                            f"{self._directory} is now an index of the model {settings.preset}; open it again"
                        )
                    ids, words = index.ids_and_words()
                    kept = representations.of_index(index, settings).open(index, settings, ids)
                    self._state = _State(settings, ids, words, kept)
                state = self._state
            if len(state.ids) != len(state.kept):
                raise database.damaged_error(index.path, "its rows and vectors differ in number")
            yield index, state


@dataclass(frozen=True)
class _State:
    """A version of an index: the ids of its rows, by their numbers, and what it keeps of them."""

    settings: Settings
    ids: np.ndarray  # rising
    words: np.ndarray  # the numbers of words in their texts
    kept: Representation

    def rank_by_words(self, index: Database, query: str, among: np.ndarray | None) -> np.ndarray:
        """Finds the numbers of rows, maybe only those `among`, with words of a query, the highest BM25 first."""
        scores, size = np.zeros(len(self.ids)), len(self.ids)
        for word in dict.fromkeys(database.find_words(query)):
            counts = np.bincount(np.searchsorted(self.ids, index.ids_of_word(word)), minlength=size)[:size]
            having = np.flatnonzero(counts)
            rarity = np.log(1 + (size - len(having) + 0.5) / (len(having) + 0.5))
            counts, lengths = counts[having], self.words[having] / self.words.mean()
            scores[having] += rarity * counts * 2.2 / (counts + 1.2 * (0.25 + 0.75 * lengths))
        found = np.flatnonzero(scores) if among is None else among[scores[among] > 0]
        return found[np.argsort(-scores[found], kind="stable")]


def _merge(*rankings: Sequence[int]) -> list[int]:
    """Merges rankings by reciprocal ranks (Cormack et al. 2009)."""
    scores: Counter[int] = Counter()
    for ranking in rankings:
        scores.update({number: 1 / (_RANK_OFFSET + rank) for rank, number in enumerate(ranking, start=1)})
    return sorted(scores, key=lambda number: (-scores[number], number))
