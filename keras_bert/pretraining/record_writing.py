"""Records of a corpus in a directory: a file for each part, and notes of the complete files."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tqdm import tqdm

from keras_bert import files
from keras_bert.pretraining.corpus import is_one_document, parts_of
from keras_bert.pretraining.records import SETTINGS
from keras_bert.pretraining.shards import COUNTS, ShardWriter
from keras_bert.processes import in_processes
from keras_bert.text import BertPreprocessor


def write_records(
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
    processes: int = 1,
    progress: bool | None = None,
) -> dict[str, int]:
    """Writes the examples of a corpus, a file for each part of it. Each process holds one part in memory.

    After an interruption, the same call goes on with the missing parts.

    Args:
        corpus: files of UTF-8 text.
        directory: for the records. Made if it does not exist.
        preprocessor: its tokenizer, and the `sequence_length` of the records.
        objective: "next_sentence", "sentence_order" or "sentences": see `make_examples`.
        layout: "prose" or "sentences": see `documents`.
        copies: how often each document is used, with other pairs and other masks.
        predictions: the most masked tokens in a sequence; by default 15% of its length.
        unit: what is masked as a whole: "token", "word" or "span".
        pack: whether short documents share a sequence, with "sentences" only. Our encoder reads each by itself, by
            `input_document_ids`; Google's does not.
        seed: the same corpus and the same seed give the same records.
        part_bytes: bytes of text in a part, about.
        processes: the number of processes that write. The records do not depend on it. As always when Python starts
            processes, a script that asks for several needs `if __name__ == "__main__":` around its code.
        progress: whether to show a progress bar; by default on a terminal.

    Returns:
        Counts: `documents`, `sentences`, `tokens`, `examples`, and `cut`, the tokens that are in no example,
        with "next_sentence" also those of a document that is alone in its part.

    Raises:
        FileNotFoundError, ValueError: the corpus cannot be used, an argument is bad, or the directory holds other
            records.
        OSError: a file cannot be written; incomplete files are removed.
        RuntimeError: one of several processes was killed.

    Example:
        >>> import tempfile
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=32)
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "text.txt").write_text("One came. Two went.\\n\\nThree slept. Four ate.")
        >>> counts = write_records([folder / "text.txt"], folder / "records", preprocessor, layout="sentences")
        >>> counts["documents"], counts["examples"]
        (2, 2)
    """
    if processes < 1:
        raise ValueError(f"processes is {processes}; expected at least 1")
    work = RecordsWork(
        corpus, directory, preprocessor, objective, layout, copies, predictions, unit, pack, seed, part_bytes
    )
    left = work.left()
    several = processes > 1 and len(left) > 1
    written = in_processes(work.write, left, processes) if several else (work.write(i) for i in left)
    with (
        contextlib.closing(written),
        tqdm(
            total=len(work.names),
            initial=len(work.names) - len(left),
            unit=" parts",
            disable=None if progress is None else not progress,
        ) as bar,
    ):
        for each in written:
            work.note([each])
            bar.update()
    return work.counts()


class RecordsWork:
    """The files to write into a directory, and those already written. It can be pickled, for other processes.

    Args:
        corpus, ...: see `write_records`.

    Attributes:
        directory: Path.
        names: list of str: the names of the files, in order.

    Raises:
        FileNotFoundError, ValueError: as `write_records` does, before anything is written.
    """

    def __init__(
        self,
        corpus: Sequence[str | Path],
        directory: str | Path,
        preprocessor: BertPreprocessor,
        objective: str,
        layout: str,
        copies: int,
        predictions: int | None,
        unit: str,
        pack: bool,
        seed: int,
        part_bytes: int,
    ) -> None:
        if preprocessor.sequence_length is None:
            raise ValueError("sequence_length is None, but all records have the same length: give the preprocessor one")
        if copies < 1:
            raise ValueError(f"copies is {copies}; expected at least 1")
        if pack and objective != "sentences":
            raise ValueError(f"pack is for objective 'sentences'; with {objective!r}, a sequence is a pair")
        if predictions is None:
            predictions = max(1, round(0.15 * preprocessor.sequence_length))
        self._writer = ShardWriter(preprocessor, objective, layout, predictions, unit, pack)
        self._parts = parts_of(corpus, part_bytes)
        self._settings = {
            "files": [[path.name, path.stat().st_size] for path in self._parts[0].files],
            "vocabulary": _digest(preprocessor), "sequence_length": preprocessor.sequence_length,
            "objective": objective, "layout": layout, "copies": copies, "predictions": predictions, "unit": unit,
            "pack": pack, "seed": seed, "part_bytes": part_bytes,
        }  # fmt: skip
        self.directory = Path(directory)
        count = copies * len(self._parts)
        self.names = [f"examples-{index:05}-of-{count:05}.tfrecord" for index in range(count)]
        self._done = self._read_notes()
        if objective == "next_sentence" and is_one_document(corpus, layout):
            raise ValueError(
                "there is one document only, so that no sentence can be taken from another one; add text, separate its "
                "documents by blank lines (layout 'sentences'), or use 'sentence_order'"
            )

    def left(self) -> list[int]:
        """The numbers of the missing files."""
        return [index for index, name in enumerate(self.names) if name not in self._done]

    def write(self, index: int) -> tuple[str, dict[str, int]]:
        """Writes a file, whole or not at all. Returns its name and its counts, for `note`."""
        copy, number = divmod(index, len(self._parts))
        name = self.names[index]
        with files.written_whole(self.directory / name) as unfinished:
            return name, self._writer(self._parts[number], [self._settings["seed"], copy, number], unfinished)

    def note(self, written: Iterable[tuple[str, dict[str, int]]]) -> None:
        """Notes in the directory that files are complete. Only one process may do so."""
        self._done = dict(sorted({**self._done, **dict(written)}.items()))
        notes = {"settings": self._settings, "shards": self._done}
        files.write_texts(self.directory, {SETTINGS: files.to_json(notes)})

    def counts(self) -> dict[str, int]:
        """The sums of the counts of all noted files.

        Raises:
            ValueError: there are no examples.
        """
        self._done = self._read_notes()
        counts = {name: sum(shard[name] for shard in self._done.values()) for name in COUNTS}
        if counts["examples"]:
            return counts
        message = f"the corpus gives no examples: {counts['documents']:,} documents, {counts['tokens']:,} tokens"
        if self._settings["objective"] == "next_sentence" and counts["tokens"]:
            message += (
                "; each is alone in its part of the corpus, so that no sentence can be taken from another one: use "
                "larger part_bytes, or 'sentence_order'"
            )
        raise ValueError(message)

    def _read_notes(self) -> dict[str, dict[str, int]]:
        path = self.directory / SETTINGS
        if not path.exists():
            if self.directory.is_dir() and any(self.directory.glob("*.tfrecord")):
                raise ValueError(
                    f"{self.directory} holds records, but no {SETTINGS}: they are of something else; choose another"
                )
            return {}
        notes = files.read_json(path)
        different = [name for name, value in self._settings.items() if notes["settings"].get(name) != value]
        if different:
            raise ValueError(
                f"{self.directory} holds records with other {', '.join(different)}; choose another directory"
            )
        return notes["shards"]


def _digest(preprocessor: BertPreprocessor) -> str:
    config = preprocessor.tokenizer.get_config()
    return hashlib.sha256(json.dumps(config, sort_keys=True, default=repr).encode()).hexdigest()
