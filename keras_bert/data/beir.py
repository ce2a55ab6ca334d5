"""Reads test collections for search, in BEIR's layout: documents, queries, and which document answers which query."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert.counted import counted
from keras_bert.data.table_formats import FORMATS
from keras_bert.data.tables import text_of, text_rows

# BEIR's own first, if there are several.
_ENDINGS = dict.fromkeys(
    [".jsonl", ".tsv", *(x for each in FORMATS.values() if not each.has_sheets for x in each.suffixes)]
)


@dataclass(frozen=True)
class RetrievalData:
    """Documents and queries by their ids, and the grades of relevant documents by query and document."""

    documents: dict[str, str]
    queries: dict[str, str]
    relevance: dict[str, dict[str, int]]


def is_retrieval_data(path: str | Path) -> bool:
    """Checks whether a path is a directory in BEIR's layout."""
    return Path(path).is_dir() and bool(_files(Path(path), "queries"))


def read_beir(directory: str | Path, split: str = "test") -> RetrievalData:
    """Reads a directory in the layout of BEIR (Thakur et al. 2021), or of NanoBEIR as downloaded.

    Args:
        directory: with `corpus.jsonl` (`_id`, `text`, and maybe `title`, which then comes before the text),
            `queries.jsonl` (`_id`, `text`) and `qrels/SPLIT.tsv` (`query-id`, `corpus-id`, `score`). Each may also be
            CSV or Parquet, and a directory of such files: `corpus/train-00000-of-00001.parquet`. Without the column
            `score`, each document listed is relevant.
        split: the name of the relevance judgements, such as "test" or "dev"; NanoBEIR's is "train".

    Returns:
        The documents; the queries that have judgements; and the judgements, as grades of 0 or more.

    Raises:
        FileNotFoundError: a part is missing.
        ValueError: a row lacks a column or a text, an id is there twice, a grade is not a whole number, or a judgement
            names a query that is not there.

    Warns:
        UserWarning: the number of judged documents that are not in the corpus: no search finds them.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "qrels").mkdir()
        >>> _ = (folder / "corpus.jsonl").write_text('{"_id": "d1", "title": "Cats", "text": "They purr."}')
        >>> _ = (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "Who purrs?"}')
        >>> _ = (folder / "qrels" / "test.tsv").write_text("query-id\\tcorpus-id\\tscore\\nq1\\td1\\t1\\n")
        >>> read_beir(folder)
        RetrievalData(documents={'d1': 'Cats They purr.'}, queries={'q1': 'Who purrs?'}, relevance={'q1': {'d1': 1}})
    """
    directory = Path(directory)
    documents = _texts(directory, "corpus")
    queries = _texts(directory, "queries")
    relevance: defaultdict[str, dict[str, int]] = defaultdict(dict)
    judgements = _rows(directory, "qrels", ("query-id", "corpus-id"), split)
    for path, number, row in judgements:
        query, document = text_of(row, "query-id"), text_of(row, "corpus-id")
        if query not in queries:
            raise ValueError(f"{path}, row {number}: there is no query {query!r:.60} in the queries")
        if document in relevance[query]:
            raise ValueError(f"{path}, row {number}: {query!r:.60} and {document!r:.60} are there twice")
        relevance[query][document] = _grade(row.get("score", 1), f"{path}, row {number}")
    unknown = {document for documents_of in relevance.values() for document in documents_of} - documents.keys()
    if unknown:
        warnings.warn(
            f"{directory}: {counted(unknown, 'judged document')} that the corpus does not have, such as "
            f"{min(unknown)!r:.60}",
            stacklevel=2,
        )
    return RetrievalData(documents, {query: queries[query] for query in relevance}, dict(relevance))


def _texts(directory: Path, part: str) -> dict[str, str]:
    """Reads the texts of the corpus or of the queries, by their ids."""
    texts: dict[str, str] = {}
    for path, number, row in _rows(directory, part, ("_id",)):
        identifier, title = row["_id"], row.get("title") or ""
        if identifier in texts:
            raise ValueError(f"{path}, row {number}: the id {identifier!r:.60} is there twice")
        try:
            text = "" if title and row.get("text") == "" else text_of(row, "text")
        except ValueError as error:
            raise ValueError(f"{path}, row {number}: {error}") from None
        texts[identifier] = f"{title} {text}".strip()
    return texts


def _rows(
    directory: Path, part: str, columns: tuple[str, ...], split: str | None = None
) -> Iterator[tuple[Path, int, dict[str, Any]]]:
    """Yields the file, number and cells of each row of a part."""
    if not (paths := _files(directory, part, split)):
        where = f"{part}/{split}.tsv" if split else f"{part}.jsonl"
        raise FileNotFoundError(f"{directory} has no {where}; BEIR's layout is corpus.jsonl, queries.jsonl, qrels/")
    for path in paths:
        for number, row in text_rows(path, columns):
            yield path, number, row


def _files(directory: Path, part: str, split: str | None = None) -> list[Path]:
    """Finds the files of a part: PART.jsonl, or those in the directory PART; with a split, SPLIT.tsv or SPLIT-*."""
    if file := next(filter(Path.is_file, (directory / f"{part}{ending}" for ending in _ENDINGS)), None):
        return [file]
    files = sorted(each for each in directory.glob(f"{part}/*") if each.suffix in _ENDINGS)
    return [each for each in files if split in (None, each.stem, each.stem.partition("-")[0])]


def _grade(value: object, where: str) -> int:
    try:
        grade = float(str(value))
    except ValueError:
        grade = -1
    if not (0 <= grade < 2**31 and grade == int(grade)):
        raise ValueError(f"{where}: score is {value!r:.60}; expected a whole number, 0 for no answer")
    return int(grade)
