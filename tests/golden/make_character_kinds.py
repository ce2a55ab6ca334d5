"""Writes `keras_bert/text/arrays/character_kinds.txt`: the kinds of characters, by TensorFlow's version of Unicode.

python -m tests.golden.make_character_kinds
"""

import itertools

import numpy as np

from keras_bert.text.arrays.words import IDEOGRAPH, KIND_LETTERS, KINDS_FILE, LETTER, MARK, SIGN, SPACE
from keras_bert.text.strings import SPACES
from keras_bert.text.words import kinds_of_characters

PATTERNS = (
    (SPACE, SPACES),
    (SIGN, r"[\p{P}\p{S}]"),
    (MARK, r"[\p{M}\p{Cf}\x{1f3fb}-\x{1f3ff}]"),  # accents, joiners, colours of emoji: of the kind before them
    (IDEOGRAPH, r"[\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}\x{20000}-\x{2fa1f}]"),
)


def kinds() -> np.ndarray:
    """The kind of each character of planes 0 to 3."""
    return kinds_of_characters(PATTERNS, LETTER)


if __name__ == "__main__":
    letters = {kind: letter for letter, kind in KIND_LETTERS.items()}
    runs = [(len([*run]), letters[kind]) for kind, run in itertools.groupby(kinds().tolist())]
    KINDS_FILE.write_text("".join(f"{length}{letter}" for length, letter in runs) + "\n", encoding="ascii")
