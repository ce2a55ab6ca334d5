"""Builds an index of a corpus in a directory. Vectors go into a growing file, so that no work is repeated."""

from __future__ import annotations

import hashlib
import json
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from keras_bert import files
from keras_bert.choices import STORED
from keras_bert.data.tables import read_corpus
from keras_bert.progress import progress_bar
from keras_bert.search import neighbours, search_model
from keras_bert.search.index_files import IndexRows, Manifest, find_manifest, read_index, write_manifest, write_rows
from keras_bert.search.neighbours import Neighbours
from keras_bert.search.search_model import SearchModel

_KEY_BYTES = 16
TEXTS_AT_A_TIME = 2048  # texts to encode before their vectors are written: the most that an interruption loses


def compute_key(content: bytes) -> bytes:
    """Computes a short digest that stands for a text or a row."""
    return hashlib.blake2b(content, digest_size=_KEY_BYTES).digest()


class EncodedTexts:
    """A file of vectors, by the keys of their texts; incomplete and damaged vectors are ignored."""

    def __init__(self, path: Path, width: int) -> None:
        self.path, self.width = path, width
        key_and_vector = [("key", f"V{_KEY_BYTES}"), ("vector", "<f4", (width,))]
        self._entry_type = np.dtype([("checked", key_and_vector), ("checksum", "<u4")])
        self._file = open(path, "ab")  # noqa: SIM115  stays open with the object
        self._file.truncate(self._file.tell() // self._entry_type.itemsize * self._entry_type.itemsize)
        self._count = self._file.tell() // self._entry_type.itemsize
        self._numbers: dict[bytes, int] = {}  # key -> number of the entry
        for number, entry in enumerate(self._entries() if self._count else ()):
            if zlib.crc32(entry["checked"].tobytes()) == entry["checksum"]:
                self._numbers[entry["checked"]["key"].item()] = number

    def __contains__(self, key: bytes) -> bool:
        return key in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, keys: list[bytes], vectors: np.ndarray) -> None:
        """Adds vectors, float32 `[keys, width]`, and writes them to the file at once."""
        entries = np.empty(len(keys), self._entry_type)
        entries["checked"]["key"] = np.frombuffer(b"".join(keys), f"V{_KEY_BYTES}")
        entries["checked"]["vector"] = vectors
        entries["checksum"] = [zlib.crc32(each.tobytes()) for each in entries["checked"]]
        self._file.write(entries.tobytes())
        self._file.flush()
        self._numbers.update({key: number for number, key in enumerate(keys, start=self._count)})
        self._count += len(keys)

    def encode(
        self,
        texts: Mapping[bytes, str],
        encode: Callable[[list[str]], tuple[np.ndarray, int]],
        progress: bool | None = None,
    ) -> dict[str, int]:
        """Adds the vectors of texts that are not in the file yet; counts those `encoded` and `truncated`."""
        new_keys = [key for key in texts if key not in self]
        total_truncated = 0
        done = len(texts) - len(new_keys)
        with progress_bar(len(texts), "texts", progress, done) as bar:
            for first in range(0, len(new_keys), TEXTS_AT_A_TIME):
                keys = new_keys[first : first + TEXTS_AT_A_TIME]
                vectors, truncated = encode([texts[key] for key in keys])
                self.add(keys, vectors)
                total_truncated += truncated
                bar.update(len(keys))
        return {"encoded": len(new_keys), "truncated": total_truncated}

    def vectors(self, keys: Iterable[bytes]) -> np.ndarray:
        """Reads the vectors of texts by their keys, float32 `[keys, width]`."""
        return self._entries()["checked"]["vector"][[self._numbers[key] for key in keys]]

    def close(self) -> None:
        self._file.close()

    def _entries(self) -> np.memmap:
        return np.memmap(self.path, self._entry_type, "r")


_UNFINISHED = "encoded-*.bin"


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
) -> dict[str, int]:
    """Makes or updates an index of a corpus, for `TextIndex`.

    The index then has each row of the corpus once. Only new texts are encoded; after an interruption, the same call
    encodes the rest. Up to 100,000 rows, a search is exact. Beyond, it searches a graph of neighbours (HNSW), which
    misses about one hit in a hundred.

    Args:
        corpus: a table in any format of `keras_bert.data.read_table`; any other file has one text per line. It must fit
            into memory.
        directory: created if missing.
        preset: a preset of a sentence encoder, see `BertSentenceEncoder.from_preset`.
        text_column: the column of the texts.
        stored: how vectors are stored: "float32"; or "int8", which takes a quarter of the memory and changes
            similarities by less than 0.01. By default, as in the existing index, else "float32".
        add: whether to add the corpus to the rows of an existing index; else the corpus replaces them.
        batch_tokens: the most tokens in a batch, padding included; a longer text is a batch of its own.
        progress: whether to show a progress bar; by default on a terminal, elsewhere a line a minute.
        skip_bad: leave out rows without a text, with a warning that counts them, instead of raising.

    Warns:
        UserWarning: the number of rows that leave an existing index, because the corpus does not have them.

    Returns:
        Counts: `texts`, the texts in the index; `encoded`, those that this call encoded; and `truncated`, the encoded
        texts that exceed the model's maximum length.

    Raises:
        FileNotFoundError: there is no such file or preset.
        ValueError: the corpus has no texts, a row cannot be used, an argument is bad, or the directory holds an index
            that is damaged or of another model.
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
    rows = read_corpus(corpus, text_column, skip_bad)
    if not rows:
        raise ValueError(f"{corpus} has no texts")
    texts = {_convert_to_line(row.columns): row.text for row in rows}  # each row once
    read_index(directory, lambda manifest: None)  # raises before the model is loaded
    digest = search_model.load(preset)
    model = SearchModel(preset, digest)
    model.encode_documents([], batch_tokens)  # raises if batch_tokens is less than 1
    with files.only_writer(directory):
        manifest = read_index(directory, lambda manifest: manifest)
        _check_manifest(manifest, directory, str(preset), digest, text_column if add else None, stored)
        old = manifest and _OldIndex(directory, manifest)
        if old and add:
            texts = {**{line: json.loads(line)[text_column] for line in old.rows.lines()}, **texts}
        elif old and (missing := sum(line not in texts for line in old.rows.lines())):
            warnings.warn(
                f"rows of {directory} that leave the index, because {corpus} does not have them: {missing:,}; pass "
                "add=True to keep them",
                stacklevel=2,
            )
        keys = [compute_key(text.encode()) for text in texts.values()]
        encoded = EncodedTexts(directory / f"encoded-{digest[:16]}.bin", model.width)
        try:
            new_texts = {
                key: text for key, text in zip(keys, texts.values(), strict=True) if not (old and key in old.numbers)
            }
            counts = encoded.encode(new_texts, lambda some: model.encode_documents(some, batch_tokens), progress)
            stored = stored or (manifest.stored if manifest else "float32")
            version = manifest.version + 1 if manifest else 1
            new_manifest = Manifest(
                _make_absolute(preset), digest, text_column, stored, len(texts), version, model.similarity
            )
            _write_index(directory, new_manifest, list(texts), keys, model.width, old, encoded)
        finally:
            encoded.close()
        write_manifest(directory, new_manifest)
        for path in directory.glob(_UNFINISHED):
            path.unlink()
    return {"texts": len(texts), **counts}


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
    find_manifest(directory)  # raises before the directory is locked
    with files.only_writer(directory):
        manifest = read_index(directory, lambda manifest: manifest)
        assert manifest is not None  # `find_manifest` raises without a manifest
        old = _OldIndex(directory, manifest)
        removed = set(old.rows.matching(where).tolist())
        lines = [line for number, line in enumerate(old.rows.lines()) if number not in removed]
        if not lines:
            raise ValueError(
                f"all {len(removed):,} rows of {directory} match, and none would remain; remove the directory"
            )
        if removed:
            keys = [compute_key(json.loads(line)[manifest.text_column].encode()) for line in lines]
            new_manifest = replace(manifest, texts=len(lines), version=manifest.version + 1, bytes={}, checksums={})
            _write_index(directory, new_manifest, lines, keys, old.neighbours.width, old, None)
            write_manifest(directory, new_manifest)
    return len(removed)


class _OldIndex:
    """The existing index in a directory, and the row numbers of its texts by key."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.rows = IndexRows(directory / manifest.rows, directory / manifest.starts)
        self.path = directory / manifest.vectors
        self.neighbours = Neighbours.open(self.path)
        texts = (json.loads(line)[manifest.text_column] for line in self.rows.lines())
        self.numbers = {compute_key(text.encode()): number for number, text in enumerate(texts)}

    def begins(self, lines: Sequence[bytes]) -> bool:
        """Checks whether these rows begin with the rows of the index."""
        return len(self.rows) <= len(lines) and all(map(bytes.__eq__, self.rows.lines(), lines))


def _convert_to_line(columns: dict[str, object]) -> bytes:
    return f"{files.to_json_line(columns)}\n".encode()


def _make_absolute(preset: str | Path) -> str:
    """Makes the path of a preset absolute, so that it does not depend on the working directory."""
    return str(Path(preset).absolute()) if Path(preset).is_dir() else str(preset)


def _check_manifest(
    manifest: Manifest | None, directory: Path, preset: str, model: str, text_column: str | None, stored: str | None
) -> None:
    if manifest is None:
        return
    if manifest.model != model:
        raise ValueError(
            f"{directory} is an index of the model {manifest.preset}, not of {preset}; choose another directory"
        )
    if text_column not in (None, manifest.text_column):
        raise ValueError(f"the texts of {directory} are in the column {manifest.text_column!r}, not in {text_column!r}")
    if stored not in (None, manifest.stored):
        raise ValueError(f"{directory} stores vectors as {manifest.stored}, not as {stored}; choose another directory")


def _write_index(
    directory: Path,
    manifest: Manifest,
    lines: list[bytes],
    keys: list[bytes],
    width: int,
    old: _OldIndex | None,
    encoded: EncodedTexts | None,
) -> None:
    """Writes the files of an index, without its manifest. If the old index's rows come first, it is extended."""

    def blocks(first: int) -> Iterator[np.ndarray]:
        for start in range(first, len(keys), TEXTS_AT_A_TIME):
            yield _collect_vectors(keys[start : start + TEXTS_AT_A_TIME], width, old, encoded)

    is_exact = len(keys) <= neighbours.EXACT_UP_TO
    # The index to add to.
    base_index = old if old and old.neighbours.is_exact == is_exact and old.begins(lines) else None
    first = len(base_index.rows) if base_index else 0
    extremes = _compute_extremes(blocks(first), width) if manifest.stored == "int8" else None
    if base_index and (extremes is None or base_index.neighbours.holds(extremes)):
        index = Neighbours.open(base_index.path, mapped=False)
    else:
        index, first = Neighbours.empty(width, len(keys), manifest.stored, extremes, old and old.neighbours), 0
    for vectors in blocks(first):
        index.add(vectors)
    with files.written_whole(directory / manifest.vectors) as unfinished:
        index.write(unfinished)
    with (
        files.written_whole(directory / manifest.rows) as rows,
        files.written_whole(directory / manifest.starts) as starts,
    ):
        write_rows(lines, rows, starts)


def _compute_extremes(blocks: Iterator[np.ndarray], width: int) -> np.ndarray:
    """Computes the lowest and the highest value of each coordinate, float32 `[2, width]`."""
    extremes = np.stack([np.full(width, np.inf, np.float32), np.full(width, -np.inf, np.float32)])
    for vectors in blocks:
        np.minimum(extremes[0], vectors.min(axis=0), out=extremes[0])
        np.maximum(extremes[1], vectors.max(axis=0), out=extremes[1])
    return extremes


def _collect_vectors(keys: list[bytes], width: int, old: _OldIndex | None, encoded: EncodedTexts | None) -> np.ndarray:
    """Collects the vectors of texts by their keys from both files, float32 `[keys, width]`."""
    in_old = np.array([bool(old and key in old.numbers) for key in keys])
    vectors = np.empty((len(keys), width), np.float32)
    if old is not None and in_old.any():
        numbers = [old.numbers[key] for key, is_in_old in zip(keys, in_old, strict=True) if is_in_old]
        vectors[in_old] = old.neighbours.vectors(np.array(numbers))
    if not in_old.all():
        assert encoded is not None  # it has the vectors that the old index lacks
        vectors[~in_old] = encoded.vectors(key for key, is_in_old in zip(keys, in_old, strict=True) if not is_in_old)
    return vectors
