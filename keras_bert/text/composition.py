"""Canonical composition (NFC) in the TensorFlow graph, and a map from composed bytes to original bytes."""

import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert.text.normalization import normalize_unless

# Most rows have only characters that never change and never compose, and skip the operation: characters before the
# combining marks (U+0300), typographic quotes and dashes, and CJK ideographs.
_COMPOSED = r"[\x00-\x{2ff}\x{2010}-\x{2027}\x{4e00}-\x{9fff}]*"


def compose(strings: tf.Tensor, rows: tf.Tensor | None = None) -> tf.Tensor:
    """Composes letters and marks, string `[batch]`: `e` and U+0301 become `é`.

    Raises:
        ValueError (in a graph, tf.errors.InvalidArgumentError): a row is not valid UTF-8. The message has the row's
            number in `rows` (int64 `[batch]`), by default its position in the batch.

    Example:
        >>> compose(tf.constant(["cafe\\u0301"])).numpy()[0].decode()
        'café'
    """
    plain = tf.strings.regex_full_match(strings, _COMPOSED)
    return normalize_unless(plain, strings, strings, rows, lambda others: tf_text.normalize_utf8(others, "NFC"))


def uncomposed_offsets(
    strings: tf.Tensor, composed: tf.Tensor, rows: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Maps spans of composed bytes to spans of original bytes: starts and ends, int64 `[spans]` each, into their row.

    A span that begins or ends within a composed character covers all the characters that it was composed of.

    Args:
        strings: string `[batch]`, valid UTF-8.
        composed: string `[batch]`, the result of `compose`.
        rows: int64 `[spans]`, the row of each span.
        starts, ends: int64 `[spans]`, byte offsets into the composed row, end exclusive.
    """
    changed = composed != strings  # [batch]

    def map_back() -> tuple[tf.Tensor, tf.Tensor]:
        texts, maps = tf_text.normalize_utf8_with_offsets_map(tf.boolean_mask(strings, changed), "NFC")
        places = tf.ragged.range(tf.cast(tf.strings.length(texts), tf.int64) + 1)  # [changed rows, (bytes + 1)]
        source = tf_text.find_source_offsets(maps, places).values  # within a composed character, its end
        outside = tf.concat([source[1:] != source[:-1], [True]], 0)  # [bytes of the changed rows]
        begin = tf.gather(tf.where(outside)[:, 0], tf.cumsum(tf.cast(outside, tf.int64)) - 1)
        some = tf.where(tf.gather(changed, rows))  # [spans in changed rows, 1]
        row = tf.gather(tf.cumsum(tf.cast(changed, tf.int64)) - 1, tf.gather_nd(rows, some))
        origin = tf.gather(places.row_starts(), row)
        first = tf.gather(source, tf.gather(begin, origin + tf.gather_nd(starts, some)))
        last = tf.gather(source, origin + tf.gather_nd(ends, some))
        return tuple(tf.tensor_scatter_nd_update(old, some, new) for old, new in ((starts, first), (ends, last)))

    return tf.cond(tf.reduce_any(changed), map_back, lambda: (starts, ends))
