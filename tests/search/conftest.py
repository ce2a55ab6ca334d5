"""A small model, and a corpus of short sentences."""

import functools
import random
from types import SimpleNamespace

import pytest

from keras_bert.search import database

from ..support import small

WORDS = small.WORDS.split()


@pytest.fixture(scope="package", autouse=True)
def _few_texts_at_a_time_and_few_models(read_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "TEXTS_AT_A_TIME", 16)
        compared = functools.partial(read_once, make="to_compare")
        model = SimpleNamespace(from_preset=read_once, to_compare=compared)
        patch.setattr("keras_bert.tasks.BertSentenceEncoder", model)
        yield


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    """Sixty different sentences."""
    generator = random.Random(0)
    return list(dict.fromkeys(" ".join(generator.choices(WORDS, k=generator.randint(2, 9))) for _ in range(60)))


@pytest.fixture(scope="session")
def dot_preset(tmp_path_factory):
    """A model that was trained for dot products: its vectors have different lengths."""
    from keras_bert.tasks.sentence import BertSentenceEncoder  # in `keras_bert.tasks`, these tests have another

    directory = tmp_path_factory.mktemp("dot")
    model = BertSentenceEncoder(small.encoder(), small.preprocessor(), normalize=False, similarity="dot")
    model.save_preset(directory)
    return directory


@pytest.fixture
def corpus(tmp_path, sentences):
    """A file with these sentences."""
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(sentences) + "\n")
    return path
