"""A small model, and a corpus of short sentences."""

import random
from types import SimpleNamespace

import pytest

from keras_bert.embedding import shared_model
from keras_bert.search import building, encoded_texts

from ..support import small

WORDS = small.WORDS.split()


@pytest.fixture(scope="package", autouse=True)
def _few_texts_at_a_time_and_few_models(read_once):
    with pytest.MonkeyPatch.context() as patch:
        for module in (building, encoded_texts):
            patch.setattr(module, "TEXTS_AT_A_TIME", 16)
        patch.setattr(shared_model, "BertSentenceEncoder", SimpleNamespace(from_preset=read_once))
        yield


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    """Sixty different sentences."""
    generator = random.Random(0)
    return list(dict.fromkeys(" ".join(generator.choices(WORDS, k=generator.randint(2, 9))) for _ in range(60)))


@pytest.fixture
def corpus(tmp_path, sentences):
    """A file with these sentences."""
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(sentences) + "\n")
    return path
