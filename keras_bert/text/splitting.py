"""Splits texts around tokens that occur in them, and joins the tokens of the parts."""

import re
from collections.abc import Callable, Mapping

import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.text.normalization import SPACES
from keras_bert.text.strings import KnownStrings

Tokens = tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]  # ids, starts, ends: each [batch, (tokens)]


def tokenize_around(
    added: Mapping[str, int],
    with_space: str | None,
    strings: tf.Tensor,
    tokenize_text: Callable[[tf.Tensor, tf.Tensor], Tokens],
) -> Tokens:
    """Finds `added` tokens (token -> id) in texts, string `[batch]`, and tokenizes the text between them.

    If two added tokens begin at the same place, the longer one is found. `with_space` is the added token that includes
    the white space before it, or None. `tokenize_text` is called with string `[parts]` and the row of each, int64
    `[parts]`.
    """
    patterns = {token: re.escape(token) for token in sorted(added, key=len, reverse=True)}
    if with_space in added:
        patterns[with_space] = f"{SPACES}*{patterns[with_space]}"
    pattern = "|".join(patterns.values())
    # The operation ends a text at U+0000. In such a row, U+0000 and U+0001 are swapped until after it.
    has_nul = tf.strings.regex_full_match(strings, r"(?s).*\x00.*")
    strings = tf.strings.regex_replace(strings, r"\x00", "\x01")
    chunks, starts, ends = tf_text.regex_split_with_offsets(strings, pattern, pattern)  # [batch, (chunks)]
    with_nul = tf.gather(has_nul, chunks.value_rowids())
    texts = tf.where(with_nul, tf.strings.regex_replace(chunks.values, "\x01", "\0"), chunks.values)
    names = texts
    if with_space in added:
        names = tf.strings.regex_replace(names, f"^{patterns[with_space]}$", with_space)
    index = KnownStrings(list(added))(names)  # [chunks], -1 for text
    special = index >= 0
    text = tf.where(special, "", texts)  # a chunk is either text or a token
    tokens = tokenize_text(text, chunks.value_rowids())
    count = tf.cast(special, tf.int64)
    found = tf.gather(tf.constant(list(added.values())), tf.boolean_mask(index, special))
    last = tf.boolean_mask(ends.values - starts.values, special)
    first = last - tf.boolean_mask(tf.cast(tf.strings.length(names), tf.int64), special)
    tokens = tuple(
        tf.concat([old, tf.RaggedTensor.from_row_lengths(new, count)], axis=1)
        for old, new in zip(tokens, (found, first, last), strict=True)
    )
    return merge_rows(tokens, starts.values, chunks.row_splits)


def merge_rows(tokens: Tokens, origins: tf.Tensor, row_splits: tf.Tensor) -> Tokens:
    """Joins parts into rows: `row_splits` `[batch + 1]` groups the parts, whose offsets grow by `origins` `[parts]`."""
    ids, starts, ends = tokens
    splits = tf.gather(ids.row_splits, row_splits)
    shift = tf.gather(origins, ids.value_rowids())
    values = (ids.values, starts.values + shift, ends.values + shift)
    return tuple(tf.RaggedTensor.from_row_splits(value, splits, validate=False) for value in values)
