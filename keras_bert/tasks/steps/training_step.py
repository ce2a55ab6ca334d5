"""A step of training: the terms of a loss, their means over several batches, and the shares of batches in an update.

The loss of several batches is the mean over all their rows, words or masked tokens, not the mean of the batches' means.
So a batch weighs as much as the number of rows, words or masked tokens that its loss is the mean of: in the loss of an
epoch, of an evaluation, and of an update. Several batches then have the loss and the gradients of one large batch.
`fine_tune` and `pretrain` plan their batches, and so know the numbers of a whole update before its first batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import keras
import tensorflow as tf
from keras import ops

from keras_bert import undocumented
from keras_bert.tasks.steps.replicas import KerasLoss, LossTerm, all_reduce_sum, divisor_of, is_mean
from keras_bert.tensors import Tensor

if TYPE_CHECKING:
    from keras_bert.tasks.base.columns import Inputs
    from keras_bert.tasks.base.task import BertTask


class AccumulatedBatch(NamedTuple):
    """A batch whose gradients are accumulated with those of other batches into one update."""

    batch: tuple[Any, ...]  # (x, y) or (x, y, sample_weight)
    shares: tf.Tensor  # float32 [batch, units], all rows equal: of each unit, the batch's count / that of the update


class ForwardPass(NamedTuple):
    """What a step of training computes of a batch before its gradients."""

    terms: list[LossTerm]
    y_pred: Tensor  # the outputs of the model
    # Computes the gradients of the weights from those of `y_pred`; None: the tape does. It is no `tf.custom_gradient`,
    # by which TensorFlow would keep the graph and the model until the process ends.
    backward: Callable[[Tensor], list[Tensor | None]] | None = None


Forward: TypeAlias = "Callable[[BertTask, tf.GradientTape, Inputs, Tensor, Tensor | None], ForwardPass]"


def on_labels(
    model: BertTask, tape: tf.GradientTape, x: Inputs, y: Tensor, sample_weight: Tensor | None
) -> ForwardPass:
    """Computes the loss on the labels, for the whole batch at once."""
    y_pred = model(x, training=True)
    return ForwardPass(loss_terms(model, x, y, y_pred, sample_weight), y_pred)


def loss_terms(
    model: BertTask, x: Inputs, y: Tensor, y_pred: Tensor, sample_weight: Tensor | None, training: bool = True
) -> list[LossTerm]:
    """Computes the terms of the loss on the labels; those of a `compute_loss` that a subclass overrides, if it does."""
    terms = model.label_terms(x, y, y_pred, sample_weight)
    if model.has_own_loss:
        loss = model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)
        return [LossTerm(loss, terms[0].count)]
    return terms


def count_averaged(loss: KerasLoss, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> Tensor:
    """Counts the values of the global batch that a Keras loss is the mean of, or sums their weights: float32."""
    return all_reduce_sum(_count(loss, y_true, y_pred, sample_weight))


def shares_of_update(loss: KerasLoss, batches: Sequence[tuple[Any, ...]]) -> list[float]:
    """Computes the share of each batch, `(x, y)` or `(x, y, sample_weight)`, in the loss of an update of them all."""
    if not is_mean(loss):
        return [1.0] * len(batches)
    targets = [keras.utils.unpack_x_y_sample_weight(batch)[1:] for batch in batches]
    counts = [float(_count(loss, y, y, sample_weight)) for y, sample_weight in targets]
    return [count / (sum(counts) or 1.0) for count in counts]


def _count(loss: KerasLoss, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> Tensor:
    loss = getattr(loss, "loss", loss)  # unwraps a `GlobalMean`
    has_count = isinstance(loss, keras.losses.Loss) and hasattr(loss, "count")  # is not a mean over rows
    return ops.cast(loss.count(y_true, y_pred) if has_count else divisor_of(loss, y_true, sample_weight), "float32")


def weighted_mean(values: Tensor, weights: Tensor) -> LossTerm:
    """Computes the weighted mean over the global batch, as a term of a loss."""
    weights = ops.cast(weights, values.dtype)
    count = all_reduce_sum(ops.sum(weights))
    return LossTerm(ops.divide_no_nan(ops.sum(values * weights), count), count)


def averaged(label_term: LossTerm, teacher_term: LossTerm) -> LossTerm:
    """Averages the loss on the labels and the distance from a teacher, both means over the same values."""
    return label_term._replace(mean=0.5 * label_term.mean + 0.5 * teacher_term.mean)


def weighted_sum(terms: list[LossTerm]) -> Tensor:
    """Sums the weighted terms of a loss."""
    return sum(each.weight * each.mean for each in terms)


def divergence(teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
    """Computes `T^2 KL(softmax(teacher / T) || softmax(student / T))` over the last axis of logits."""
    # The loss of Hinton et al. 2015. T^2 keeps its gradients as large as those of the loss on the labels.
    log_p, log_q = (ops.log_softmax(logits / temperature, axis=-1) for logits in (teacher, student))
    return temperature**2 * ops.sum(ops.exp(log_p) * (log_p - log_q), axis=-1)


def gradients_in_units(
    optimizer: keras.optimizers.Optimizer, gradients: list[tf.Tensor | None], variables: list[keras.Variable]
) -> list[tf.Tensor | None]:
    """Multiplies gradients by `learning_rate_factors`, so that clipping and epsilon do not depend on units."""
    factors = getattr(_inner_optimizer(optimizer), "learning_rate_factors", {})
    return [
        gradient if gradient is None or variable.path not in factors else gradient * factors[variable.path]
        for gradient, variable in zip(gradients, variables, strict=True)
    ]


def loss_to_minimize(terms: list[LossTerm], shares: Tensor | None, optimizer: keras.optimizers.Optimizer) -> Tensor:
    """Computes the loss of a batch, or its part of the loss of an update whose gradients the optimizer averages."""
    if shares is None:
        return weighted_sum(terms)
    of_units = ops.maximum(ops.max(shares, axis=0), 0.0)  # a replica without rows has none
    return _batches_of_update(optimizer) * sum(each.weight * of_units[each.unit] * each.mean for each in terms)


def _batches_of_update(optimizer: keras.optimizers.Optimizer) -> int:
    return getattr(_inner_optimizer(optimizer), "gradient_accumulation_steps", None) or 1


def flush_of_accumulation(model: keras.Model) -> Callable[[], None]:
    """Makes a function, to be traced once, that makes the update of the last batches if they are too few for one.

    It adds batches with gradients of 0.
    """
    optimizer, weights = model.optimizer, model.trainable_weights
    strategy, batches = model.distribute_strategy, _batches_of_update(optimizer)

    def step() -> None:
        optimizer.apply_gradients([(tf.zeros(each.shape, each.dtype), each) for each in weights])

    empty_update = tf.function(lambda: strategy.run(step), autograph=False)

    def flush() -> None:
        while undocumented.batches_seen(_inner_optimizer(optimizer)).numpy() % batches:
            empty_update()

    return flush


def _inner_optimizer(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """Returns the optimizer that accumulates gradients; with mixed_float16, Keras wraps it in another."""
    return getattr(optimizer, "inner_optimizer", optimizer)
