"""Windows: which of them speaks for a token, against Google's own rule in plain Python; and where tokens stand."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tasks.long_text import most_context, token_mask
from keras_bert.text.packing import windows

from ..support import small
from ..support.reference.squad import is_max_context


@pytest.mark.parametrize(("room", "stride"), [(7, 3), (7, 7), (6, 1), (3, 2), (384, 128), (200, 30)])
def test_most_context_is_googles(room, stride):
    lengths = [1, room, room + 1, 2 * room + stride, 5 * room - 1, room + stride + 1, 3]
    cut = windows([tf.ragged.range(tf.constant(lengths))], room, stride)
    mask = most_context(cut.rows, cut.starts, cut.segments[0].row_lengths()).to_list()
    starts, sizes = cut.starts.numpy(), cut.segments[0].row_lengths().numpy()
    for row in range(len(lengths)):
        mine = np.flatnonzero(cut.rows.numpy() == row)
        spans = [(starts[i], sizes[i]) for i in mine]
        for number, i in enumerate(mine):
            want = [is_max_context(spans, number, starts[i] + token) for token in range(sizes[i])]
            assert mask[i] == want, (row, number)


@pytest.mark.parametrize("settings", [{}, {"stride": 2}, {"stride": 9}])
@pytest.mark.parametrize("sequence_length", [None, 8, 20])
def test_places_hold_the_tokens_in_order(settings, sequence_length):
    tokenizer = small.tokenizer()
    preprocessor = small.preprocessor(sequence_length=sequence_length, **settings)
    texts = ["film plot", "", "the an and or of to in on is was", " ".join(["movie", "good", "time"] * 10)]
    tokens = tokenizer.tokenize(texts)
    packed = preprocessor.pack(tokens)["input_word_ids"]
    places = token_mask(preprocessor, tokens, packed)
    assert places.shape == packed.shape
    room = (sequence_length or 24) - 2
    for row, ids, here in zip(tokens.to_list(), packed.numpy(), places.numpy(), strict=True):
        assert ids[here].tolist() == (row if settings else row[:room])


def test_no_rows():
    none = tf.zeros([0], tf.int64)
    assert most_context(none, none, none).to_list() == []
