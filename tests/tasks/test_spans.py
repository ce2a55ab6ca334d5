"""The search for spans, places in texts and windows, against slow versions of themselves and Google's own rule."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.answers.spans import NEVER
from keras_bert.tasks.heads.long_text import most_context, token_mask
from keras_bert.tasks.heads.spans import (
    SpanLoss,
    Spans,
    best_of_windows,
    best_spans,
    byte_spans,
    character_spans,
    read_contexts,
    token_spans,
)
from keras_bert.text.packing import windows

from ..support import small
from ..support.reference.squad import is_max_context

TEXT = "Zoë's cafe\u0301 😀👩‍👩‍👧 日本語 x\u200by naïve \t ﬁn"


def searched(logits, may_start, length, max_length):
    """All spans, (score, start, end), best first; of equal ones, what starts first, then what ends first."""
    found = [
        (logits[start][0] + logits[end][1], start, end)
        for start in range(length)
        if may_start[start]
        for end in range(start, min(start + max_length, length))
    ]
    return sorted(found, key=lambda span: (-span[0], span[1:]))


@st.composite
def searches(draw):
    tokens = draw(st.integers(0, 9))
    rows = draw(st.integers(0, 3))
    value = st.integers(-4, 4)  # few, so that some are equal
    logits = draw(st.lists(value, min_size=rows * tokens * 2, max_size=rows * tokens * 2))
    may_start = draw(st.lists(st.booleans(), min_size=rows * tokens, max_size=rows * tokens))
    lengths = draw(st.lists(st.integers(0, tokens), min_size=rows, max_size=rows))
    shape = rows, tokens
    logits, may_start = np.float32(logits).reshape(*shape, 2), np.array(may_start, bool).reshape(shape)
    return logits, may_start, np.array(lengths, np.int64), draw(st.integers(1, 12)), draw(st.integers(1, 6))


@settings(max_examples=60, deadline=None)
@given(searches())
def test_best_spans(search):
    logits, may_start, lengths, max_length, count = search
    got = best_spans(tf.constant(logits), tf.constant(may_start), lengths, max_length, count)
    assert [part.shape for part in got] == [(len(logits), count)] * 3
    for row, length in enumerate(lengths):
        want = searched(logits[row].tolist(), may_start[row], length, max_length)[:count]
        found = list(zip(*(part[row].numpy().tolist() for part in got), strict=True))
        assert found[: len(want)] == want
        assert all(score <= NEVER for score, _, _ in found[len(want) :])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.lists(st.integers(-4, 4), min_size=3, max_size=3), min_size=1, max_size=4), max_size=4))
def test_best_of_windows(questions):
    scores = [sorted(window, reverse=True) for question in questions for window in question]
    rows = [number for number, question in enumerate(questions) for _ in question]
    places = np.arange(3 * len(scores)).reshape(-1, 3)
    spans = Spans(tf.reshape(tf.constant(scores, tf.float32), [-1, 3]), tf.constant(places), tf.constant(-places))
    got = best_of_windows(spans, tf.constant(rows, tf.int64), len(questions))
    assert [part.shape for part in got] == [(len(questions), 3)] * 3
    for number in range(len(questions)):
        here = [i for i, row in enumerate(rows) if row == number]
        every = sorted((-scores[i][j], places[i, j]) for i in here for j in range(3))[:3]
        assert list(zip(-got.scores[number].numpy(), got.starts[number].numpy(), strict=True)) == every
        assert (got.ends[number] == -got.starts[number]).numpy().all()


def test_loss():
    generator = np.random.default_rng(0)
    logits, targets = generator.normal(size=(5, 7, 2)).astype("float32"), generator.integers(0, 7, (5, 2))
    log = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    want = -np.mean([[log[row, targets[row, side], side] for side in range(2)] for row in range(5)])
    loss = SpanLoss()
    for function in (loss, tf.function(loss, jit_compile=True)):
        assert float(function(tf.constant(targets), tf.constant(logits))) == pytest.approx(want, rel=1e-5)
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert float(again(targets, logits)) == pytest.approx(want, rel=1e-5)


@given(st.text(st.sampled_from("aé😀日\u0301"), max_size=8), st.data())
@settings(max_examples=40, deadline=None)
def test_bytes_to_characters(text, data):
    size = len(text.encode())
    start = data.draw(st.integers(0, size))
    end = data.draw(st.integers(start, size))
    # Which character each byte is of, and which stand before the end of the text.
    owner = [number for number, character in enumerate(text) for _ in character.encode()]
    got = [int(each[0, 0]) for each in character_spans([text], *(tf.constant([[i]], tf.int64) for i in (start, end)))]
    if start < end:
        assert got == [owner[start], owner[end - 1] + 1]
    else:
        assert text[got[0] : got[1]] == ""


def test_places_of_tokens_there_and_back():
    """From every other byte of a text to every third one, all at once; between texts that have less."""
    tokenizer = small.tokenizer()
    preprocessor = small.preprocessor(sequence_length=12, stride=3)
    data = TEXT.encode()
    places = [(a, b) for a in range(0, len(data), 2) for b in range(a + 1, len(data) + 1, 3)]
    texts = ["", *[TEXT] * len(places), "one two"]
    read = read_contexts(preprocessor, tf.constant(["who"] * len(texts)), tf.constant(texts))
    _, starts, ends = (each.numpy().tolist() for each in tokenizer.tokenize_with_offsets(TEXT))
    begin, end = np.array([(0, 0), *places, (4, 7)]).T
    first, last = (each.numpy() for each in token_spans(read, begin, end))
    covered = np.stack([each[:, 0].numpy() for each in byte_spans(read, first[:, None], last[:, None])], axis=1)
    assert first[0] > last[0]  # of a text without tokens
    assert covered[0].tolist() == [0, 0]
    assert covered[-1].tolist() == [4, 7]
    for row, (a, b) in enumerate(places, start=1):
        touched = [i for i, (start, stop) in enumerate(zip(starts, ends, strict=True)) if start < b and stop > a]
        if touched:
            assert [first[row], last[row]] == [touched[0], touched[-1]]
            assert covered[row].tolist() == [starts[touched[0]], ends[touched[-1]]]
        else:
            assert first[row] > last[row]
    assert any(first[1:] > last[1:])


# -- Windows


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
