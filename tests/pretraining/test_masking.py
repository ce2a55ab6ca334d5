"""Masking against the paper's numbers, by counting."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.pretraining import MaskedLMMasking, unmasked
from keras_bert.text import WordPieceTokenizer

from ..support.small import SPECIAL

LETTERS = "abcdefghijklmnopqrst"
TOKENIZER = WordPieceTokenizer([*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS)])
PREDICTIONS = 19


def packed(rows=2000, words=20, seed=0):
    """Pairs of up to 128 tokens, in words of one to four, the last ones shorter, some with a token that is unknown."""
    generator = np.random.default_rng(seed)
    found = {name: np.zeros((rows, 128), np.int32) for name in ("input_word_ids", "input_mask", "input_type_ids")}
    for row in range(rows):
        segments = []
        for _ in range(2):
            lengths = generator.integers(1, 5, size=words if row % 2 else generator.integers(0, words))
            tokens = generator.integers(len(SPECIAL), len(SPECIAL) + len(LETTERS), lengths.sum())
            starts = np.cumsum(lengths) - lengths
            tokens[np.setdiff1d(np.arange(len(tokens)), starts)] += len(LETTERS)
            segments.append([*tokens, *[TOKENIZER.unk_token_id] * (row % 3)][:62])
        ids = [TOKENIZER.cls_token_id, *segments[0], TOKENIZER.sep_token_id, *segments[1], TOKENIZER.sep_token_id]
        found["input_word_ids"][row, : len(ids)] = ids
        found["input_mask"][row, : len(ids)] = 1
        found["input_type_ids"][row, len(segments[0]) + 2 : len(ids)] = 1
    return {name: tf.constant(value) for name, value in found.items()}


@pytest.fixture(scope="module")
def inputs():
    return packed()


def chosen(masked):
    """bool `[batch, seq_length]`, from the positions."""
    found = np.zeros(masked["input_word_ids"].shape, bool)
    rows, columns = np.nonzero(masked["masked_lm_weights"].numpy())
    found[rows, masked["masked_lm_positions"].numpy()[rows, columns]] = True
    return found


def can_be_chosen(inputs):
    return inputs["input_word_ids"].numpy() >= len(SPECIAL)


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_how_many_are_chosen(inputs, unit):
    masked = MaskedLMMasking(TOKENIZER, PREDICTIONS, masked_unit=unit)(inputs, seed=[1, 2])
    candidates, found = can_be_chosen(inputs), chosen(masked)
    assert not found[~candidates].any()  # no special token, no padding
    budget = np.clip(np.round(0.15 * candidates.sum(1)), 1, PREDICTIONS) * (candidates.sum(1) > 0)
    assert np.all(found.sum(1) <= budget)
    np.testing.assert_array_equal(found.any(1), candidates.any(1))
    begins = np.ones_like(found) if unit == "token" else inputs["input_word_ids"].numpy() < len(SPECIAL) + len(LETTERS)
    begins[:, 1:] |= candidates[:, 1:] & ~candidates[:, :-1]
    for row, left in enumerate(budget - found.sum(1)):  # no unit that is not chosen would fit
        words = np.cumsum(begins[row])[candidates[row] & ~found[row]]
        assert left == 0 or np.bincount(words)[words].min(initial=99) > left
    # Each place as often as any other: 15%, but for what is left over and for rounding.
    full = candidates.sum(1) > 60
    share = found[full][:, 1:60].sum(0) / candidates[full][:, 1:60].sum(0)
    expected = found[full].sum() / candidates[full].sum()
    assert 0.12 < expected < 0.16
    deviation = np.sqrt(expected * (1 - expected) / candidates[full][:, 1:60].sum(0))
    tolerance = 4.5 * deviation * (1 if unit == "token" else 3)  # whole units vary more
    assert np.all(np.abs(share - expected)[deviation < 0.05] < tolerance[deviation < 0.05])


def test_eighty_ten_ten(inputs):
    masked = MaskedLMMasking(TOKENIZER, PREDICTIONS)(inputs, seed=[3, 4])
    before, after = inputs["input_word_ids"].numpy(), masked["input_word_ids"].numpy()
    found = chosen(masked)
    np.testing.assert_array_equal(before[~found], after[~found])
    before, after = before[found], after[found]
    count, ordinary = len(before), TOKENIZER.vocabulary_size - len(SPECIAL)
    by_chance = 0.1 / ordinary  # a random token that happens to be the same
    shares = {0.8: np.mean(after == TOKENIZER.mask_token_id), 0.1 + by_chance: np.mean(after == before)}
    for expected, share in shares.items():
        assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / count)
    others = after[(after != before) & (after != TOKENIZER.mask_token_id)]
    assert others.min() >= len(SPECIAL)
    counts = np.bincount(others, minlength=TOKENIZER.vocabulary_size)[len(SPECIAL) :]
    expected = len(others) / ordinary
    assert np.sum((counts - expected) ** 2 / expected) < ordinary + 5 * np.sqrt(2 * ordinary)  # chi squared


def test_what_was_there(inputs):
    masked = MaskedLMMasking(TOKENIZER, PREDICTIONS)(inputs, seed=[5, 6])
    ids, positions = inputs["input_word_ids"].numpy(), masked["masked_lm_positions"].numpy()
    there, weights = masked["masked_lm_ids"].numpy(), masked["masked_lm_weights"].numpy()
    assert set(np.unique(weights)) == {0.0, 1.0}
    np.testing.assert_array_equal(np.take_along_axis(ids, positions, 1)[weights > 0], there[weights > 0])
    assert not positions[weights == 0].any()
    assert not there[weights == 0].any()
    assert np.all(np.diff(weights, axis=1) <= 0)  # the real ones first
    assert np.all((np.diff(positions, axis=1) > 0) | (weights[:, 1:] == 0))  # in order
    assert masked["input_type_ids"] is inputs["input_type_ids"]
    for name, value in unmasked(masked).items():
        np.testing.assert_array_equal(value, inputs[name])


def test_words_are_whole(inputs):
    masked = MaskedLMMasking(TOKENIZER, PREDICTIONS, masked_unit="word")(inputs, seed=[7, 8])
    ids, found = inputs["input_word_ids"].numpy(), chosen(masked)
    has_room = can_be_chosen(inputs).sum(1, keepdims=True) > 27  # for words of four tokens; others may be cut
    continues = has_room & (ids >= len(SPECIAL) + len(LETTERS))
    np.testing.assert_array_equal(found[:, 1:][continues[:, 1:]], found[:, :-1][continues[:, 1:]])


def test_spans_are_as_long_as_spanbert_draws_them():
    ids = tf.constant(np.tile(np.arange(5, 25, dtype=np.int32), (1500, 25)))  # 500 words of one token

    def length(unit):
        found = chosen(MaskedLMMasking(TOKENIZER, 75, masked_unit=unit)({"input_word_ids": ids}, seed=[0, 1]))
        runs = (np.diff(np.pad(found, ((0, 0), (1, 1))).astype(int), axis=1) == -1).sum()
        return found.sum() / runs

    # Two spans that touch look like one, and the last one is cut where the budget ends: 3.8 all the same, about.
    assert 3.6 < length("span") < 4.6
    assert 1.1 < length("token") < 1.25  # 1 / (1 - 0.15)


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_short_rows_with_long_words(unit):
    """Of ten tokens, two can be chosen: those of a short word or, if there is none, the beginning of a long one."""
    cls, sep, first, rest = TOKENIZER.cls_token_id, TOKENIZER.sep_token_id, len(SPECIAL), len(SPECIAL) + len(LETTERS)
    long_and_short = [cls, first, *[rest] * 7, first + 1, rest + 1, sep]
    long_only = [cls, first, *[rest] * 9, sep]
    rows = {"input_word_ids": tf.constant([long_and_short, long_only] * 500, tf.int32)}
    found = chosen(MaskedLMMasking(TOKENIZER, 2, masked_unit=unit)(rows, seed=[1, 2]))
    np.testing.assert_array_equal(found.sum(1), 2)
    if unit != "token":
        assert {tuple(np.flatnonzero(row)) for row in found} == {(9, 10), (1, 2)}


def test_the_seed_decides(inputs):
    masking = MaskedLMMasking(TOKENIZER, PREDICTIONS)
    first, again, other = (masking(inputs, seed)["input_word_ids"].numpy() for seed in ([1, 1], [1, 1], [1, 2]))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_each_draw_has_a_seed_of_its_own(inputs, monkeypatch):
    """With one seed for the order of the spans and for their lengths, one would follow from the other."""
    seeds = []

    def noted(draw, place):
        return lambda *arguments: seeds.append(tuple(arguments[place].numpy())) or draw(*arguments)

    monkeypatch.setattr(tf.random, "stateless_uniform", noted(tf.random.stateless_uniform, 1))
    monkeypatch.setattr(tf.random, "stateless_categorical", noted(tf.random.stateless_categorical, 2))
    MaskedLMMasking(TOKENIZER, PREDICTIONS, masked_unit="span")(inputs, seed=[0, 1])
    assert len(set(seeds)) == len(seeds) == 4


@pytest.mark.slow
def test_in_a_dataset(inputs):
    masking = MaskedLMMasking(TOKENIZER, PREDICTIONS, masked_unit="span")
    few = {name: value[:8] for name, value in inputs.items()}
    expected = masking(few, [0, 1])
    dataset = tf.data.Dataset.from_tensors(few).map(lambda row: masking(row, [0, 1]))
    for name, value in next(iter(dataset)).items():
        np.testing.assert_array_equal(value, expected[name])
        assert value.shape == expected[name].shape


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_markers_are_neither_hidden_nor_drawn(inputs, unit):
    markers = list("abcde")
    tokenizer = WordPieceTokenizer(TOKENIZER.vocabulary, more_special_tokens=markers)
    before, masked = inputs["input_word_ids"].numpy(), MaskedLMMasking(tokenizer, 19, masked_unit=unit)(inputs, [1, 2])
    after, ids = masked["input_word_ids"].numpy(), [tokenizer.vocabulary.index(each) for each in markers]
    np.testing.assert_array_equal(np.isin(after, ids), np.isin(before, ids))
    assert not np.isin(before[chosen(masked)], ids).any()


def test_nothing_to_choose():
    cls, sep, unknown = TOKENIZER.cls_token_id, TOKENIZER.sep_token_id, TOKENIZER.unk_token_id
    rows = {"input_word_ids": tf.constant([[cls, sep, 0, 0, 0], [cls, unknown, unknown, sep, 0]], tf.int32)}
    masked = MaskedLMMasking(TOKENIZER, 3)(rows, [0, 0])
    np.testing.assert_array_equal(masked["input_word_ids"], rows["input_word_ids"])
    assert not masked["masked_lm_weights"].numpy().any()
