"""Options of all datasets of this package."""

import tensorflow as tf

# For `with_options`: no autotuning. Its thread sleeps twice as long each time, and one in four deletions of an iterator
# waits until it wakes up (TensorFlow 2.20 and 2.21). After an epoch, this can take as long as the epoch.
UNTUNED = tf.data.Options()
UNTUNED.autotune.enabled = False

# For the functions that `map` traces. Autograph would rewrite them and all functions that they call, which takes longer
# than tracing; none of them has Python control flow that depends on a tensor.
as_written = tf.autograph.experimental.do_not_convert
