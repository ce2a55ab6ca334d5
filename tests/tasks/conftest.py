"""Fixtures for tests of several tasks."""

import pytest

from keras_bert import text


@pytest.fixture
def real_tokenizer(shared_data):
    """Loads the published tokenizer of a family: real_tokenizer("roberta")."""
    vocabs = shared_data / "vocabs"

    def make(family):
        if family == "roberta":
            return text.BytePairTokenizer(vocabs / "roberta_vocab.json", vocabs / "roberta_merges.txt")
        if family == "albert":
            return text.SentencePieceTokenizer(vocabs / "albert_spiece.model")
        return text.WordPieceTokenizer(vocabs / "bert_uncased_vocab.txt")

    return make
