"""The file of an index: a SQLite database of rows, texts and vectors, which each change leaves whole."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import os
import re
import sqlite3
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from keras_bert import files
from keras_bert.choices import STORED
from keras_bert.data.tables import CorpusRow, missing_column_error
from keras_bert.progress import progress_bar
from keras_bert.search import filters

NAME = "index.db"
TEXTS_AT_A_TIME = 2048  # texts to encode before their vectors are written: the most that an interruption loses
_APPLICATION, _FORMAT = 0x4B426978, 1
_SCHEMA = """
CREATE TABLE settings (preset, model, text_column, stored, similarity, width, version, words);
CREATE TABLE vectors (id INTEGER PRIMARY KEY, key BLOB UNIQUE, vector BLOB, checksum INTEGER);
CREATE TABLE rows (id INTEGER PRIMARY KEY, key BLOB UNIQUE, vector INTEGER, words INTEGER, text TEXT, cells TEXT);
CREATE TABLE cells (column TEXT, value, row INTEGER, text TEXT, PRIMARY KEY (column, value, row)) WITHOUT ROWID;
CREATE TABLE words (word TEXT, row INTEGER, count INTEGER, length INTEGER, PRIMARY KEY (word, row)) WITHOUT ROWID;
"""
_TEMPORARY = """
PRAGMA temp_store = MEMORY;
CREATE TEMP TABLE chosen (id INTEGER PRIMARY KEY);
CREATE TEMP TABLE wanted (filter INTEGER, value, text TEXT);
CREATE TEMP TABLE asked (word TEXT, rarity REAL);
"""
# A text equals the same text; a value of another type equals each text that means it.
_EQUAL = """
SELECT row FROM temp.wanted AS wanted CROSS JOIN cells ON cells.value = wanted.value
AND (wanted.text IS NULL OR coalesce(cells.text, wanted.text) = wanted.text) WHERE column = ? AND filter = ?
"""
# BM25, by the full-text index `words`: the one of SQLite itself is not in the SQLite that TensorFlow brings, and which
# Python uses in its place if TensorFlow was imported first.
_SCORED = """
SELECT row FROM temp.asked CROSS JOIN words USING (word) WHERE {}
GROUP BY row ORDER BY sum(rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / ?))) DESC, row LIMIT ?
"""
_WORD = re.compile(r"[\u3040-\u9fff]|[^\W\u3040-\u9fff]+")  # as in a BERT, a Chinese or Japanese character is one
_PARTS = "SELECT type, name, sql FROM sqlite_master"


class Settings(NamedTuple):
    """What an index is of."""

    preset: str  # the handle of the model
    model: str  # its digest
    text_column: str
    stored: str  # how the nearest neighbours hold vectors, "float32" or "int8"
    similarity: str  # of the model, "cosine" or "dot": the meaning of a product of vectors
    width: int  # of a vector
    version: int = 0  # a number drawn for each change
    words: float = 0  # of a row, on average


def compute_key(*parts: str) -> bytes:
    """Computes a short digest that stands for a text or a row."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).digest()


class Database:
    """An open database. Rows have rising ids; a vector without a row is of a build that is not complete."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.execute, self.executemany, self.path = connection.execute, connection.executemany, path

    def settings(self) -> Settings | None:
        """Reads the settings; None if no build has been completed."""
        if (row := self.execute("SELECT * FROM settings").fetchone()) is None:
            return None
        kinds = (str, str, str, str, str, int, int, float)
        if not all(map(isinstance, row, kinds)) or Settings(*row).stored not in STORED:
            raise damaged_error(self.path, f"settings {row}")
        return Settings(*row)

    def write_settings(self, settings: Settings) -> None:
        self.execute("DELETE FROM settings")
        self.execute(
            "INSERT INTO settings SELECT ?, ?, ?, ?, ?, ?, ?, total(words) / max(count(*), 1) FROM rows", settings[:-1]
        )

    # -- Vectors, by the keys of their texts.

    def encode(
        self,
        texts: Mapping[bytes, str],
        encode: Callable[[list[str]], tuple[np.ndarray, int]],
        progress: bool | None = None,
    ) -> dict[str, int]:
        """Adds the vectors of texts that have none yet, some at a time; counts those `encoded` and `truncated`."""
        present = {key for (key,) in self.execute("SELECT key FROM vectors")}
        new_keys = [key for key in texts if key not in present]
        total_truncated = 0
        with progress_bar(len(texts), "texts", progress, len(texts) - len(new_keys)) as bar:
            for first in range(0, len(new_keys), TEXTS_AT_A_TIME):
                keys = new_keys[first : first + TEXTS_AT_A_TIME]
                vectors, truncated = encode([texts[key] for key in keys])
                contents = [vector.tobytes() for vector in np.asarray(vectors, "<f4")]
                entries = zip(keys, contents, map(zlib.crc32, contents), strict=True)
                self.execute("BEGIN")
                self.executemany("INSERT INTO vectors (key, vector, checksum) VALUES (?, ?, ?)", entries)
                self.execute("COMMIT")
                total_truncated += truncated
                bar.update(len(keys))
        return {"encoded": len(new_keys), "truncated": total_truncated}

    def vectors(self, keys: Iterable[bytes], width: int) -> np.ndarray:
        """Reads the vectors of texts by their keys, float32 `[keys, width]`."""
        select = "SELECT vector, checksum FROM vectors WHERE key = ?"
        return self._join((self.execute(select, (key,)).fetchone() for key in keys), width)

    def vectors_of_rows(self, width: int, first: int = 0) -> Iterator[np.ndarray]:
        """Yields the vectors of the rows from the one with the number `first`, float32 `[some rows, width]`."""
        select = "SELECT vectors.vector, checksum FROM rows JOIN vectors ON vectors.id = rows.vector"
        found = self.execute(f"{select} ORDER BY rows.id LIMIT -1 OFFSET ?", (first,))
        while entries := found.fetchmany(TEXTS_AT_A_TIME):
            yield self._join(entries, width)

    def _join(self, entries: Iterable[Any], width: int) -> np.ndarray:
        contents = []
        for content, checksum in entries:
            if not isinstance(content, bytes) or len(content) != 4 * width or zlib.crc32(content) != checksum:
                raise damaged_error(self.path, "a vector has changed")
            contents.append(content)
        return np.frombuffer(b"".join(contents), "<f4").reshape(-1, width)

    # -- Rows.

    def __len__(self) -> int:
        return self.execute("SELECT count(*) FROM rows").fetchone()[0]

    def ids(self) -> np.ndarray:
        """Reads the ids of all rows, int64, rising."""
        return _to_array(self.execute("SELECT id FROM rows ORDER BY id"))

    def add(self, rows: Mapping[bytes, CorpusRow], settings: Settings) -> None:
        """Adds rows by key, in this order; their texts have vectors."""
        last = self.execute("SELECT coalesce(max(id), 0) FROM rows").fetchone()[0]
        for number, (key, row) in enumerate(rows.items(), start=last + 1):
            words, cells = Counter(_words(row.text)), json.loads(files.to_json_line(row.columns))
            total = sum(words.values())
            postings = ((word, number, count, total) for word, count in words.items())
            meanings = (
                (name, filters.meaning(cell), number, cell if isinstance(cell, str) else None)
                for name, cell in cells.items()
            )
            self.execute(
                "INSERT INTO rows SELECT ?, ?, id, ?, ?, ? FROM vectors WHERE key = ?",
                (
                    number,
                    key,
                    total,
                    row.text,
                    _without_text(row, settings.text_column),
                    compute_key(settings.model, row.text),
                ),
            )
            self.executemany("INSERT INTO words VALUES (?, ?, ?, ?)", postings)
            self.executemany("INSERT INTO cells VALUES (?, ?, ?, nullif(?4, ?2))", meanings)

    def remove(self, ids: Iterable[int]) -> None:
        """Removes the rows with these ids."""
        self.execute("DELETE FROM temp.chosen")
        self.executemany("INSERT INTO temp.chosen VALUES (?)", ((number,) for number in ids))
        chosen = "IN (SELECT id FROM temp.chosen)"
        texts = self.execute(f"SELECT id, text FROM rows WHERE id {chosen}").fetchall()
        postings = ((word, number) for number, text in texts for word in set(_words(text)))
        self.executemany("DELETE FROM words WHERE word = ? AND row = ?", postings)
        self.execute(f"DELETE FROM cells WHERE row {chosen}")
        self.execute(f"DELETE FROM rows WHERE id {chosen}")

    def row(self, number: int, text_column: str) -> tuple[str, dict[str, Any]]:
        """Reads the text and the cells of the row with this id."""
        found = self.execute("SELECT key, text, cells FROM rows WHERE id = ?", (number,)).fetchone()
        key, text, cells = found or (None, None, None)
        if not (isinstance(text, str) and isinstance(cells, str) and compute_key(cells, text) == key):
            raise damaged_error(self.path, f"row {number:,} has changed")
        return text, {**json.loads(cells), text_column: text}

    def choose(self, where: Mapping[str, object]) -> np.ndarray:
        """Finds the rows that match a filter, for `match` too, and returns their ids, int64, rising."""
        if not where:
            raise ValueError("where is empty; expected a column and its value, such as {'id': '7'}")
        selects, parameters = [], []
        self.execute("DELETE FROM temp.wanted")
        for number, (name, values) in enumerate(where.items()):
            if not self.execute("SELECT 1 FROM cells WHERE column = ? LIMIT 1", (name,)).fetchone():
                columns = self.execute("SELECT DISTINCT column FROM cells ORDER BY column")
                raise missing_column_error("the index", name, [column for (column,) in columns])
            alternatives, condition, limits = filters.conditions(name, values)
            self.executemany("INSERT INTO temp.wanted VALUES (?, ?, ?)", ((number, *each) for each in alternatives))
            selects.append(f"SELECT row FROM cells WHERE column = ? AND {condition}" if condition else _EQUAL)
            parameters += [name, *(limits or [number])]
        self.execute("DELETE FROM temp.chosen")
        self.execute(f"INSERT OR IGNORE INTO temp.chosen {' INTERSECT '.join(selects)}", parameters)
        return _to_array(self.execute("SELECT id FROM temp.chosen ORDER BY id"))

    def match(self, query: str, count: int, settings: Settings, only_chosen: bool) -> list[int]:
        """Finds the rows with words of a query, those of the highest BM25 first, and returns their ids."""
        size, words = len(self), dict.fromkeys(_words(query))
        having = {
            word: self.execute("SELECT count(*) FROM words WHERE word = ?", (word,)).fetchone()[0] for word in words
        }
        rarities = ((word, math.log(1 + (size - rows + 0.5) / (rows + 0.5))) for word, rows in having.items())
        self.execute("DELETE FROM temp.asked")
        self.executemany("INSERT INTO temp.asked VALUES (?, ?)", rarities)
        select = _SCORED.format("row IN (SELECT id FROM temp.chosen)" if only_chosen else "true")
        return [number for (number,) in self.execute(select, (settings.words, count))]


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _to_array(numbers: Iterable[tuple[int]]) -> np.ndarray:
    return np.fromiter((number for (number,) in numbers), np.int64)


def _without_text(row: CorpusRow, text_column: str) -> str:
    """Formats the cells of a row as JSON, without the text, which is stored beside it."""
    return files.to_json_line({**row.columns, text_column: None})


def key_of_row(row: CorpusRow, text_column: str) -> bytes:
    return compute_key(_without_text(row, text_column), row.text)


# -- Opening and closing.


@contextlib.contextmanager
def reading(directory: Path, whole: bool = False) -> Iterator[tuple[Database, Settings]]:
    """Opens an index for a block, which sees one state of it; `whole` checks each page of the file.

    Raises FileNotFoundError if there is no complete index, and ValueError if it is damaged or something else.
    """
    if (directory / "index.json").is_file():
        raise ValueError(
            f"{directory} holds an index of an older version, without {NAME}; remove it, and build it anew: keras-bert "
            f"index CORPUS --output {directory}"
        )
    path, missing = directory / NAME, f"{directory} holds no complete {NAME}; index a corpus there, to the end"
    if not path.is_file():
        raise FileNotFoundError(missing)
    # Where nothing can be written, such as in an image, SQLite cannot make the files that readers and writers share.
    is_fixed = not os.access(directory, os.W_OK) and not os.path.exists(f"{path}-wal")
    with _connected(path, "mode=ro&immutable=1" if is_fixed else "mode=ro") as database:
        database.execute("BEGIN")
        if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise FileNotFoundError(missing)
        _check(database, whole)
        if (settings := database.settings()) is None:
            raise FileNotFoundError(missing)
        yield database, settings


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Database]:
    """Opens a database for a block that writes, created if missing. What the block has not committed is undone."""
    with _connected(path, "mode=rwc") as database:
        if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            database.execute("PRAGMA page_size = 16384")  # holds several vectors
            database.execute("PRAGMA journal_mode = WAL")
            marks = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_FORMAT};"
            for statement in f"BEGIN; {_SCHEMA} {marks} COMMIT".split(";"):
                database.execute(statement)
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA cache_size = -100000")
        _check(database, whole=True)
        yield database


@contextlib.contextmanager
def _connected(path: Path, mode: str) -> Iterator[Database]:
    try:
        uri = f"file:{quote(str(path.absolute()))}?{mode}"
        with contextlib.closing(sqlite3.connect(uri, timeout=60, isolation_level=None, uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            connection.executescript(_TEMPORARY)
            yield Database(connection, path)
    except sqlite3.OperationalError as error:
        raise OSError(f"{path}: SQLite {sqlite3.sqlite_version}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise damaged_error(path, error) from error


def _check(database: Database, whole: bool) -> None:
    """Raises ValueError if a file is not an index of this format, or, checking the `whole` file, is damaged."""
    marks = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    if marks[0] != _APPLICATION:
        raise ValueError(f"{database.path} is a database of another program; choose another directory")
    if marks[1] != _FORMAT or set(database.execute(_PARTS)) != _expected_parts():
        raise ValueError(f"{database.path} is an index of another version, or was changed; index the corpus again")
    if whole and (problem := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise damaged_error(database.path, problem)


@functools.cache
def _expected_parts() -> set[Sequence[str]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_SCHEMA)
        return set(connection.execute(_PARTS))


def damaged_error(path: Path, problem: object) -> ValueError:
    reason = " ".join(str(problem).split())
    return ValueError(f"{path} is damaged ({reason}); remove {path.parent} and index the corpus again")
