"""What every dataset of this package is told."""

import tensorflow as tf

# For `with_options`: tune nothing while it runs. The thread that would do so sleeps twice as long each time, and one
# in four iterators, when it is deleted, waits until that thread wakes up (TensorFlow 2.20 and 2.21); at the end of an
# epoch this can take as long as the epoch.
UNTUNED = tf.data.Options()
UNTUNED.autotune.enabled = False
