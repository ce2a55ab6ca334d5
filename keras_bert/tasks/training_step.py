"""A step of training: the parts of a loss, their means over several batches, gradients, and their accumulation.

The loss of several batches is the mean over all their rows, or words, or masked tokens: not the mean of their means.
Keras weights the loss of a batch by its rows, whatever it is the mean of, and gives each batch whose gradients are
accumulated the same weight. Here a batch counts by what it holds: in the loss of an epoch, of an evaluation, and of an
update. Several batches then come to what one large batch would come to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_bert import undocumented
from keras_bert.tasks.replicas import KerasLoss, divisor_of, over_all, replicas
from keras_bert.tensors import Tensor

if TYPE_CHECKING:
    from keras_bert.tasks.columns import Inputs
    from keras_bert.tasks.task import BertTask


class Part(NamedTuple):
    """A part of a loss: a mean of its own.

    Attributes:
        mean: float32, this replica's share of the mean over the global batch.
        count: float32, the number, or the sum of the weights, of what it is the mean of in the global batch.
        weight: its weight in the loss.
        unit: the name of what is counted, if a loss has several parts.
    """

    mean: Tensor
    count: Tensor
    weight: float = 1.0
    unit: str = ""


def count_of(loss: KerasLoss, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> Tensor:
    """float32: the number of what the loss is the mean of in the global batch, or the sum of their weights.

    Args:
        loss: a Keras loss, as `compile` takes it. One that is no mean over rows has a method `count(y_true, y_pred)`.
        y_true, y_pred, sample_weight: its arguments.
    """
    loss = getattr(loss, "loss", loss)  # of a `GlobalMean`
    counts = isinstance(loss, keras.losses.Loss) and hasattr(loss, "count")
    here = loss.count(y_true, y_pred) if counts else divisor_of(loss, y_true, sample_weight)
    return over_all(ops.cast(here, "float32"))


def weighted_mean(values: Tensor, weights: Tensor) -> Part:
    """The weighted mean over the global batch."""
    weights = ops.cast(weights, values.dtype)
    count = over_all(ops.sum(weights))
    return Part(ops.divide_no_nan(ops.sum(values * weights), count), count)


class LossMean(keras.metrics.Metric):
    """The loss of all batches so far: the sum of its parts, each of them a mean over all that it is the mean of.

    Args:
        parts: the names of the parts that are shown beside the loss; None for a part that is not.

    Example:
        >>> mean = LossMean()
        >>> for batch in ([Part(2.0, count=1.0)], [Part(4.0, count=3.0)]):
        ...     mean.update_state(batch)
        >>> float(mean.result())
        3.5
    """

    def __init__(self, parts: tuple[str | None, ...] = (None,), name: str = "loss") -> None:
        super().__init__(name=name, dtype="float32")
        self.parts = parts
        zeros = {"shape": (len(parts),), "initializer": "zeros"}
        self.total, self.weighted, self.count = (
            self.add_variable(name=name, **zeros) for name in ("total", "weighted", "count")
        )

    def update_state(self, parts: list[Part]) -> None:
        """Adds a batch; the last parts may be missing. In a step, every replica must call it."""
        counts = self._padded([each.count for each in parts])
        totals = counts * over_all(self._padded([each.mean for each in parts]))
        weights = self._padded([each.weight for each in parts])
        # Reading the metric adds the sums of all replicas. This way each replica's own mean is right as well.
        self.total.assign_add(totals / replicas())
        self.weighted.assign_add(weights * totals / replicas())
        self.count.assign_add(counts / replicas())

    def _padded(self, values: list[Tensor]) -> Tensor:
        stacked = ops.stack([ops.cast(each, "float32") for each in values])
        return ops.pad(stacked, [[0, len(self.parts) - stacked.shape[0]]])

    def result(self) -> Tensor | dict[str, Tensor]:
        """The loss; if parts have names, a dict of it and them."""
        loss = ops.sum(ops.divide_no_nan(self.weighted, self.count))
        means = ops.divide_no_nan(self.total, self.count)
        named = {name: means[place] for place, name in enumerate(self.parts) if name is not None}
        return {self.name: loss, **named} if named else loss


def total(parts: list[Part]) -> Tensor:
    """The loss: the weighted sum of its parts."""
    return sum(each.weight * each.mean for each in parts)


def divergence(teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
    """`T^2 KL(softmax(teacher / T) || softmax(student / T))`, over the last axis of logits (Hinton et al. 2015).

    The factor `T^2` keeps its gradients as large as those of the labels.

    Example:
        >>> same = ops.array([[1.0, 2.0]])
        >>> float(divergence(same, same, temperature=2.0)[0])
        0.0
    """
    log_p, log_q = (ops.log_softmax(logits / temperature, axis=-1) for logits in (teacher, student))
    return temperature**2 * ops.sum(ops.exp(log_p) * (log_p - log_q), axis=-1)


class Gradients(NamedTuple):
    """What a step has computed.

    Attributes:
        values: the gradients of the loss, scaled by the optimizer: one for each of `trainable_weights`, or None.
        parts: of the loss.
        y_pred: the outputs.
    """

    values: list[tf.Tensor | None]
    parts: list[Part]
    y_pred: Tensor


class TrainingStep:
    """Computes the loss and the gradients of a batch: here on the labels, of the whole batch at once.

    `BertTask.training_with` makes a model compute its steps in another way, that of a subclass.
    """

    def check(self, model: BertTask) -> None:
        """Raises ValueError if the model cannot be trained so."""

    def parts(self, model: BertTask, x: Inputs, y: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> list[Part]:
        """The parts of the loss in training."""
        return model.label_parts(x, y, y_pred, sample_weight)

    def gradients(self, model: BertTask, x: Inputs, y: Tensor, sample_weight: Tensor | None) -> Gradients:
        """The gradients for a batch, as `fit` gives it to `train_step`."""
        with tf.GradientTape() as tape:
            y_pred = model(x, training=True)
            parts = model.loss_parts(x, y, y_pred, sample_weight, training=True)
            scaled = model.optimizer.scale_loss(_of_update(model, parts, model.window_totals(x)))
        return Gradients(tape.gradient(scaled, model.trainable_weights), parts, y_pred)


WHOLE_BATCH = TrainingStep()


def _of_update(model: BertTask, parts: list[Part], totals: dict[str, Tensor] | None) -> Tensor:
    """The loss to differentiate: that of the batch, or its share of the loss of all batches of an update."""
    if totals is None:
        return total(parts)
    shares = [each._replace(mean=each.mean * each.count / totals[each.unit]) for each in parts]
    return steps_of(model.optimizer) * total(shares)  # the optimizer divides by it


# -- Accumulation: gradients of several batches make one update, which is that of one large batch.
#
# An optimizer with `gradient_accumulation_steps` adds up the gradients of a window of batches, and divides the sum by
# their number. The batches of a window may hold different numbers of words, so what it adds up here are
#
#     p_b = steps * c_b / C_b * g_b - c_b / C_b * P,    C_b = c_1 + ... + c_b,    P = p_1 + ... + p_(b - 1)
#
# for the gradients `g_b` and the counts `c_b` of the batches. At any time their sum is `steps` times the mean over all
# words so far: the optimizer, of whatever kind, divides it by `steps`.

_COUNT = "window_count"  # the optimizer's variable with the count of the window so far


def steps_of(optimizer: keras.optimizers.Optimizer) -> int:
    """The number of batches of an update."""
    return getattr(_inner(optimizer), "gradient_accumulation_steps", None) or 1


def build_window(optimizer: keras.optimizers.Optimizer) -> None:
    """Adds the count of a window to the variables of an optimizer, which are saved with it."""
    if steps_of(optimizer) > 1 and _count(optimizer) is None:
        _inner(optimizer).add_variable((), name=_COUNT, aggregation="only_first_replica")


def weighted(
    optimizer: keras.optimizers.Optimizer,
    gradients: list[tf.Tensor | None],
    variables: list[keras.Variable],
    count: tf.Tensor | None,
) -> list[tf.Tensor | None]:
    """The gradients to give to the optimizer for those of a batch.

    Args:
        optimizer: built, see `build_window`.
        gradients: of the mean loss of the batch, scaled by the optimizer; maybe None.
        variables: one for each gradient.
        count: float32, the number of what the loss is the mean of; None if it is a sum.
    """
    inner, window, steps = _inner(optimizer), _count(optimizer), steps_of(optimizer)
    if count is None:
        return [gradient if gradient is None else steps * tf.convert_to_tensor(gradient) for gradient in gradients]
    assert window is not None  # made by `build_window`
    is_first = undocumented.batches_seen(inner).value % steps == 0
    so_far = tf.where(is_first, 0.0, window.value) + count
    window.assign(so_far)
    share = tf.math.divide_no_nan(count, so_far)
    scale = optimizer.scale_loss(1.0) / replicas()  # what is accumulated is not scaled, and the sum of all replicas

    def of_batch(gradient: tf.Tensor | None, variable: keras.Variable) -> tf.Tensor | None:
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


def _inner(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """The optimizer that accumulates: with mixed_float16, Keras wraps it."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _count(optimizer: keras.optimizers.Optimizer) -> keras.Variable | None:
    return next((each for each in _inner(optimizer).variables if each.name == _COUNT), None)
