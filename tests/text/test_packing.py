"""Truncation and packing against slow versions of themselves; tests/contract has them against TF Hub's model."""

import itertools

import pytest
import tensorflow as tf

from keras_bert.text.packing import ROBERTA_PAIRS, pack, truncate

from ..support import small
from ..support.messages import error_names


def popped(a, b, room):
    """`_truncate_seq_pair` of the original BERT (create_pretraining_data.py), which also trains on pairs."""
    a, b = list(a), list(b)
    while len(a) + len(b) > room:
        (a if len(a) > len(b) else b).pop()
    return a, b


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


@pytest.mark.parametrize(
    ("truncation", "slow"), [("longest_first", popped), ("round_robin", in_turn), ("waterfall", first_come)]
)
def test_truncation_of_pairs(truncation, slow):
    pairs = [(list(range(a)), list(range(100, 100 + b))) for a, b in itertools.product(range(9), repeat=2)]
    first, second = (tf.ragged.constant(side, tf.int32, ragged_rank=1) for side in zip(*pairs, strict=True))
    for room in range(18):
        got = [segment.to_list() for segment in truncate([first, second], room, truncation)]
        assert list(zip(*got, strict=True)) == [slow(a, b, room) for a, b in pairs]


@pytest.mark.parametrize("truncation", ["longest_first", "round_robin", "waterfall"])
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
