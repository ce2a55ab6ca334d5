"""The file of an index: a SQLite database of rows, texts and vectors, which each change leaves whole."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import itertools
import json
import os
import re
import sqlite3
import unicodedata
import zlib
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
_ROWS_AT_A_TIME = 50_000  # rows whose postings are in memory
_APPLICATION, _FORMAT = 0x4B426978, 2
# A posting lists the ids of rows, int32, whose cell in a column means a value. If that is no text, but the cell is one,
# `text` has it, else "". The words of a text are values of the column x'', and list a row once for each occurrence.
# It takes the place of SQLite's full-text search: the SQLite that TensorFlow brings, and which Python uses in its place
# if TensorFlow was imported first, lacks that.
_SCHEMA = (
    "CREATE TABLE settings (preset, model, text_column, stored, width, version)",
    "CREATE TABLE vectors (id INTEGER PRIMARY KEY, key BLOB, vector BLOB, checksum INTEGER)",
    "CREATE TABLE rows (id INTEGER PRIMARY KEY, key BLOB, vector INTEGER, words INTEGER, text TEXT, cells TEXT)",
    "CREATE TABLE postings (column, value, text, first INTEGER, rows BLOB, PRIMARY KEY (column, value, text, first)) "
    "WITHOUT ROWID",
)
_WORDS = b""  # the column of words
_WORD = re.compile(r"[\u3040-\u9fff]|[^\W\u3040-\u9fff]+")  # as in a BERT, a Chinese or Japanese character is one
_Term = tuple[str | bytes, filters.Meaning, str]  # column, value, text


class Settings(NamedTuple):
    """What an index is of."""

    preset: str  # the handle of the model
    model: str  # its digest
    text_column: str
    stored: str  # how the nearest neighbours hold vectors, "float32" or "int8"
    width: int  # of a vector
    version: int = 0  # a number drawn for each change


class Row(NamedTuple):
    """A row, as the file has it."""

    text: str
    cells: str  # in JSON by column, without the text

    @classmethod
    def of(cls, row: CorpusRow, text_column: str) -> Row:
        return cls(row.text, files.to_json_line({**row.columns, text_column: None}))

    @property
    def key(self) -> bytes:
        return compute_key(self.cells, self.text)

    def columns(self, text_column: str) -> dict[str, Any]:
        return {**json.loads(self.cells), text_column: self.text}


def compute_key(*parts: str) -> bytes:
    """Computes a short digest that stands for a text or a row."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).digest()


def find_words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


class Database:
    """An open database. Rows have rising ids; a vector without a row is of a build that is not complete."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.execute, self.executemany, self.path = connection.execute, connection.executemany, path

    def settings(self) -> Settings | None:
        """Reads the settings; None if no build has been completed."""
        if (row := self.execute("SELECT * FROM settings").fetchone()) is None:
            return None
        kinds = (str, str, str, str, int, int)
        if not all(map(isinstance, row, kinds)) or Settings(*row).stored not in STORED:
            raise damaged_error(self.path, f"settings {row}")
        return Settings(*row)

    def write_settings(self, settings: Settings) -> None:
        self.execute("DELETE FROM settings")
        self.execute("INSERT INTO settings VALUES (?, ?, ?, ?, ?, ?)", settings)

    # -- Vectors, by the keys of their texts.

    def encode(
        self,
        texts: Mapping[bytes, str],
        encode: Callable[[list[str]], tuple[np.ndarray, int]],
        progress: bool | None = None,
    ) -> dict[str, int]:
        """Adds the vectors of texts that have none yet, some at a time; counts those `encoded` and `truncated`."""
        present = self._vector_ids()
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
        ids, select = self._vector_ids(), "SELECT vector, checksum FROM vectors WHERE id = ?"
        return self._join((self.execute(select, (ids[key],)).fetchone() for key in keys), width)

    def vectors_of_rows(self, width: int, first: int = 0) -> Iterator[np.ndarray]:
        """Yields the vectors of the rows from the one with the number `first`, float32 `[some rows, width]`."""
        select = "SELECT vectors.vector, checksum FROM rows JOIN vectors ON vectors.id = rows.vector"
        found = self.execute(f"{select} ORDER BY rows.id LIMIT -1 OFFSET ?", (first,))
        while entries := found.fetchmany(TEXTS_AT_A_TIME):
            yield self._join(entries, width)

    def _vector_ids(self) -> dict[bytes, int]:
        return dict(self.execute("SELECT key, id FROM vectors"))

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

    def ids_and_words(self) -> tuple[np.ndarray, np.ndarray]:
        """Reads the ids of all rows, rising, and the numbers of their words."""
        found = self.execute("SELECT id, words FROM rows ORDER BY id").fetchall()
        try:
            ids, words = np.array(found, np.int32).reshape(-1, 2).T
        except (TypeError, ValueError, OverflowError):
            raise damaged_error(self.path, "a row has changed") from None
        return ids, words

    def row(self, number: int) -> Row:
        """Reads the row with this id."""
        found = self.execute("SELECT key, text, cells FROM rows WHERE id = ?", (number,)).fetchone()
        key, text, cells = found or (None, None, None)
        if not (isinstance(text, str) and isinstance(cells, str) and Row(text, cells).key == key):
            raise damaged_error(self.path, f"row {number:,} has changed")
        return Row(text, cells)

    def add(self, rows: Iterable[Row], settings: Settings) -> None:
        """Adds rows, in this order; their texts have vectors."""
        vectors = self._vector_ids()
        (last,) = self.execute("SELECT coalesce(max(id), 0) FROM rows").fetchone()
        numbered = enumerate(rows, start=last + 1)
        while block := dict(itertools.islice(numbered, _ROWS_AT_A_TIME)):
            postings, words = _make_postings(block, settings.text_column)
            entries = (
                (number, row.key, vectors[compute_key(settings.model, row.text)], words[number], *row)
                for number, row in block.items()
            )
            self.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", entries)
            parts = ((*term, numbers[0], _to_bytes(numbers)) for term, numbers in postings.items())
            self.executemany("INSERT INTO postings VALUES (?, ?, ?, ?, ?)", parts)

    def remove(self, ids: Iterable[int], text_column: str) -> None:
        """Removes the rows with these ids."""
        rows = {number: self.row(number) for number in ids}
        one = "column = ? AND value = ? AND text = ?"
        for term, numbers in _make_postings(rows, text_column)[0].items():
            for first, content in self.execute(f"SELECT first, rows FROM postings WHERE {one}", term).fetchall():
                left = self._read_ids([content])
                left = left[~np.isin(left, numbers)]
                self.execute(f"UPDATE postings SET rows = ? WHERE {one} AND first = ?", (_to_bytes(left), *term, first))
        self.execute("DELETE FROM postings WHERE rows = x''")
        self.executemany("DELETE FROM rows WHERE id = ?", ((number,) for number in rows))

    def choose(self, where: Mapping[str, object]) -> np.ndarray:
        """Finds the rows that match a filter, and returns their ids, rising."""
        if not where:
            raise ValueError("where is empty; expected a column and its value, such as {'id': '7'}")
        chosen = []
        for name, values in where.items():
            if not self.execute("SELECT 1 FROM postings WHERE column = ? LIMIT 1", (name,)).fetchone():
                columns = self.execute("SELECT DISTINCT column FROM postings ORDER BY column")
                raise missing_column_error("the index", name, [column for (column,) in columns if column != _WORDS])
            chosen.append(np.unique(self._find_ids(name, filters.conditions(name, values))))
        return functools.reduce(np.intersect1d, chosen)

    def ids_of_word(self, word: str) -> np.ndarray:
        """Finds the rows whose texts have a word: their ids, once for each occurrence."""
        return self._find_ids(_WORDS, [("value = ?", [word])])

    def _find_ids(self, column: str | bytes, conditions: Iterable[tuple[str, list[Any]]]) -> np.ndarray:
        select = "SELECT rows FROM postings WHERE column = ? AND"
        found = (self.execute(f"{select} {condition}", [column, *values]) for condition, values in conditions)
        return self._read_ids(content for contents in found for (content,) in contents)

    def _read_ids(self, contents: Iterable[bytes]) -> np.ndarray:
        try:
            return np.frombuffer(b"".join(contents), "<i4")
        except (TypeError, ValueError):
            raise damaged_error(self.path, "a list of rows has changed") from None


def _make_postings(rows: Mapping[int, Row], text_column: str) -> tuple[dict[_Term, list[int]], dict[int, int]]:
    """Lists the ids of rows by what their cells mean, and by their words, which it counts in each row."""
    postings: dict[_Term, list[int]] = {}
    words = {}
    for number, row in rows.items():
        terms: list[_Term] = [(_WORDS, word, "") for word in find_words(row.text)]
        words[number] = len(terms)
        for column, cell in row.columns(text_column).items():
            meaning = filters.meaning(cell)
            is_exact = isinstance(cell, str) and not isinstance(meaning, str)
            terms.append((column, meaning, cell if is_exact else ""))
        for term in terms:
            postings.setdefault(term, []).append(number)
    return postings, words


def _to_bytes(ids: Sequence[int] | np.ndarray) -> bytes:
    return np.asarray(ids, "<i4").tobytes()


# -- Opening and closing.


@contextlib.contextmanager
def reading(directory: Path, whole: bool = False) -> Iterator[tuple[Database, Settings]]:
    """Opens an index for a block, which sees one state of it; `whole` checks each page of the file.

    Raises FileNotFoundError if there is no complete index, and ValueError if it is damaged or something else.
    """
    path, missing = directory / NAME, f"{directory} holds no complete {NAME}; index a corpus there, to the end"
    if not path.is_file():
        raise FileNotFoundError(missing)
    for each in directory.glob(f"{NAME}-*"):  # SQLite would wait for a pipe
        with contextlib.suppress(FileNotFoundError):  # another process has just removed it
            files.check_regular(each)
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
def writing(path: Path | None) -> Iterator[Database]:
    """Opens a database for a block that writes, created if missing. What the block has not committed is undone.

    Without a path, the file is temporary.
    """
    with _connected(path, "mode=rwc") as database:
        if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            database.execute("PRAGMA page_size = 16384")  # holds several vectors
            database.execute("PRAGMA journal_mode = WAL")
            marks = f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {_FORMAT}"
            for statement in ("BEGIN", *_SCHEMA, *marks, "COMMIT"):
                database.execute(statement)
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA cache_size = -100000")
        _check(database, whole=True)
        yield database


@contextlib.contextmanager
def _connected(path: Path | None, mode: str) -> Iterator[Database]:
    try:
        uri = f"file:{quote(str(path.absolute())) if path else ''}?{mode}"
        with contextlib.closing(sqlite3.connect(uri, timeout=60, isolation_level=None, uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            yield Database(connection, path or Path())
    except sqlite3.OperationalError as error:
        raise OSError(errno.EIO, f"SQLite {sqlite3.sqlite_version}: {error}", str(path)) from error
    except sqlite3.DatabaseError as error:
        raise damaged_error(path or Path(), error) from error


def _check(database: Database, whole: bool) -> None:
    """Raises ValueError if a file is not an index of this format, or, checking the `whole` file, is damaged."""
    marks = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    if marks[0] != _APPLICATION:
        raise ValueError(f"{database.path} is a database of another program; choose another directory")
    parts = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
    if marks[1] != _FORMAT or {sql for (sql,) in parts} != set(_SCHEMA):
        raise ValueError(f"{database.path} is an index of another version, or was changed; index the corpus again")
    if whole and (problem := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise damaged_error(database.path, problem)


def damaged_error(path: Path, problem: object) -> ValueError:
    reason = " ".join(str(problem).split())
    return ValueError(f"{path} is damaged ({reason}); remove {path.parent} and index the corpus again")
