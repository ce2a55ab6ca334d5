"""Batches by length: nothing is lost or doubled, and little is padding."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_bert.training.batches import batches_of_epoch

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
