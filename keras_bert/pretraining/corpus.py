"""Files of running text -> documents of sentences, a part of the corpus at a time."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

LAYOUTS = ("prose", "sentences")
# The least characters of a document when a book is cut, at the end of a paragraph: long enough to fill many sequences,
# short enough that a corpus of one book has several documents.
_DOCUMENT_LENGTH = 2**15
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# The end of a sentence: its marks, closing quotes and brackets, white space, and a character that may begin a sentence;
# or the marks of languages without white space.
_SENTENCE_END = re.compile(r"""([.!?…]+["'”’»)\]]*)\s+(?=["'“‘«(\[¿¡]*[^\W_a-z])|([。！？]+[」』”]*)""")
# A full stop after these ends no sentence: titles, and the initial of a name.
_ABBREVIATION = re.compile(r"(?:^|[\s(\"'“‘])(?:Mr|Mrs|Ms|Messrs|Dr|Prof|Rev|St|Mt|Col|Gen|Capt|Lt|Hon|vs|No|[A-Z])\.$")


class CorpusPart(NamedTuple):
    """A part of a corpus: a range of bytes in its concatenated files. Every document begins in one part.

    Attributes:
        files: all files of the corpus.
        start, end: in bytes, from the beginning of the first file.
    """

    files: tuple[Path, ...]
    start: int
    end: int


def parts_of(files: Sequence[str | Path], part_bytes: int = 2**24) -> list[CorpusPart]:
    """Cuts a corpus into parts of about equal size that can be read independently.

    Args:
        files: UTF-8 text.
        part_bytes: the most bytes in one part, about.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a file is no text, or all files are empty.

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
    return [CorpusPart(paths, start, end) for start, end in itertools.pairwise(edges)]


def is_one_document(files: Sequence[str | Path], layout: str = "prose") -> bool:
    """Whether a corpus is a single document, without another one to take random sentences from.

    Reads at most two documents.

    Raises:
        FileNotFoundError, ValueError: as `parts_of` and `documents` do.
    """
    (whole,) = parts_of(files, part_bytes=sys.maxsize)
    return len(list(itertools.islice(documents(whole, layout), 2))) == 1


def documents(part: CorpusPart, layout: str = "prose") -> Iterator[list[str]]:
    """The documents that begin in a part, each a list of its sentences.

    Args:
        part: as `parts_of` gives it.
        layout: "prose": paragraphs with blank lines between them and line breaks anywhere; sentences are found by their
            marks, and a file is one document, or several if it is long. "sentences": one sentence per line, a blank
            line between documents, as Google's `create_pretraining_data.py` reads it.

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
    """The offset behind the first blank line that begins after `offset`: the next block of lines, or the end."""
    if offset == 0:
        return 0
    file.seek(offset)
    file.readline()  # the rest of the current line
    while line := file.readline():
        if not line.strip():
            break
    return file.tell()


def _blocks(file: BinaryIO, end: int, path: Path) -> Iterator[list[str]]:
    """Blocks of stripped lines between blank lines, from the position of `file` up to `end`."""
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
            if size >= 2 * _DOCUMENT_LENGTH:  # a very long paragraph
                yield document
                document, size = [], 0
        if size >= _DOCUMENT_LENGTH:
            yield document
            document, size = [], 0
    if document:
        yield document


def sentences(text: str) -> list[str]:
    """Cuts a text into sentences, after each mark that ends one and is followed by a possible beginning.

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
