"""Reads CoNLL columns: words and labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from keras_bert.counted import counted
from keras_bert.data.examples import Examples, Problems, Rows
from keras_bert.data.table_formats import check_kind
from keras_bert.data.texts import check_label_name
from keras_bert.files import read_text, split_lines

_COMMENT = re.compile(r"# |#[^\t]* [^\t]*$")
_NUMBER = re.compile(r"\d+")
_RANGE_OR_EMPTY = re.compile(r"\d+[-.]\d+")


class _Line(NamedTuple):
    number: int  # from 1
    cells: list[str]
    may_be_comment: bool  # begins with # and has several words, before the first word of a sentence


def read_conll(
    path: str | Path, *, word_column: int = 1, label_column: int | None = -1, skip_bad: bool = False
) -> Examples:
    """Reads sentences from a file with one word and its labels per line, and a blank line between sentences.

    Columns are separated by tabs, or by spaces in a line without tabs. These lines are skipped:

    - `-DOCSTART-` lines;
    - comments: before the first word of a sentence, lines of several words that begin with `#`. A line with all columns
      is a comment only if it begins with a lone `#` and no word has its label. So a `#` among the words stays a word;
    - multi-word tokens (`1-2`) and empty nodes (`1.1`), if the first column numbers the words, as in CoNLL-U.

    Args:
        path: the file.
        word_column, label_column: the columns of words and labels, counted from 1; -1 is the last one. With
            `label_column=None`, no labels are read, as for prediction.
        skip_bad: leave out bad sentences, with a warning, instead of raising.

    Raises:
        ValueError: as every reader (see `keras_bert.data`); or a column is missing, or `word_column` is the column that
            numbers the words. A sentence is bad if a line has no word or label, or fewer or more columns than most
            lines.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "train.conll")
        >>> _ = path.write_text("-DOCSTART- -X- O\\n\\nAda NNP B-person\\nsang VBD O\\n\\nYes UH O\\n")
        >>> read_conll(path)
        Examples(texts={'words': [['Ada', 'sang'], ['Yes']]}, labels=[['B-person', 'O'], ['O']])
    """
    check_conll(path)
    sentences = _split_sentences(read_text(path, may_be_compressed=True))
    lines = [line for sentence in sentences for line in sentence]
    lengths = Counter(len(line.cells) for line in lines if not line.may_be_comment)
    if not lengths:
        raise ValueError(f"{path} has -DOCSTART- lines{' and comments' if lines else ''} and no sentences")
    width = lengths.most_common(1)[0][0]
    word_index = _find_column(word_column, width, path)
    label_index = None if label_column is None else _find_column(label_column, width, path)
    if label_index == word_index:
        raise ValueError(f"{path}: column {word_index + 1} of {width} cannot be both the word and the label")
    sentences = _remove_comments(sentences, width, width - 1 if label_index is None else label_index)
    if _are_numbered(sentences):
        sentences = _keep_lines(sentences, lambda line: bool(_NUMBER.fullmatch(line.cells[0])))
        if word_index == 0 and any(len(sentence) > 1 for sentence in sentences):
            raise ValueError(
                f"{path}: column 1 has the numbers of the words, as in CoNLL-U, not the words; pass word_column=2, or "
                "remove that column, for instance with cut -f 2-"
            )
    problems = Problems(path, "sentences")
    words, labels, numbers = [], [], []
    for sentence in sentences:
        faults = ((line.number, _find_fault(line.cells, width, word_index, label_index)) for line in sentence)
        if first_fault := next(((line, fault) for line, fault in faults if fault), None):
            problems.add(f"line {first_fault[0]}", first_fault[1])
            continue
        words.append([line.cells[word_index] for line in sentence])
        numbers.append([line.number for line in sentence])
        if label_index is not None:
            labels.append([line.cells[label_index].strip() for line in sentence])
    problems.settle(len(sentences), skip_bad)
    rows = Rows(path, {"line": [first for first, *_ in numbers]}, word_lines=numbers)
    return Examples({"words": words}, None if label_index is None else labels, rows)


def check_conll(path: str | Path) -> None:
    """Raises ValueError if a file is something else than CoNLL's columns, which may be named .txt or .tsv."""
    expected = "CoNLL's columns: a word and its label on each line, and a blank line between sentences"
    check_kind(path, expected, "conll", "tsv", "text", "unknown")


def _split_sentences(text: str) -> list[list[_Line]]:
    """Splits a file into sentences, each a list of lines. A blank line or a -DOCSTART- line ends a sentence."""
    sentences: list[list[_Line]] = [[]]
    for number, line in enumerate(split_lines(text), start=1):
        line = line.strip(" ")
        cells = line.split("\t") if "\t" in line else re.split(" +", line)
        if not line.strip() or cells[0].strip() == "-DOCSTART-":
            sentences.append([])
        else:
            is_before_words = all(each.may_be_comment for each in sentences[-1])
            sentences[-1].append(_Line(number, cells, is_before_words and bool(_COMMENT.match(line))))
    return [sentence for sentence in sentences if sentence]


def _remove_comments(sentences: list[list[_Line]], width: int, label_index: int) -> list[list[_Line]]:
    """Leaves out comments. `# id 1` may also be the word `#` and two columns; if so, another word has its label."""
    lines = (line for sentence in sentences for line in sentence)
    known_labels = {line.cells[label_index] for line in lines if not line.may_be_comment and len(line.cells) == width}

    def is_comment(line: _Line) -> bool:
        if not line.may_be_comment or len(line.cells) != width:
            return line.may_be_comment
        # With all columns, #NFL is a word.
        return line.cells[0].partition(" ")[0] == "#" and line.cells[label_index] not in known_labels

    return _keep_lines(sentences, lambda line: not is_comment(line))


def _are_numbered(sentences: list[list[_Line]]) -> bool:
    """Checks whether the first column counts the words of each sentence: 1, 2, 3, ..."""
    for sentence in sentences:
        numbers = [line.cells[0] for line in sentence if not _RANGE_OR_EMPTY.fullmatch(line.cells[0])]
        if numbers != [str(number) for number in range(1, len(numbers) + 1)]:
            return False
    return True


def _keep_lines(sentences: list[list[_Line]], is_kept: Callable[[_Line], bool]) -> list[list[_Line]]:
    """Leaves out other lines, and the sentences that have no lines left."""
    return [kept for sentence in sentences if (kept := [line for line in sentence if is_kept(line)])]


def _find_fault(cells: list[str], width: int, word_index: int, label_index: int | None) -> str | None:
    if len(cells) != width:
        return f"{counted(cells, 'column')} instead of {width}"
    if not cells[word_index].strip():
        return "word is empty"
    if label_index is not None and not cells[label_index].strip():
        return "label is empty"
    try:
        _ = label_index is None or check_label_name(cells[label_index].strip())
    except ValueError as error:
        return str(error)
    return None


def _find_column(column: int, width: int, path: str | Path) -> int:
    if column == -1:
        return width - 1
    if not 1 <= column <= width:
        raise ValueError(f"{path} has no column {column}; its columns are 1 to {width}")
    return column - 1
