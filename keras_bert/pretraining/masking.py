"""Masks for masked language modeling (Devlin et al. 2018, section 3.1 task 1 and appendix A.1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.choices import MASKED_UNITS, check_choice
from keras_bert.text.tokenizer import Tokenizer

# Of spans of 1 to 10 words: geometric, p = 0.2, 3.8 words on average (Joshi et al. 2020, section 3.1).
_SPAN_LENGTH_PROBABILITIES = 0.2 * 0.8 ** np.arange(10)


class MaskedLMMasking:
    """The masking step of masked language modeling: masks packed tokens, and returns the tokens to predict.

    In each row, a share `rate` of the tokens that are not special is chosen at random. Of these, 80% become the mask
    token, 10% a random token that is not special, and 10% stay the same.

    Args:
        tokenizer: the tokenizer of the ids.
        predictions: the most tokens to choose in a row, 1 or more.
        rate: the share of chosen tokens, between 0 and 1. At least one is chosen, unless all are special.
        masked_unit: the unit of choice: "token", as in the paper; "word", as in its authors' later models ("whole word
            masking"); or "span", one to ten words (SpanBERT). A word that exceeds what is left of the share is passed
            over; if all words do, the first tokens of one are chosen.

    Call arguments:
        packed: a dict with `input_word_ids`, int32 `[batch, seq_length]`, from `BertPreprocessor`.
        seed: int `[2]`: the same seed gives the same choice.

    Returns:
        The dict, with masks in `input_word_ids`, and in addition
            `masked_lm_positions`: int32 `[batch, predictions]`, in ascending order, padded with 0;
            `masked_lm_ids`: int32 `[batch, predictions]`, the original tokens;
            `masked_lm_weights`: float32 `[batch, predictions]`, 1 for a prediction, 0 for padding.

    Raises:
        ValueError: `predictions` or `rate` is out of range, or `masked_unit` is unknown.

    Example:
        >>> from keras_bert import BertPreprocessor
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=12)
        >>> masking = MaskedLMMasking(preprocessor.tokenizer, predictions=2)
        >>> masked = masking(preprocessor(["to be or not to be that is the question"]), seed=[0, 0])
        >>> masked["masked_lm_positions"].shape, float(tf.reduce_sum(masked["masked_lm_weights"]))
        (TensorShape([1, 2]), 2.0)
    """

    def __init__(self, tokenizer: Tokenizer, predictions: int, rate: float = 0.15, masked_unit: str = "token") -> None:
        if predictions < 1:
            raise ValueError(f"predictions is {predictions}; expected at least 1")
        if not 0 < rate < 1:
            raise ValueError(f"rate is {rate}; expected a share between 0 and 1")
        check_choice("masked_unit", masked_unit, MASKED_UNITS)
        self.predictions = predictions
        self.rate = rate
        self.masked_unit = masked_unit
        self._is_maskable = np.array([i not in tokenizer.special_ids for i in range(tokenizer.vocabulary_size)])
        self._ordinary_ids = np.flatnonzero(self._is_maskable).astype(np.int32)
        self._begins_word = tokenizer.begins_word
        self._mask_id = tokenizer.mask_token_id

    def __call__(self, packed: dict[str, tf.Tensor], seed: Any) -> dict[str, tf.Tensor]:
        ids = packed["input_word_ids"]
        seeds = tf.unstack(tf.random.split(seed, 4))
        chosen = self._choose(ids, seeds[0], seeds[3])  # bool [batch, seq_length]
        replaced = tf.where(chosen, self._draw_replacements(ids, seeds[1], seeds[2]), ids)
        return {**packed, "input_word_ids": replaced, **self._make_predictions(ids, chosen)}

    def _choose(self, ids: tf.Tensor, order_seed: tf.Tensor, length_seed: tf.Tensor) -> tf.Tensor:
        """Chooses units in a random order, each that fits in what is left, bool `[batch, seq_length]`."""
        maskable = tf.gather(self._is_maskable, ids)
        budget = tf.round(self.rate * tf.reduce_sum(tf.cast(maskable, tf.float32), axis=1, keepdims=True))
        budget = tf.clip_by_value(tf.cast(budget, tf.int32), 1, self.predictions)
        # Tokens of one unit (of one word, for spans) have the same number. Special tokens have the largest number.
        order = tf.where(maskable, self._draw_order(ids, maskable, order_seed, length_seed), tf.float32.max)
        in_order = tf.sort(order)
        unit_size = tf.searchsorted(in_order, order, side="right") - tf.searchsorted(in_order, order)

        def fitting(chosen: tf.Tensor, left: tf.Tensor) -> tf.Tensor:
            return maskable & ~chosen & (unit_size <= left)

        def choose_more(chosen: tf.Tensor, left: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            fits = fitting(chosen, left)
            others_last = tf.sort(tf.where(fits, order, tf.float32.max))
            tokens_so_far = tf.searchsorted(others_last, order, side="right")  # including the token's unit
            more = fits & (tokens_so_far <= left)
            return chosen | more, left - tf.reduce_sum(tf.cast(more, tf.int32), axis=1, keepdims=True)

        chosen, _ = tf.while_loop(
            lambda *state: tf.reduce_any(fitting(*state)), choose_more, [tf.zeros_like(maskable), budget]
        )
        in_first = maskable & (order == in_order[:, :1]) & ~tf.reduce_any(chosen, axis=1, keepdims=True)
        return chosen | (in_first & (tf.cumsum(tf.cast(in_first, tf.int32), axis=1) <= budget))

    def _draw_order(
        self, ids: tf.Tensor, maskable: tf.Tensor, order_seed: tf.Tensor, length_seed: tf.Tensor
    ) -> tf.Tensor:
        """Draws the random rank of each token's unit, float32 `[batch, seq_length]`."""
        random = tf.random.stateless_uniform(tf.shape(ids), order_seed)
        if self.masked_unit == "token":
            return random
        after_special = tf.pad(~maskable[:, :-1], [[0, 0], [1, 0]], constant_values=True)
        begins = tf.gather(self._begins_word, ids) | after_special | ~maskable
        word = tf.cumsum(tf.cast(begins, tf.int32), axis=1) - 1  # [batch, seq_length]: each token's word, from 0
        if self.masked_unit == "word":
            return tf.gather(random, word, batch_dims=1)
        shape = [tf.shape(ids)[0], len(_SPAN_LENGTH_PROBABILITIES)]
        logits = tf.broadcast_to(tf.math.log(_SPAN_LENGTH_PROBABILITIES), shape)
        lengths = 1 + tf.random.stateless_categorical(logits, tf.shape(ids)[1], length_seed, tf.int32)
        span = tf.searchsorted(tf.cumsum(lengths, axis=1), word, side="right")
        # Words keep their order within a span, so the limit cuts off the end of the last span.
        in_span = tf.cast(word, tf.float32) / tf.cast(tf.shape(ids)[1], tf.float32)
        span_rank = tf.argsort(tf.argsort(random, axis=1), axis=1)  # the rank of each span
        return tf.cast(tf.gather(span_rank, span, batch_dims=1), tf.float32) + in_span

    def _draw_replacements(self, ids: tf.Tensor, kind_seed: tf.Tensor, token_seed: tf.Tensor) -> tf.Tensor:
        """Draws the replacement of each token, used if it is chosen: the mask, a random token, or the token itself."""
        kind = tf.random.stateless_uniform(tf.shape(ids), kind_seed)
        ordinary = tf.random.stateless_uniform(tf.shape(ids), token_seed, 0, len(self._ordinary_ids), tf.int32)
        other = tf.gather(self._ordinary_ids, ordinary)
        return tf.where(kind < 0.8, self._mask_id, tf.where(kind < 0.9, other, ids))

    def _make_predictions(self, ids: tf.Tensor, chosen: tf.Tensor) -> dict[str, tf.Tensor]:
        chosen_positions = tf.RaggedTensor.from_value_rowids(
            tf.cast(tf.where(chosen), tf.int32)[:, 1], tf.where(chosen)[:, 0], tf.shape(ids, tf.int64)[0]
        )
        positions = chosen_positions.to_tensor(shape=[None, self.predictions])
        weights = tf.ones_like(chosen_positions, tf.float32).to_tensor(shape=[None, self.predictions])
        original_ids = tf.gather(ids, positions, batch_dims=1) * tf.cast(weights, ids.dtype)
        return {"masked_lm_positions": positions, "masked_lm_ids": original_ids, "masked_lm_weights": weights}


def default_predictions(length: int) -> int:
    """Counts the most masked tokens in a row by default: 15% of its length."""
    return max(1, round(0.15 * length))


def unmasked(masked: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Undoes `MaskedLMMasking`, so that records can be masked anew: restores the tokens, drops the added entries."""
    names = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
    kept = {name: value for name, value in masked.items() if name not in names}
    ids, (positions, original_ids, weights) = masked["input_word_ids"], (masked[name] for name in names)
    chosen = tf.cast(tf.where(weights > 0), tf.int32)  # [n, 2]: row, prediction
    indices = tf.stack([chosen[:, 0], tf.cast(tf.gather_nd(positions, chosen), tf.int32)], axis=1)
    return {**kept, "input_word_ids": tf.tensor_scatter_nd_update(ids, indices, tf.gather_nd(original_ids, chosen))}
