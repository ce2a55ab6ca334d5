"""Whether the shapes of tensors may depend on their values."""

import keras


def shapes_may_vary() -> bool:
    """Whether shapes may depend on values: in TensorFlow, unless XLA compiles."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return tf.__internal__.get_enclosing_xla_context() is None
