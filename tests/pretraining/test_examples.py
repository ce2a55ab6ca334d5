"""Pairs of segments: each token's id is its place in the corpus, so that everything shows where it is from."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.pretraining.examples import (
    OBJECTIVES,
    _group_whole_sentences,
    group_into_sequences,
    join_rows,
    make_examples,
)

ROOM = 40


def corpus(documents=300, seed=0, longest=15):
    generator = np.random.default_rng(seed)
    counts = generator.integers(0, 30, documents)
    lengths = generator.integers(0, longest, counts.sum())
    tokens = tf.RaggedTensor.from_row_lengths(np.arange(lengths.sum(), dtype=np.int32), lengths)
    return tokens, counts


def document_of_tokens(tokens, counts):
    return np.repeat(np.repeat(np.arange(len(counts)), counts), tokens.row_lengths())


@pytest.mark.parametrize("objective", ["next_sentence", "sentence_order"])
def test_pairs(objective):
    tokens, counts = corpus()
    document = document_of_tokens(tokens, counts)
    (first, second), labels, cut = make_examples(tokens, counts, ROOM, objective)
    lengths = first.row_lengths() + second.row_lengths()
    assert first.row_lengths().numpy().min() >= 1
    assert second.row_lengths().numpy().min() >= 1
    assert lengths.numpy().max() == ROOM
    for a, b, label in zip(first.to_list(), second.to_list(), labels, strict=True):
        for segment in (a, b):
            assert segment == list(range(segment[0], segment[-1] + 1))
            assert document[segment[0]] == document[segment[-1]]
        is_together = document[a[0]] == document[b[0]]
        if label == 0:
            assert is_together
            assert a[-1] < b[0]
            assert len(a) + len(b) == ROOM or a[-1] + 1 == b[0]  # only a pair that was cut has a gap
        elif objective == "next_sentence":
            assert not is_together
        else:
            assert is_together
            assert b[-1] < a[0]
    share = labels.mean()
    # Of next sentences, a chunk of one sentence has none that follows.
    assert 0.47 < share < (0.53 if objective == "sentence_order" else 0.62)
    seen = np.unique(np.concatenate([first.values, second.values]))
    assert len(document) - len(seen) <= cut < 0.3 * len(document)
    if objective == "sentence_order":
        assert len(seen) == len(first.values) + len(second.values) == len(document) - cut  # each token once


def test_a_second_segment_is_taken_from_anywhere():
    tokens, counts = corpus(documents=50)
    document = document_of_tokens(tokens, counts)
    found = np.zeros((50, 50), int)
    for seed in range(30):
        (first, second), labels, _ = make_examples(tokens, counts, ROOM, seed=seed)
        starts = [segment.values.numpy()[segment.row_starts().numpy()][labels == 1] for segment in (first, second)]
        np.add.at(found, (document[starts[0]], document[starts[1]]), 1)
    has_text = np.flatnonzero(np.bincount(document, minlength=50))
    theirs = found.sum(0)[has_text]
    assert np.all(np.abs(theirs - theirs.mean()) < 5 * np.sqrt(theirs.mean()))  # as often from one as from another


def test_one_in_ten_is_shorter():
    tokens, counts = corpus(documents=700)

    def is_shorter(shorter):
        (first, second), _, _ = make_examples(tokens, counts, ROOM, "sentence_order", shorter=shorter)
        return np.mean(first.row_lengths() + second.row_lengths() < ROOM)

    # Some are because a document ends; of sequences of random length, 2 to 40, one in two would not fill 40 even with
    # the sentence that exceeds it.
    assert is_shorter(0.0) < is_shorter(0.1) < is_shorter(1.0)
    assert is_shorter(1.0) > 0.7


def test_whole_sentences():
    tokens, counts = corpus()
    document = document_of_tokens(tokens, counts)
    (found,), labels, cut = make_examples(tokens, counts, ROOM, "sentences")
    assert labels is None
    assert cut == 0
    np.testing.assert_array_equal(np.sort(found.values), np.arange(len(document)))  # each token once
    ends = set(tokens.row_splits.numpy())
    sizes = dict(zip(tokens.row_starts().numpy(), tokens.row_lengths().numpy(), strict=True))
    for row in found.to_list():
        assert row == list(range(row[0], row[-1] + 1))
        assert row[0] in ends
        assert row[-1] + 1 in ends
        assert document[row[0]] == document[row[-1]]
        assert len(row) <= ROOM
        following = row[-1] + 1
        if following < len(document) and document[following] == document[row[0]]:
            assert len(row) + sizes[following] > ROOM  # there was no room for the next one


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_sentence_that_is_too_long_is_several(objective):
    tokens = tf.ragged.constant([[0, 1], list(range(2, 502)), [502], list(range(503, 700))], dtype=tf.int32)
    segments, _, cut = make_examples(tokens, np.array([3, 1]), ROOM, objective)
    assert all(segment.row_lengths().numpy().max() <= ROOM for segment in segments)
    seen = np.unique(np.concatenate([segment.values for segment in segments]))
    assert len(seen) >= 700 - cut
    if objective == "sentences":
        assert len(seen) == 700


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_seed_decides(objective):
    tokens, counts = corpus()
    one, again, other = (make_examples(tokens, counts, ROOM, objective, seed).segments for seed in ([1, 2], [1, 2], 3))
    for a, b in zip(one, again, strict=True):
        np.testing.assert_array_equal(a.values, b.values)
    assert one[0].values.shape != other[0].values.shape or np.any(one[0].values != other[0].values)


TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]


@pytest.mark.parametrize(("longest", "filled"), [(20, 0.97), (60, 0.97), (128, 0.9)])
def test_short_texts_share_sequences(longest, filled):
    lengths = np.random.default_rng(0).integers(3, longest + 1, 3000)
    found = group_into_sequences(lengths, room=128)
    assert sorted(number for texts in found for number in texts) == list(range(3000))
    used = np.array([lengths[texts].sum() for texts in found])
    assert used.max() <= 128
    assert used.mean() / 128 > filled
    assert all(texts == sorted(texts) for texts in found)


def test_texts_that_fill_a_sequence_share_none():
    assert group_into_sequences(np.array([8, 8, 7, 1]), room=8) == [[0], [1], [2, 3]]
    borders = np.array([0, 5, 8, 16, 20])  # of sentences: two fill a row, the next one fills one
    spans = [*itertools.islice(_group_whole_sentences(borders, 8), 9)]
    assert spans == [(0, 8), (8, 16), (16, 20)]


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
