"""The file of an index: a SQLite database of rows, texts and vectors, which each change leaves whole."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import itertools
import json
import marshal
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
from keras_bert.data.examples import check_characters
from keras_bert.data.tables import CorpusRow, missing_column_error
from keras_bert.progress import progress_bar
from keras_bert.search import filters

NAME = "index.db"
TEXTS_AT_A_TIME = 2048  # texts to encode before their vectors are written: the most that an interruption loses
_ROWS_AT_A_TIME = 50_000  # rows whose postings are in memory
_APPLICATION, _FORMAT = 0x4B426978, 3
# A posting lists the ids of rows, int32, whose cell in a column means a value. If that is no text, but the cell is one,
# `text` has it, else "". The words of a text are values of the column x'', and list a row once for each occurrence.
# It takes the place of SQLite's full-text search: the SQLite that TensorFlow brings, and which Python uses in its place
# if TensorFlow was imported first, lacks that. In the column x'00', values are tokens, and an entry of `rows` is a row
# and its weight of the token. The digest is that of all else but the vectors, which have checksums,
# and the texts and cells of rows, for which their keys stand.
_SCHEMA = (
    "CREATE TABLE settings (preset, model, text_column, stored, width, version, digest)",
    "CREATE TABLE vectors (id INTEGER PRIMARY KEY, key BLOB, vector BLOB, checksum INTEGER)",
    "CREATE TABLE rows (id INTEGER PRIMARY KEY, key BLOB, vector INTEGER, words INTEGER, text TEXT, cells TEXT)",
    "CREATE TABLE postings (column, value, text, first INTEGER, rows BLOB, PRIMARY KEY (column, value, text, first)) "
    "WITHOUT ROWID",
)
_OLD_FORMAT = 2  # had other meanings and words, and no digest
_OLD_SCHEMA = (_SCHEMA[0].replace(", digest", ""), *_SCHEMA[1:])
_SETTINGS = "SELECT preset, model, text_column, stored, width, version FROM settings"
_WORDS, _TOKENS = b"", b"\0"  # the columns of words and of weighted tokens
WEIGHT = np.dtype([("token", "<i4"), ("row", "<i4"), ("weight", "<f4")])
_ENTRY = np.dtype(WEIGHT.descr[1:])
# Scripts without spaces between words: Chinese, Japanese, Thai, Lao, Myanmar, Khmer, and those of other Tai languages.
# As in a BERT, a character, with the marks on it, is a word.
_ASCII_WORD = re.compile(r"\w+", re.ASCII)
_UNSPACED = (
    r"\u3040-\u9fff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"
)
_Term = tuple[str | bytes, filters.Meaning, str]  # column, value, text
Encode = Callable[[list[str]], tuple[Iterable[np.ndarray], int]]  # to an array of each, and how many were truncated
Found = Iterable[tuple[np.ndarray, np.ndarray]]  # of each query: the highest similarities, falling, and rows' numbers
_DIGESTED = (  # what the digest is of, in this order
    _SETTINGS,
    "SELECT id, key, vector, words FROM rows ORDER BY id",
    "SELECT * FROM postings ORDER BY column, value, text, first",
)


class Settings(NamedTuple):
    """What an index is of."""

    preset: str  # the handle of the model
    model: str  # its digest
    text_column: str
    stored: str  # how a search holds vectors: one of `Representation.STORED`
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
    """Splits a text into words, without case, with their combining marks."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    word, ignored = _word_pattern()
    text = unicodedata.normalize("NFKC", text).replace("İ", "i").casefold()  # by itself, it would become i and a dot
    if not ignored.isdisjoint(text):
        text = "".join(each for each in text if each not in ignored)
    return word.findall(unicodedata.normalize("NFKC", text))


@functools.cache
def _word_pattern() -> tuple[re.Pattern, frozenset[str]]:
    """Compiles the pattern of words, and lists what is left out of them, such as soft hyphens and joiners."""
    categories = {chr(each): unicodedata.category(chr(each)) for each in (*range(0x20000), *range(0xE0000, 0xE0200))}
    # Two sets: `re` looks up a character up to U+FFFF in a table, but searches for others one by one.
    marks, more_marks = (
        "".join(each for each in categories if categories[each][0] == "M" and (each > "\uffff") == is_beyond)
        for is_beyond in (False, True)
    )
    is_unspaced = re.compile(f"[{_UNSPACED}]").match
    letters = "".join(
        each for each in map(chr, range(0x10000)) if each.isdecimal() or (each.isalnum() and not is_unspaced(each))
    )
    spaced = rf"(?:[_{letters}{marks}]+|[^\W\u0000-\uffff{_UNSPACED}]|[{more_marks}])+"
    word = rf"(?!\d)(?=\w)[{_UNSPACED}][{marks}]*|(?=\w){spaced}"
    formats = {each for each in categories if categories[each] == "Cf"} - {"\u200b"}  # that is a space
    return re.compile(word), frozenset({*formats, *map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))})


class Database:
    """An open database. Rows have rising ids; a vector without a row is of a build that is not complete."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.execute, self.executemany, self.path = connection.execute, connection.executemany, path

    def is_new(self) -> bool:
        return not self.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]

    def settings(self) -> Settings | None:
        """Reads the settings; None if no build has been completed."""
        if (row := self.execute(_SETTINGS).fetchone()) is None:
            return None
        if not all(map(isinstance, row, (str, str, str, str, int, int))):
            raise damaged_error(self.path, f"settings {row}")
        return Settings(*row)

    def write_settings(self, settings: Settings) -> None:
        """Writes the settings, after all other changes: with the digest of what they make."""
        self.execute("DELETE FROM settings")
        self.execute("INSERT INTO settings VALUES (?, ?, ?, ?, ?, ?, NULL)", settings)
        self.execute("UPDATE settings SET digest = ?", (self._compute_digest(),))

    def check(self) -> None:
        """Raises ValueError if a page, or anything that the digest stands for, has changed."""
        if (problem := self.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise damaged_error(self.path, problem)
        digests = self.execute("SELECT digest FROM settings").fetchall()  # none before a build is complete
        if digests and digests != [(self._compute_digest(),)]:
            raise damaged_error(self.path, "its rows or settings have changed")

    def _compute_digest(self) -> bytes:
        digest = hashlib.blake2b(digest_size=16)
        for select in _DIGESTED:
            found = self.execute(select)
            while block := found.fetchmany(TEXTS_AT_A_TIME):
                parts = map(marshal.dumps, block, itertools.repeat(0))  # the format 0: the same in each Python
                digest.update(b"".join(parts))
        return digest.digest()

    # -- Vectors, by the keys of their texts.

    def encode(self, texts: Mapping[bytes, str], encode: Encode, progress: bool | None = None) -> dict[str, int]:
        """Adds vectors, float32 or float16, of texts that have none yet; counts those `encoded` and `truncated`."""
        present = self.vector_ids()
        new_keys = [key for key in texts if key not in present]
        total_truncated = 0
        with progress_bar(len(texts), "texts", progress, len(texts) - len(new_keys)) as bar:
            for first in range(0, len(new_keys), TEXTS_AT_A_TIME):
                keys = new_keys[first : first + TEXTS_AT_A_TIME]
                vectors, truncated = encode([texts[key] for key in keys])
                contents = [
                    np.asarray(each, "<f2" if each.dtype == np.float16 else "<f4").tobytes() for each in vectors
                ]
                entries = zip(keys, contents, map(zlib.crc32, contents), strict=True)
                self.execute("BEGIN")
                self.executemany("INSERT INTO vectors (key, vector, checksum) VALUES (?, ?, ?)", entries)
                self.execute("COMMIT")
                total_truncated += truncated
                bar.update(len(keys))
        return {"encoded": len(new_keys), "truncated": total_truncated}

    def vectors(self, keys: Iterable[bytes], width: int) -> np.ndarray:
        """Reads the vectors of texts by their keys, float32 `[keys, width]`."""
        ids, select = self.vector_ids(), "SELECT vector, checksum FROM vectors WHERE id = ?"
        return self._join([self._checked(*self.execute(select, (ids[key],)).fetchone()) for key in keys], width)

    def vectors_of_rows(self, width: int, first: int = 0) -> Iterator[np.ndarray]:
        """Yields the vectors of the rows from the one with the number `first`, float32 `[some rows, width]`."""
        return (self._join(contents, width) for contents in self.contents_of_rows(first))

    def contents_of_rows(self, first: int = 0) -> Iterator[list[bytes]]:
        """Yields the vectors of the rows from the one with the number `first`, some at a time, as bytes."""
        select = "SELECT vectors.vector, checksum FROM rows JOIN vectors ON vectors.id = rows.vector"
        found = self.execute(f"{select} ORDER BY rows.id LIMIT -1 OFFSET ?", (first,))
        while entries := found.fetchmany(TEXTS_AT_A_TIME):
            yield list(itertools.starmap(self._checked, entries))

    def contents_of(self, ids: Iterable[int]) -> Iterator[bytes]:
        """Yields the vectors of the rows with these ids, as bytes."""
        select = "SELECT vectors.vector, checksum FROM rows JOIN vectors ON vectors.id = rows.vector WHERE rows.id = ?"
        return (self._checked(*(self.execute(select, (each,)).fetchone() or (None, None))) for each in ids)

    def vector_ids(self) -> dict[bytes, int]:
        return dict(self.execute("SELECT key, id FROM vectors"))

    def _checked(self, content: object, checksum: object) -> bytes:
        if not isinstance(content, bytes) or len(content) % 2 or zlib.crc32(content) != checksum:
            raise damaged_error(self.path, "a vector has changed")
        return content

    def _join(self, contents: list[bytes], width: int) -> np.ndarray:
        if any(len(content) != 4 * width for content in contents):
            raise damaged_error(self.path, "a vector has changed")
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

    def row_ids(self) -> dict[bytes, int]:
        """Reads the ids of all rows by their keys."""
        return dict(self.execute("SELECT key, id FROM rows"))

    def row(self, number: int) -> Row:
        """Reads the row with this id."""
        found = self.execute("SELECT key, text, cells FROM rows WHERE id = ?", (number,)).fetchone()
        key, text, cells = found or (None, None, None)
        if not (isinstance(text, str) and isinstance(cells, str) and Row(text, cells).key == key):
            raise damaged_error(self.path, f"row {number:,} has changed")
        return Row(text, cells)

    def add(self, rows: Iterable[Row], settings: Settings) -> None:
        """Adds rows, in this order; their texts have vectors."""
        vectors = self.vector_ids()
        (last,) = self.execute("SELECT coalesce(max(id), 0) FROM rows").fetchone()
        numbered = enumerate(rows, start=last + 1)
        while block := dict(itertools.islice(numbered, _ROWS_AT_A_TIME)):
            words = self._add_postings(block, settings.text_column)
            entries = (
                (number, row.key, vectors[compute_key(settings.model, row.text)], words[number], *row)
                for number, row in block.items()
            )
            self.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", entries)

    def _add_postings(self, rows: Mapping[int, Row], text_column: str) -> dict[int, int]:
        """Adds the postings of rows by id, and returns the numbers of their words."""
        postings, words = _make_postings(rows, text_column)
        parts = ((*term, numbers[0], _to_bytes(numbers)) for term, numbers in postings.items())
        self.executemany("INSERT INTO postings VALUES (?, ?, ?, ?, ?)", parts)
        return words

    def upgrade(self) -> None:
        """Rewrites an index of the old format, in the transaction that is open; no text is encoded."""
        settings = self.settings()
        for name, statement in (("settings", _SCHEMA[0]), ("postings", _SCHEMA[-1])):
            self.execute(f"DROP TABLE {name}")
            self.execute(statement)
        self.execute(f"PRAGMA user_version = {_FORMAT}")
        if settings is None:
            return
        ids = iter(self.row_ids().values())
        while block := {number: self.row(number) for number in itertools.islice(ids, _ROWS_AT_A_TIME)}:
            words = self._add_postings(block, settings.text_column)
            self.executemany("UPDATE rows SET words = ? WHERE id = ?", ((words[each], each) for each in block))
        self.write_settings(settings)

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
        if not isinstance(where, Mapping):
            raise TypeError(
                f"where is {where!r:.60}; expected a dict of columns and their values, such as {{'id': '7'}}"
            )
        if not where:
            raise ValueError("where is empty; expected a column and its value, such as {'id': '7'}")
        return functools.reduce(np.intersect1d, [np.unique(self._find(name, where[name])) for name in where])

    def _find(self, column: str, values: object) -> np.ndarray:
        """Finds the ids of the rows whose cell in a column equals a value, or is in a range."""
        is_name = isinstance(column, str) and check_characters(column, f"the column {column!a}") == column
        if not is_name or not self.execute("SELECT 1 FROM postings WHERE column = ? LIMIT 1", (column,)).fetchone():
            columns = self.execute("SELECT DISTINCT column FROM postings ORDER BY column")
            raise missing_column_error("the index", column, [each for (each,) in columns if isinstance(each, str)])
        if not isinstance(values, Mapping):
            return self._find_ids(column, filters.alternatives(values))
        kind, condition, limits = filters.limits_of(column, values)
        parts = {each: f"FROM postings WHERE column = ? AND {which}" for each, which in filters.KINDS.items()}
        present = [each for each in parts if self.execute(f"SELECT 1 {parts[each]} LIMIT 1", (column,)).fetchone()]
        if present != [kind]:
            count = "SELECT coalesce(sum(length(rows)) / 4, 0)"
            counts = {each: self.execute(f"{count} {parts[each]}", (column,)).fetchone()[0] for each in parts}
            filters.check_comparable(column, values, kind, counts)
        return self._find_ids(column, [(condition, limits)])

    def ids_of_word(self, word: str) -> np.ndarray:
        """Finds the rows whose texts have a word: their ids, once for each occurrence."""
        return self._find_ids(_WORDS, [("value = ?", [word])])

    def add_weights(self, weights: np.ndarray) -> None:
        """Adds weights of tokens in rows, of the type `WEIGHT`: all those of these rows."""
        weights = weights[np.lexsort((weights["row"], weights["token"]))]
        for part in np.split(weights, np.flatnonzero(np.diff(weights["token"])) + 1):
            token, row, _ = part[0].tolist()
            entries = part[["row", "weight"]].astype(_ENTRY).tobytes()
            self.execute("INSERT INTO postings VALUES (?, ?, '', ?, ?)", (_TOKENS, token, row, entries))

    def weights_of(self, token: int) -> tuple[np.ndarray, np.ndarray]:
        """Reads the rows that have a token, rising: their ids, and their weights of it."""
        found = self.execute(
            "SELECT rows FROM postings WHERE column = ? AND value = ? ORDER BY first", (_TOKENS, token)
        )
        entries = self._read_ids([content for (content,) in found], _ENTRY)
        return entries["row"], entries["weight"]

    def remove_weights(self, ids: Iterable[int]) -> None:
        """Removes all weights of the rows with these ids."""
        leaving = np.array(list(ids), np.int32)
        one = "column = ? AND value = ? AND first = ?"
        last = leaving.max(initial=0)
        chosen = self.execute(
            "SELECT column, value, first FROM postings WHERE column = ? AND first <= ?", (_TOKENS, int(last))
        )
        for posting in chosen.fetchall():
            ((content,),) = self.execute(f"SELECT rows FROM postings WHERE {one}", posting)
            entries = self._read_ids([content], _ENTRY)
            left = entries[~np.isin(entries["row"], leaving)]
            if len(left) < len(entries):
                self.execute(f"UPDATE postings SET rows = ? WHERE {one}", (left.tobytes(), *posting))
        self.execute("DELETE FROM postings WHERE rows = x''")

    def _find_ids(self, column: str | bytes, conditions: Iterable[tuple[str, list[Any]]]) -> np.ndarray:
        select = "SELECT rows FROM postings WHERE column = ? AND"
        found = (self.execute(f"{select} {condition}", [column, *values]) for condition, values in conditions)
        return self._read_ids([content for contents in found for (content,) in contents])

    def _read_ids(self, contents: list[bytes], kind: np.dtype | str = "<i4") -> np.ndarray:
        try:
            return np.frombuffer(b"".join(contents), kind)
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
            terms.append((column, *filters.term(cell)))
        for term in terms:
            postings.setdefault(term, []).append(number)
    return postings, words


def _to_bytes(ids: Sequence[int] | np.ndarray) -> bytes:
    return np.asarray(ids, "<i4").tobytes()


# -- Opening and closing.


@contextlib.contextmanager
def reading(directory: Path, whole: bool = False, may_be_old: bool = False) -> Iterator[tuple[Database, Settings]]:
    """Opens an index for a block, which sees one state of it; `whole` checks each page of the file, and its digest."""
    # Raises FileNotFoundError if there is no complete index, and ValueError if it is damaged or something else, or of
    # the old format, which `writing` upgrades.
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
        if database.is_new():
            raise FileNotFoundError(missing)
        if _is_old(database) and not may_be_old:
            raise ValueError(
                f"{path} is an index of an older version; index the corpus again in {directory} to upgrade it: its "
                "vectors are kept, and no text is encoded twice"
            )
        if whole:
            database.check()
        if (settings := database.settings()) is None:
            raise FileNotFoundError(missing)
        yield database, settings


@contextlib.contextmanager
def writing(path: Path | None) -> Iterator[Database]:
    """Opens a file for a block that writes, created if missing, or a temporary one; undoes what is not committed."""
    if path:
        files.refuse_link(path)  # SQLite follows this one only
    with _connected(path, "mode=rwc") as database:
        if database.is_new():
            database.execute("PRAGMA page_size = 16384")  # holds several vectors
            database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA cache_size = -100000")
        database.execute("BEGIN IMMEDIATE")
        if database.is_new():
            marks = f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {_FORMAT}"
            for statement in (*_SCHEMA, *marks):
                database.execute(statement)
        elif _is_old(database):
            database.upgrade()
        database.check()
        database.execute("COMMIT")
        yield database


@contextlib.contextmanager
def _connected(path: Path | None, mode: str) -> Iterator[Database]:
    try:
        uri = f"file:{quote(os.fsencode(path.absolute())) if path else ''}?{mode}"
        with contextlib.closing(sqlite3.connect(uri, timeout=60, isolation_level=None, uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            yield Database(connection, path or Path())
    except sqlite3.OperationalError as error:
        if str(error).startswith("Could not decode"):  # a text that is not UTF-8
            raise damaged_error(path or Path(), error) from error
        raise OSError(errno.EIO, f"SQLite {sqlite3.sqlite_version}: {error}", str(path)) from error
    except sqlite3.DatabaseError as error:
        if type(error) not in (sqlite3.DatabaseError, sqlite3.IntegrityError):  # of the caller, such as a bad argument
            raise
        raise damaged_error(path or Path(), error) from error


def _is_old(database: Database) -> bool:
    """Checks whether an index has the old format. Raises ValueError if a file is no index, or has another format."""
    marks = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    if marks[0] != _APPLICATION:
        raise ValueError(f"{database.path} is a database of another program; choose another directory")
    is_old = marks[1] == _OLD_FORMAT
    parts = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
    if marks[1] not in (_FORMAT, _OLD_FORMAT) or {sql for (sql,) in parts} != set(_OLD_SCHEMA if is_old else _SCHEMA):
        raise ValueError(f"{database.path} is an index of another version, or was changed; index the corpus again")
    return is_old


def damaged_error(path: Path, problem: object) -> ValueError:
    reason = " ".join(str(problem).split())
    return ValueError(f"{path} is damaged ({reason}); remove {path.parent} and index the corpus again")
