"""The vectors of a word's occurrences, against the encoder run sentence by sentence."""

import numpy as np
import pytest

from keras_bert.visualize.senses import find_occurrences, find_senses

from ..support import small

WORD = "banking"  # two tokens
TEXT = ["É banking on a river. A river. On a BANKING a banking.", "a banking on"]
# Sentence, its tokens, and the places of the two among them.
PLACES = [
    ("É banking on a river.", "[CLS] e bank ##ing on a river . [SEP]", 2),
    ("On a BANKING a banking.", "[CLS] on a bank ##ing a bank ##ing . [SEP]", 3),
    ("On a BANKING a banking.", "[CLS] on a bank ##ing a bank ##ing . [SEP]", 6),
    ("a banking on", "[CLS] a bank ##ing on [SEP]", 2),
]


@pytest.fixture(scope="module")
def encoder():
    return small.encoder()


def of_albert():
    return small.encoder(embedding_size=8, family="albert", num_groups=1)


@pytest.mark.parametrize("make", [small.encoder, pytest.param(of_albert, marks=pytest.mark.slow)])
def test_vectors_are_the_means_of_the_tokens(make):
    encoder = make()
    found = find_senses(encoder, small.preprocessor(), WORD, TEXT)
    assert [each.sentence for each in found.occurrences] == [sentence for sentence, _, _ in PLACES]
    for (_, tokens, place), vector in zip(PLACES, found.vectors, strict=True):
        ids = np.array([[small.VOCABULARY.index(token) for token in tokens.split()]])
        inputs = {"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": np.zeros_like(ids)}
        states = np.asarray(encoder(inputs)["sequence_output"])[0]
        np.testing.assert_allclose(vector, states[place : place + 2].mean(axis=0), atol=1e-5)
    rows = np.asarray(encoder.embeddings.word_embeddings.embeddings)
    rows = rows[[small.VOCABULARY.index(token) for token in ("bank", "##ing")]]
    if encoder.embeddings.projection is not None:
        rows = np.asarray(encoder.embeddings.projection(rows))
    np.testing.assert_allclose(found.static, rows.mean(axis=0), atol=1e-6)

    # Points are the principal components.
    centred = found.vectors - found.vectors.mean(axis=0)
    variances = np.sort(np.linalg.eigvalsh(centred.T @ centred))[::-1]
    np.testing.assert_allclose(found.points.T @ found.points, np.diag(variances[:2]), rtol=1e-4, atol=1e-4)
    assert found.static_point.shape == (2,)


def test_whole_words_only():
    text = ["Banks embank a bank; BANK's bank-note, bank_1.", "New\tYork"]
    found = find_occurrences("bank", text)
    assert [each.sentence[each.start : each.end] for each in found] == ["bank", "BANK", "bank"]
    assert len(find_occurrences("c++", ["I like C++ and c."])) == 1


@pytest.mark.parametrize(
    ("word", "text", "message"),
    [
        ("bank", ["a river"], "'bank' occurs nowhere in the text"),
        ("bank", ["a bank"], "'bank' occurs once in the text"),
        (" ", ["a  bank"], "the word is empty"),
        ("bank", ["bank. " + "A bank on " * 8], "a sentence has 24 tokens, more than the 22 that this model reads"),
        ("\u200b", ["a \u200b a \u200b"], "has no tokens"),
    ],
)
def test_what_cannot_be_compared(encoder, word, text, message):
    with pytest.raises(ValueError, match=message):
        find_senses(encoder, small.preprocessor(), word, text)


@pytest.mark.parametrize(
    ("word", "text", "message"),
    [
        (None, ["a bank"], "word is None"),
        ("bank", "a bank, the bank", r"paragraphs is a single str; pass a list: \[paragraph\]"),
        ("bank", {"text": ["a bank"]}, "paragraphs is a dict with the columns 'text'"),
        ("bank", ["a bank", None], r"paragraph 1 \(from 0\) is None"),
    ],
)
def test_what_is_no_text(word, text, message):
    with pytest.raises(TypeError, match=message):
        find_occurrences(word, text)
