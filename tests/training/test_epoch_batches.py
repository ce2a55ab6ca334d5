"""Batches by length: nothing is lost or doubled, and little is padding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bert.training.batches import batches_of_epoch, padding_share

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
    assert padding_share(lengths, batches) < 0.04
    in_any_order = np.split(np.arange(4992), 156)
    assert padding_share(lengths, in_any_order) > 0.4
    assert padding_share(np.array([4, 2, 2]), [np.array([0, 1]), np.array([2])]) == pytest.approx(2 / 10)
    lengths_of_batches = [lengths[batch].mean() for batch in batches]
    assert np.corrcoef(lengths_of_batches, np.arange(len(batches)))[0, 1] < 0.3  # in no order of length
