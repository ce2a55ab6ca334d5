"""Writes copies of files of texts, with vectors."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from keras import ops
from tqdm import tqdm

from keras_bert.embedding import json_lines, parquet
from keras_bert.parts import Parts, check_processes
from keras_bert.tasks import BertSentenceEncoder
from keras_bert.text.arguments import check_many

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


_loaded: dict[str, BertSentenceEncoder] = {}
_loading = threading.Lock()


def load(preset: str | Path, to_compare: bool = False, **settings: Any) -> str:
    """Loads a preset, replacing any other, and returns its digest.

    Args:
        preset, **settings: see `BertSentenceEncoder.from_preset`.
        to_compare: whether the dot product of two vectors is to be the model's similarity.
    """
    make = BertSentenceEncoder.to_compare if to_compare else BertSentenceEncoder.from_preset
    model = make(preset, **settings)
    digest = _digest(model)
    _loaded.clear()
    _loaded[digest] = model
    return digest


def model_of(preset: str | Path, digest: str, **settings: Any) -> BertSentenceEncoder:
    """The model with this digest, loaded if necessary. Raises ValueError if the preset holds another model."""
    with _loading:
        if digest not in _loaded and load(preset, **settings) != digest:
            raise ValueError(f"{preset} no longer holds the model of the earlier vectors")
        return _loaded[digest]


def _digest(model: BertSentenceEncoder) -> str:
    """A digest of everything that the vectors depend on."""
    preprocessor, encoder = model.preprocessor, model.encoder
    of_vectors = {name: value for name, value in model.settings().items() if name != "similarity"}
    settings = [repr(encoder.config), encoder.dtype_policy.name, model.precision, of_vectors]
    settings += [preprocessor.max_sequence_length, preprocessor.tokenizer.get_config()]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=repr).encode())
    for weight in model.weights:
        digest.update(ops.convert_to_numpy(weight).tobytes())
    return digest.hexdigest()


NOTES = "embedding.json"
_FORMATS = {".jsonl": json_lines, ".ndjson": json_lines, ".parquet": parquet}
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
) -> dict[str, int]:
    """Writes a copy of each file, with the same rows and an additional column, `vector`.

    Files may have any size: they are read and written in parts. All rows are checked before the first is embedded.
    After an interruption, the same call writes the missing files.

    Args:
        files: JSON lines (`.jsonl`, `.ndjson`), one object per line; or Parquet (`.parquet`). A copy has the name and
            format of its file. The names must differ.
        directory: the directory of the copies; created if missing.
        preset: a preset of a sentence encoder, see `BertSentenceEncoder.from_preset`.
        text_column: the column to embed. Each row must have a text there.
        batch_tokens: the most tokens in a batch, padding included; a longer text is a batch of its own.
        processes: the number of processes, each of which works on its own file, without a GPU. A script that uses
            several needs `if __name__ == "__main__":` around its code, as Python starts processes.
        precision: "float32", "bfloat16" or "int8"; see `BertSentenceEncoder.set_precision`.
        pipeline_options: if given, an Apache Beam pipeline with these options does the work (`pip install
            'keras-bert-models[beam]'`). Its workers need this package, and must see files, directory and preset under
            the same paths.
        progress: whether to show a progress bar; by default on a terminal. A pipeline has none.
        prompt: the name of the prompt to put before each text; by default the model's default prompt, see
            `BertSentenceEncoder.encode`.

    Returns:
        Counts: `files`, `rows`, and `cut`, the texts that were cut to the model's maximum length.

    Raises:
        FileNotFoundError, ValueError: a file or a row cannot be used, an argument is bad, or the directory holds
            vectors of another model, or of an older version of a file.
        BlockingIOError: another process is writing into the directory.
        ImportError: there is a Parquet file, but no pyarrow: `pip install 'keras-bert-models[parquet]'`.
        OSError: a file cannot be written; incomplete files are removed.
        RuntimeError: one of several processes was killed.
        Exception: any error of a pipeline's workers.

    Example:
        >>> import json, tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "pets.jsonl").write_text('{"id": 7, "text": "a cat"}\\n{"id": 8, "text": "a kitten"}\\n')
        >>> embed_files([folder / "pets.jsonl"], folder / "vectors", "all-MiniLM-L6-v2")
        {'files': 1, 'rows': 2, 'cut': 0}
        >>> row = json.loads((folder / "vectors" / "pets.jsonl").read_text().splitlines()[1])
        >>> row["id"], row["text"], len(row["vector"])
        (8, 'a kitten', 384)
    """
    check_processes(processes, pipeline_options)
    check_many(files, "files", "path")
    sources, directory = [Path(path) for path in files], Path(directory)
    if pipeline_options is not None:  # workers may have another working directory
        sources, directory = [path.absolute() for path in sources], directory.absolute()
        preset = Path(preset).absolute() if Path(preset).is_dir() else preset
    _check_files(sources, directory)
    settings = {"precision": precision, "default_prompt": prompt}
    digest = load(preset, **settings)
    model_of(preset, digest, **settings).encode([], batch_tokens)  # raises if batch_tokens is less than 1
    embedder = FileEmbedder(sources, preset, digest, text_column, batch_tokens, settings)
    noted = {"preset": digest, "text_column": text_column, "batch_tokens": batch_tokens}
    parts = Parts(directory, NOTES, "vectors", noted, [path.name for path in sources], embedder.write)
    for path in sources:
        noted = parts.notes.get(path.name)
        if noted and not _stamp(path).items() <= noted.items():
            output = directory / path.name
            raise ValueError(f"{path} has changed since {output} was written; remove that, or choose another directory")
    bars = {"disable": None if progress is None else not progress}
    with parts.alone() as left:
        if pipeline_options is not None:
            parts.write_with_beam(left, pipeline_options, embedder.count)
        else:
            checking = tqdm(left, "checking", leave=False, delay=1, unit=" files", **bars)
            rows, done = sum(map(embedder.count, checking)), parts.totals("rows")["rows"]
            with tqdm(total=done + rows, initial=done, unit=" rows", **bars) as bar:
                parts.write(left, processes, lambda counts: bar.update(counts["rows"]))
    return {"files": len(sources), **parts.totals("rows", "cut")}


@dataclass(frozen=True)
class FileEmbedder:
    """Writes copies of files, with vectors; see `embed_files`. It can be pickled."""

    sources: list[Path]
    preset: str | Path
    digest: str  # of the preset's model
    text_column: str
    batch_tokens: int
    settings: dict[str, Any] = field(default_factory=dict)  # arguments of `from_preset`

    def count(self, number: int) -> int:
        """The number of rows of a file. Raises ValueError if a row cannot be embedded."""
        path = self.sources[number]
        return _format_of(path).count(path, self.text_column)

    def write(self, number: int, output: Path) -> Iterator[dict[str, int]]:
        """Writes the copy of a file. Yields its size and time, and counts of `rows` and `cut` texts."""
        path = self.sources[number]
        read, its_format = _stamp(path), _format_of(path)
        model = model_of(self.preset, self.digest, **self.settings)
        yield {**read, "rows": 0, "cut": 0}
        with its_format.writer(output, path, model.vector_size) as write:
            for rows, texts in its_format.parts(path, self.text_column, _ROWS_AT_A_TIME):
                vectors, cut = model.encode_counted(texts, self.batch_tokens)
                write(rows, vectors)
                yield {"rows": len(texts), "cut": cut}
        if _stamp(path) != read:
            raise ValueError(f"{path} was changed while it was read")


def _format_of(path: Path) -> ModuleType:
    """The module with `count`, `parts` and `writer` for a file."""
    try:
        return _FORMATS[path.suffix.lower()]
    except KeyError:
        raise ValueError(f"{path} does not end in {', '.join(_FORMATS)}") from None


def _check_files(sources: Sequence[Path], directory: Path) -> None:
    if not sources:
        raise ValueError("there are no files to embed")
    name, times = Counter(path.name for path in sources).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{times} files are called {name}; the names of the copies must differ")
    for path in sources:
        _format_of(path)
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        output = directory / path.name
        if output.exists() and output.samefile(path):
            raise ValueError(f"{path} would be replaced by its copy; choose another directory")


def _stamp(path: Path) -> dict[str, int]:
    """The size and time of a file, to detect changes."""
    stat = path.stat()
    return {"bytes": stat.st_size, "modified_ns": stat.st_mtime_ns}
