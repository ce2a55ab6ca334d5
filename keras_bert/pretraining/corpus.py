"""Files of running text -> documents of sentences, a part of the corpus at a time."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

LAYOUTS = ("prose", "sentences")
# A book is cut, at the end of a paragraph, into documents of at least so many characters: long enough to fill many
# sequences, short enough that a corpus of one book has sentences that do not follow one another.
_DOCUMENT_LENGTH = 2**15
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# The end of a sentence: its marks and what closes behind them, then white space and what a sentence may begin with; or
# marks of languages that have no white space.
_SENTENCE_END = re.compile(r"""([.!?…]+["'”’»)\]]*)\s+(?=["'“‘«(\[¿¡]*[^\W_a-z])|([。！？]+[」』”]*)""")
# A full stop behind these ends no sentence: titles, and a letter that stands for a name.
_ABBREVIATION = re.compile(r"(?:^|[\s(\"'“‘])(?:Mr|Mrs|Ms|Messrs|Dr|Prof|Rev|St|Mt|Col|Gen|Capt|Lt|Hon|vs|No|[A-Z])\.$")


class Part(NamedTuple):
    """A part of a corpus: so many bytes of its files, one behind the other. Every document begins in one part.

    Attributes:
        files: of the corpus, all of them.
        start, end: in bytes, from the beginning of the first file.
    """

    files: tuple[Path, ...]
    start: int
    end: int


def parts_of(files: Sequence[str | Path], part_bytes: int = 2**24) -> list[Part]:
    """Cuts a corpus into parts of about equal size that can be read one by one, anywhere.

    Args:
        files: UTF-8 text.
        part_bytes: the most bytes in one, about.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a file is no text, or there is none in all of them.

    Example:
        >>> from importlib import resources
        >>> path = resources.files("keras_bert").joinpath("config.py")
        >>> len(parts_of([path], part_bytes=2000)) > 1
        True
    """
    paths = tuple(map(Path, files))
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        with path.open("rb") as file:
            if b"\0" in file.read(4096):
                raise ValueError(f"{path} is no text: it has bytes of value 0")
    size = sum(path.stat().st_size for path in paths)
    if not size:
        raise ValueError("the corpus is empty")
    count = -(-size // part_bytes)
    edges = [size * i // count for i in range(count + 1)]
    return [Part(paths, start, end) for start, end in itertools.pairwise(edges)]


def is_one_document(files: Sequence[str | Path], layout: str = "prose") -> bool:
    """Whether a corpus is a single document, so that none of its sentences can be taken from another one.

    No more is read than two documents.

    Raises:
        FileNotFoundError, ValueError: as `parts_of` and `documents` do.
    """
    (whole,) = parts_of(files, part_bytes=sys.maxsize)
    return len(list(itertools.islice(documents(whole, layout), 2))) == 1


def documents(part: Part, layout: str = "prose") -> Iterator[list[str]]:
    """The documents that begin in a part, each a list of its sentences.

    Args:
        part: as `parts_of` gives it.
        layout: "prose": paragraphs with blank lines between them, whose lines may be broken anywhere; sentences are
            found by their marks, and a file is one document, or several if it is long. "sentences": a sentence a line,
            a blank line between documents, as Google's `create_pretraining_data.py` reads it.

    Raises:
        ValueError: an unknown layout, or text that is not UTF-8.

    Example:
        >>> from importlib import resources
        >>> (part,) = parts_of([resources.files("keras_bert").joinpath("pretraining/corpus.py")])
        >>> next(documents(part, "sentences"))
        ['\"\"\"Files of running text -> documents of sentences, a part of the corpus at a time.\"\"\"']
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout is {layout!r}; expected one of {', '.join(LAYOUTS)}")
    offset = 0
    for path in part.files:
        size = path.stat().st_size
        start, end = max(part.start - offset, 0), min(part.end - offset, size)
        offset += size
        if start >= end:
            continue
        with path.open("rb") as file:
            start, end = _next_block(file, start), _next_block(file, end)
            file.seek(start)
            blocks = _blocks(file, end, path)
            yield from blocks if layout == "sentences" else _documents_of_prose(blocks)


def _next_block(file: BinaryIO, offset: int) -> int:
    """Where the first block of lines begins that has a blank line, wholly behind `offset`, before it; or the end."""
    if offset == 0:
        return 0
    file.seek(offset)
    file.readline()  # the rest of a line that begins before
    while line := file.readline():
        if not line.strip():
            break
    return file.tell()


def _blocks(file: BinaryIO, end: int, path: Path) -> Iterator[list[str]]:
    """Lines with no blank one between them, stripped, from where `file` is up to `end`."""
    block: list[str] = []
    position = file.tell()
    while position < end:
        line = file.readline()
        if position == 0:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path} is not UTF-8 text: byte {line[error.start]:#x} at offset {position + error.start:,}; convert "
                "it first"
            ) from None
        position = file.tell()
        if text:
            block.append(text)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _documents_of_prose(paragraphs: Iterator[list[str]]) -> Iterator[list[str]]:
    document: list[str] = []
    size = 0
    for lines in paragraphs:
        for sentence in sentences(" ".join(lines)):
            document.append(sentence)
            size += len(sentence)
            if size >= 2 * _DOCUMENT_LENGTH:  # a paragraph without an end
                yield document
                document, size = [], 0
        if size >= _DOCUMENT_LENGTH:
            yield document
            document, size = [], 0
    if document:
        yield document


def sentences(text: str) -> list[str]:
    """Cuts a text behind each mark that ends a sentence and is followed by what may begin one.

    Example:
        >>> sentences('Mr. A. Bell came. "Why?" she asked. At 3.30 he left!')
        ['Mr. A. Bell came.', '"Why?" she asked.', 'At 3.30 he left!']
    """
    text, found, start = text.strip(), [], 0
    for end in _SENTENCE_END.finditer(text):
        before = text[start : end.end(end.lastindex)]
        if not _ABBREVIATION.search(before[-10:]):
            found.append(before)
            start = end.end()
    return [*found, text[start:]] if start < len(text) else found
