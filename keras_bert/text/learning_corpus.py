"""Reads a corpus of any size, texts or files, as batches of UTF-8 texts."""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from keras_bert.text.arguments import check_many
from keras_bert.text.strings import lone_surrogate

Corpus = Path | Iterable[str | Path]

_BATCH_BYTES = 2**20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_batches(corpus: Corpus) -> Iterator[list[bytes]]:
    """Reads a corpus, as for `learn_vocabulary`, in batches of about a megabyte, with a progress bar on a terminal.

    Empty lines are left out.

    Raises (while it reads; for files in a list, at once):
        TypeError: the corpus is one str, or an element is neither str nor Path.
        FileNotFoundError: there is no such file, or a directory has no .txt files.
        ValueError: a file is not UTF-8, or binary; a text has a lone surrogate.

    Example:
        >>> list(read_batches(["a cat", "un café"]))
        [[b'a cat', b'un caf\\xc3\\xa9']]
    """
    if isinstance(corpus, str | bytes):
        raise TypeError(f"the corpus is one {type(corpus).__name__}, {corpus!r:.60}; expected texts, or a pathlib.Path")
    corpus = [corpus] if isinstance(corpus, Path) else corpus
    check_many(corpus, "corpus")
    total = None
    if isinstance(corpus, list | tuple):
        corpus = [part for each in corpus for part in (text_files(each) if isinstance(each, Path) else [each])]
        if all(isinstance(part, Path) for part in corpus):
            total = sum(path.stat().st_size for path in corpus)
    return _batches(corpus, total)


def text_files(path: Path) -> list[Path]:
    """`path` itself, or the .txt files in a directory, sorted by name.

    Raises FileNotFoundError if there are none, or one is a broken link.
    """
    if not path.is_dir():
        if not path.exists():
            raise FileNotFoundError(f"there is no file {path}")
        return [path]
    found = sorted(path.glob("*.txt"))
    if not found:
        raise FileNotFoundError(f"the directory {path} has no .txt files")
    for each in found:
        if not each.exists():
            raise FileNotFoundError(f"{each} is a link to {each.readlink()}, which does not exist")
    return found


def _batches(corpus: Iterable[str | Path], total: int | None) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    with tqdm(desc="reading", total=total, unit="B", unit_scale=True, delay=1, disable=None) as bar:
        for text in _texts(corpus):
            batch.append(text)
            size += len(text)
            if size >= _BATCH_BYTES:
                yield batch
                bar.update(size)
                batch, size = [], 0
        if batch:
            yield batch
            bar.update(size)


def _texts(corpus: Iterable[str | Path]) -> Iterator[bytes]:
    for number, each in enumerate(corpus):
        if isinstance(each, Path):
            yield from itertools.chain.from_iterable(map(_lines, text_files(each)))
            continue
        if not isinstance(each, str):
            raise TypeError(f"text {number} is {each!r:.60} ({type(each).__name__}); expected a str or a pathlib.Path")
        try:
            yield each.encode()
        except UnicodeEncodeError as error:
            raise lone_surrogate(number, error) from None


def _lines(path: Path) -> Iterator[bytes]:
    """The non-empty lines of a file; a line of many megabytes is cut into parts, at spaces."""
    with path.open("rb") as file:
        rest, offset = b"", 0  # the bytes not yet yielded, and their offset in the file
        while True:
            block = file.read(_BATCH_BYTES)
            data = rest + block
            cut = len(data) if not block else data.rfind(b"\n") + 1 or data.rfind(b" ") + 1
            data, rest = data[:cut], data[cut:]
            _check(data, path, offset)
            text = data.removeprefix(_BYTE_ORDER_MARK) if offset == 0 else data
            yield from filter(None, map(bytes.strip, text.split(b"\n")))
            offset += cut
            if not block:
                return


def _check(data: bytes, path: Path, offset: int) -> None:
    nul = data.find(b"\0")
    if nul >= 0:
        raise ValueError(f"{path} is not text: it has a byte 0x00 at offset {offset + nul:,}")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text: byte {data[error.start]:#04x} at offset {offset + error.start:,}; convert it "
            "first, with iconv for instance"
        ) from None
