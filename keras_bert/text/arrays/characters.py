"""Spans of texts in characters: of bytes, and of characters that a normalization changes."""

from __future__ import annotations

import functools
import unicodedata

import numpy as np


def codes_of(text: str) -> np.ndarray:
    """Lists the code points of a text, uint32 `[chars]`."""
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def begins_of_characters(text: str) -> np.ndarray:
    """Finds the byte of UTF-8 at which each character of a text begins, int64 `[chars]`."""
    codes = codes_of(text)
    lengths = 1 + sum((codes > last).astype(np.int64) for last in (0x7F, 0x7FF, 0xFFFF))
    return np.cumsum(lengths) - lengths


# -- Canonical composition (NFC).

_FIRST_COMPOSED, _LAST_COMPOSED = 0xC0, 0x2FFFF  # no character outside of them decomposes
_JAMO_LEADING, _JAMO_VOWELS, _JAMO_TRAILING = (
    range(*ends) for ends in ((0x1100, 0x1113), (0x1161, 0x1176), (0x11A8, 0x11C3))
)


def uncomposed_spans(text: str, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Maps spans of a composed text to spans of `text`. Characters that are composed together stay together."""
    begins, stops, begin = [], [], 0
    for end in range(1, len(text) + 1):
        if end == len(text) or _is_boundary(text[end - 1], text[end]):
            part = text[begin:end]
            composed = unicodedata.normalize("NFC", part)
            if composed == part:
                begins += range(begin, end)
                stops += range(begin + 1, end + 1)
            else:
                begins += [begin] * len(composed)
                stops += [end] * len(composed)
            begin = end
    first, last = np.array([*begins, len(text)]), np.array([0, *stops])
    return first[starts], np.where(starts < ends, last[ends], first[starts])


def _is_boundary(char: str, following: str) -> bool:
    """Whether composition never looks at two characters together: one is inert, or the second begins anew."""
    firsts, seconds = _composing()
    last, first = unicodedata.normalize("NFD", char)[-1], unicodedata.normalize("NFD", following)[0]
    is_inert = not unicodedata.combining(last) and last not in firsts
    return is_inert or (not unicodedata.combining(first) and first not in seconds)


@functools.cache
def _composing() -> tuple[frozenset[str], frozenset[str]]:
    """Lists the characters that compose with one after them, and those that compose with one before them."""
    firsts, seconds = {*map(chr, _JAMO_LEADING)}, {*map(chr, (*_JAMO_VOWELS, *_JAMO_TRAILING))}
    firsts |= {*map(chr, _JAMO_VOWELS)}
    for char in map(chr, range(_FIRST_COMPOSED, _LAST_COMPOSED + 1)):
        parts = unicodedata.decomposition(char).split(" ")
        if len(parts) == 2 and not parts[0].startswith("<") and unicodedata.normalize("NFC", char) == char:
            firsts.add(chr(int(parts[0], 16)))
            seconds.add(chr(int(parts[1], 16)))
    return frozenset(firsts), frozenset(seconds)
