"""Whether the shapes of tensors may depend on their values."""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import keras

_are_fixed = contextvars.ContextVar("are_fixed", default=False)


@contextlib.contextmanager
def fixed_shapes() -> Iterator[None]:
    """Around the tracing of graphs for other runtimes: shapes depend on the shapes of the inputs only.

    Every position is a row then. Results at tokens stay the same; those at padding mean nothing.
    """
    token = _are_fixed.set(True)
    try:
        yield
    finally:
        _are_fixed.reset(token)


def shapes_may_vary() -> bool:
    """Whether shapes may depend on values: in TensorFlow, unless XLA compiles or under `fixed_shapes`."""
    if keras.backend.backend() != "tensorflow" or _are_fixed.get():
        return False
    import tensorflow as tf

    return tf.__internal__.get_enclosing_xla_context() is None


def gathered(rows: Any, numbers: Any) -> Any:
    """`rows[numbers]`, where shapes may vary, without what `ops.take` computes for negative numbers.

    Args:
        rows: `[n, ...]`.
        numbers: int `[m]`, from 0 to n - 1.

    Returns:
        `[m, ...]`.
    """
    import tensorflow as tf

    return tf.gather(rows, numbers)
