"""Finds the words of tagged corpora in NumPy, without TensorFlow; `words.find_words` does the same in the graph."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_bert.text.arguments import check_surrogates

OTHER, LETTER, NUMBER, SPACE, SIGN, IDEOGRAPH, MARK = range(7)  # kinds of characters
PLANE_4 = 0x40000  # tables of kinds have planes 0 to 3
# Beyond plane 3, only tags (in emoji flags) and variation selectors are marks.
PLANE_14, PLANE_14_END = 0xE0000, 0xE0200
# Lengths of runs of characters with their kind, which `tests/golden/make_character_kinds.py` writes.
KINDS_FILE = Path(__file__).with_name("character_kinds.txt")
KIND_LETTERS = {"L": LETTER, "W": SPACE, "S": SIGN, "I": IDEOGRAPH, "M": MARK}


@functools.cache
def corpus_kinds() -> np.ndarray:
    """Reads the kind of each character of planes 0 to 3, int8 `[0x40000]`, the same in every version of Unicode."""
    # Marks are accents, joiners and colours of emoji, which are of the kind before them; signs are punctuation and
    # symbols; other characters than these, white space and ideographs are letters.
    runs = re.findall(r"(\d+)(\w)", KINDS_FILE.read_text(encoding="ascii"))
    return np.repeat(np.array([KIND_LETTERS[kind] for _, kind in runs], np.int8), [int(length) for length, _ in runs])


def find_words(texts: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Finds the words as `words.find_words`: starts, ends, in characters. Raises ValueError for lone surrogates."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    try:
        chars = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    except UnicodeEncodeError:
        check_surrogates(texts)
        raise
    rows = np.repeat(np.arange(len(texts)), lengths)
    kinds = corpus_kinds()[np.minimum(chars, PLANE_4 - 1)]
    in_word, begins = mark_words(chars, np.diff(rows, prepend=-1) != 0, kinds, _NUMPY)
    place = np.flatnonzero(in_word)
    first = np.flatnonzero(begins[place])
    counts = np.diff(first, append=len(place))
    starts = place[first] - (np.cumsum(lengths) - lengths)[rows[place[first]]]
    words: list[list[tuple[int, int]]] = [[] for _ in texts]
    for row, *span in zip(*(each.tolist() for each in (rows[place[first]], starts, starts + counts)), strict=True):
        words[row].append((span[0], span[1]))
    return words


class Operations(NamedTuple):
    """The functions of a library that `mark_words` needs."""

    where: Callable[..., Any]
    take: Callable[[Any, Any], Any]  # of values, and indices
    shift: Callable[[Any, int], Any]  # moves values to the right, the last ones to the beginning
    cumulated: Callable[[Any], Any]  # the number of True up to each value
    indices: Callable[[Any], Any]  # of True


_NUMPY = Operations(np.where, np.take, np.roll, np.cumsum, np.flatnonzero)


def mark_words(chars: Any, begins_row: Any, kind: Any, library: Operations) -> tuple[Any, Any]:
    """Marks the characters that are in a word, and those that begin one: bool `[chars]` each, rows laid end to end."""
    where, take, shift, cumulated, indices = library
    kind = where((chars >= PLANE_14) & (chars < PLANE_14_END), MARK, kind)
    is_mark = (kind == MARK) & ~begins_row & (shift(kind, 1) != SPACE)
    kind = where((kind == MARK) & ~is_mark, LETTER, kind)
    base = take(indices(~is_mark), cumulated(~is_mark) - 1)
    kind, base_char = take(kind, base), take(chars, base)

    # A space or an ideograph is a chunk by itself. Any other chunk has signs, a word with signs inside, then signs.
    is_separate = (kind == SPACE) | (kind == IDEOGRAPH)
    new_chunk = begins_row | is_separate | shift(is_separate, 1)
    chunk, letters = cumulated(new_chunk) - 1, cumulated(kind == LETTER)
    first, last = (take(indices(each), chunk) for each in (new_chunk, shift(new_chunk, -1)))
    has_letter_before = (letters > take(letters, first)) | (take(kind, first) == LETTER)
    outside = (kind == SIGN) & (~has_letter_before | (letters == take(letters, last)))

    in_run = shift(outside, 1) & outside & (chars == shift(base_char, 1))
    begins = new_chunk | ((outside | shift(outside, 1)) & ~in_run)
    return kind != SPACE, begins & ~is_mark & (kind != SPACE)
