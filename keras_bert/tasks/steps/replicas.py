"""Fixes Keras 3's `fit`, `evaluate` and `predict` on many replicas, under `tf.distribute`.

A replica is one device with the model's weights on it; a global batch is all rows of a step, over all replicas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert import undocumented
from keras_bert.tensors import Tensor

# A loss as `compile` takes it: an object, the name of one, or a function of `(y_true, y_pred)`.
KerasLoss: TypeAlias = "keras.losses.Loss | str | Callable[[Tensor, Tensor], Tensor]"

if TYPE_CHECKING:
    from keras_bert.tasks.base.columns import Inputs

    _Model = keras.Model  # which a class with the mixin is, too
else:
    _Model = undocumented.BuiltFromOneReplica


class Replicated(_Model):
    """A mixin for Keras 3 models, with which many replicas under `tf.distribute` train as one would.

    Keras 3.15 fails under `MultiWorkerMirroredStrategy`, and with strings under any strategy
    (https://github.com/keras-team/keras/issues/20585). Its losses are the mean of the replicas' means, not the mean of
    the global batch: the two differ if replicas have different numbers of rows or of labelled tokens.

    All processes must have the same random seed, so that they shuffle alike. `keras_bert.training.distribution` sets
    the seed; without it, call `keras.utils.set_random_seed`.

    On one replica, the mixin changes no result. It only frees the memory of a deleted model: Keras's optimizers would
    keep it until the process ends.

    List it before `keras.Model` in the bases of a model. Make and compile the model in the scope of its strategy.

    Example:
        >>> class Model(Replicated, keras.Model):
        ...     pass
        >>> with tf.distribute.MirroredStrategy(["cpu:0"]).scope():
        ...     inputs = keras.Input([4])
        ...     model = Model(inputs, keras.layers.Dense(1)(inputs))
        ...     model.compile("sgd", "mse")
    """

    _loss_names: tuple[str | None, ...] = (None,)  # `terms` of the `LossMean` of an epoch

    def compile(self, optimizer: Any = "rmsprop", loss: Any = None, *args: Any, **kwargs: Any) -> None:
        """Compiles as Keras does, but averages losses over the global batch."""
        if self.distribute_strategy.num_replicas_in_sync > 1:
            loss = keras.tree.map_structure(_global_mean, loss)
        super().compile(optimizer, loss, *args, **kwargs)
        with self.distribute_strategy.scope():
            undocumented.replace_loss_tracker(self, LossMean(self._loss_names))

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles a model that was saved as a `.keras` file. Keras does not if a class overrides `compile`."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        build_optimizer(self)  # before its variables are loaded

    def make_train_function(self, force: bool = False) -> Callable[..., dict[str, Tensor]]:
        """Makes Keras's function, but creates the optimizer's variables first: a step that does so is traced twice."""
        build_optimizer(self)
        return super().make_train_function(force)

    def train_step(self, data: tuple[Inputs, ...]) -> dict[str, Tensor]:
        return run_update(self.optimizer, super().train_step, data)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        """Computes the results of a step. With several workers, Keras averages them along their first axis."""
        logs = super().compute_metrics(x, y, y_pred, sample_weight)
        if not isinstance(self.distribute_strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return logs
        return {name: ops.expand_dims(value, 0) for name, value in logs.items()}


def build_optimizer(model: Any) -> None:
    """Creates the variables of a model's optimizer, if the model has its weights."""
    if model.built and isinstance(model.optimizer, keras.optimizers.Optimizer) and not model.optimizer.built:
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_variables)


def run_update(optimizer: keras.optimizers.Optimizer, step: Callable[..., Any], *arguments: Any) -> Any:
    """Runs a step that applies the optimizer, in a way that lets the model be freed later."""
    if tf.distribute.has_strategy() or isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return step(*arguments)
    # In a replica context, even of one replica, Keras's optimizers sum gradients by TensorFlow's `all_reduce`. It has a
    # custom gradient, so TensorFlow keeps the graph, the model and its moments until the process ends.
    return tf.distribute.get_replica_context().merge_call(lambda _, *values: step(*values), args=arguments)


class AroundLoss(keras.losses.Loss):
    """A loss that computes another one, `loss`."""

    loss: keras.losses.Loss

    def has_contrast(self, y_true: np.ndarray) -> bool:
        """Checks a batch as the wrapped loss does."""
        return not hasattr(self.loss, "has_contrast") or self.loss.has_contrast(y_true)

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "loss": keras.saving.serialize_keras_object(self.loss)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**{**config, "loss": keras.saving.deserialize_keras_object(config["loss"])})


@keras.saving.register_keras_serializable(package="keras_bert")
class GlobalMean(AroundLoss):
    """A loss averaged over the global batch, where Keras takes the mean of the replicas' means; a sum stays a sum."""

    def __init__(self, loss: keras.losses.Loss, **kwargs: Any) -> None:
        self.loss = loss
        super().__init__(**{"name": self.loss.name, "reduction": self.loss.reduction, **kwargs})

    def __call__(self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        mean = self.loss(y_true, y_pred, sample_weight)  # this replica's mean, divided by the number of replicas
        if not is_mean(self):
            return mean
        divisor = ops.cast(divisor_of(self.loss, y_true, sample_weight), mean.dtype)
        return mean * ops.divide_no_nan(divisor * num_replicas(), all_reduce_sum(divisor))


def is_mean(loss: KerasLoss) -> bool:
    """Checks whether a Keras loss is a mean over rows, not a sum."""
    return getattr(loss, "reduction", "mean") not in (None, "none", "sum")


def divisor_of(loss: KerasLoss, y_true: Tensor, sample_weight: Tensor | None) -> Tensor:
    """Counts the labels that are not ignored, or sums their weights, if that is what the mean loss divides by."""
    ignored_class = getattr(loss, "ignore_class", None)
    is_counted = ops.ones_like(y_true, dtype="float32")
    if ignored_class is not None:
        is_counted = ops.cast(ops.not_equal(y_true, ops.cast(ignored_class, y_true.dtype)), "float32")
    if getattr(loss, "reduction", None) == "mean_with_sample_weight" and sample_weight is not None:
        sample_weight = ops.cast(sample_weight, "float32")
        return ops.sum(sample_weight if ignored_class is None else sample_weight * is_counted)
    return ops.sum(is_counted)


def _global_mean(loss: KerasLoss | None) -> KerasLoss | None:
    """Wraps a loss of `compile` so that it is averaged over the global batch."""
    if loss is None or loss in ("ce", "crossentropy"):  # Keras chooses a loss when it sees the labels
        return loss
    if isinstance(loss, GlobalMean):  # the loss of a saved model is wrapped already
        return loss
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", "loss")
    resolved = keras.losses.get(loss)
    return GlobalMean(
        resolved if isinstance(resolved, keras.losses.Loss) else undocumented.loss_from_function(resolved, name)
    )


class LossTerm(NamedTuple):
    """A term of a loss: a mean over rows, words or masked tokens."""

    mean: Tensor  # float32, this replica's share of the mean over the global batch: the sum of its own values / count
    count: Tensor  # float32, the number of values in that mean, over the global batch; or the sum of their weights
    weight: float = 1.0  # of the term in the loss
    unit: int = 0  # what is counted, as a column of `AccumulatedBatch.shares`


class LossMean(keras.metrics.Metric):
    """A metric of the loss: the weighted sum of terms, means by `LossTerm.count`; `terms` are those shown, or None."""

    def __init__(self, terms: tuple[str | None, ...] = (None,), name: str = "loss") -> None:
        super().__init__(name=name, dtype="float32")
        self.terms = terms
        zeros = {"shape": (len(terms),), "initializer": "zeros"}
        self.total, self.weighted, self.count = (
            self.add_variable(name=name, **zeros) for name in ("total", "weighted", "count")
        )

    def update_state(self, terms: list[LossTerm] | Tensor, sample_weight: Tensor | None = None) -> None:
        """Adds a batch; `terms` may lack the last ones. In a step, every replica must call this method."""
        # Keras's own step gives the loss, a replica's share of it times the number of replicas, and the number of rows;
        # a step of the user's may give the loss alone.
        if not isinstance(terms, list):
            rows = all_reduce_sum(ops.cast(1 if sample_weight is None else sample_weight, self.dtype))
            terms = [LossTerm(ops.cast(terms, self.dtype) / num_replicas(), rows)]
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


def num_replicas() -> int:
    """Counts the replicas that compute a step."""
    return tf.distribute.get_strategy().num_replicas_in_sync


def all_reduce_sum(value: Tensor) -> Tensor:
    """Sums a value over all replicas. In a step, every replica must call it; outside of a step, there is one."""
    context = tf.distribute.get_replica_context()
    return value if context is None or num_replicas() == 1 else context.all_reduce(tf.distribute.ReduceOp.SUM, value)


def all_gather(rows: Tensor) -> Tensor:
    """Gathers the rows of the global batch, with gradients. In a step, every replica must call it.

    Replicas may differ in an axis of unknown size, such as tokens: they are padded with zeros to the longest.
    """
    context = tf.distribute.get_replica_context()
    if context is None or num_replicas() == 1:
        return rows
    for axis in (each for each, size in enumerate(rows.shape) if each and size is None):
        size = tf.shape(rows)[axis]
        longest = tf.reduce_max(context.all_gather(size[None], axis=0))
        rows = tf.pad(rows, [[0, longest - size if each == axis else 0] for each in range(len(rows.shape))])
    rows = tf.identity(rows)  # with several processes, an argument of the step has no device to gather to
    return tf.ensure_shape(context.all_gather(rows, axis=0), [None, *rows.shape[1:]])


def local_rows(rows: Tensor, count: Tensor) -> Tensor:
    """Selects this replica's `count` rows from those of the global batch."""
    context = tf.distribute.get_replica_context()
    if context is None or num_replicas() == 1:
        return rows
    counts = context.all_gather(tf.reshape(count, [1]), axis=0)  # [replicas]
    first = tf.reduce_sum(counts[: context.replica_id_in_sync_group])
    return rows[first : first + count]
