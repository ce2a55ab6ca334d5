from pathlib import Path

import pytest

from keras_bert import presets
from keras_bert.text import WordPieceTokenizer

DATA = Path(__file__).parents[2] / "../shared/data"


@pytest.fixture(scope="session")
def shared_data():
    if not DATA.is_dir():
        pytest.skip("needs the vocabularies, TF Hub models and texts of shared/data, beside the repository")
    return DATA


@pytest.fixture(scope="session")
def vocabulary():
    """BERT's uncased English one: 30,522 pieces."""
    return (presets.resolve("all-MiniLM-L6-v2") / "vocab.txt").read_text("utf-8").split("\n")[:-1]


@pytest.fixture(scope="session")
def tokenizer(vocabulary):
    return WordPieceTokenizer(vocabulary)
