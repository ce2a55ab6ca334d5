"""Writes a set of files, in processes or in a Beam pipeline, and notes which files are complete."""

from __future__ import annotations

import contextlib
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from keras_bert import files
from keras_bert.extras import import_extra
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
class OutputFiles:
    """Files to write into a directory, in one or several calls, and notes there on which of them are complete."""

    # Objects can be pickled. `notes` has the sums of each file's counts, or None if it is incomplete. Raises ValueError
    # if the directory holds files with these names, but written with other settings.

    directory: Path
    notes_file: str  # its name
    content: str  # a noun for the content of the files, such as "records", for messages
    settings: Mapping[str, object]  # everything that the files depend on, in JSON's types
    names: Sequence[str]  # of the files
    # Writes the file of a number to a path, and yields the counts of its work since the last yield. Must be picklable.
    write_file: Callable[[int, Path], Iterable[Counts]]
    # Whether a setting in the notes, or None, is the same as that of `settings`. Must be picklable.
    is_same: Callable[[object, object], bool] = operator.eq

    def __post_init__(self) -> None:
        self.notes = self._read_notes()

    @contextlib.contextmanager
    def lock(self) -> Iterator[list[int]]:
        """Locks the directory as `files.only_writer`, and yields the numbers of the incomplete files."""
        if not self._incomplete():
            yield []
            return
        with files.only_writer(self.directory):
            self.notes = self._read_notes()  # another process may have just ended
            try:
                yield self._incomplete()
            finally:  # what a process opened at its very end
                files.remove_leftovers(self.directory, set(self.names))

    def write(self, numbers: Sequence[int], processes: int, on_counts: Callable[[Counts], object]) -> None:
        """Writes files by number, and calls `on_counts` with the counts of the work since its last call."""
        several = processes > 1 and len(numbers) > 1
        if numbers:
            self._update_notes([])  # notes the files as begun
        results = (
            in_processes(self._write_file, numbers, processes)
            if several
            else (result for number in numbers for result in self._write_file(number, on_counts))
        )
        with contextlib.closing(results):
            for name, counts in results:
                self._update_notes([(name, counts)])
                if several:
                    on_counts(counts)

    def write_with_beam(
        self, numbers: Sequence[int], options: PipelineOptions, check: Callable[[int], object] = lambda number: None
    ) -> None:
        """Writes files on workers that see the directory, after a picklable `check` of each number, and waits."""
        beam = import_extra("apache_beam", "Apache Beam", "beam")
        if not numbers:
            return
        self._update_notes([])
        with beam.Pipeline(options=options) as pipeline:
            spread_numbers = (
                pipeline | "numbers" >> beam.Create(numbers) | "spread over the workers" >> beam.Reshuffle()
            )
            checked = beam.pvalue.AsList(spread_numbers | "check" >> beam.Map(check))
            _ = (
                spread_numbers
                | "write" >> beam.FlatMap(lambda number, _: self._write_file(number), checked)  # after all checks
                | "all of them" >> beam.combiners.ToList()
                | "note" >> beam.Map(self._update_notes)
            )

    def totals(self, *counts: str) -> Counts:
        """Sums counts over all complete files. Raises ValueError if a file's notes lack a count."""
        self.notes = self._read_notes()  # a pipeline's worker may have written them
        complete = [file_counts for file_counts in map(self.notes.get, self.names) if file_counts]
        for count in counts:
            if not all(count in file_counts for file_counts in complete):
                raise ValueError(
                    f"{self.directory / self.notes_file} is damaged: it lacks the count of {count} of a file"
                )
        return {count: sum(file_counts[count] for file_counts in complete) for count in counts}

    def _incomplete(self) -> list[int]:
        return [number for number, name in enumerate(self.names) if not self.notes.get(name)]

    def _write_file(
        self, number: int, on_counts: Callable[[Counts], object] = lambda counts: None
    ) -> Iterator[tuple[str, Counts]]:
        name, counts = self.names[number], Counter()
        with files.written_whole(self.directory / name) as unfinished:
            for each in self.write_file(number, unfinished):
                counts.update(each)
                on_counts(each)
        yield name, dict(counts)

    def _update_notes(self, results: Iterable[tuple[str, Counts]]) -> None:
        counts_by_name = {name: self.notes.get(name) for name in self.names}
        self.notes = dict(sorted({**self.notes, **counts_by_name, **dict(results)}.items()))
        content = {"settings": self.settings, "files": self.notes}
        files.write_texts(self.directory, {self.notes_file: files.to_json(content)})

    def _read_notes(self) -> dict[str, Counts | None]:
        path = self.directory / self.notes_file
        content = files.read_json(path, _NOTES) if path.exists() else {"settings": {}, "files": {}}
        # Files that are missing are written again.
        notes = {name: each for name, each in content["files"].items() if (self.directory / name).exists()}
        noted = content["settings"]
        different = [name for name, value in self.settings.items() if not self.is_same(noted.get(name), value)]
        if notes and different:
            raise ValueError(
                f"{self.directory} holds {self.content} with other {', '.join(different)}; choose another directory"
            )
        for name in self.names:
            if name not in notes and (self.directory / name).exists():
                raise ValueError(f"{self.directory} holds a {name} from elsewhere; choose another directory")
        return notes
