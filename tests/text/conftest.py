"""Tokenizers that tests of text share: each is traced once per process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from keras_bert import text

from ..support import small
from ..support.reference import bytepair as reference
from ..support.texts import SENTENCES

if TYPE_CHECKING:
    from keras_bert.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer


@pytest.fixture(scope="session")
def tokenizer() -> WordPieceTokenizer:
    return small.tokenizer()


@pytest.fixture(scope="session")
def real_tokenizer(vocabulary) -> WordPieceTokenizer:
    """The tokenizer of BERT's uncased English vocabulary."""
    return text.WordPieceTokenizer(vocabulary)


@pytest.fixture(scope="session")
def merges() -> list[tuple[str, str]]:
    return reference.train(SENTENCES, 120)


@pytest.fixture(scope="session")
def byte_pairs(merges) -> BytePairTokenizer:
    return small.byte_pairs(merges)


@pytest.fixture(scope="session")
def roberta(shared_data) -> BytePairTokenizer:
    """The tokenizer of the published vocabulary."""
    return text.BytePairTokenizer(shared_data / "vocabs/roberta_vocab.json", shared_data / "vocabs/roberta_merges.txt")


@pytest.fixture(scope="session")
def albert_model(tmp_path_factory):
    from ..support import tokenization

    path = tmp_path_factory.mktemp("albert") / "spiece.model"
    path.write_bytes(tokenization.train_albert())
    return path


@pytest.fixture(scope="session")
def xlm_model(tmp_path_factory):
    from ..support import tokenization

    path = tmp_path_factory.mktemp("xlm") / "sentencepiece.bpe.model"
    path.write_bytes(tokenization.train_xlm_roberta())
    return path


@pytest.fixture(scope="session")
def albert(albert_model) -> SentencePieceTokenizer:
    return text.SentencePieceTokenizer(albert_model)


@pytest.fixture(scope="session")
def xlm_roberta(xlm_model) -> SentencePieceTokenizer:
    return text.SentencePieceTokenizer(xlm_model, family="xlm-roberta")


@pytest.fixture(scope="session")
def camembert(xlm_model) -> SentencePieceTokenizer:
    """Its models have XLM-RoBERTa's layout."""
    return text.SentencePieceTokenizer(xlm_model, family="camembert")


@pytest.fixture(scope="session", params=["tokenizer", "byte_pairs", "albert"])
def any_tokenizer(request):
    """One tokenizer of each kind in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def tokenizers():
    return pytest.importorskip("tokenizers", reason="needs Hugging Face's tokenizers to compare with")


@pytest.fixture(scope="session")
def auto_tokenizer():
    """What reads a directory in transformers."""
    return pytest.importorskip("transformers").AutoTokenizer.from_pretrained
