"""Options that all datasets of this package share, and the batches of arrays."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_bert import undocumented

# For `with_options`: no autotuning. One in four deletions of an iterator waits for autotuning's thread, which doubles
# its sleep each time (TensorFlow 2.20 and 2.21). At the end of an epoch, this wait can take as long as the epoch.
UNTUNED = tf.data.Options()
UNTUNED.autotune.enabled = False

# For the functions that `map` traces. Autograph takes longer than tracing itself, and no function needs it: none has
# Python control flow that depends on a tensor.
as_written = undocumented.without_autograph


def array_batches(data: Sequence[Any], batch_size: int, shuffle: bool) -> tf.data.Dataset:
    """Makes the batches of arrays as Keras does, but without autotuning.

    Args:
        data: tuples or dicts of tensors and arrays `[examples, ...]`, such as inputs, targets and weights.
        batch_size: the number of examples in a batch; the last one may have fewer.
        shuffle: whether each pass over the dataset has another order.

    Returns:
        A dataset of tuples with the structure of `data`. If all batches are full, their size is part of the shapes.
    """
    tensors = tf.nest.map_structure(lambda each: each if tf.is_tensor(each) else tf.constant(each), tuple(data))
    count = len(tf.nest.flatten(data)[0])
    rows = tf.data.Dataset.range(count)
    rows = (rows.shuffle(count) if shuffle else rows).batch(batch_size, drop_remainder=count % batch_size == 0)

    @as_written
    def gather(batch: tf.Tensor) -> Any:
        return tf.nest.map_structure(lambda each: tf.gather(each, batch), tensors)

    return rows.map(gather, tf.data.AUTOTUNE, deterministic=True).prefetch(2).with_options(UNTUNED)
