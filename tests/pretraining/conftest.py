"""A small corpus with something to learn, and a vocabulary for it."""

import numpy as np
import pytest

from keras_bert import BertConfig, BertEncoder, BertPreprocessor
from keras_bert.text import WordPieceTokenizer

LETTERS = "abcdefgh"
VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    ".",
    *(letter + end for letter in LETTERS for end in "0123"),
]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """80 documents of sentences of six words: the letter tells the document, the digits count."""
    generator = np.random.default_rng(0)
    documents = []
    for _ in range(80):
        letter = generator.choice(list(LETTERS))
        lines = [
            " ".join(f"{letter}{(start + i) % 4}" for i in range(6)) + "." for start in generator.integers(0, 4, 12)
        ]
        documents.append("\n".join(lines))
    directory = tmp_path_factory.mktemp("corpus")
    for number in range(2):
        (directory / f"{number}.txt").write_text("\n\n".join(documents[number::2]))
    return sorted(directory.iterdir())


@pytest.fixture(scope="session")
def preprocessor():
    return BertPreprocessor(WordPieceTokenizer(VOCABULARY), sequence_length=24)


@pytest.fixture
def new_encoder():
    def make(**changes):
        sizes = {
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 2,
            "intermediate_size": 64,
            "max_positions": 24,
            **changes,
        }
        return BertEncoder(BertConfig(vocab_size=len(VOCABULARY), **sizes))

    return make
