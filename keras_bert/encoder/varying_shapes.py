"""Whether the shapes of tensors may depend on their values."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import keras

_are_fixed = contextvars.ContextVar("are_fixed", default=False)


@contextlib.contextmanager
def fixed_shapes() -> Iterator[None]:
    """A block in which traced shapes depend on the shapes of the inputs only, as other runtimes need.

    Every position is then a row. The results at tokens stay the same; those at padding are meaningless.
    """
    token = _are_fixed.set(True)
    try:
        yield
    finally:
        _are_fixed.reset(token)


def shapes_may_vary() -> bool:
    """Whether shapes may depend on values: only in TensorFlow, outside XLA and `fixed_shapes`."""
    if keras.backend.backend() != "tensorflow" or _are_fixed.get():
        return False
    import tensorflow as tf

    return tf.__internal__.get_enclosing_xla_context() is None


def gathered(rows: Any, indices: Any) -> Any:
    """`rows[indices]` where shapes may vary, without the operations of `ops.take` for negative indices.

    Args:
        rows: `[n, ...]`.
        indices: int `[m]`, from 0 to n - 1.

    Returns:
        `[m, ...]`.
    """
    import tensorflow as tf

    return tf.gather(rows, indices)
