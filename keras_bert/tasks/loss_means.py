"""The loss of several batches is the mean over all their rows, or words, or masked tokens: not the mean of their means.

Keras weights the loss of a batch by its rows, whatever it is the mean of, and gives each batch whose gradients are
accumulated the same weight. Here a batch counts by what it holds: in the loss of an epoch, of an evaluation, and of an
update. Several batches then come to what one large batch would come to.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import ops

from keras_bert import undocumented
from keras_bert.tasks import accumulation
from keras_bert.tasks.replicas import divisor_of, is_mean, over_all, replicas


class Part(NamedTuple):
    """A part of a loss: a mean of its own.

    Attributes:
        mean: float32, this replica's share of the mean over the global batch.
        count: float32, the number, or the sum of the weights, of what it is the mean of in the global batch.
        weight: its weight in the loss.
        unit: the name of what is counted, if a loss has several parts.
    """

    mean: Any
    count: Any
    weight: float = 1.0
    unit: str = ""


def count_of(loss: Any, y_true: Any, y_pred: Any, sample_weight: Any) -> Any:
    """float32: the number of what the loss is the mean of in the global batch, or the sum of their weights.

    Args:
        loss: a Keras loss, as `compile` takes it. One that is no mean over rows has a method `count(y_true, y_pred)`.
        y_true, y_pred, sample_weight: its arguments.
    """
    loss = getattr(loss, "loss", loss)  # of a `GlobalMean`
    counts = isinstance(loss, keras.losses.Loss) and hasattr(loss, "count")
    here = loss.count(y_true, y_pred) if counts else divisor_of(loss, y_true, sample_weight)
    return over_all(ops.cast(here, "float32"))


def weighted_mean(values: Any, weights: Any) -> Part:
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

    def _padded(self, values: list[Any]) -> Any:
        values = ops.stack([ops.cast(each, "float32") for each in values])
        return ops.pad(values, [[0, len(self.parts) - values.shape[0]]])

    def result(self) -> Any:
        """The loss; if parts have names, a dict of it and them."""
        loss = ops.sum(ops.divide_no_nan(self.weighted, self.count))
        means = ops.divide_no_nan(self.total, self.count)
        named = {name: means[place] for place, name in enumerate(self.parts) if name is not None}
        return {self.name: loss, **named} if named else loss


class CountsBatches:
    """A mixin for tasks: the loss of several batches is that of one large batch.

    List it before `Replicated` in the bases of a model.
    """

    # Parts of a loss on the labels, x, outputs, sample weights -> those of a student's loss; see `learning_from`.
    taught: Callable[[list[Part], Any, Any, Any], list[Part]] | None = None

    @property
    def loss_names(self) -> tuple[str | None, ...]:
        """The names of the parts of the loss, see `LossMean`."""
        return (None,)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Keras's `compile`."""
        super().compile(*args, **kwargs)
        with self.distribute_strategy.scope():
            undocumented.replace_loss_tracker(self, LossMean(self.loss_names))

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        """Keras's `compute_loss`; for a student that learns from a teacher, its loss."""
        return _total(self._own_parts(x, y, y_pred, sample_weight, training))

    def loss_parts(self, x: Any, y: Any, y_pred: Any, sample_weight: Any, training: bool) -> list[Part]:
        """The parts of `compute_loss`."""
        if type(self).compute_loss is CountsBatches.compute_loss:
            return self._own_parts(x, y, y_pred, sample_weight, training)
        loss = self.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)
        return [Part(loss, self._count(y, y_pred, sample_weight))]  # of a subclass with a loss of its own

    def _own_parts(self, x: Any, y: Any, y_pred: Any, sample_weight: Any, training: bool) -> list[Part]:
        parts = self.label_parts(x, y, y_pred, sample_weight)
        return self.taught(parts, x, y_pred, sample_weight) if training and self.taught is not None else parts

    def label_parts(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[Part]:
        """The parts of the loss on the labels. Most losses have one."""
        loss = super().compute_loss(x, y, y_pred, sample_weight)
        return [Part(loss, self._count(y, y_pred, sample_weight))]

    def _count(self, y: Any, y_pred: Any, sample_weight: Any) -> Any:
        loss = (keras.tree.flatten(self.loss) or [None])[0]
        labels = next((each for each in keras.tree.flatten((y, y_pred)) if each is not None), None)
        return count_of(loss, labels, y_pred, sample_weight)

    def window_totals(self, x: Any) -> dict[str, Any] | None:
        """The counts of all batches of an update, by unit, if the inputs of a batch say them."""
        return None

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            parts = self.loss_parts(x, y, y_pred, sample_weight, training=True)
            loss = self.optimizer.scale_loss(self._of_update(parts, self.window_totals(x)))
        gradients = tape.gradient(loss, self.trainable_weights)
        return self.learned(gradients, parts, (x, y, y_pred, sample_weight))

    def _of_update(self, parts: list[Part], totals: dict[str, Any] | None) -> Any:
        """The loss to differentiate: that of the batch, or its share of the loss of all batches of an update."""
        if totals is None:
            return _total(parts)
        of_window = [each._replace(mean=each.mean * each.count / totals[each.unit]) for each in parts]
        return accumulation.steps_of(self.optimizer) * _total(of_window)  # the optimizer divides by it

    def learned(self, gradients: list[Any], parts: list[Part], batch: tuple[Any, Any, Any, Any]) -> dict[str, Any]:
        """Updates the weights with the gradients of a batch.

        Args:
            gradients: of the loss scaled by the optimizer, one for each of `trainable_weights`.
            parts: of the loss.
            batch: x, y, the outputs and the sample weights.

        Returns:
            The logs of the step.
        """
        x, y, y_pred, sample_weight = batch
        if accumulation.steps_of(self.optimizer) > 1 and self.window_totals(x) is None:
            gradients = self._accumulable(gradients, parts)
        undocumented.loss_tracker(self).update_state(parts)
        if gradients:
            weights = self.trainable_weights
            self._updating(lambda *each: self.optimizer.apply_gradients(zip(each, weights, strict=True)), *gradients)
        return self._reducible(self.compute_metrics(x, y, y_pred, sample_weight=sample_weight))

    def _accumulable(self, gradients: list[Any], parts: list[Part]) -> list[Any]:
        """The gradients to give to an optimizer that accumulates them."""
        if len(parts) > 1:
            warnings.warn(
                f"the loss of a {type(self).__name__} is the sum of {len(parts)} means over different counts, so all "
                "batches of an update count the same, whatever they hold; pretrain(accumulate=...) counts what they "
                "hold",
                stacklevel=2,
            )
            return gradients
        count = parts[0].count if all(map(is_mean, keras.tree.flatten(self.loss))) else None
        return accumulation.weighted(self.optimizer, gradients, self.trainable_weights, count)

    def test_step(self, data: Any) -> dict[str, Any]:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        y_pred = self(x, training=False)
        undocumented.loss_tracker(self).update_state(self.loss_parts(x, y, y_pred, sample_weight, training=False))
        return self._reducible(self.compute_metrics(x, y, y_pred, sample_weight=sample_weight))

    def build_optimizer(self) -> None:
        """Makes the variables of the optimizer."""
        super().build_optimizer()
        with self.distribute_strategy.scope():
            accumulation.build(self.optimizer)


def _total(parts: list[Part]) -> Any:
    return sum(each.weight * each.mean for each in parts)
