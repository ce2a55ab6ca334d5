"""Gradients of several batches that make one update, which is that of one large batch.

An optimizer with `gradient_accumulation_steps` adds up the gradients of a window of batches, and divides the sum by
their number. The batches of a window may hold different numbers of words, so what it adds up here are

    p_b = steps * c_b / C_b * g_b - c_b / C_b * P,    C_b = c_1 + ... + c_b,    P = p_1 + ... + p_(b - 1)

for the gradients `g_b` and the counts `c_b` of the batches. At any time their sum is `steps` times the mean over all
words so far: the optimizer, of whatever kind, divides it by `steps`.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_bert import undocumented
from keras_bert.tasks.replicas import replicas

_COUNT = "window_count"  # the optimizer's variable with the count of the window so far


def steps_of(optimizer: Any) -> int:
    """The number of batches of an update."""
    return getattr(_inner(optimizer), "gradient_accumulation_steps", None) or 1


def build(optimizer: Any) -> None:
    """Adds the count of a window to the variables of an optimizer, which are saved with it."""
    if steps_of(optimizer) > 1 and _count(optimizer) is None:
        _inner(optimizer).add_variable((), name=_COUNT, aggregation="only_first_replica")


def weighted(optimizer: Any, gradients: list[Any], variables: list[Any], count: Any) -> list[Any]:
    """The gradients to give to the optimizer for those of a batch.

    Args:
        optimizer: built, see `build`.
        gradients: of the mean loss of the batch, scaled by the optimizer; maybe None.
        variables: one for each gradient.
        count: float32, the number of what the loss is the mean of; None if it is a sum.
    """
    inner, window, steps = _inner(optimizer), _count(optimizer), steps_of(optimizer)
    if count is None:
        return [gradient if gradient is None else steps * tf.convert_to_tensor(gradient) for gradient in gradients]
    is_first = undocumented.batches_seen(inner).value % steps == 0
    so_far = tf.where(is_first, 0.0, window.value) + count
    window.assign(so_far)
    share = tf.math.divide_no_nan(count, so_far)
    scale = optimizer.scale_loss(1.0) / replicas()  # what is accumulated is not scaled, and the sum of all replicas

    def of_batch(gradient: Any, variable: keras.Variable) -> Any:
        if gradient is None:
            return None
        accumulated = undocumented.accumulated_gradient(inner, variable).value
        return share * (steps * tf.convert_to_tensor(gradient) - scale * accumulated)

    return [of_batch(*each) for each in zip(gradients, variables, strict=True)]


def fill_window(model: keras.Model) -> None:
    """Makes the update of the last batches, if they fill no window: with further batches that hold nothing."""
    optimizer, weights, steps = model.optimizer, model.trainable_weights, steps_of(model.optimizer)
    strategy = model.distribute_strategy

    def step() -> None:
        optimizer.apply_gradients([(tf.zeros(each.shape, each.dtype), each) for each in weights])

    of_nothing = tf.function(lambda: strategy.run(step), autograph=False)
    while undocumented.batches_seen(_inner(optimizer)).numpy() % steps:
        of_nothing()


def _inner(optimizer: Any) -> Any:
    """The optimizer that accumulates: with mixed_float16, Keras wraps it."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _count(optimizer: Any) -> keras.Variable | None:
    return next((each for each in _inner(optimizer).variables if each.name == _COUNT), None)
