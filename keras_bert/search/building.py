"""Builds an index of a corpus in a directory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_bert import atomic
from keras_bert.search import neighbours, search_model
from keras_bert.search.corpus_rows import read_corpus
from keras_bert.search.encoded_texts import TEXTS_AT_A_TIME, EncodedTexts, key_of
from keras_bert.search.index_record import IndexRecord, read_index, write_record
from keras_bert.search.index_rows import IndexRows, write_rows
from keras_bert.search.neighbours import Neighbours
from keras_bert.search.search_model import SearchModel

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
) -> dict[str, int]:
    """Makes or updates an index of a corpus, for `TextIndex`.

    The index then has each row of the corpus once. Only new texts are encoded; after an interruption, the same call
    encodes the rest. With up to 100,000 rows, a search is exact; with more, it searches a graph of neighbours (HNSW),
    which misses about one hit in a hundred.

    Args:
        corpus: CSV, TSV, JSON lines or Parquet, by its extension; any other file has one text per line. It must fit
            into memory.
        directory: created if missing.
        preset: a preset of a sentence encoder, see `BertSentenceEncoder.from_preset`.
        text_column: the column of the texts.
        stored: how vectors are stored: "float32"; or "int8", which takes a quarter of the memory and changes
            similarities by less than 0.01. By default, as in the existing index, else "float32".
        add: whether to keep the rows of the existing index, too.
        batch_tokens: the most tokens in a batch, padding included; a longer text is a batch of its own.
        progress: whether to show a progress bar; by default on a terminal.

    Returns:
        Counts: `texts`, in the index; `encoded`, by this call; and `cut`, the encoded texts that were cut to the
        model's maximum length.

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
        {'texts': 3, 'encoded': 3, 'cut': 0}
    """
    neighbours.check_installed()
    if stored not in (None, *neighbours.STORED):
        raise ValueError(f"stored is {stored!r}; expected {' or '.join(neighbours.STORED)}")
    directory = Path(directory)
    rows = read_corpus(corpus, text_column)
    if not rows:
        raise ValueError(f"{corpus} has no texts")
    texts = {_line(row.columns): row.text for row in rows}  # each row once
    read_index(directory, lambda record: None)  # raises before the model is loaded
    digest = search_model.load(preset)
    model = SearchModel(preset, digest)
    model.documents([], batch_tokens)  # raises if batch_tokens is less than 1
    with atomic.only_writer(directory):
        record = read_index(directory, lambda record: record)
        _check(record, directory, str(preset), digest, text_column if add else None, stored)
        old = record and _OldIndex(directory, record)
        if old and add:
            texts = {**{line: json.loads(line)[text_column] for line in old.rows.lines()}, **texts}
        keys = [key_of(text.encode()) for text in texts.values()]
        encoded = EncodedTexts(directory / f"encoded-{digest[:16]}.bin", model.width)
        try:
            new = {
                key: text for key, text in zip(keys, texts.values(), strict=True) if not (old and key in old.numbers)
            }
            counts = encoded.encode(new, lambda some: model.documents(some, batch_tokens), progress)
            stored = stored or (record.stored if record else "float32")
            version = record.version + 1 if record else 1
            made = IndexRecord(_lasting(preset), digest, text_column, stored, len(texts), version, model.similarity)
            _write(directory, made, list(texts), keys, old, encoded)
        finally:
            encoded.close()
        write_record(directory, made)
        for path in directory.glob(_UNFINISHED):
            path.unlink()
    return {"texts": len(texts), **counts}


class _OldIndex:
    """The existing index of a directory, and the row numbers of its texts by key."""

    def __init__(self, directory: Path, record: IndexRecord) -> None:
        self.rows = IndexRows(directory / record.rows, directory / record.starts)
        self.path = directory / record.vectors
        self.neighbours = Neighbours.open(self.path)
        texts = (json.loads(line)[record.text_column] for line in self.rows.lines())
        self.numbers = {key_of(text.encode()): number for number, text in enumerate(texts)}

    def begins(self, lines: Sequence[bytes]) -> bool:
        """Whether these rows begin with the rows of the index."""
        return len(self.rows) <= len(lines) and all(map(bytes.__eq__, self.rows.lines(), lines))


def _line(columns: dict[str, object]) -> bytes:
    return f"{json.dumps(columns, ensure_ascii=False, default=str)}\n".encode()


def _lasting(preset: str | Path) -> str:
    """A handle that does not depend on the working directory."""
    return str(Path(preset).absolute()) if Path(preset).is_dir() else str(preset)


def _check(
    record: IndexRecord | None, directory: Path, preset: str, model: str, text_column: str | None, stored: str | None
) -> None:
    if record is None:
        return
    if record.model != model:
        raise ValueError(
            f"{directory} is an index of another model, {record.preset}, not of {preset}; choose another directory"
        )
    if text_column not in (None, record.text_column):
        raise ValueError(f"{directory} has its texts in {record.text_column!r}, not in {text_column!r}")
    if stored not in (None, record.stored):
        raise ValueError(f"{directory} stores vectors as {record.stored}, not as {stored}; choose another directory")


def _write(
    directory: Path,
    record: IndexRecord,
    lines: list[bytes],
    keys: list[bytes],
    old: _OldIndex | None,
    encoded: EncodedTexts,
) -> None:
    """Writes the files of an index, without its record."""

    def blocks(first: int) -> Iterator[np.ndarray]:
        for start in range(first, len(keys), TEXTS_AT_A_TIME):
            yield _vectors(keys[start : start + TEXTS_AT_A_TIME], old, encoded)

    is_exact = len(keys) <= neighbours.EXACT_UP_TO
    goes_on = old and old.neighbours.is_exact == is_exact and old.begins(lines)
    first = len(old.rows) if goes_on else 0
    extremes = _extremes(blocks(first), encoded.width) if record.stored == "int8" else None
    if goes_on and (extremes is None or old.neighbours.holds(extremes)):
        index = Neighbours.open(old.path, mapped=False)
    else:
        index, first = Neighbours.empty(encoded.width, len(keys), record.stored, extremes, old and old.neighbours), 0
    for vectors in blocks(first):
        index.add(vectors)
    with atomic.written_whole(directory / record.vectors) as unfinished:
        index.write(unfinished)
    with (
        atomic.written_whole(directory / record.rows) as rows,
        atomic.written_whole(directory / record.starts) as starts,
    ):
        write_rows(lines, rows, starts)


def _extremes(blocks: Iterator[np.ndarray], width: int) -> np.ndarray:
    """The lowest and the highest value of each coordinate, float32 `[2, width]`."""
    extremes = np.stack([np.full(width, np.inf, np.float32), np.full(width, -np.inf, np.float32)])
    for vectors in blocks:
        np.minimum(extremes[0], vectors.min(axis=0), out=extremes[0])
        np.maximum(extremes[1], vectors.max(axis=0), out=extremes[1])
    return extremes


def _vectors(keys: list[bytes], old: _OldIndex | None, encoded: EncodedTexts) -> np.ndarray:
    """The vectors of texts by their keys, float32 `[keys, width]`."""
    known = np.array([bool(old and key in old.numbers) for key in keys])
    vectors = np.empty((len(keys), encoded.width), np.float32)
    if known.any():
        numbers = [old.numbers[key] for key, is_known in zip(keys, known, strict=True) if is_known]
        vectors[known] = old.neighbours.vectors(np.array(numbers))
    if not known.all():
        vectors[~known] = encoded.vectors(key for key, is_known in zip(keys, known, strict=True) if not is_known)
    return vectors
