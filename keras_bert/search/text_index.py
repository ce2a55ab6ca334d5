"""TextIndex: finds the texts of a corpus that are closest in meaning to a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, overload

import numpy as np

from keras_bert.search import search_model
from keras_bert.search.index_files import IndexRows, Manifest, find_manifest, list_values, read_index
from keras_bert.search.neighbours import Neighbours
from keras_bert.search.search_model import SearchModel

if TYPE_CHECKING:
    from keras_bert.tasks import BertReranker

_CANDIDATES = 50  # for a reranker


class Hit(TypedDict):
    """One result of a search; see `TextIndex.search`."""

    similarity: float
    text: str
    row: dict[str, Any]  # the row of the corpus, by column


class RankedHit(Hit):
    """A hit with the score of a reranker."""

    score: float


class TextIndex:
    """An index that `build_index` made, ready to be searched. Its files are read page by page, on demand.

    Args:
        directory: the directory of the index.
        preset: the model that made the index; by default, the one that index.json names.

    Raises:
        FileNotFoundError: there is no index, or its model is missing.
        ValueError: the index is damaged, or `preset` is another model.
        ImportError: Faiss is not installed: `pip install 'keras-bert-models[search]'`.

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
        directory = Path(directory)
        find_manifest(directory)  # raises if there is none
        opened = read_index(directory, lambda manifest: (manifest, *_open_files(directory, manifest)))
        assert opened is not None  # there is a manifest
        manifest, self._rows, self._neighbours = opened
        self.text_column = manifest.text_column
        preset = manifest.preset if preset is None else preset
        if search_model.load(preset) != manifest.model:
            raise ValueError(
                f"{preset} is not the model that made {directory}, which is {manifest.preset}; use that model, or "
                "index the corpus again in another directory"
            )
        self._model = SearchModel(preset, manifest.model)
        self._last_filter: tuple[str, np.ndarray] = "", np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def is_exact(self) -> bool:
        """Whether a search compares a query with all texts."""
        return self._neighbours.is_exact

    @overload
    def search(
        self,
        query: str,
        top_k: int = 10,
        reranker: BertReranker | None = None,
        where: Mapping[str, object] | None = None,
    ) -> list[Hit]: ...

    @overload
    def search(
        self,
        query: Iterable[str],
        top_k: int = 10,
        reranker: BertReranker | None = None,
        where: Mapping[str, object] | None = None,
    ) -> list[list[Hit]]: ...

    def search(
        self,
        query: str | Iterable[str],
        top_k: int = 10,
        reranker: BertReranker | None = None,
        where: Mapping[str, object] | None = None,
    ) -> list[Hit] | list[list[Hit]]:
        """Finds the texts that are closest in meaning to a query, or to each of many.

        Args:
            query: a str, or many.
            top_k: the number of texts to find.
            reranker: ranks the 50 closest texts to each query (or `top_k`, if that is more).
            where: a filter: search only rows with these values, by column, such as `{"language": "en", "year": [2025,
                2026]}`, where a list (or range, set, array) holds alternatives. A number, a date, True or False is
                like its text: 7 is 7.0 and "7". The rows that remain are compared one by one, so use filters that leave
                up to some 100,000 rows.

        Returns:
            A list of dicts, the best text first. Each has `similarity`, the model's similarity of query and text
            (cosine or dot product); `text`; `row`, the whole row of the corpus by column; and with a reranker, its
            `score`, which then determines the order. For many queries, a list of such lists.

        Raises:
            TypeError: a query is not a str.
            ValueError: `top_k` is less than 1, a query is blank, or no row has a column of `where`.

        Warns:
            UserWarning: the number of queries that were truncated to the model's maximum length.
        """
        from keras_bert.tasks.columns import check_top_k, one_or_many
        from keras_bert.text.arguments import list_of_str

        check_top_k(top_k)
        is_one, queries = one_or_many(query, names=("query",))
        queries = list_of_str(queries, "query", "query")
        if blank := [number for number, each in enumerate(queries, start=1) if not each.strip()]:
            raise ValueError("query is empty" if is_one else f"query {blank[0]} is empty")
        count = top_k if reranker is None else max(top_k, _CANDIDATES)
        vectors = self._model.encode_queries(queries)
        if where is None:
            products, numbers = self._neighbours.nearest(vectors, count)
        else:
            products, numbers = self._neighbours.nearest_among(self._find_matching(where), vectors, count)
        hits: list[list[Hit]] = [self._make_hits(*each) for each in zip(products, numbers, strict=True)]
        if reranker is not None:
            texts = [[hit["text"] for hit in query_hits] for query_hits in hits]
            ranked = reranker.rank(queries, texts, top_k, progress=False)
            hits = [
                [RankedHit(score=each["score"], **query_hits[each["index"]]) for each in ranking]
                for query_hits, ranking in zip(hits, ranked, strict=True)
            ]
        return hits[0] if is_one else hits

    def _find_matching(self, where: Mapping[str, object]) -> np.ndarray:
        """Finds the rows that match a filter, and returns their numbers. The result for the last filter is cached."""
        values = {column: list_values(each) for column, each in where.items()}
        key = repr(sorted(values.items(), key=repr))
        if self._last_filter[0] != key:
            self._last_filter = key, self._rows.matching(values)
        return self._last_filter[1]

    def _make_hits(self, products: np.ndarray, numbers: np.ndarray) -> list[Hit]:
        hits: list[Hit] = []
        for product, number in zip(products.tolist(), numbers.tolist(), strict=True):
            if number >= 0:
                row = self._rows[number]
                hits.append({"similarity": product, "text": row[self.text_column], "row": row})
        return hits


def _open_files(directory: Path, manifest: Manifest) -> tuple[IndexRows, Neighbours]:
    rows = IndexRows(directory / manifest.rows, directory / manifest.starts)
    neighbours = Neighbours.open(directory / manifest.vectors)
    if not len(rows) == len(neighbours) == manifest.texts:
        raise ValueError(f"{directory} is damaged: its files differ in length; index the corpus again")
    return rows, neighbours
