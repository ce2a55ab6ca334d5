"""Windows over long texts, against slow versions of themselves."""

import random

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.saved_model import export_preprocessor
from keras_bert.text import BertPreprocessor
from keras_bert.text.packing import truncate, windows

from ..support.messages import error_names


def slid(tokens, room, stride):
    """Windows one by one, until one reaches the end."""
    start, cut = 0, []
    while True:
        cut.append((start, tokens[start : start + room]))
        if start + room >= len(tokens):
            return cut
        start += min(stride, room)


@pytest.mark.parametrize("room", [1, 2, 5, 8])
@pytest.mark.parametrize("stride", [1, 3, 8, 100])
def test_windows_of_one(room, stride):
    rows = [list(range(100, 100 + length)) for length in (0, 1, 4, 5, 6, 7, 8, 9, 23)]
    cut = windows([tf.ragged.constant(rows, tf.int32, ragged_rank=1)], room, stride)
    want = [(number, *each) for number, row in enumerate(rows) for each in slid(row, room, stride)]
    got = zip(cut.rows.numpy(), cut.starts.numpy(), cut.segments[0].to_list(), strict=True)
    assert list(got) == want
    assert cut.counts.numpy().tolist() == [len(slid(row, room, stride)) for row in rows]


def test_windows_of_pairs():
    generator = random.Random(0)
    firsts = [list(range(generator.randrange(9))) for _ in range(50)]
    seconds = [list(range(100, 100 + generator.randrange(30))) for _ in range(50)]
    pair = [tf.ragged.constant(side, tf.int32, ragged_rank=1) for side in (firsts, seconds)]
    cut = windows(pair, 10, 4)
    want = [
        (first[:5], window)
        for first, second in zip(firsts, seconds, strict=True)
        for _, window in slid(second, 10 - len(first[:5]), 4)
    ]
    assert list(zip(cut.segments[0].to_list(), cut.segments[1].to_list(), strict=True)) == want


@pytest.mark.parametrize("room", [0, 1, 4, 5, 8, 9])
def test_head_and_tail(room):
    rows = [list(range(length)) for length in (0, 3, 8, 9, 30)]
    kept = truncate([tf.ragged.constant(rows, tf.int32, ragged_rank=1)], room, "head_tail")[0].to_list()
    for row, shorter in zip(rows, kept, strict=True):
        assert shorter == (row if len(row) <= room else row[: room // 4] + row[len(row) - (room - room // 4) :])


def test_head_and_tail_of_a_pair():
    pair = [tf.ragged.constant([list(range(3))]), tf.ragged.constant([list(range(100, 120))])]
    first, second = truncate(pair, 11, "head_tail")
    assert first.to_list() == [[0, 1, 2]]
    assert second.to_list() == [[100, 101, 114, 115, 116, 117, 118, 119]]


def test_a_preprocessor_with_windows(tokenizer, untraced):
    preprocessor = BertPreprocessor(tokenizer, sequence_length=6, stride=2)
    words = ["the", "film", "was", "very", "good", "it", "was"]
    outputs = preprocessor([" ".join(words), "the"])
    ids = [tokenizer.vocabulary.index(word) for word in words]
    first = [[2, *ids[:4], 3], [2, *ids[2:6], 3], [2, *ids[4:], 3, 0]]
    second = [[2, ids[0], 3, 0, 0, 0], [0] * 6, [0] * 6]
    assert outputs["input_word_ids"].numpy().tolist() == [first, second]
    assert outputs["input_mask"].numpy().sum(-1).tolist() == [[6, 6, 5], [3, 0, 0]]


def test_windows_in_every_way_of_running(tokenizer):
    preprocessor = BertPreprocessor(tokenizer, sequence_length=None, stride=3, max_sequence_length=8)
    texts = ["the film was very good it was not dull", "film", ""]
    want = preprocessor.pack(tokenizer.tokenize(texts))
    assert want["input_word_ids"].shape == (3, 2, 8)
    mapped = next(iter(tf.data.Dataset.from_tensors(texts).map(preprocessor)))
    for name, values in want.items():
        np.testing.assert_array_equal(mapped[name], values)
    config = preprocessor.get_config()
    assert BertPreprocessor.from_config(config).get_config() == config
    assert config["stride"] == 3
    assert preprocessor(tf.zeros([0], tf.string))["input_mask"].shape[0] == 0


def test_windows_of_pairs_of_texts(tokenizer, untraced):
    preprocessor = BertPreprocessor(tokenizer, sequence_length=None, stride=3, max_sequence_length=8)
    pair = preprocessor((["the film"], ["was very good it was"]))
    assert pair["input_type_ids"].numpy().tolist() == [[[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 0]]]


def test_windows_cannot_be_exported(tokenizer, tmp_path):
    with error_names(ValueError, "windows"):
        export_preprocessor(BertPreprocessor(tokenizer, stride=1), tmp_path / "preprocessor")
