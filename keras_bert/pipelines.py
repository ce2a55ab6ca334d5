"""Options of all datasets of this package."""

import tensorflow as tf

# For `with_options`: no autotuning. Its thread sleeps twice as long each time, and when iterators are deleted, one in
# four waits until the thread wakes up (TensorFlow 2.20 and 2.21). After an epoch, this can take as long as the epoch.
UNTUNED = tf.data.Options()
UNTUNED.autotune.enabled = False

# For the functions that `map` traces. Autograph would first rewrite each of them and all functions it calls, which
# takes longer than tracing; none of them has Python control flow that depends on a tensor.
as_written = tf.autograph.experimental.do_not_convert
