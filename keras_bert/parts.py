"""Files that are written part by part, by processes or by a Beam pipeline, and notes of the complete ones."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert import files
from keras_bert.extras import needed
from keras_bert.processes import in_processes

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

Counts = dict[str, int]
_NOTES = {"settings": dict, "files": {str: ({str: int}, None)}}  # the shape of the notes


def check_processes(processes: int, pipeline_options: PipelineOptions | None) -> None:
    """Raises ValueError if the number of processes is bad, or if a Beam pipeline, which has its own, does the work."""
    if processes < 1:
        raise ValueError(f"processes is {processes}; expected at least 1")
    if processes > 1 and pipeline_options is not None:
        raise ValueError(
            f"processes is {processes}, but the pipeline has its own workers; set their number in its options"
        )


class Parts:
    """Files to write into a directory, each whole or not at all, and notes there of the complete ones.

    After an interruption, the same work goes on with the files that are not complete. A directory of other work is
    refused. An object can be pickled, for other processes.

    Args:
        directory: for the files and the notes.
        notes: the name of the file of notes.
        content: a noun for what the files hold, for messages: "records".
        settings: everything that the files depend on, in types that JSON has.
        names: the names of the files.
        write: writes the file of a number at a path. It yields counts of what it has done since it yielded last; their
            sums are noted. It must be picklable.

    Attributes:
        names: list of str.
        notes: dict: the names of files that were begun -> their counts, or None for a file that is not complete.

    Raises:
        ValueError: the directory holds files of other settings, or files of these names that are something else.
    """

    def __init__(
        self,
        directory: Path,
        notes: str,
        content: str,
        settings: dict[str, Any],
        names: Sequence[str],
        write: Callable[[int, Path], Iterable[Counts]],
    ) -> None:
        self.names = list(names)
        self._directory = directory
        self._file = notes
        self._content = content
        self._settings = settings
        self._write = write
        self.notes = self._read()

    @contextlib.contextmanager
    def alone(self) -> Iterator[list[int]]:
        """The numbers of the files that are left, for a block in which no other process writes them.

        Raises:
            BlockingIOError: another process is in such a block.
        """
        if not self._left():
            yield []
            return
        with files.only_writer(self._directory):
            self.notes = self._read()  # another process may have ended a moment ago
            yield self._left()

    def write(self, left: Sequence[int], processes: int, tell: Callable[[Counts], Any]) -> None:
        """Writes files.

        Args:
            left: their numbers, as `alone` gives them.
            processes: the number of processes.
            tell: called with counts of what was done since the last call.

        Raises:
            OSError: a file cannot be written; incomplete files are removed.
            RuntimeError: one of several processes was killed.
        """
        several = processes > 1 and len(left) > 1
        if left:
            self._note([])  # claims the files, in case this is interrupted
        written = in_processes(self._written, left, processes) if several else (self._written(i, tell) for i in left)
        with contextlib.closing(written):
            for name, counts in written:
                self._note([(name, counts)])
                if several:
                    tell(counts)

    def write_with_beam(
        self, left: Sequence[int], options: PipelineOptions, check: Callable[[int], Any] = lambda number: None
    ) -> None:
        """Writes files in a pipeline, and waits for its end. The files are noted as complete when all of them are.

        Args:
            left: their numbers, as `alone` gives them.
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
            (
                numbers
                | "write" >> beam.Map(lambda number, _: self._written(number), checked)  # after all checks
                | "all of them" >> beam.combiners.ToList()
                | "note" >> beam.Map(self._note)
            )

    def totals(self, *counts: str) -> Counts:
        """The sums of these counts over all complete files. Raises ValueError if the notes lack one."""
        self.notes = self._read()  # a pipeline's worker may have written them
        complete = [noted for noted in map(self.notes.get, self.names) if noted]
        for count in counts:
            if not all(count in noted for noted in complete):
                raise ValueError(f"{self._directory / self._file} is damaged: a file has no count of {count}")
        return {count: sum(noted[count] for noted in complete) for count in counts}

    def _left(self) -> list[int]:
        return [number for number, name in enumerate(self.names) if not self.notes.get(name)]

    def _written(self, number: int, tell: Callable[[Counts], Any] = lambda counts: None) -> tuple[str, Counts]:
        name, counts = self.names[number], Counter()
        with files.written_whole(self._directory / name) as unfinished:
            for each in self._write(number, unfinished):
                counts.update(each)
                tell(each)
        return name, dict(counts)

    def _note(self, written: Iterable[tuple[str, Counts]]) -> None:
        begun = {name: self.notes.get(name) for name in self.names}
        self.notes = dict(sorted({**self.notes, **begun, **dict(written)}.items()))
        files.write_texts(
            self._directory, {self._file: files.to_json({"settings": self._settings, "files": self.notes})}
        )

    def _read(self) -> dict[str, Counts | None]:
        path = self._directory / self._file
        notes = files.read_json(path, _NOTES) if path.exists() else {"settings": {}, "files": {}}
        # A file that was begun but is not there, or was removed, is written again.
        noted = {name: each for name, each in notes["files"].items() if (self._directory / name).exists()}
        different = [name for name, value in self._settings.items() if notes["settings"].get(name) != value]
        if noted and different:
            raise ValueError(
                f"{self._directory} holds {self._content} with other {', '.join(different)}; choose another directory"
            )
        for name in self.names:
            if name not in noted and (self._directory / name).exists():
                raise ValueError(f"{self._directory} holds another {name}; choose another directory")
        return noted
