"""Files of texts -> the same files with vectors, by processes on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from keras_bert.embedding.work import EmbeddingWork
from keras_bert.processes import in_processes


def embed_files(
    files: Sequence[str | Path],
    directory: str | Path,
    preset: str | Path,
    text_column: str = "text",
    batch_tokens: int = 1024,
    processes: int = 1,
    progress: bool | None = None,
) -> dict[str, int]:
    """Writes a copy of each file, with its rows in the same order and one more column, `vector`.

    Files are read and written in parts, so they can have any size. All rows are checked before the first is embedded.
    After an interruption, the same call goes on with the files that are not done.

    Args:
        files: JSON lines (`.jsonl`, `.ndjson`), one object per line, copied as it is; or Parquet (`.parquet`). A copy
            has the name and format of its file. No two files may have the same name.
        directory: for the copies. Created if missing.
        preset: a preset of a sentence encoder, see `BertSentenceEncoder.from_preset`.
        text_column: the column to embed. Each row must have a text there.
        batch_tokens: the number of tokens to compute at a time, padding included.
        processes: the number of processes, each for another file, without a GPU. As always when Python starts
            processes, a script that asks for several needs `if __name__ == "__main__":` around its code.
        progress: whether to show a progress bar; by default on a terminal.

    Returns:
        Counts: `files`, `rows`, and `cut`, the texts that were cut to the model's maximum length.

    Raises:
        FileNotFoundError, ValueError: a file or a row cannot be used, an argument is bad, or the directory holds
            something else: vectors of another model, or of a file that has changed since.
        ImportError: there is a Parquet file, but no pyarrow: `pip install 'keras-bert-models[parquet]'`.
        OSError: a file cannot be written; incomplete files are removed.
        RuntimeError: one of several processes was killed.

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
    if processes < 1:
        raise ValueError(f"processes is {processes}; expected at least 1")
    work = EmbeddingWork(files, directory, preset, text_column, batch_tokens)
    left = work.left()
    bars = {"disable": None if progress is None else not progress}
    rows = sum(work.count(index) for index in tqdm(left, "checking", leave=False, delay=1, unit=" files", **bars))
    work.note([])  # claims the files, in case this is interrupted
    done = work.counts()["rows"]
    several = processes > 1 and len(left) > 1
    with tqdm(total=done + rows, initial=done, unit=" rows", **bars) as bar:
        one_by_one = (work.write(index, bar.update) for index in left)
        written = in_processes(work.write, left, processes) if several else one_by_one
        with contextlib.closing(written):
            for name, counts in written:
                work.note([(name, counts)])
                if several:
                    bar.update(counts["rows"])
    return work.counts()
