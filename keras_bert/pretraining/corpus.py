"""Text files -> documents of sentences, one part of the corpus at a time."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from keras_bert.choices import LAYOUTS, check_choice
from keras_bert.counted import listed
from keras_bert.data.table_formats import check_lines
from keras_bert.text.arguments import check_many

# Long files are split, at the end of a paragraph, into documents of at least this many characters, so that a document
# fills many sequences, and a book has several documents.
_DOCUMENT_LENGTH = 2**15
_LONGEST_FIRST_LINE = 2**20  # bytes that are searched for the first line end
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# The end of a sentence: punctuation, closing quotes and brackets, white space, and a character that can begin a
# sentence; or the punctuation of languages without white space.
_SENTENCE_END = re.compile(r"""([.!?…]+["'”’»)\]]*)\s+(?=["'“‘«(\[¿¡]*[^\W_a-z])|([。！？]+[」』”]*)""")
# A full stop after a title or an initial does not end a sentence.
_ABBREVIATION = re.compile(r"(?:^|[\s(\"'“‘])(?:Mr|Mrs|Ms|Messrs|Dr|Prof|Rev|St|Mt|Col|Gen|Capt|Lt|Hon|vs|No|[A-Z])\.$")


class CorpusPart(NamedTuple):
    """A range of bytes in the concatenated files of a corpus. Every document begins in exactly one part."""

    files: tuple[Path, ...]  # all files of the corpus
    start: int
    end: int


def parts_of(files: Sequence[str | Path], part_bytes: int = 2**24) -> list[CorpusPart]:
    """Splits a corpus of text files in UTF-8 into parts of about `part_bytes` that can be read independently.

    Raises:
        TypeError: `files` is a single path.
        FileNotFoundError: a file does not exist.
        ValueError: a file is not text, or all are empty.

    Example:
        >>> from importlib import resources
        >>> path = resources.files("keras_bert").joinpath("config.py")
        >>> len(parts_of([path], part_bytes=2000)) > 1
        True
    """
    check_many(files, "corpus", "path")
    paths = tuple(map(Path, files))
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        check_lines(path)
        with path.open("rb") as file:
            head = file.read(_LONGEST_FIRST_LINE)
        if b"\0" in head[:4096]:
            raise ValueError(f"{path} is not text: it has bytes of value 0")
        if b"\r" in head and b"\n" not in head:
            raise ValueError(f"{path}: its lines end in \\r, as of old Macs; convert them first: tr '\\r' '\\n'")
    size = sum(path.stat().st_size for path in paths)
    if not size:
        raise ValueError("the corpus is empty")
    count = -(-size // part_bytes)
    edges = [size * i // count for i in range(count + 1)]
    return [CorpusPart(paths, start, end) for start, end in itertools.pairwise(edges)]


def check_documents(files: Sequence[str | Path], layout: str, objective: str) -> None:
    """Raises ValueError for a corpus of one document if the objective needs two. Reads at most two documents."""
    if objective != "next_sentence":
        return
    (whole_corpus,) = parts_of(files, part_bytes=sys.maxsize)
    if len(list(itertools.islice(documents(whole_corpus, layout), 2))) == 1:
        raise ValueError(
            f"{listed(list(map(str, files)))}: there is only one document, but next_sentence needs several; add text, "
            "separate documents by blank lines (layout 'sentences'), or use the objective 'sentence_order' or "
            "'sentences'"
        )


def documents(part: CorpusPart, layout: str = "prose") -> Iterator[list[str]]:
    """Yields the documents that begin in a part, each a list of sentences.

    Args:
        part: a part from `parts_of`.
        layout: "prose": blank lines separate paragraphs, line breaks have no meaning, and punctuation ends sentences; a
            file is one document, or several if it is long. "sentences": one sentence per line, and a blank line between
            documents, as in Google's `create_pretraining_data.py`.

    Raises:
        ValueError: the layout is unknown, or a file is not UTF-8.

    Example:
        >>> from importlib import resources
        >>> (part,) = parts_of([resources.files("keras_bert").joinpath("pretraining/corpus.py")])
        >>> next(documents(part, "sentences"))
        ['\"\"\"Text files -> documents of sentences, one part of the corpus at a time.\"\"\"']
    """
    check_choice("layout", layout, LAYOUTS)
    offset = 0
    for path in part.files:
        size = path.stat().st_size
        start, end = max(part.start - offset, 0), min(part.end - offset, size)
        offset += size
        if start >= end:
            continue
        with path.open("rb") as file:
            start, end = _find_block_start(file, start), _find_block_start(file, end)
            file.seek(start)
            blocks = _read_blocks(file, end, path)
            yield from blocks if layout == "sentences" else _split_prose(blocks)


def _find_block_start(file: BinaryIO, offset: int) -> int:
    """Finds the offset after the first blank line past `offset`, or the end of the file; 0 stays 0."""
    if offset == 0:
        return 0
    file.seek(offset)
    file.readline()  # the rest of the current line
    while line := file.readline():
        if not line.strip():
            break
    return file.tell()


def _read_blocks(file: BinaryIO, end: int, path: Path) -> Iterator[list[str]]:
    """Yields the blocks that begin before `end`: stripped lines between two blank ones."""
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


def _split_prose(paragraphs: Iterator[list[str]]) -> Iterator[list[str]]:
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
    """Splits a text into sentences."""
    text, finished, start = text.strip(), [], 0
    for match in _SENTENCE_END.finditer(text):
        candidate = text[start : match.end(match.lastindex or 0)]
        if not _ABBREVIATION.search(candidate[-10:]):
            finished.append(candidate)
            start = match.end()
    return [*finished, text[start:]] if start < len(text) else finished
