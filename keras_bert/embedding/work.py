"""The files to embed into a directory, and a record of those done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.embedding.formats import format_of
from keras_bert.embedding.shared_model import load, model_of

NOTES = "embedding.json"
_ROWS_AT_A_TIME = 4096  # enough to batch by length, few enough for any memory


class EmbeddingWork:
    """The files to write into a directory, and a record of those done. It can be pickled, for other processes.

    Args:
        inputs, ...: see `embed_files`.

    Attributes:
        directory: Path.
        names: list of str: the files' names, in order.

    Raises:
        FileNotFoundError, ValueError: as `embed_files` does, before anything is written.
    """

    def __init__(
        self,
        inputs: Sequence[str | Path],
        directory: str | Path,
        preset: str | Path,
        text_column: str,
        batch_tokens: int,
    ) -> None:
        self.directory = Path(directory)
        self._inputs = [Path(path) for path in inputs]
        self.names = [path.name for path in self._inputs]
        self._preset = preset
        self._check_inputs()
        digest = load(preset)
        self._settings = {"preset": digest, "text_column": text_column, "batch_tokens": batch_tokens}
        model_of(preset, digest).encode([], batch_tokens)  # raises if these are too few
        self._notes = self._read_notes()

    def left(self) -> list[int]:
        """The indices of the files that are still to be written."""
        return [index for index, name in enumerate(self.names) if not self._notes.get(name)]

    def count(self, index: int) -> int:
        """The number of rows in a file. Raises ValueError if a row cannot be embedded."""
        path = self._inputs[index]
        return format_of(path).count(path, self._settings["text_column"])

    def write(self, index: int, tell: Callable[[int], Any] = lambda rows: None) -> tuple[str, dict[str, int]]:
        """Writes a file, whole or not at all; returns its name and counts, for `note`.

        Args:
            index: the file's index.
            tell: called with a number of rows when these are done.
        """
        path = self._inputs[index]
        read, its_format = _stamp(path), format_of(path)
        column, batch_tokens = self._settings["text_column"], self._settings["batch_tokens"]
        model = model_of(self._preset, self._settings["preset"])
        rows = cut = 0
        with files.written_whole(self.directory / path.name) as unfinished:
            with its_format.writer(unfinished, path, model.encoder.config.hidden_size) as write:
                for part, texts in its_format.parts(path, column, _ROWS_AT_A_TIME):
                    vectors, cut_here = model.encode_counted(texts, batch_tokens)
                    write(part, vectors)
                    tell(len(texts))
                    rows, cut = rows + len(texts), cut + cut_here
            if _stamp(path) != read:
                raise ValueError(f"{path} was changed while it was read")
        return path.name, {**read, "rows": rows, "cut": cut}

    def note(self, written: Iterable[tuple[str, dict[str, int]]]) -> None:
        """Records in the directory which files are complete and which are to come. Only one process may do so."""
        begun = {name: self._notes.get(name) for name in self.names}
        self._notes = dict(sorted({**self._notes, **begun, **dict(written)}.items()))
        files.write_texts(self.directory, {NOTES: files.to_json({"settings": self._settings, "files": self._notes})})

    def counts(self) -> dict[str, int]:
        """Totals of the files recorded as complete: `files`, `rows` and `cut`."""
        notes = self._read_notes()
        done = [notes[name] for name in self.names if notes.get(name)]
        return {"files": len(done), **{name: sum(each[name] for each in done) for name in ("rows", "cut")}}

    def _check_inputs(self) -> None:
        if not self._inputs:
            raise ValueError("there are no files to embed")
        name, times = Counter(self.names).most_common(1)[0]
        if times > 1:
            raise ValueError(f"{times} files are called {name}, but each is written under its own name")
        for path in self._inputs:
            format_of(path)
            if not path.is_file():
                raise FileNotFoundError(f"there is no file {path}")
            output = self.directory / path.name
            if output.exists() and output.samefile(path):
                raise ValueError(f"{path} would be replaced by what is written; choose another directory")

    def _read_notes(self) -> dict[str, dict[str, int] | None]:
        path = self.directory / NOTES
        notes = files.read_json(path) if path.exists() else {"settings": self._settings, "files": {}}
        different = [name for name, value in self._settings.items() if notes["settings"].get(name) != value]
        if different:
            raise ValueError(
                f"{self.directory} holds vectors with other {', '.join(different)}; choose another directory"
            )
        noted = notes["files"]
        for source in self._inputs:
            name, output = source.name, self.directory / source.name
            if not output.exists():
                noted.pop(name, None)  # if it was removed, it is written again
            elif name not in noted:
                raise ValueError(f"{self.directory} holds another {name}; choose another directory")
            elif noted[name] and not _stamp(source).items() <= noted[name].items():
                raise ValueError(
                    f"{source} is not what it was when {output} was written; choose another directory, or remove that "
                    "file"
                )
        return noted


def _stamp(path: Path) -> dict[str, int]:
    """Size and time of a file, to detect a change."""
    stat = path.stat()
    return {"bytes": stat.st_size, "modified_ns": stat.st_mtime_ns}
