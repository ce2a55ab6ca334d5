"""Builds and changes an index: one transaction a change. Vectors are stored as they come, so no work is repeated."""

from __future__ import annotations

import contextlib
import json
import secrets
import sqlite3
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from keras_bert import files
from keras_bert.counted import counted, listed
from keras_bert.data.examples import check_characters
from keras_bert.data.tables import CorpusRow, read_corpus
from keras_bert.embedding.file_embedding import compute_digest
from keras_bert.formats import Preset
from keras_bert.search import database, filters, neighbours, representations
from keras_bert.search.database import Database, Row, Settings


def build_index(
    corpus: str | Path,
    directory: str | Path,
    preset: str | Path = "all-MiniLM-L6-v2",
    text_column: str = "text",
    stored: str | None = None,
    add: bool = False,
    batch_tokens: int = 1024,
    progress: bool | None = None,
    skip_bad: bool = False,
    id_column: str | None = None,
) -> dict[str, int]:
    """Makes or updates an index of a corpus, for `TextIndex`.

    The index then has each row of the corpus once. Only new texts are encoded; after an interruption, the same call
    encodes the rest. A search reads the old rows until all new ones are there. Up to 100,000 rows, it is exact. Beyond,
    it searches a graph of neighbours (HNSW), which misses about one hit in a hundred. It needs Faiss:
    `pip install 'keras-bert-models[search]'`.

    Args:
        corpus: a table in any format of `keras_bert.data.read_table`; any other file has one text per line. It must fit
            into memory.
        directory: created if missing.
        preset: a preset of a sentence encoder, see `BertSentenceEncoder.from_preset`; of a `BertSparseEncoder`, or of a
            `BertMultiVectorEncoder`, whose vectors of tokens are kept as float16. Up to 10,000 rows, all are compared
            by MaxSim; beyond, the 1,000 rows whose mean vectors are closest to the query's.
        text_column: the column of the texts.
        stored: how a search holds the vectors of a sentence encoder: as "float32"; "int8", which takes a quarter of the
            memory and changes similarities by less than 0.01; or "binary": signs find candidates, which int8 ranks. By
            default, as in the existing index, else "float32". Not for weights or vectors of tokens.
        add: whether to add the corpus to the rows of an existing index; else the corpus replaces them.
        batch_tokens: the most tokens in a batch, padding included; a longer text is a batch of its own.
        progress: whether to show a progress bar; by default on a terminal, elsewhere a line a minute.
        skip_bad: leave out rows without a text, with a warning that counts them, instead of raising.
        id_column: a column whose values are different in the corpus. A row replaces those of the index with its value.

    Warns:
        UserWarning: the number of rows that leave an existing index, because the corpus does not have them.

    Returns:
        Counts: `texts`, the texts in the index; `encoded`, those that this call encoded; and `truncated`, the encoded
        texts that exceed the model's maximum length.

    Raises:
        FileNotFoundError: there is no such file or preset.
        ValueError: the corpus has no texts, a row cannot be used, an argument is bad, or the directory holds an index
            that is damaged, of another version, or of another model.
        ImportError: Faiss is not installed.
        BlockingIOError: another process is writing into the directory.
        OSError: a file cannot be written.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "pets.txt").write_text("a cat\\na kitten\\nincome tax\\n")
        >>> build_index(folder / "pets.txt", folder / "index")
        {'texts': 3, 'encoded': 3, 'truncated': 0}
    """
    directory = Path(directory)
    corpus_rows = read_corpus(corpus, text_column, skip_bad)
    if not corpus_rows:
        raise ValueError(f"{corpus} has no texts")
    _check_ids(corpus, corpus_rows, id_column)
    preset_handle = str(Path(preset).absolute() if Path(preset).is_dir() else preset)  # for any working directory
    check_characters(preset_handle, f"the path of the model, {preset_handle!a},")
    rows = {row.key: row for row in (Row.of(each, text_column) for each in corpus_rows)}
    with contextlib.suppress(FileNotFoundError), database.reading(directory, may_be_old=True):
        pass  # raises before the model is loaded
    with Preset.open(preset) as opened:
        kind = representations.of_model(opened)
        if stored not in (None, *kind.STORED):
            raise ValueError(f"stored is {stored!r}; expected {' or '.join(kind.STORED)} for this model")
        model = kind.load(opened)
    digest, encode = compute_digest(model), kind.documents(model, batch_tokens)
    counts = Counter(encoded=0, truncated=0)
    with files.only_writer(directory), database.writing(directory / database.NAME) as index:
        while True:  # until a transaction begins in which all texts have vectors, whatever another process changes
            index.execute("BEGIN IMMEDIATE")
            old, old_ids = index.settings(), index.row_ids()
            _check_settings(old, directory, str(preset), digest, text_column if add else None, stored)
            new = [row for key, row in rows.items() if key not in old_ids]
            texts = {database.compute_key(digest, row.text): row.text for row in new}
            if index.vector_ids().keys() >= texts.keys():
                break
            index.execute("ROLLBACK")
            counts.update(index.encode(texts, encode, progress))
        leaving = [] if add else [number for key, number in old_ids.items() if key not in rows]
        if leaving:
            warnings.warn(
                f"rows of {directory} that leave the index, because {corpus} does not have them: {len(leaving):,}; "
                "pass add=True to keep them",
                stacklevel=2,
            )
        if add and id_column and old_ids:
            kept = {old_ids[key] for key in rows if key in old_ids}
            ids = [row.columns(text_column)[id_column] for row in rows.values()]
            leaving = [number for number in index.choose({id_column: ids}).tolist() if number not in kept]
        stored = stored or (old.stored if old else kind.STORED[0])
        settings = Settings(preset_handle, digest, text_column, stored, kind.width(model))
        _change(index, settings, leaving, new)
        return {"texts": len(index), **counts}


def remove_rows(directory: str | Path, where: Mapping[str, object]) -> int:
    """Removes rows from an index, such as those of deleted documents by their ids. No text is encoded.

    Args:
        directory: the directory of the index.
        where: the values of the rows to remove, by column, such as `{"id": ["7", "8"]}`; see `TextIndex.search`.

    Returns:
        The number of rows that were removed.

    Raises:
        FileNotFoundError: there is no index.
        TypeError, ValueError: as `TextIndex.search`; or the index is damaged, or no row would be left.
        BlockingIOError: another process is writing into the directory.

    Warns:
        UserWarning: no row has a value, so that nothing is removed for it.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "pets.csv").write_text("id,text\\n7,a cat\\n8,income tax\\n")
        >>> _ = build_index(folder / "pets.csv", folder / "index")
        >>> remove_rows(folder / "index", {"id": 8})
        1
    """
    directory = Path(directory)
    with database.reading(directory, may_be_old=True):
        pass  # raises before the directory is locked
    with files.only_writer(directory), database.writing(directory / database.NAME) as index:
        index.execute("BEGIN IMMEDIATE")
        settings = index.settings()
        assert settings is not None  # `reading` raises without settings
        leaving = index.choose(where).tolist()
        if len(leaving) == len(index):
            raise ValueError(f"none would remain of {counted(leaving, 'row')} of {directory}; remove the directory")
        values = {name: filters.list_values(each) for name, each in where.items() if not isinstance(each, Mapping)}
        wanted = [(name, each) for name, some in values.items() for each in some]
        missing = [f"{name}={each}" for name, each in wanted if not len(index.choose({name: each}))]
        _change(index, settings, leaving, [])
    if missing or not leaving:
        warnings.warn(f"no row of {directory} has {listed(missing) or 'all of these values'}", stacklevel=2)
    return len(leaving)


def _change(index: Database, settings: Settings, leaving: list[int], new: list[Row]) -> None:
    """Ends a transaction with a change: a search reads the new rows, with their nearest neighbours, from now on."""
    old = index.settings()
    if old:
        index.remove(leaving, old.text_column)
    index.add(new, settings)
    if old and not (leaving or new):
        settings = settings._replace(version=old.version)
    else:
        settings = settings._replace(version=secrets.randbits(60))
        index.execute("DELETE FROM vectors WHERE id NOT IN (SELECT vector FROM rows)")
        representations.of_index(index, settings).update(index, settings, old, leaving, len(new))
    index.write_settings(settings)
    index.execute("COMMIT")
    with contextlib.suppress(sqlite3.OperationalError):  # another process writes, and will remove them
        index.execute("BEGIN IMMEDIATE")
        if now := index.settings():
            neighbours.remove_other_versions(index.path.parent, now.version)
        index.execute("ROLLBACK")


def _check_ids(corpus: str | Path, rows: Iterable[CorpusRow], column: str | None) -> None:
    """Raises ValueError if a row has no id in this column, or one that equals that of another row in a filter."""
    lines: dict[filters.Meaning, dict[str, int]] = {}  # of texts with the same meaning, "" for a value that is no text
    if column is None:
        return
    for row in rows:
        value = row.columns.get(column)
        value = value if isinstance(value, str) else json.loads(files.to_json_line(value))
        means, text = filters.term(value)
        if means == b"":
            raise ValueError(f"{corpus}, line {row.line}: no {column!r}; each row needs an id")
        same = lines.setdefault(means, {})
        first = min(same.values(), default=0) if not text else same.get(text) or same.get("")
        if first:
            raise ValueError(f"{corpus} has {column} {value!r} twice, in lines {first} and {row.line}")
        same[text] = row.line


def _check_settings(
    old: Settings | None, directory: Path, preset: str, model: str, text_column: str | None, stored: str | None
) -> None:
    if old is None:
        return
    if old.model != model:
        raise ValueError(
            f"{directory} is an index of the model {old.preset}, not of {preset}; choose another directory"
        )
    if text_column not in (None, old.text_column):
        raise ValueError(f"the texts of {directory} are in the column {old.text_column!r}, not in {text_column!r}")
    if stored not in (None, old.stored):
        raise ValueError(f"{directory} stores vectors as {old.stored}, not as {stored}; choose another directory")
