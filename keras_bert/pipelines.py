"""The options of all datasets of this package."""

import tensorflow as tf

from keras_bert import undocumented

# For `with_options`: no autotuning. One in four deletions of an iterator waits for its thread, which doubles its sleep
# each time (TensorFlow 2.20 and 2.21): at the end of an epoch, that can take as long as the epoch.
UNTUNED = tf.data.Options()
UNTUNED.autotune.enabled = False

# For the functions that `map` traces. Autograph takes longer than tracing itself, and is not needed: none of them has
# Python control flow that depends on a tensor.
as_written = undocumented.without_autograph
