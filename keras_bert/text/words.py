"""Finds the words of raw text in the graph, so that a server finds the same words as training."""

import tensorflow as tf

from keras_bert.text.normalization import PLANE_4, check_utf8, kinds_of_characters
from keras_bert.text.strings import SPACES, as_strings, readable_errors

_LETTER, _SPACE, _SIGN, _IDEOGRAPH, _MARK = range(5)
_PATTERNS = (
    (_SPACE, SPACES),
    (_SIGN, r"[\p{P}\p{S}]"),
    (_MARK, r"[\p{M}\p{Cf}\x{1f3fb}-\x{1f3ff}]"),  # accents, joiners, colours of emoji: of the kind before them
    (_IDEOGRAPH, r"[\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}\x{20000}-\x{2fa1f}]"),
)
# Beyond plane 3, only tags (in emoji flags) and variation selectors are of these kinds.
_PLANE_14, _PLANE_14_END = 0xE0000, 0xE0200

Words = tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]


def find_words(texts: tf.Tensor) -> Words:
    """Finds the words of texts, string `[batch]`, in much the same way as corpora of tagged words.

    White space separates words. Punctuation and other signs (`$`, `+`, emoji) at the beginning or end of a word are
    separate words; a run of the same sign is one word. Signs inside a word are part of it: `don't`, `U.S`, `3.5`. Each
    CJK ideograph is a word, as in BERT's tokenization.

    Returns:
        `(words, starts, ends)`, string, int32, int32, each `[batch, (words)]`; `text[start:end]`, in characters, is the
        word.

    Raises:
        TypeError, ValueError: not strings, or not of rank 1.
        ValueError (in a graph, tf.errors.InvalidArgumentError): a row is not valid UTF-8.

    Example:
        >>> words, starts, ends = find_words(["Zoë (Paris)... 😀"])
        >>> [word.decode() for word in words[0].numpy()]
        ['Zoë', '(', 'Paris', ')', '...', '😀']
        >>> starts[0].numpy().tolist(), ends[0].numpy().tolist()
        ([0, 4, 5, 10, 11, 15], [3, 5, 10, 11, 14, 16])
    """
    texts = as_strings(texts)
    with tf.device("CPU"), readable_errors():
        batch = tf.size(texts, tf.int64)
        check_utf8(texts, tf.range(batch))
        codes = tf.strings.unicode_decode(texts, "UTF-8")  # [batch, (chars)]
        in_word, begins = _in_words(codes)
        chars = tf.where(in_word)[:, 0]  # [chars in words], indices of characters
        first = tf.where(tf.gather(begins, chars))[:, 0]  # [words], indices into `chars`
        splits = tf.concat([first, tf.size(chars, tf.int64)[None]], 0)
        words = tf.RaggedTensor.from_row_splits(tf.gather(codes.values, chars), splits, validate=False)
        place = tf.gather(chars, first)
        rows = tf.gather(codes.value_rowids(), place)
        starts = place - tf.gather(tf.cast(codes.row_starts(), tf.int64), rows)
        ends = starts + tf.cast(words.row_lengths(), tf.int64)
        found = tf.strings.unicode_encode(words, "UTF-8"), tf.cast(starts, tf.int32), tf.cast(ends, tf.int32)
        return tuple(tf.RaggedTensor.from_value_rowids(each, rows, batch, validate=False) for each in found)


def _in_words(codes: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Whether each character, rows laid end to end, is in a word, and whether it begins one: bool `[chars]` twice."""
    chars, rows = codes.values, codes.value_rowids()
    index = tf.range(tf.size(chars))
    before = tf.maximum(index - 1, 0)
    begins_row = (index == 0) | (rows != tf.gather(rows, before))
    kind = _kind(chars)
    is_mark = (kind == _MARK) & ~begins_row & (tf.gather(kind, before) != _SPACE)
    kind = tf.where((kind == _MARK) & ~is_mark, _LETTER, kind)
    base = tf.gather(tf.where(~is_mark)[:, 0], tf.cumsum(tf.cast(~is_mark, tf.int32)) - 1)  # [chars]
    kind, base_char = tf.gather(kind, base), tf.gather(chars, base)

    # A space or an ideograph is a part by itself; every other part is signs, then letters and signs, then signs.
    alone = (kind == _SPACE) | (kind == _IDEOGRAPH)
    new_part = begins_row | alone | tf.gather(alone, before)
    part = tf.cumsum(tf.cast(new_part, tf.int32)) - 1
    size = tf.size(chars)
    first_letter = tf.math.unsorted_segment_min(tf.where(kind == _LETTER, index, size), part, size)
    last_letter = tf.math.unsorted_segment_max(tf.where(kind == _LETTER, index, -1), part, size)
    outside = (index < tf.gather(first_letter, part)) | (index > tf.gather(last_letter, part))
    outside &= kind == _SIGN

    in_run = tf.gather(outside, before) & outside & (chars == tf.gather(base_char, before))
    begins = new_part | ((outside | tf.gather(outside, before)) & ~in_run)
    return kind != _SPACE, begins & ~is_mark & (kind != _SPACE)


def _kind(chars: tf.Tensor) -> tf.Tensor:
    table = kinds_of_characters(_PATTERNS, other=_LETTER)
    kind = tf.cast(tf.gather(table, tf.minimum(chars, PLANE_4 - 1)), tf.int32)
    in_plane_14 = (chars >= _PLANE_14) & (chars < _PLANE_14_END)
    return tf.where(in_plane_14, _MARK, tf.where(chars < PLANE_4, kind, _LETTER))
