"""Truncation, packing and windows against slow versions of themselves; tests/contract has TF Hub's packing."""

import itertools
import random

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.saved_model import export_preprocessor
from keras_bert.text import BertPreprocessor
from keras_bert.text.packing import pack, truncate, windows
from keras_bert.text.pairs import ROBERTA_PAIRS

from ..support import small
from ..support.messages import error_names


def popped(a, b, room):
    """`_truncate_seq_pair` of the original BERT (create_pretraining_data.py), which also trains on pairs."""
    a, b = list(a), list(b)
    while len(a) + len(b) > room:
        (a if len(a) > len(b) else b).pop()
    return a, b


def hugging_face(a, b, room):
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({str(i): i for i in range(200)}, "0")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.enable_truncation(room, strategy="longest_first")
    pair = tokenizer.encode(list(map(str, a)), list(map(str, b)), is_pretokenized=True)
    return tuple([i for i, of in zip(pair.ids, pair.sequence_ids, strict=True) if of == text] for text in (0, 1))


def in_turn(a, b, room):
    """Room is dealt out token by token."""
    kept = [0, 0]
    while sum(kept) < room and (kept[0] < len(a) or kept[1] < len(b)):
        for i, segment in enumerate((a, b)):
            if kept[i] < len(segment) and sum(kept) < room:
                kept[i] += 1
    return a[: kept[0]], b[: kept[1]]


def first_come(a, b, room):
    return a[:room], b[: max(0, room - len(a))]


SLOW = {"longest_first": popped, "odd_to_longer": hugging_face, "round_robin": in_turn, "waterfall": first_come}


@pytest.mark.parametrize(("truncation", "slow"), SLOW.items())
def test_truncation_of_pairs(truncation, slow):
    pairs = [(list(range(a)), list(range(100, 100 + b))) for a, b in itertools.product(range(9), repeat=2)]
    first, second = (tf.ragged.constant(side, tf.int32, ragged_rank=1) for side in zip(*pairs, strict=True))
    for room in range(18):
        got = [segment.to_list() for segment in truncate([first, second], room, truncation)]
        assert list(zip(*got, strict=True)) == [slow(a, b, room) for a, b in pairs]


@pytest.mark.parametrize("truncation", SLOW)
def test_truncation_of_one(truncation):
    segment = tf.ragged.constant([[1, 2, 3], [], [4]])
    assert truncate([segment], 2, truncation)[0].to_list() == [[1, 2], [], [4]]


def test_truncation_error_names_row_length_and_limit(untraced):
    preprocessor = small.preprocessor(sequence_length=6, truncation="error")
    assert preprocessor(["the film was good"])["input_mask"].numpy().sum() == 6
    texts = ["film", "the film was very good !", "the film was very good"]
    with error_names(ValueError, "truncation", "error", "row", "limit", "1 6 4"):
        preprocessor(texts)
    with error_names(ValueError, "0 5 3"):
        preprocessor((["the film"], ["was very good"]))
    with error_names(ValueError, "0 7 4"):
        preprocessor.pack([[1, 2, 3, 4, 5, 6, 7]])


def test_packed_layout():
    a, b = tf.ragged.constant([[7, 8], []]), tf.ragged.constant([[9], [5, 6, 4]])
    one = {name: values.numpy().tolist() for name, values in pack([a], 5, 101, 102, 0).items()}
    assert one == {
        "input_word_ids": [[101, 7, 8, 102, 0], [101, 102, 0, 0, 0]],
        "input_mask": [[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]],
        "input_type_ids": [[0] * 5, [0] * 5],
    }
    two = {name: values.numpy().tolist() for name, values in pack([a, b], 7, 101, 102, -1).items()}
    assert two == {
        "input_word_ids": [[101, 7, 8, 102, 9, 102, -1], [101, 102, 5, 6, 4, 102, -1]],
        "input_mask": [[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 0]],
        "input_type_ids": [[0, 0, 0, 0, 1, 1, 0], [0, 0, 1, 1, 1, 1, 0]],
    }
    assert all(values.dtype == tf.int32 for values in pack([a], 5, 101, 102, 0).values())


def test_packed_layout_of_roberta():
    a, b = tf.ragged.constant([[7, 8], []]), tf.ragged.constant([[9], [5, 6, 4]])
    one = {name: values.numpy().tolist() for name, values in pack([a], 5, 0, 2, 1, ROBERTA_PAIRS).items()}
    assert one["input_word_ids"] == [[0, 7, 8, 2, 1], [0, 2, 1, 1, 1]]
    two = {name: values.numpy().tolist() for name, values in pack([a, b], 8, 0, 2, 1, ROBERTA_PAIRS).items()}
    assert two == {
        "input_word_ids": [[0, 7, 8, 2, 2, 9, 2, 1], [0, 2, 2, 5, 6, 4, 2, 1]],
        "input_mask": [[1, 1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1, 0]],
        "input_type_ids": [[0] * 8, [0] * 8],
    }
    assert [ROBERTA_PAIRS.special_tokens(segments) for segments in (1, 2)] == [2, 4]


# -- Windows over long texts


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


@pytest.mark.slow
def test_windows_in_every_way_of_running(tokenizer):
    preprocessor = BertPreprocessor(tokenizer, sequence_length=None, stride=3, max_sequence_length=8)
    texts = ["the film was very good it was not dull", "film", ""]
    want = preprocessor.pack(tokenizer.tokenize(texts))
    assert want["input_word_ids"].shape == (3, 2, 8)
    mapped = next(iter(tf.data.Dataset.from_tensors(texts).map(preprocessor)))
    for name, values in want.items():
        np.testing.assert_array_equal(mapped[name], values)
    assert preprocessor(tf.zeros([0], tf.string))["input_mask"].shape[0] == 0


def test_windows_of_pairs_of_texts(tokenizer, untraced):
    preprocessor = BertPreprocessor(tokenizer, sequence_length=None, stride=3, max_sequence_length=8)
    pair = preprocessor((["the film"], ["was very good it was"]))
    assert pair["input_type_ids"].numpy().tolist() == [[[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 0]]]


def test_windows_cannot_be_exported(tokenizer, tmp_path):
    with error_names(ValueError, "windows"):
        export_preprocessor(BertPreprocessor(tokenizer, stride=1), tmp_path / "preprocessor")
