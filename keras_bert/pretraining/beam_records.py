"""Records of a corpus, written by the workers of an Apache Beam pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keras_bert.pretraining.record_writing import RecordsWork
from keras_bert.text import BertPreprocessor

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions


def write_records_with_beam(
    corpus: Sequence[str | Path],
    directory: str | Path,
    preprocessor: BertPreprocessor,
    objective: str = "next_sentence",
    layout: str = "prose",
    copies: int = 1,
    predictions: int | None = None,
    unit: str = "token",
    pack: bool = False,
    seed: int = 0,
    part_bytes: int = 2**24,
    pipeline_options: PipelineOptions | None = None,
) -> dict[str, int]:
    """Writes the same files as `write_records`, byte for byte, in a pipeline, and waits for its end.

    Workers read their parts and write their files themselves: the corpus and the directory must have the same path for
    all workers and this process, and each worker needs this package. If the pipeline fails, the same call, or
    `write_records`, writes again everything that no completed pipeline wrote.

    Args:
        corpus, ..., part_bytes: see `write_records`.
        pipeline_options: the runner and its options; by default Beam's DirectRunner, in this process.

    Returns:
        Counts, as `write_records` does.

    Raises:
        ImportError: Apache Beam is not installed: `pip install 'keras-bert-models[beam]'`.
        FileNotFoundError, ValueError: as `write_records`, before the pipeline starts. The runner raises the errors of
            its workers.

    Example:
        >>> import tempfile
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=32)
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "text.txt").write_text("One came. Two went.\\n\\nThree slept. Four ate.")
        >>> counts = write_records_with_beam(  # doctest: +SKIP
        ...     [folder / "text.txt"], folder / "records", preprocessor, layout="sentences"
        ... )
        >>> counts["documents"], counts["examples"]  # doctest: +SKIP
        (2, 2)
    """
    try:
        import apache_beam as beam
    except ImportError as error:
        raise ImportError(f"this needs Apache Beam: pip install 'keras-bert-models[beam]' ({error})") from error
    corpus, directory = [Path(path).absolute() for path in corpus], Path(directory).absolute()
    work = RecordsWork(
        corpus, directory, preprocessor, objective, layout, copies, predictions, unit, pack, seed, part_bytes
    )
    work.note([])  # the settings of the files, in case the pipeline fails
    with beam.Pipeline(options=pipeline_options) as pipeline:
        (
            pipeline
            | "parts" >> beam.Create(work.left())
            | "spread over the workers" >> beam.Reshuffle()
            | "write" >> beam.Map(work.write)
            | "all of them" >> beam.combiners.ToList()
            | "note" >> beam.Map(work.note)
        )
    return work.counts()
