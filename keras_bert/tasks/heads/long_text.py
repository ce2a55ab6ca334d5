"""Hidden states and logits of texts, which may be in windows, and the best window for each token.

===============  ============  =====================================================================
Encoder          Head          What the head of a text classifier reads
===============  ============  =====================================================================
pooler           linear        `pooled_output`, from the pooler
pooler           dense layer   the first token's hidden state: the dense layer replaces the pooler
no pooler        any           `pooled_output`, the hidden states pooled by `config.pooling`
"late" pooling   any           the hidden states of all tokens; the logits of tokens are averaged
===============  ============  =====================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import tensorflow as tf
from keras import ops

from keras_bert.choices import ENCODER_POOLINGS, WINDOW_POOLINGS
from keras_bert.encoder import BertEncoder
from keras_bert.tasks.heads import pooling as poolings
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor
from keras_bert.text.packing import first_tokens, windows

if TYPE_CHECKING:
    from keras_bert.tasks.heads import ClassifierHead


def pools_logits(encoder: BertEncoder) -> bool:
    """Checks whether a text classifier pools the logits of tokens, not their hidden states."""
    return encoder.pooler is None and ENCODER_POOLINGS[encoder.config.pooling].is_late


def classify_texts(
    encoder: BertEncoder,
    head: ClassifierHead,
    inputs: Mapping[str, Tensor],
    pooling: str = "mean",
    training: bool | None = None,
) -> Tensor:
    """Computes the logits of texts, float `[batch, units]`; inputs may have windows, `[batch, windows, seq_length]`."""
    if pools_logits(encoder):
        logits = head(sequence_output(encoder, inputs, training), training=training)  # [..., seq_length, units]
        is_token = ops.cast(ops.expand_dims(inputs["input_mask"], -1), logits.dtype)
        logits = ops.sum(logits * is_token, axis=-2) / ops.maximum(ops.sum(is_token, axis=-2), 1)
        return pool_windows(logits, inputs, pooling)
    return head(head_inputs(encoder, head, inputs, pooling, training), training=training)


def head_inputs(
    encoder: BertEncoder, head: ClassifierHead, inputs: Mapping[str, Tensor], pooling: str, training: bool | None
) -> Tensor:
    """Computes what the head reads, float `[batch, hidden]`; not for "late"."""
    if encoder.pooler is None or head.transform is None:
        pooled = _encode_rows(encoder, inputs, "pooled_output", training)
    else:
        pooled = sequence_output(encoder, inputs, training)[..., 0, :]
    return pool_windows(pooled, inputs, pooling)


def pool_windows(values: Tensor, inputs: Mapping[str, Tensor], pooling: str) -> Tensor:
    """Pools windows, float `[batch, windows, size]` -> `[batch, size]`; values `[batch, size]` stay as they are."""
    if len(values.shape) == 2:
        return values
    _, function, is_mean = WINDOW_POOLINGS[pooling]
    is_window = ops.any(inputs["input_mask"] > 0, axis=-1, keepdims=True)  # [batch, windows, 1]
    pooled = getattr(poolings, function)(values, is_window)
    return pooled / ops.sum(ops.cast(is_window, values.dtype), axis=1) if is_mean else pooled


def sequence_output(encoder: BertEncoder, inputs: Mapping[str, Tensor], training: bool | None = None) -> Tensor:
    """Computes the encoder's `sequence_output` of each row or window: `[batch, (windows,) seq_length, hidden]`."""
    return _encode_rows(encoder, inputs, "sequence_output", training)


def _encode_rows(encoder: BertEncoder, inputs: Mapping[str, Tensor], output: str, training: bool | None) -> Tensor:
    shape = ops.shape(inputs["input_word_ids"])
    if len(shape) == 2:
        return encoder(inputs, training=training)[output]
    flat = {name: ops.reshape(each, (-1, shape[-1])) for name, each in inputs.items()}
    values = encoder(flat, training=training)[output]
    return ops.reshape(values, (*shape[:2], *ops.shape(values)[1:]))


def most_context(rows: tf.Tensor, starts: tf.Tensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """Finds the window in which each token of a row has the most context, bool `[windows, (tokens)]`."""
    positions = tf.ragged.range(lengths)  # [windows, (tokens)], position in the window
    window = positions.value_rowids()
    row_lengths = tf.math.segment_max(starts + lengths, rows)
    key = tf.gather(tf.cumsum(row_lengths, exclusive=True), rows) + starts  # of a window's first token
    key = tf.gather(key, window) + positions.values  # a token of a row has the same key in all its windows
    length = tf.gather(lengths, window)
    # As `_check_is_max_context` of google-research/bert (run_squad.py): the first of equal windows wins.
    score = 100 * tf.minimum(positions.values, length - 1 - positions.values) + length
    tokens = tf.reduce_sum(row_lengths)
    is_best = score == tf.gather(tf.math.unsorted_segment_max(score, key, tokens), key)
    number = tf.where(is_best, window, tf.int64.max)
    return positions.with_values(number == tf.gather(tf.math.unsorted_segment_min(number, key, tokens), key))


def token_mask(preprocessor: BertPreprocessor, tokens: tf.RaggedTensor, packed: tf.Tensor) -> tf.Tensor:
    """Marks the position of each token of single texts in their packed rows, bool of the shape of `packed`."""
    # A truncated token has no position; with windows, it is in the window where the token has the most context.
    max_tokens = preprocessor.longest - preprocessor.tokenizer.pair_format.special_tokens(1)
    if preprocessor.stride is None:
        count = tf.minimum(tf.cast(tokens.row_lengths(), tf.int64), max_tokens)
        is_token, counts = tf.ones_like(first_tokens(tokens, count), tf.bool), None
    else:
        split = windows([tokens], max_tokens, preprocessor.stride)
        is_token, counts = most_context(split.rows, split.starts, split.segments[0].row_lengths()), split.counts
    first = tf.zeros([is_token.nrows(), 1], tf.bool)  # [CLS]
    mask = tf.concat([first, is_token], axis=1).to_tensor(False, shape=tf.stack([-1, tf.shape(packed)[-1]]))
    return mask if counts is None else tf.RaggedTensor.from_row_lengths(mask, counts).to_tensor(False)
