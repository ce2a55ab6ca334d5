"""Builds and changes an index: one transaction a change. Vectors are stored as they come, so no work is repeated."""

from __future__ import annotations

import contextlib
import secrets
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from keras_bert import files
from keras_bert.choices import STORED
from keras_bert.counted import counted
from keras_bert.data.tables import CorpusRow, read_corpus
from keras_bert.search import database, neighbours, search_model
from keras_bert.search.database import Database, Settings
from keras_bert.search.neighbours import Neighbours
from keras_bert.search.search_model import SearchModel


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
    it searches a graph of neighbours (HNSW), which misses about one hit in a hundred.

    Args:
        corpus: a table in any format of `keras_bert.data.read_table`; any other file has one text per line. It must fit
            into memory.
        directory: created if missing.
        preset: a preset of a sentence encoder, see `BertSentenceEncoder.from_preset`.
        text_column: the column of the texts.
        stored: how a search holds the vectors: as "float32"; or "int8", which takes a quarter of the memory and changes
            similarities by less than 0.01. By default, as in the existing index, else "float32".
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
            that is damaged, of an older version, or of another model.
        ImportError: Faiss is not installed: `pip install 'keras-bert-models[search]'`.
        BlockingIOError: another process is writing into the directory.
        OSError: a file cannot be written.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "pets.txt").write_text("a cat\\na kitten\\nincome tax\\n")
        >>> build_index(folder / "pets.txt", folder / "index")
        {'texts': 3, 'encoded': 3, 'truncated': 0}
    """
    neighbours.check_installed()
    if stored not in (None, *STORED):
        raise ValueError(f"stored is {stored!r}; expected {' or '.join(STORED)}")
    directory = Path(directory)
    rows = {database.key_of_row(row, text_column): row for row in read_corpus(corpus, text_column, skip_bad)}
    if not rows:
        raise ValueError(f"{corpus} has no texts")
    _check_ids(corpus, rows.values(), id_column)
    with contextlib.suppress(FileNotFoundError), database.reading(directory):  # raises before the model is loaded
        pass
    digest = search_model.load(preset)
    model = SearchModel(preset, digest)
    model.encode_documents([], batch_tokens)  # raises if batch_tokens is less than 1
    with files.only_writer(directory), database.writing(directory / database.NAME) as index:
        old = index.settings()
        _check_settings(old, directory, str(preset), digest, text_column if add else None, stored)
        old_ids = dict(index.execute("SELECT key, id FROM rows"))
        new = {key: row for key, row in rows.items() if key not in old_ids}
        leaving = [] if add else [number for key, number in old_ids.items() if key not in rows]
        if leaving:
            warnings.warn(
                f"rows of {directory} that leave the index, because {corpus} does not have them: {len(leaving):,}; "
                "pass add=True to keep them",
                stacklevel=2,
            )
        if add and id_column and old_ids:
            leaving = index.choose({id_column: [row.columns[id_column] for row in new.values()]}).tolist()
        texts = {database.compute_key(digest, row.text): row.text for row in new.values()}
        counts = index.encode(texts, lambda some: model.encode_documents(some, batch_tokens), progress)
        stored = stored or (old.stored if old else "float32")
        settings = Settings(_make_absolute(preset), digest, text_column, stored, model.similarity, model.width)
        index.execute("BEGIN IMMEDIATE")
        index.remove(leaving)
        index.add(new, settings)
        _commit(index, directory, settings, old, is_longer=not leaving, is_same=not (leaving or new))
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
        ValueError: the index is damaged, no row has such a column, or no row would be left.
        BlockingIOError: another process is writing into the directory.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "pets.csv").write_text("id,text\\n7,a cat\\n8,income tax\\n")
        >>> _ = build_index(folder / "pets.csv", folder / "index")
        >>> remove_rows(folder / "index", {"id": 8})
        1
    """
    neighbours.check_installed()
    directory = Path(directory)
    with database.reading(directory):  # raises before the directory is locked
        pass
    with files.only_writer(directory), database.writing(directory / database.NAME) as index:
        settings = index.settings()
        assert settings is not None  # `reading` raises without settings
        index.execute("BEGIN IMMEDIATE")
        leaving = index.choose(where).tolist()
        if len(leaving) == len(index):
            raise ValueError(f"none would remain of {counted(leaving, 'row')} of {directory}; remove the directory")
        index.remove(leaving)
        _commit(index, directory, settings, settings, is_longer=False, is_same=not leaving)
    return len(leaving)


def _commit(
    index: Database, directory: Path, settings: Settings, old: Settings | None, is_longer: bool, is_same: bool
) -> None:
    """Ends a change: a search reads the new rows, with their nearest neighbours, from now on."""
    version = old.version if old and is_same else secrets.randbits(60)
    index.write_settings(settings._replace(version=version))
    if not (old and is_same):
        index.execute("DELETE FROM vectors WHERE id NOT IN (SELECT vector FROM rows)")
        base = Neighbours.open(directory, old, mapped=False) if old and is_longer else None
        neighbours.make_neighbours(index, settings, base).write(directory, version)
    index.execute("COMMIT")
    neighbours.remove_other_versions(directory, version)


def _check_ids(corpus: str | Path, rows: Iterable[CorpusRow], column: str | None) -> None:
    """Raises ValueError if a row has no id in this column, or that of another row."""
    lines: dict[str, int] = {}
    if column is None:
        return
    for row in rows:
        if (value := row.columns.get(column)) is None:
            raise ValueError(f"{corpus}, line {row.line}: no {column!r}; each row needs an id")
        if (first := lines.setdefault(str(value), row.line)) != row.line:
            raise ValueError(f"{corpus} has {column} {value!r} twice, in lines {first} and {row.line}")


def _make_absolute(preset: str | Path) -> str:
    """Makes the path of a preset absolute, so that it does not depend on the working directory."""
    return str(Path(preset).absolute()) if Path(preset).is_dir() else str(preset)


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
