"""Writes copies of files of texts, with a vector in each row."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from keras_bert.embedding.vector_files import TableCopy, choose_copy, name_of_copy
from keras_bert.parts import Parts, check_processes

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

    from keras_bert.tasks import BertSentenceEncoder


_loaded: dict[str, BertSentenceEncoder] = {}
_loading_lock = threading.Lock()


def load(preset: str | Path, to_compare: bool = False, **settings: Any) -> str:
    """Loads a preset, replacing any other, and returns its digest.

    Args:
        preset, **settings: see `BertSentenceEncoder.from_preset`.
        to_compare: whether to make the dot product of two vectors the model's similarity.
    """
    from keras_bert.tasks import BertSentenceEncoder

    make = BertSentenceEncoder.to_compare if to_compare else BertSentenceEncoder.from_preset
    model = make(preset, **settings)
    digest = _compute_digest(model)
    _loaded.clear()
    _loaded[digest] = model
    return digest


def model_of(preset: str | Path, digest: str, **settings: Any) -> BertSentenceEncoder:
    """Returns the model with this digest, loaded if necessary. Raises ValueError if the preset holds another model."""
    with _loading_lock:
        if digest not in _loaded and load(preset, **settings) != digest:
            raise ValueError(f"{preset} no longer holds the model of the existing vectors; choose another directory")
        return _loaded[digest]


def _compute_digest(model: BertSentenceEncoder) -> str:
    """Computes a digest of everything that the vectors depend on: weights, settings and vocabulary."""
    from keras import ops

    preprocessor, encoder = model.preprocessor, model.encoder
    vector_settings = {name: value for name, value in model.settings().items() if name != "similarity"}
    settings = [repr(encoder.config), encoder.dtype_policy.name, model.precision, vector_settings]
    settings += [preprocessor.max_sequence_length, preprocessor.tokenizer.get_config()]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=repr).encode())
    for weight in model.weights:
        digest.update(ops.convert_to_numpy(weight).tobytes())
    return digest.hexdigest()


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

    Use it for files that do not fit in memory, or whose vectors other programs read: files are read and written in
    parts, of any size. All rows are checked before the first is embedded.
    After an interruption, the same call writes the missing files.

    Args:
        files: JSON lines, Parquet, CSV or TSV, or, with `format`, Excel files; see `keras_bert.data.read_table`. A
            copy has the name and format of its file. The names must differ.
        directory: the directory of the copies; created if missing.
        preset: a preset of a sentence encoder, see `BertSentenceEncoder.from_preset`.
        text_column: the column to embed. Each row must have a text there.
        batch_tokens: the most tokens in a batch, padding included; a longer text is a batch of its own.
        processes: the number of processes. If there are several, each works on its own file, without a GPU, and a
            script needs `if __name__ == "__main__":` around its code, as Python starts processes.
        precision: "float32", "bfloat16" or "int8"; see `BertSentenceEncoder.set_precision`.
        pipeline_options: if not None, an Apache Beam pipeline with these options does the work (`pip install
            'keras-bert-models[beam]'`). Its workers need this package, and must see files, directory and preset under
            the same paths.
        progress: whether to show a progress bar; by default on a terminal. A pipeline has none.
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
        ImportError: Parquet is read or written, but pyarrow is not installed: `pip install
            'keras-bert-models[parquet]'`; or an Excel file is, without the extra `xlsx`.
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
    copies = [choose_copy(path, text_column, skip_bad, format) for path in _check_sources(sources)]
    names = names_of_copies(sources, directory, format)
    settings = {"precision": precision, "default_prompt": prompt}
    digest = load(preset, **settings)
    model_of(preset, digest, **settings).encode([], batch_tokens)  # raises if batch_tokens is less than 1
    embedder = FileEmbedder(copies, preset, digest, batch_tokens, settings)
    notes = {"preset": digest, "text_column": text_column, "batch_tokens": batch_tokens}
    notes |= {"skip_bad": True} if skip_bad else {}
    parts = Parts(directory, NOTES, "vectors", notes, names, embedder.write)
    for path, name in zip(sources, names, strict=True):
        notes = parts.notes.get(name)
        if notes and not _read_stamp(path).items() <= notes.items():
            raise ValueError(
                f"{path} has changed since {directory / name} was written; remove it, or choose another directory"
            )
    disable = None if progress is None else not progress
    with parts.lock() as left:
        if pipeline_options is not None:
            parts.write_with_beam(left, pipeline_options, embedder.count)
        else:
            checking = tqdm(left, "checking", leave=False, delay=1, unit=" files", disable=disable)
            rows, done = sum(map(embedder.count, checking)), parts.totals("rows")["rows"]
            with tqdm(total=done + rows, initial=done, unit=" rows", disable=disable) as bar:
                parts.write(left, processes, lambda counts: bar.update(counts["rows"]))
    return {"files": len(sources), **parts.totals("rows", "truncated")}


@dataclass(frozen=True)
class FileEmbedder:
    """A writer of copies of files, with vectors; see `embed_files`. It can be pickled."""

    copies: list[TableCopy]
    preset: str | Path
    digest: str  # of the preset's model
    batch_tokens: int
    settings: Mapping[str, Any] = field(default_factory=dict)  # arguments of `from_preset`

    def count(self, number: int) -> int:
        """Counts the rows of a file. Raises ValueError if a row cannot be embedded."""
        return self.copies[number].count()

    def write(self, number: int, output: Path) -> Iterator[dict[str, int]]:
        """Writes the copy of a file. Yields the file's size and time first, then counts of `rows` and `truncated`."""
        copy = self.copies[number]
        stamp = _read_stamp(copy.source)
        model = model_of(self.preset, self.digest, **self.settings)
        yield {**stamp, "rows": 0, "truncated": 0}
        with copy.writer(output, model.vector_size) as write:
            for rows, texts in copy.parts(_ROWS_AT_A_TIME):
                vectors, truncated = model.encode_counted(texts, self.batch_tokens)
                write(rows, vectors)
                yield {"rows": len(texts), "truncated": truncated}
        if _read_stamp(copy.source) != stamp:
            raise ValueError(f"{copy.source} was changed while it was read; embed it again")


def _check_sources(sources: Sequence[Path]) -> Sequence[Path]:
    if not sources:
        raise ValueError("there are no files to embed")
    for path in sources:
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
    return sources


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
