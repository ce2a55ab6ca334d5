"""Several texts in a sequence: all of them, once, and as they were."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.pretraining.masked_examples import group_into_sequences, join_rows

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]


@pytest.mark.parametrize(("longest", "filled"), [(20, 0.97), (60, 0.97), (128, 0.9)])
def test_texts_share_sequences(longest, filled):
    lengths = np.random.default_rng(0).integers(3, longest + 1, 3000)
    found = group_into_sequences(lengths, room=128)
    assert sorted(number for texts in found for number in texts) == list(range(3000))
    used = np.array([lengths[texts].sum() for texts in found])
    assert used.max() <= 128
    assert used.mean() / 128 > filled
    assert all(texts == sorted(texts) for texts in found)


def test_texts_that_fill_a_sequence_share_none():
    assert group_into_sequences(np.array([8, 8, 7, 1]), room=8) == [[0], [1], [2, 3]]
    assert group_into_sequences(np.array([], int), room=8) == []


@pytest.mark.parametrize("pad", ["[PAD]", "c"])
def test_rows_are_joined_as_they_are(pad):
    texts = [["[CLS]", *text.split(), "[SEP]"] for text in ("a", "b a", "a b b a a", "b")]
    rows = np.int32([[TOKENS.index(token) for token in text + [pad] * (8 - len(text))] for text in texts])
    mask = np.int32([[1] * len(text) + [0] * (8 - len(text)) for text in texts])
    packed = {"input_word_ids": rows, "input_mask": mask, "input_type_ids": 0 * mask}
    packed = {name: tf.constant(value) for name, value in packed.items()}
    found = join_rows(packed, tf.constant([2, 1, 1], tf.int64), TOKENS.index(pad))
    cls, sep, a, b, no = (TOKENS.index(token) for token in ("[CLS]", "[SEP]", "a", "b", pad))
    ids = [[cls, a, sep, cls, b, a, sep, no], [cls, a, b, b, a, a, sep, no], [cls, b, sep] + [no] * 5]
    np.testing.assert_array_equal(found["input_word_ids"], ids)
    documents = [[1, 1, 1, 2, 2, 2, 2, 0], [1] * 7 + [0], [1] * 3 + [0] * 5]
    np.testing.assert_array_equal(found["input_document_ids"], documents)
    np.testing.assert_array_equal(found["input_mask"], np.sign(documents))
    np.testing.assert_array_equal(found["input_type_ids"], np.zeros((3, 8)))
    assert {value.dtype for value in found.values()} == {tf.int32}
