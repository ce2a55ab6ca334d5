"""Writes copies of files of texts, with a vector in each row."""

from __future__ import annotations

import contextlib
import glob
import io
import itertools
import json
import shutil
import threading
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keras_bert import files
from keras_bert.embedding.vector_files import TableCopy, choose_copy, name_of_copy
from keras_bert.files import check_is_file  # by its name: `files` is an argument of `embed_files`
from keras_bert.output_files import OutputFiles, check_processes
from keras_bert.processes import in_processes
from keras_bert.progress import progress_bar

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

    from keras_bert.answers.similarity import SentenceEncoder


_loaded: dict[str, SentenceEncoder] = {}
_loading_lock = threading.Lock()


def load(preset: str | Path, **settings: Any) -> str:
    """Loads a preset, see `BertSentenceEncoder.from_preset`, replacing any other, and returns its digest."""
    from keras_bert.tasks.registry import load_as

    model = load_as("BertSentenceEncoder", preset, **settings)
    digest = compute_digest(model)
    _loaded.clear()
    _loaded[digest] = model
    return digest


def model_of(preset: str | Path, digest: str, **settings: Any) -> SentenceEncoder:
    """Returns the model with this digest, loaded if necessary. Raises ValueError if the preset holds another model."""
    with _loading_lock:
        if digest not in _loaded and load(preset, **settings) != digest:
            raise ValueError(f"{preset} no longer holds the model of the existing vectors; choose another directory")
        return _loaded[digest]


def compute_digest(model: Any) -> str:
    """Computes a digest of everything that the vectors depend on: weights, settings and vocabulary."""
    if (digest := getattr(model, "digest", None)) is not None:  # of an export
        return digest
    from keras import ops

    preprocessor, encoder = model.preprocessor, model.encoder
    vector_settings = {name: value for name, value in model.settings().items() if name != "similarity"}
    settings = [repr(encoder.config), encoder.dtype_policy.name, model.precision, vector_settings]
    settings += [preprocessor.max_sequence_length, preprocessor.tokenizer.get_config()]
    weights = (ops.convert_to_numpy(weight).tobytes() for weight in model.weights)
    return files.sha256(itertools.chain([json.dumps(settings, sort_keys=True, default=repr).encode()], weights))


NOTES = "embedding.json"
_ROWS_AT_A_TIME = 4096  # enough to batch by length, and few enough for any memory


def embed_files(
    files: Sequence[str | Path],
    directory: str | Path,
    preset: str | Path,
    text_column: str = "text",
    batch_tokens: int = 1024,
    processes: int = 1,
    precision: str = "float32",
    pipeline_options: PipelineOptions | None = None,
    progress: bool | None = None,
    prompt: str | None = None,
    format: str | None = None,
    skip_bad: bool = False,
) -> dict[str, int]:
    """Writes a copy of each file, with the same rows and an additional column, `vector`.

    Use it for files that do not fit in memory, or whose vectors other programs read. All rows are checked before the
    first is embedded. After an interruption, the same call goes on where the work ended, also within a file: vectors
    are on disk as soon as some thousand are computed, in a hidden directory beside the copy, until that is complete.

    Args:
        files: JSON lines, Parquet, CSV or TSV, or, with `format`, Excel files; see `keras_bert.data.read_table`. A
            copy has the name and format of its file. The names must differ.
        directory: the directory of the copies; created if missing.
        preset: a preset of a sentence encoder, see `BertSentenceEncoder.from_preset`.
        text_column: the column to embed. Each row must have a text there.
        batch_tokens: the most tokens in a batch, padding included; a longer text is a batch of its own.
        processes: the number of processes, among which files, and the rows of each, are divided. Several use no GPU,
            and a script needs `if __name__ == "__main__":` around its code, as Python starts processes.
        precision: "float32", "bfloat16" or "int8"; see `BertSentenceEncoder.set_precision`.
        pipeline_options: if not None, an Apache Beam pipeline with these options does the work (`pip install
            'keras-bert-models[beam]'`). Its workers need this package, and must see files, directory and preset under
            the same paths.
        progress: whether to show a progress bar; by default on a terminal, and elsewhere a line a minute. A pipeline
            has none.
        prompt: the name of the prompt to put before each text; by default the model's default prompt, see
            `BertSentenceEncoder.encode`.
        format: "parquet" to write Parquet, whatever the files are. In a CSV or TSV, a vector is a JSON list in a cell.
        skip_bad: leave out rows without a text, with a warning that counts them, instead of raising.

    Returns:
        Counts: `files`, `rows`, and `truncated`, the texts that exceed the model's maximum length.

    Raises:
        FileNotFoundError, ValueError: a file or a row cannot be used, an argument is bad, or the directory holds
            vectors of another model, or of an older version of a file.
        BlockingIOError: another process is writing into the directory.
        ImportError: the extra `parquet` or `xlsx` is not installed, and the files need it.
        OSError: a file cannot be written; incomplete files are removed.
        RuntimeError: one of several processes was killed.
        Exception: any error of a pipeline's workers.

    Example:
        >>> import json, tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "pets.jsonl").write_text('{"id": 7, "text": "a cat"}\\n{"id": 8, "text": "a kitten"}\\n')
        >>> embed_files([folder / "pets.jsonl"], folder / "vectors", "all-MiniLM-L6-v2")
        {'files': 1, 'rows': 2, 'truncated': 0}
        >>> row = json.loads((folder / "vectors" / "pets.jsonl").read_text().splitlines()[1])
        >>> row["id"], row["text"], len(row["vector"])
        (8, 'a kitten', 384)
    """
    from keras_bert.text.arguments import check_many

    check_processes(processes, pipeline_options)
    check_many(files, "files", "path")
    sources, directory = [Path(path) for path in files], Path(directory)
    if pipeline_options is not None:  # workers may have another working directory
        sources, directory = [path.absolute() for path in sources], directory.absolute()
        preset = Path(preset).absolute() if Path(preset).is_dir() else preset
    if not sources:
        raise ValueError("there are no files to embed")
    for path in sources:
        check_is_file(path)
    copies = [choose_copy(path, text_column, skip_bad, format) for path in sources]
    names = names_of_copies(sources, directory, format)
    settings = {"default_prompt": prompt, **({} if precision == "float32" else {"precision": precision})}
    digest = load(preset, **settings)
    model_of(preset, digest, **settings).encode([], batch_tokens)  # raises if batch_tokens is less than 1
    notes = {"preset": digest, "text_column": text_column, "batch_tokens": batch_tokens}
    notes |= {"skip_bad": True} if skip_bad else {}
    stores = [VectorStore.of(directory / name, notes, path) for name, path in zip(names, sources, strict=True)]
    embedder = FileEmbedder(copies, stores, preset, digest, batch_tokens, settings, _ROWS_AT_A_TIME)
    noted = {**notes, "skip_bad": skip_bad}
    outputs = OutputFiles(directory, NOTES, "vectors", noted, names, embedder.write, _is_same)
    for path, name in zip(sources, names, strict=True):
        notes = outputs.notes.get(name)
        if notes and not _read_stamp(path).items() <= notes.items():
            raise ValueError(
                f"{path} has changed since {directory / name} was written; remove it, or choose another directory"
            )
    with outputs.lock() as left:
        if pipeline_options is not None:
            outputs.write_with_beam(left, pipeline_options, embedder.count)
            return {"files": len(sources), **outputs.totals("rows", "truncated")}
        rows, done = {}, outputs.totals("rows")["rows"]
        with progress_bar(len(left), "files", progress, desc="checking", leave=False) as bar:
            for number in left:
                rows[number] = embedder.count(number)
                bar.update()
        for number in left:
            stores[number].remove_older()
        with progress_bar(done + sum(rows.values()), "rows", progress, done) as bar:
            if processes == 1 or sum(rows.values()) <= embedder.rows_at_a_time:
                outputs.write(left, 1, lambda counts: bar.update(counts["rows"]))
            else:
                _write_in_processes(outputs, embedder, rows, processes, bar.update)
    return {"files": len(sources), **outputs.totals("rows", "truncated")}


def _write_in_processes(
    outputs: OutputFiles,
    embedder: FileEmbedder,
    rows: dict[int, int],
    processes: int,
    on_rows: Callable[[int], object],
) -> None:
    """Encodes the rows of files in several processes, and writes each file when its vectors are there."""
    left = dict(rows)  # rows to encode, by the number of the file
    shares = [Share(number, i, processes) for number, count in rows.items() for i in range(min(processes, count))]
    with contextlib.closing(in_processes(embedder.encode, shares, processes)) as encoded:
        for number, count in encoded:
            on_rows(count)
            left[number] -= count
            if not left[number]:
                outputs.write([number], 1, lambda counts: None)
    # Files without rows, and those that have changed meanwhile, which is an error.
    outputs.write([number for number in rows if left[number] or not rows[number]], 1, lambda counts: None)


class Share(NamedTuple):
    """The chunks of a file that a process encodes: `first`, `first + stride`, ..."""

    number: int
    first: int
    stride: int


@dataclass(frozen=True)
class VectorStore:
    """The vectors of a file, until its copy is complete: in a hidden directory, with a file for each chunk."""

    directory: Path

    @classmethod
    def of(cls, copy: Path, notes: Mapping[str, object], source: Path) -> VectorStore:
        """Finds the store of a copy, for the settings and the state of the source that its vectors depend on."""
        key = files.sha256([json.dumps([notes, _read_stamp(source), _ROWS_AT_A_TIME], sort_keys=True).encode()])
        return cls(copy.with_name(f".{copy.name}.{key[:16]}.vectors"))

    def read(self, chunk: int, rows: int) -> tuple[np.ndarray, int] | None:
        """Reads the vectors of a chunk, and the number of truncated texts; None if they are not there, or damaged."""
        try:
            with np.load(self.directory / f"{chunk}.npz", allow_pickle=False) as stored:
                vectors, truncated = stored["vectors"], int(stored["truncated"])
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
            return None
        return (vectors, truncated) if len(vectors) == rows else None

    def write(self, chunk: int, vectors: np.ndarray, truncated: int) -> None:
        files.refuse_link(self.directory)
        content = io.BytesIO()  # not the file itself: NumPy's error for a full disk gives no reason
        np.savez(content, vectors=vectors, truncated=truncated)
        files.write_texts(self.directory, {f"{chunk}.npz": content.getvalue()})

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def remove_older(self) -> None:
        """Removes the vectors of another model, or of an older version of the file."""
        name, _, ending = self.directory.name.rsplit(".", 2)
        for path in self.directory.parent.glob(f"{glob.escape(name)}.{'?' * 16}.{ending}"):
            if path != self.directory:
                shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True)
class FileEmbedder:
    """A writer of copies of files, with vectors; see `embed_files`. It can be pickled."""

    copies: list[TableCopy]
    stores: list[VectorStore]
    preset: str | Path
    digest: str  # of the preset's model
    batch_tokens: int
    settings: Mapping[str, Any]  # arguments of `from_preset`
    rows_at_a_time: int  # in a chunk

    def count(self, number: int) -> int:
        """Counts the rows of a file. Raises ValueError if a row cannot be embedded."""
        return self.copies[number].count()

    def write(self, number: int, output: Path) -> Iterator[dict[str, int]]:
        """Writes the copy of a file. Yields the file's size and time first, then counts of `rows` and `truncated`."""
        copy = self.copies[number]
        stamp = _read_stamp(copy.source)
        width = model_of(self.preset, self.digest, **self.settings).vector_size
        yield {**stamp, "rows": 0, "truncated": 0}
        with copy.writer(output, width) as write:
            for rows, vectors, truncated in self._encode_chunks(number):
                write(rows, vectors)
                yield {"rows": len(vectors), "truncated": truncated}
        if _read_stamp(copy.source) != stamp:
            raise ValueError(f"{copy.source} was changed while it was read; embed it again")
        self.stores[number].remove()

    def encode(self, share: Share) -> Iterator[tuple[int, int]]:
        """Stores the vectors of a share. Yields the number of the file, and of rows that are done."""
        for _, vectors, _ in self._encode_chunks(share.number, share.first, share.stride):
            yield share.number, len(vectors)

    def _encode_chunks(self, number: int, first: int = 0, stride: int = 1) -> Iterator[tuple[Any, np.ndarray, int]]:
        """Yields rows, their vectors, which are then in the store, and the number of truncated texts."""
        model, store = model_of(self.preset, self.digest, **self.settings), self.stores[number]
        for chunk, (rows, texts) in enumerate(self.copies[number].chunks(self.rows_at_a_time)):
            if chunk % stride == first:
                if (stored := store.read(chunk, len(texts))) is None:
                    stored = model.encode_counted(texts, self.batch_tokens)
                    store.write(chunk, *stored)
                yield rows, *stored


def _is_same(noted: object, value: object) -> bool:
    """Compares a setting with the noted one. Older notes do not have `skip_bad` if it is False."""
    return (noted or False) == (value or False)


def names_of_copies(sources: Sequence[Path], directory: Path, format: str | None) -> list[str]:
    """Names the copies. Raises ValueError if two names are the same, or a copy would replace its file."""
    names = [name_of_copy(path, format) for path in sources]
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{times} copies would be named {name}; rename their files, or use several directories")
    for path, name in zip(sources, names, strict=True):
        output = directory / name
        if output.exists() and output.samefile(path):
            raise ValueError(f"{path} would be replaced by its copy; choose another directory")
    return names


def _read_stamp(path: Path) -> dict[str, int]:
    """Reads the size and time of a file, to detect changes."""
    stat = path.stat()
    return {"bytes": stat.st_size, "modified_ns": stat.st_mtime_ns}
