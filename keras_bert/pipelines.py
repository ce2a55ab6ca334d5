"""Options that all datasets of this package share."""

import tensorflow as tf

from keras_bert import undocumented

# For `with_options`: no autotuning. One in four deletions of an iterator waits for autotuning's thread, which doubles
# its sleep each time (TensorFlow 2.20 and 2.21). At the end of an epoch, this wait can take as long as the epoch.
UNTUNED = tf.data.Options()
UNTUNED.autotune.enabled = False

# For the functions that `map` traces. Autograph takes longer than tracing itself, and no function needs it: none has
# Python control flow that depends on a tensor.
as_written = undocumented.without_autograph
