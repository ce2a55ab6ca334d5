"""The vectors of a word's occurrences, against the encoder run sentence by sentence."""

import numpy as np
import pytest

from keras_bert import BertConfig, BertEncoder, BertPreprocessor
from keras_bert.text import WordPieceTokenizer
from keras_bert.visualize.senses import find_occurrences, find_senses

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "ba", "##nk", "river", "é", "e", ".", "on"]
TEXT = ["É bank on a river. A river. On a BANK a bank.", "a bank on"]


def model(**changes):
    sizes = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "intermediate_size": 24, "max_positions": 12}
    encoder = BertEncoder(BertConfig(**{"vocab_size": len(VOCABULARY), **sizes, **changes}))
    tokenizer = WordPieceTokenizer(VOCABULARY)
    return encoder, BertPreprocessor(tokenizer, sequence_length=None, max_sequence_length=12)


@pytest.mark.parametrize("changes", [{}, {"embedding_size": 8, "family": "albert", "num_groups": 1}])
def test_vectors_are_the_means_of_the_pieces(changes):
    encoder, preprocessor = model(**changes)
    found = find_senses(encoder, preprocessor, "bank", TEXT)
    # Sentence, and the places of its two pieces behind [CLS].
    places = [("É bank on a river.", 2), ("On a BANK a bank.", 3), ("On a BANK a bank.", 6), ("a bank on", 2)]
    assert [each.sentence for each in found.occurrences] == [sentence for sentence, _ in places]
    for (sentence, place), vector in zip(places, found.vectors, strict=True):
        states = np.asarray(encoder(preprocessor([sentence]))["sequence_output"])[0]
        np.testing.assert_allclose(vector, states[place : place + 2].mean(axis=0), atol=1e-5)
    rows = np.asarray(encoder.embeddings.word_embeddings.embeddings)[[6, 7]]
    if encoder.embeddings.projection is not None:
        rows = np.asarray(encoder.embeddings.projection(rows))
    np.testing.assert_allclose(found.static, rows.mean(axis=0), atol=1e-6)


def test_points_are_the_principal_components():
    found = find_senses(*model(), "bank", TEXT)
    centred = found.vectors - found.vectors.mean(axis=0)
    variances = np.sort(np.linalg.eigvalsh(centred.T @ centred))[::-1]
    products = found.points.T @ found.points
    np.testing.assert_allclose(products, np.diag(variances[:2]), atol=1e-4)
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
        ("bank", ["bank. " + "A bank on " * 5], "a sentence has 20 pieces, more than the 10 that this model reads"),
        ("\u200b", ["a \u200b a \u200b"], "the tokenizer leaves nothing of"),
    ],
)
def test_what_cannot_be_compared(word, text, message):
    with pytest.raises(ValueError, match=message):
        find_senses(*model(), word, text)
