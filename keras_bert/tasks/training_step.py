"""A step of training: the terms of a loss, their means over several batches, gradients, and their accumulation.

The loss of several batches is the mean over all their rows, words or masked tokens, not the mean of the batches' means.
Keras weights the loss of a batch by its number of rows, even if the loss is a mean over words, and gives all batches of
an accumulated update the same weight. Here, a batch weighs as much as the number of rows, words or masked tokens that
its loss is the mean of: in the loss of an epoch, of an evaluation, and of an update. Several batches then have the loss
and the gradients of one large batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_bert import undocumented
from keras_bert.tasks.replicas import KerasLoss, all_reduce_sum, divisor_of, num_replicas
from keras_bert.tensors import Tensor

if TYPE_CHECKING:
    from keras_bert.tasks.columns import Inputs
    from keras_bert.tasks.task import BertTask


class LossTerm(NamedTuple):
    """A term of a loss: a mean over rows, words or masked tokens.

    Attributes:
        mean: float32, this replica's share of the mean over the global batch: the sum of its own values / `count`.
        count: float32, the number of values in that mean, over the global batch; or the sum of their weights.
        weight: the weight of the term in the loss.
        unit: the name of the counted things, such as words; needed if a loss has several terms.
    """

    mean: Tensor
    count: Tensor
    weight: float = 1.0
    unit: str = ""


def count_averaged(loss: KerasLoss, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None) -> Tensor:
    """Counts the values of the global batch that a loss is the mean of, or sums their weights.

    Args:
        loss: a Keras loss, as `compile` takes it. A loss that is not a mean over rows has a method
            `count(y_true, y_pred)`.
        y_true, y_pred, sample_weight: the arguments of the loss.

    Returns:
        A float32 scalar.
    """
    loss = getattr(loss, "loss", loss)  # unwraps a `GlobalMean`
    has_count = isinstance(loss, keras.losses.Loss) and hasattr(loss, "count")
    count = loss.count(y_true, y_pred) if has_count else divisor_of(loss, y_true, sample_weight)
    return all_reduce_sum(ops.cast(count, "float32"))


def weighted_mean(values: Tensor, weights: Tensor) -> LossTerm:
    """Computes the weighted mean over the global batch, as a term of a loss."""
    weights = ops.cast(weights, values.dtype)
    count = all_reduce_sum(ops.sum(weights))
    return LossTerm(ops.divide_no_nan(ops.sum(values * weights), count), count)


def averaged(label_term: LossTerm, teacher_term: LossTerm) -> LossTerm:
    """Averages the loss on the labels and the distance from a teacher, both means over the same values."""
    return label_term._replace(mean=0.5 * label_term.mean + 0.5 * teacher_term.mean)


class LossMean(keras.metrics.Metric):
    """A metric of the loss of all batches so far: the weighted sum of its terms, each a mean over all batches.

    Batches count by `LossTerm.count`, not by their rows.

    Args:
        terms: for each term, the name to show it by beside the loss; None for a term that is not shown.

    Example:
        >>> mean = LossMean()
        >>> for batch in ([LossTerm(2.0, count=1.0)], [LossTerm(4.0, count=3.0)]):
        ...     mean.update_state(batch)
        >>> float(mean.result())
        3.5
    """

    def __init__(self, terms: tuple[str | None, ...] = (None,), name: str = "loss") -> None:
        super().__init__(name=name, dtype="float32")
        self.terms = terms
        zeros = {"shape": (len(terms),), "initializer": "zeros"}
        self.total, self.weighted, self.count = (
            self.add_variable(name=name, **zeros) for name in ("total", "weighted", "count")
        )

    def update_state(self, terms: list[LossTerm]) -> None:
        """Adds a batch; `terms` may lack the last ones. In a step, every replica must call this method."""
        counts = self._stack_padded([each.count for each in terms])
        totals = counts * all_reduce_sum(self._stack_padded([each.mean for each in terms]))
        weights = self._stack_padded([each.weight for each in terms])
        # Reading the metric sums its variables over replicas, so each replica records 1/n of them. The mean that a
        # single replica would report is right, too.
        self.total.assign_add(totals / num_replicas())
        self.weighted.assign_add(weights * totals / num_replicas())
        self.count.assign_add(counts / num_replicas())

    def _stack_padded(self, values: list[Tensor]) -> Tensor:
        stacked = ops.stack([ops.cast(each, "float32") for each in values])
        return ops.pad(stacked, [[0, len(self.terms) - stacked.shape[0]]])

    def result(self) -> Tensor | dict[str, Tensor]:
        """Computes the loss; if terms have names, a dict of the loss and the named terms."""
        loss = ops.sum(ops.divide_no_nan(self.weighted, self.count))
        means = ops.divide_no_nan(self.total, self.count)
        named = {name: means[index] for index, name in enumerate(self.terms) if name is not None}
        return {self.name: loss, **named} if named else loss


def weighted_sum(terms: list[LossTerm]) -> Tensor:
    """Sums the weighted terms of a loss."""
    return sum(each.weight * each.mean for each in terms)


def divergence(teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
    """Computes `T^2 KL(softmax(teacher / T) || softmax(student / T))` over the last axis of logits.

    This is the loss of distillation from soft labels (Hinton et al. 2015). The factor `T^2` keeps its gradients as
    large as those of the loss on the labels.

    Example:
        >>> same = ops.array([[1.0, 2.0]])
        >>> float(divergence(same, same, temperature=2.0)[0])
        0.0
    """
    log_p, log_q = (ops.log_softmax(logits / temperature, axis=-1) for logits in (teacher, student))
    return temperature**2 * ops.sum(ops.exp(log_p) * (log_p - log_q), axis=-1)


class Gradients(NamedTuple):
    """The results of a step, before it updates weights.

    Attributes:
        values: for each of `trainable_weights`, the gradient of the loss as `optimizer.scale_loss` scales it; or None.
        terms: the terms of the loss.
        y_pred: the outputs of the model.
    """

    values: list[tf.Tensor | None]
    terms: list[LossTerm]
    y_pred: Tensor


class TrainingStep:
    """The computation of a batch's loss and gradients: here the loss on the labels, for the whole batch at once.

    Subclasses compute them in other ways; `BertTask.training_with` makes a model use one.
    """

    def check(self, model: BertTask) -> None:
        """Raises ValueError if the model cannot be trained by this step."""

    @contextlib.contextmanager
    def training(self, model: BertTask) -> Iterator[None]:
        """Prepares the model for this step, inside a `with` block."""
        yield

    def end_epoch(self, model: BertTask, batches: Callable[[], tf.data.Dataset]) -> None:
        """Computes what follows an epoch; `batches` makes a dataset of all examples, in batches."""

    def terms(
        self, model: BertTask, x: Inputs, y: Tensor, y_pred: Tensor, sample_weight: Tensor | None
    ) -> list[LossTerm]:
        """Computes the terms of the loss in training."""
        return model.label_terms(x, y, y_pred, sample_weight)

    def gradients(self, model: BertTask, x: Inputs, y: Tensor, sample_weight: Tensor | None) -> Gradients:
        """Computes the gradients for a batch, as `train_step` gets it from `fit`."""
        with tf.GradientTape() as tape:
            y_pred = model(x, training=True)
            terms = model.loss_terms(x, y, y_pred, sample_weight, training=True)
            scaled = model.optimizer.scale_loss(_update_loss(model, terms, model.accumulation_totals(x)))
        return Gradients(tape.gradient(scaled, model.trainable_weights), terms, y_pred)


WHOLE_BATCH = TrainingStep()


def gradients_in_units(
    optimizer: keras.optimizers.Optimizer, gradients: list[tf.Tensor | None], variables: list[keras.Variable]
) -> list[tf.Tensor | None]:
    """Multiplies gradients by the weights' `learning_rate_factors`: those of the weights in units of their factors.

    Clipping and the optimizer's epsilon then treat a weight the same, whatever its unit.
    """
    factors = getattr(_inner_optimizer(optimizer), "learning_rate_factors", {})
    return [
        gradient if gradient is None or variable.path not in factors else gradient * factors[variable.path]
        for gradient, variable in zip(gradients, variables, strict=True)
    ]


def _update_loss(model: BertTask, terms: list[LossTerm], totals: dict[str, Tensor] | None) -> Tensor:
    """Computes the loss to differentiate: that of the batch, or its share of the loss of the whole update.

    Args:
        model: its optimizer divides accumulated gradients by the number of batches.
        terms: of the batch's loss.
        totals: the counts over all batches of the update, by unit; None if they are not known.
    """
    if totals is None:
        return weighted_sum(terms)
    shares = [each._replace(mean=each.mean * each.count / totals[each.unit]) for each in terms]
    return steps_of(model.optimizer) * weighted_sum(shares)  # the optimizer divides by it


# -- Accumulation: the gradients of several batches make one update, equal to that of one large batch.
#
# An optimizer with `gradient_accumulation_steps` adds up the gradients of the batches accumulated into one update, and
# divides the sum by their number. But these batches may hold different numbers of words. So batch b of an update, with
# the gradient `g_b` and the count `c_b`, adds
#
#     p_b = steps * c_b / C_b * g_b - c_b / C_b * P,    C_b = c_1 + ... + c_b,    P = p_1 + ... + p_(b - 1)
#
# After each batch, the sum of all p is `steps` times the mean gradient over all words so far. The optimizer, of any
# kind, divides this sum by `steps`.

# The optimizer's variable that counts the words, or other units, of the batches accumulated so far.
_COUNT = "accumulation_count"


def steps_of(optimizer: keras.optimizers.Optimizer) -> int:
    """Returns the number of batches of an update."""
    return getattr(_inner_optimizer(optimizer), "gradient_accumulation_steps", None) or 1


def build_accumulation(optimizer: keras.optimizers.Optimizer) -> None:
    """Adds the count of the accumulated batches to the optimizer's variables, so that it is saved with them."""
    if steps_of(optimizer) > 1 and _accumulation_count(optimizer) is None:
        _inner_optimizer(optimizer).add_variable((), name=_COUNT, aggregation="only_first_replica")


def weight_gradients(
    optimizer: keras.optimizers.Optimizer,
    gradients: list[tf.Tensor | None],
    variables: list[keras.Variable],
    count: tf.Tensor | None,
) -> list[tf.Tensor | None]:
    """Weights the gradients of a batch for an optimizer that accumulates them: `p_b` of the formula above.

    Args:
        optimizer: with the variable of `build_accumulation`.
        gradients: those of the mean loss of the batch, scaled by the optimizer; some may be None.
        variables: one for each gradient.
        count: float32, the number of values that the loss is the mean of; None if the loss is a sum.
    """
    inner_optimizer, counter, steps = _inner_optimizer(optimizer), _accumulation_count(optimizer), steps_of(optimizer)
    if count is None:
        return [gradient if gradient is None else steps * tf.convert_to_tensor(gradient) for gradient in gradients]
    assert counter is not None  # made by `build_accumulation`
    is_first = undocumented.batches_seen(inner_optimizer).value % steps == 0
    accumulation_count = tf.where(is_first, 0.0, counter.value) + count
    counter.assign(accumulation_count)
    share = tf.math.divide_no_nan(count, accumulation_count)
    # Accumulated gradients are unscaled, and summed over replicas; `gradients` are scaled, and of this replica.
    scale = optimizer.scale_loss(1.0) / num_replicas()

    def weight_gradient(gradient: tf.Tensor | None, variable: keras.Variable) -> tf.Tensor | None:
        if gradient is None:
            return None
        accumulated = undocumented.accumulated_gradient(inner_optimizer, variable).value
        return share * (steps * tf.convert_to_tensor(gradient) - scale * accumulated)

    return [weight_gradient(*each) for each in zip(gradients, variables, strict=True)]


def flush_accumulation(model: keras.Model) -> None:
    """Makes the update of the last batches if they are too few for one: adds batches with gradients of 0."""
    optimizer, weights, steps = model.optimizer, model.trainable_weights, steps_of(model.optimizer)
    strategy = model.distribute_strategy

    def step() -> None:
        optimizer.apply_gradients([(tf.zeros(each.shape, each.dtype), each) for each in weights])

    empty_update = tf.function(lambda: strategy.run(step), autograph=False)
    while undocumented.batches_seen(_inner_optimizer(optimizer)).numpy() % steps:
        empty_update()


def _inner_optimizer(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """Returns the optimizer that accumulates gradients; with mixed_float16, Keras wraps it in another."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _accumulation_count(optimizer: keras.optimizers.Optimizer) -> keras.Variable | None:
    return next((each for each in _inner_optimizer(optimizer).variables if each.name == _COUNT), None)
