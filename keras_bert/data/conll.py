"""Reads CoNLL columns: words and labels."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from keras_bert.data.examples import WordExamples
from keras_bert.data.problems import Problems
from keras_bert.files import lines_of, read_text


def read_conll(
    path: str | Path, *, word_column: int = 1, label_column: int | None = -1, skip_bad: bool = False
) -> WordExamples:
    """Reads sentences from a file with one word and its labels per line, and a blank line between sentences.

    Columns are separated by tabs, or by spaces in a line without tabs. `-DOCSTART-` lines are skipped.

    Args:
        path: the file.
        word_column, label_column: the columns of words and labels, counted from 1; -1 is the last one. With
            `label_column=None`, no labels are read, as for prediction.
        skip_bad: leave out bad sentences, with a warning, instead of raising.

    Raises:
        ValueError: as every reader (see `keras_bert.data`); or a column is missing. A sentence is bad if a line has no
            word or label, or not the number of columns of most lines.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "train.conll")
        >>> _ = path.write_text("-DOCSTART- -X- O\\n\\nAda NNP B-person\\nsang VBD O\\n\\nYes UH O\\n")
        >>> read_conll(path)
        WordExamples(words=[['Ada', 'sang'], ['Yes']], labels=[['B-person', 'O'], ['O']])
    """
    sentences = _sentences(read_text(path))
    lengths = Counter(len(cells) for sentence in sentences for _, cells in sentence)
    if not lengths:
        raise ValueError(f"{path} has -DOCSTART- lines and no sentences")
    width = lengths.most_common(1)[0][0]
    word_at = _index(word_column, width, path)
    label_at = None if label_column is None else _index(label_column, width, path)
    if label_at == word_at:
        raise ValueError(f"{path}: column {word_at + 1} of {width} cannot be both the word and the label")
    problems = Problems(path, "sentences")
    words, labels = [], []
    for sentence in sentences:
        faults = ((line, _fault(cells, width, word_at, label_at)) for line, cells in sentence)
        if bad := next(((line, fault) for line, fault in faults if fault), None):
            problems.add(f"line {bad[0]}", bad[1])
            continue
        words.append([cells[word_at] for _, cells in sentence])
        if label_at is not None:
            labels.append([cells[label_at].strip() for _, cells in sentence])
    problems.settle(len(sentences), skip_bad)
    return WordExamples(words, None if label_at is None else labels)


def _sentences(text: str) -> list[list[tuple[int, list[str]]]]:
    """Sentences as lists of line numbers and cells. A blank line or a -DOCSTART- line ends a sentence."""
    sentences, sentence = [], []
    for number, line in enumerate(lines_of(text), start=1):
        line = line.strip(" ")
        cells = line.split("\t") if "\t" in line else re.split(" +", line)
        if line and cells[0].strip() != "-DOCSTART-":
            sentence.append((number, cells))
        elif sentence:
            sentences.append(sentence)
            sentence = []
    return [*sentences, sentence] if sentence else sentences


def _fault(cells: list[str], width: int, word_at: int, label_at: int | None) -> str | None:
    if len(cells) != width:
        return f"{len(cells)} column{'s' if len(cells) > 1 else ''} instead of {width}"
    if not cells[word_at].strip():
        return "word is empty"
    if label_at is not None and not cells[label_at].strip():
        return "label is empty"
    return None


def _index(column: int, width: int, path: str | Path) -> int:
    if column == -1:
        return width - 1
    if not 1 <= column <= width:
        raise ValueError(f"{path} has no column {column}; its columns are 1 to {width}")
    return column - 1
