"""The vectors of a word's occurrences, against the encoder run sentence by sentence."""

import numpy as np
import pytest

from keras_bert.visualize.senses import find_occurrences, find_senses

from ..support import small
from ..support.messages import error_names

pytestmark = pytest.mark.usefixtures("untraced_module")

WORD = "banking"  # two tokens
TEXT = ["É é É é banking on a river. A river. On a BANKING a banking.", "a banking on"]
# Sentence, its tokens, and the places of the two among them.
PLACES = [
    ("É é É é banking on a river.", "[CLS] e e e e bank ##ing on a river . [SEP]", 5),
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
    np.testing.assert_allclose(found.static, rows.mean(axis=0), atol=1e-5)

    # Points are the principal components.
    centred = found.vectors - found.vectors.mean(axis=0)
    variances = np.sort(np.linalg.eigvalsh(centred.T @ centred))[::-1]
    np.testing.assert_allclose(found.points.T @ found.points, np.diag(variances[:2]), rtol=1e-4, atol=1e-4)
    assert found.static_point.shape == (2,)


def test_mean_cosine_of_labels(encoder):
    text = ["A bank on a river. A bank on.", "On a bank.", "On a river bank."]
    found = find_senses(encoder, small.preprocessor(), "bank", text, labels=["a", "b", "b"])
    assert [each.label for each in found.occurrences] == ["a", "a", "b", "b"]
    assert found.labels == ["a", "b"]
    unit = found.vectors / np.linalg.norm(found.vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.testing.assert_allclose(found.mean_cosine(True), (cosines[0, 1] + cosines[2, 3]) / 2, atol=1e-5)
    np.testing.assert_allclose(found.mean_cosine(False), cosines[:2, 2:].mean(), atol=1e-5)
    without = find_senses(encoder, small.preprocessor(), "bank", text)
    np.testing.assert_allclose(without.mean_cosine(True), (cosines.sum() - 4) / 12, atol=1e-5)
    assert np.isnan(without.mean_cosine(False))
    with error_names(ValueError, "3 paragraphs", "2 labels"):
        find_senses(encoder, small.preprocessor(), "bank", text, labels=["a", "b"])


def test_whole_words_only():
    text = ["Banks embank a bank; BANK's bank-note, bank_1.", "New\tYork"]
    found = find_occurrences("bank", text)
    assert [each.sentence[each.start : each.end] for each in found] == ["bank", "BANK", "bank"]
    assert len(find_occurrences("c++", ["I like C++ and c."])) == 1
    assert len(find_occurrences("दि", ["दिन दि."])) == len(find_occurrences("न", ["दिन न."])) == 1
    assert len(find_occurrences("cafe", ["a cafe, a cafe\u0301"])) == 1


@pytest.mark.parametrize(
    ("word", "text", "error", "words"),
    [
        ("bank", ["a river"], ValueError, ["'bank'", "nowhere"]),
        ("bank", ["a bank"], ValueError, ["'bank'", "once", "two"]),
        (" ", ["a  bank"], ValueError, ["word", "empty"]),
        ("bank", ["bank. " + "A bank on " * 8], ValueError, ["24 tokens", 22, "split"]),
        ("\u200b", ["a \u200b a \u200b"], ValueError, ["no tokens"]),
        (None, ["a bank"], TypeError, ["word", None, "a str"]),
        ("bank", "a bank, the bank", TypeError, ["paragraphs", "single str", "[paragraph]"]),
        ("bank", {"text": ["a bank"]}, TypeError, ["paragraphs", "a dict", "'text'"]),
        ("bank", ["a bank", None], TypeError, ["paragraph 1", None]),
    ],
)
def test_what_cannot_be_compared_is_refused(encoder, word, text, error, words):
    with error_names(error, *words):
        find_senses(encoder, small.preprocessor(), word, text)
