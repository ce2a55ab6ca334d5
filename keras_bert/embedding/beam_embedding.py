"""Files of texts -> the same files with vectors, by the workers of an Apache Beam pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keras_bert.embedding.work import EmbeddingWork

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


def embed_files_with_beam(
    files: Sequence[str | Path],
    directory: str | Path,
    preset: str | Path,
    text_column: str = "text",
    batch_tokens: int = 1024,
    pipeline_options: PipelineOptions | None = None,
) -> dict[str, int]:
    """Does the work of `embed_files` in a Beam pipeline, and waits for its end.

    Workers read and write the files themselves: the files, the directory and the preset must have the same paths (or
    the preset the same name) in all workers and in this process. Each worker needs this package. If the pipeline
    fails, the same call, or `embed_files`, writes all files again that no finished pipeline has written.

    Args:
        files, ..., batch_tokens: see `embed_files`.
        pipeline_options: the runner and its options; by default Beam's DirectRunner, in this process.

    Returns:
        Counts, as `embed_files` does.

    Raises:
        ImportError: there is no Apache Beam: `pip install 'keras-bert-models[beam]'`.
        FileNotFoundError, ValueError: as `embed_files`, before the pipeline starts. Bad rows are found before any row
            is embedded; the runner raises these errors, and those of workers, in its own way.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "pets.jsonl").write_text('{"id": 7, "text": "a cat"}\\n{"id": 8, "text": "a kitten"}\\n')
        >>> embed_files_with_beam(  # doctest: +SKIP
        ...     [folder / "pets.jsonl"], folder / "vectors", "all-MiniLM-L6-v2"
        ... )
        {'files': 1, 'rows': 2, 'cut': 0}
    """
    try:
        import apache_beam as beam
    except ImportError as error:
        raise ImportError(f"this needs Apache Beam: pip install 'keras-bert-models[beam]' ({error})") from error
    files, directory = [Path(path).absolute() for path in files], Path(directory).absolute()
    preset = Path(preset).absolute() if Path(preset).is_dir() else preset
    work = EmbeddingWork(files, directory, preset, text_column, batch_tokens)
    work.note([])  # claims the files, in case the pipeline fails
    with beam.Pipeline(options=pipeline_options) as pipeline:
        left = pipeline | "files" >> beam.Create(work.left()) | "spread over the workers" >> beam.Reshuffle()
        checked = left | "check" >> beam.Map(work.count)
        (
            left
            | "write" >> beam.Map(lambda index, _: work.write(index), beam.pvalue.AsList(checked))  # after all checks
            | "all of them" >> beam.combiners.ToList()
            | "note" >> beam.Map(work.note)
        )
    return work.counts()
