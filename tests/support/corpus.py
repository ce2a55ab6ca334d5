"""A small corpus with something to learn, and a preprocessor and an encoder for it.

A conftest.py imports this module, which therefore imports Keras and TensorFlow only where it needs them.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import keras_bert
from keras_bert import BertConfig, text

from .small import SPECIAL

if TYPE_CHECKING:
    from keras_bert import BertEncoder, BertPreprocessor

LETTERS = "abcdefgh"
VOCABULARY = [*SPECIAL, ".", *(letter + end for letter in LETTERS for end in "0123")]
LENGTH = 24  # of a sequence
# Settings of the records that tests share.
WRITTEN = {"layout": "sentences", "part_bytes": 4000}


def write(directory: Path) -> list[Path]:
    """Two files of 40 documents of sentences of six words: the letter tells the document, the digits count."""
    generator = np.random.default_rng(0)
    documents = []
    for _ in range(80):
        letter = generator.choice(list(LETTERS))
        lines = [
            " ".join(f"{letter}{(start + i) % 4}" for i in range(6)) + "." for start in generator.integers(0, 4, 12)
        ]
        documents.append("\n".join(lines))
    for number in range(2):
        (directory / f"{number}.txt").write_text("\n\n".join(documents[number::2]))
    return sorted(directory.iterdir())


@functools.cache
def preprocessor() -> BertPreprocessor:
    """The process's one preprocessor: its traces are shared."""
    return keras_bert.BertPreprocessor(text.WordPieceTokenizer(VOCABULARY), sequence_length=LENGTH)


def encoder(seed: int = 0, **changes: Any) -> BertEncoder:
    """An encoder of one layer without dropout, except for `changes`, fields of `BertConfig`."""
    import keras

    sizes = {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "intermediate_size": 64, "max_positions": LENGTH}
    quiet = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    keras.utils.set_random_seed(seed)
    return keras_bert.BertEncoder(BertConfig(**{"vocab_size": len(VOCABULARY), **sizes, **quiet, **changes}))
