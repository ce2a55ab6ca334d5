"""Writes a set of files, in processes or in a Beam pipeline, and records which files are complete."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from keras_bert import files
from keras_bert.extras import needed
from keras_bert.processes import in_processes

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

Counts = dict[str, int]
_NOTES = {"settings": dict, "files": {str: ({str: int}, None)}}  # the shape of the notes


def check_processes(processes: int, pipeline_options: PipelineOptions | None) -> None:
    """Raises ValueError for fewer than 1 process, or for several with a Beam pipeline, which has its own workers."""
    if processes < 1:
        raise ValueError(f"processes is {processes}; expected at least 1")
    if processes > 1 and pipeline_options is not None:
        raise ValueError(
            f"processes is {processes}, but the pipeline has its own workers; set their number in its options"
        )


@dataclass(eq=False)
class Parts:
    """Files to write into a directory, each whole or not at all, and a record of the complete files in the directory.

    Use it for long work that can be interrupted: the same call then writes only the incomplete files. Objects can be
    pickled. `notes` is the record: for each file name, the sums of the file's counts, or None if it is incomplete.

    Raises:
        ValueError: the directory holds files with these names, but written with other settings.
    """

    directory: Path
    record: str  # name of the file with the notes
    content: str  # a noun for the content of the files, such as "records", for messages
    settings: Mapping[str, object]  # everything that the files depend on, in JSON's types
    names: Sequence[str]  # of the files
    # Writes the file of a number to a path, and yields the counts of its work since the last yield. Must be picklable.
    write_file: Callable[[int, Path], Iterable[Counts]]

    def __post_init__(self) -> None:
        self.notes = self._read()

    @contextlib.contextmanager
    def alone(self) -> Iterator[list[int]]:
        """Locks the directory for a block, and yields the numbers of the incomplete files.

        Raises:
            BlockingIOError: another process holds the lock.
        """
        if not self._left():
            yield []
            return
        with files.only_writer(self.directory):
            self.notes = self._read()  # another process may have just ended
            yield self._left()

    def write(self, left: Sequence[int], processes: int, tell: Callable[[Counts], object]) -> None:
        """Writes incomplete files, in this process or in several.

        Args:
            left: the numbers of the files, from `alone`.
            processes: the number of processes.
            tell: called with the counts of the work since its last call.

        Raises:
            OSError: a file cannot be written; incomplete files are removed.
            RuntimeError: one of several processes was killed.
        """
        several = processes > 1 and len(left) > 1
        if left:
            self._note([])  # records the files as begun
        written = in_processes(self._written, left, processes) if several else (self._written(i, tell) for i in left)
        with contextlib.closing(written):
            for name, counts in written:
                self._note([(name, counts)])
                if several:
                    tell(counts)

    def write_with_beam(
        self, left: Sequence[int], options: PipelineOptions, check: Callable[[int], object] = lambda number: None
    ) -> None:
        """Writes incomplete files in a Beam pipeline, waits for its end, and records all files.

        Args:
            left: the numbers of the files, from `alone`.
            options: the runner and its options. All workers must see the directory.
            check: called with each number before the first file is written. Must be picklable.

        Raises:
            ImportError: Apache Beam is not installed.
            Exception: errors of workers, as the runner raises them.
        """
        beam = needed("apache_beam", "Apache Beam", "beam")
        if not left:
            return
        self._note([])
        with beam.Pipeline(options=options) as pipeline:
            numbers = pipeline | "numbers" >> beam.Create(left) | "spread over the workers" >> beam.Reshuffle()
            checked = beam.pvalue.AsList(numbers | "check" >> beam.Map(check))
            _ = (
                numbers
                | "write" >> beam.Map(lambda number, _: self._written(number), checked)  # after all checks
                | "all of them" >> beam.combiners.ToList()
                | "note" >> beam.Map(self._note)
            )

    def totals(self, *counts: str) -> Counts:
        """Sums counts over all complete files. Raises ValueError if a file's record lacks a count."""
        self.notes = self._read()  # a pipeline's worker may have written them
        complete = [noted for noted in map(self.notes.get, self.names) if noted]
        for count in counts:
            if not all(count in noted for noted in complete):
                raise ValueError(f"{self.directory / self.record} is damaged: a file has no count of {count}")
        return {count: sum(noted[count] for noted in complete) for count in counts}

    def _left(self) -> list[int]:
        return [number for number, name in enumerate(self.names) if not self.notes.get(name)]

    def _written(self, number: int, tell: Callable[[Counts], object] = lambda counts: None) -> tuple[str, Counts]:
        name, counts = self.names[number], Counter()
        with files.written_whole(self.directory / name) as unfinished:
            for each in self.write_file(number, unfinished):
                counts.update(each)
                tell(each)
        return name, dict(counts)

    def _note(self, written: Iterable[tuple[str, Counts]]) -> None:
        begun = {name: self.notes.get(name) for name in self.names}
        self.notes = dict(sorted({**self.notes, **begun, **dict(written)}.items()))
        content = {"settings": self.settings, "files": self.notes}
        files.write_texts(self.directory, {self.record: files.to_json(content)})

    def _read(self) -> dict[str, Counts | None]:
        path = self.directory / self.record
        found = files.read_json(path, _NOTES) if path.exists() else {"settings": {}, "files": {}}
        # Files that are missing are written again.
        notes = {name: each for name, each in found["files"].items() if (self.directory / name).exists()}
        different = [name for name, value in self.settings.items() if found["settings"].get(name) != value]
        if notes and different:
            raise ValueError(
                f"{self.directory} holds {self.content} with other {', '.join(different)}; choose another directory"
            )
        for name in self.names:
            if name not in notes and (self.directory / name).exists():
                raise ValueError(f"{self.directory} holds another {name}; choose another directory")
        return notes
