"""Finds texts of a corpus that say almost the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_bert.data.tables import CorpusRow, read_corpus
from keras_bert.embedding.vector_files import VECTOR
from keras_bert.files import parse_json
from keras_bert.search import neighbours
from keras_bert.search.neighbours import Neighbours, similar_pairs

_NEIGHBOURS = 100  # neighbours of a text to compare in a large corpus
_ROWS = 2048  # rows to search for at a time
_THRESHOLD = 0.9  # the lowest cosine of near-duplicates, by default


class DuplicatePair(NamedTuple):
    """Two rows of a corpus, the earlier one first, and their similarity, which for equal texts is a cosine of 1."""

    first: CorpusRow
    second: CorpusRow
    similarity: float


def near_duplicates(
    corpus: str | Path,
    threshold: float | None = None,
    preset: str | Path = "all-MiniLM-L6-v2",
    text_column: str = "text",
    batch_tokens: int = 1024,
    progress: bool | None = None,
    skip_bad: bool = False,
    vectors: bool = False,
) -> Iterator[DuplicatePair]:
    """Finds pairs of texts whose vectors have a similarity of at least `threshold`.

    A repeated text makes a pair with its first occurrence only. Up to 100,000 different texts, all pairs are compared.
    Beyond, each text is compared with the 100 closest ones that an approximate search finds. It needs Faiss:
    `pip install 'keras-bert-models[search]'`.

    Args:
        corpus, text_column, batch_tokens, progress, skip_bad: see `build_index`.
        threshold: the lowest similarity, by default a cosine of 0.9. There is no default for a model whose similarity
            is the dot product, as that has no fixed range.
        preset: a preset of a sentence encoder.
        vectors: whether the corpus is a table that `embed_files` wrote. Then the cosines of the vectors in its column
            `vector` count, and no model is loaded.

    Yields:
        Pairs: first those of equal texts, then those of similar texts, both in the order of the corpus.

    Raises:
        FileNotFoundError, ImportError: as `build_index`.
        ValueError: as `build_index`; or with `vectors`, a row has no vector, or one of another size.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "pets.txt")
        >>> _ = path.write_text("A cat sleeps.\\nI pay income tax.\\na cat is sleeping\\n")
        >>> [(pair.first.line, pair.second.line) for pair in near_duplicates(path)]
        [(1, 3)]
    """
    rows = read_corpus(corpus, text_column, skip_bad)
    firsts: dict[str, CorpusRow] = {}
    for row in rows:
        firsts.setdefault(row.text, row)
    distinct = list(firsts.values())
    is_large = len(distinct) > neighbours.EXACT_UP_TO
    if is_large:
        neighbours.import_faiss()  # raises
    if vectors:
        threshold, max_similarity = _check_threshold(threshold, "cosine"), 1.0
        compared = _read_vectors(distinct, corpus)
        for row in rows:
            row.columns.pop(VECTOR, None)
    else:
        from keras_bert.tasks.registry import load_to_compare

        model = load_to_compare(preset)
        threshold = _check_threshold(threshold, model.similarity)
        compared = model.encode(list(firsts), batch_tokens, progress)
        max_similarity = 1.0 if model.similarity == "cosine" else np.inf
    self_products = dict(zip(firsts, np.sum(compared * compared, axis=1).tolist(), strict=True))
    for row in rows:
        if firsts[row.text].line != row.line:
            yield DuplicatePair(firsts[row.text], row, min(self_products[row.text], max_similarity))
    pairs = _search_pairs(compared, threshold) if is_large else similar_pairs(compared, threshold=threshold)
    for first, second, similarity in pairs:
        yield DuplicatePair(distinct[first], distinct[second], min(similarity, max_similarity))


def duplicate_groups(pairs: Iterable[DuplicatePair]) -> list[list[CorpusRow]]:
    """Joins pairs to groups: two rows are in one group if a chain of pairs links them.

    To clean a corpus, keep the first row of each group, and leave out the others.

    Args:
        pairs: those of `near_duplicates`.

    Returns:
        Groups of two or more rows, both in the order of the corpus.

    Example:
        >>> rows = [CorpusRow(line, {}, text) for line, text in enumerate(["a", "b", "a!", "c", "b!", "a?"], start=1)]
        >>> pairs = [DuplicatePair(rows[i], rows[j], 0.95) for i, j in ((0, 2), (1, 4), (2, 5))]
        >>> [[row.text for row in group] for group in duplicate_groups(pairs)]
        [['a', 'a!', 'a?'], ['b', 'b!']]
    """
    groups: dict[int, dict[int, CorpusRow]] = {}  # line -> the rows of its group, by line
    for first, second, _ in pairs:
        one, other = (groups.get(row.line) or {row.line: row} for row in (first, second))
        small, large = sorted((one, other), key=len)
        if small is not large:
            large.update(small)
        groups.update(dict.fromkeys([first.line, second.line, *small], large))
    distinct = {id(group): group for group in groups.values()}.values()
    return sorted(([group[line] for line in sorted(group)] for group in distinct), key=lambda group: group[0].line)


def _read_vectors(rows: list[CorpusRow], corpus: str | Path) -> np.ndarray:
    """Reads the vectors of rows, and scales them to length 1, float32 `[rows, size]`."""
    vectors = []
    for row in rows:
        place = f"{corpus}, row at line {row.line}"
        if VECTOR not in row.columns:
            raise ValueError(f"{place} has no {VECTOR!r}; write the vectors with `embed`, or leave vectors out")
        value = row.columns[VECTOR]
        try:
            vector = np.asarray(parse_json(value) if isinstance(value, str) else value, np.float32)
        except (TypeError, ValueError):
            raise ValueError(f"{place}: {VECTOR} is {value!r:.60}; expected a list of numbers") from None
        if vector.ndim != 1 or not np.isfinite(vector).all() or not vector.any():
            raise ValueError(f"{place}: {VECTOR} is {value!r:.60}; expected finite numbers, not all zero")
        if vectors and len(vector) != len(vectors[0]):
            raise ValueError(
                f"{place}: {VECTOR} has {len(vector)} numbers, but that of the first row {len(vectors[0])}"
            )
        vectors.append(vector / np.linalg.norm(vector))
    return np.array(vectors)


def _check_threshold(threshold: float | None, similarity: str) -> float:
    if similarity != "cosine":
        if threshold is None:
            raise ValueError(
                "this model compares texts by the dot product of their vectors, which has no fixed range; pass a "
                "threshold (the command similarity shows the scores of texts)"
            )
        return threshold
    threshold = _THRESHOLD if threshold is None else threshold
    if not -1 <= threshold <= 1:
        raise ValueError(f"threshold is {threshold}; expected a cosine, -1 to 1")
    return threshold


def _search_pairs(vectors: np.ndarray, threshold: float) -> Iterator[tuple[int, int, float]]:
    """Yields the pairs of `similar_pairs`, found by an approximate search of each vector's neighbours."""
    index = Neighbours.empty(vectors.shape[1], len(vectors))
    index.add(vectors)
    products_by_pair: dict[tuple[int, int], float] = {}
    for start in range(0, len(vectors), _ROWS):
        products, numbers = index.nearest(vectors[start : start + _ROWS], _NEIGHBOURS)
        rows, places = np.nonzero((products >= threshold) & (numbers >= 0))
        for row, place in zip(rows.tolist(), places.tolist(), strict=True):
            first, second = sorted((start + row, int(numbers[row, place])))
            if first != second:
                products_by_pair[first, second] = float(products[row, place])
    for (first, second), product in sorted(products_by_pair.items()):
        yield first, second, product
