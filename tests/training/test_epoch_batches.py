"""Batches by length: nothing is lost or doubled, and little is padding."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_bert.training.batches import accumulated_batches, batches_of_epoch

LENGTHS = st.lists(st.integers(2, 40), min_size=1, max_size=300).map(np.array)


@given(LENGTHS, st.integers(0, 9), st.integers(1, 40))
def test_every_row_once_by_rows(lengths, epoch, batch_size):
    batches = batches_of_epoch(lengths, 0, epoch, batch_size=batch_size)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert all(len(batch) <= batch_size for batch in batches)
    assert sum(len(batch) < batch_size for batch in batches) <= 1 + len(lengths) // (50 * batch_size)


@given(LENGTHS, st.integers(0, 9), st.integers(1, 400))
def test_every_row_once_by_tokens(lengths, epoch, batch_tokens):
    batches = batches_of_epoch(lengths, 0, epoch, batch_tokens=batch_tokens)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert all(len(batch) == 1 or len(batch) * lengths[batch].max() <= batch_tokens for batch in batches)


def test_another_order_every_epoch_and_the_same_for_a_seed():
    lengths = np.random.default_rng(0).integers(3, 60, 1000)

    def order(seed, epoch):
        return np.concatenate(batches_of_epoch(lengths, seed, epoch, batch_size=8)).tolist()

    assert order(0, 1) == order(0, 1)
    assert order(0, 1) != order(0, 2)
    assert order(0, 1) != order(1, 1)


def test_little_is_padding():
    lengths = np.random.default_rng(0).integers(3, 60, 5000)
    batches = batches_of_epoch(lengths, 0, 0, batch_size=32)
    assert sum(len(rows) * lengths[rows].max() for rows in batches) < 1.04 * lengths.sum()  # in any order: 1.8
    lengths_of_batches = [lengths[batch].mean() for batch in batches]
    assert np.corrcoef(lengths_of_batches, np.arange(len(batches)))[0, 1] < 0.3  # in no order of length


def test_each_batch_of_an_update_is_packed_once():
    """Also those before the batch at which an interrupted run goes on: the shares need their counts."""
    packed, batches = [], [np.array(rows) for rows in ([0, 1], [2], [3, 4])]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)], autograph=False)
    def pack(rows):
        tf.py_function(lambda each: packed.append(each.numpy().tolist()), [rows], [])
        return rows, rows

    found = list(accumulated_batches(pack, keras.losses.MeanSquaredError(), batches, accumulate=2, start=1))
    assert [each.batch[0].numpy().tolist() for each in found] == [[2], [3, 4]]
    assert [each.shares.numpy().tolist() for each in found] == [[[pytest.approx(1 / 3)]], [[1.0], [1.0]]]
    assert packed == [[0, 1], [2], [3, 4]]
