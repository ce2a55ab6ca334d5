"""AdamW and the learning rate schedule of BERT's training (Devlin et al. 2018, appendix A.2 and A.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from keras_bert import undocumented
from keras_bert.tensors import Tensor

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Schedule = keras.optimizers.schedules.LearningRateSchedule


@keras.saving.register_keras_serializable(package="keras_bert")
class WarmupThenDecay(Schedule):
    """A learning rate that rises linearly from 0 to its peak, then falls linearly to 0 at the last step.

    Use it for pre-training and fine-tuning. A callback may set the learning rate of an optimizer with this schedule, as
    `ReduceLROnPlateau` does: the rest of the schedule is scaled to it. It cannot set another schedule.

    Args:
        peak: the peak learning rate.
        warmup_steps: the number of steps before the peak; with 0, the first step has the peak learning rate.
        total_steps: the number of steps of the whole run.

    Raises:
        ValueError: `warmup_steps` is negative or more than `total_steps`.

    Example:
        >>> schedule = WarmupThenDecay(1e-4, warmup_steps=10, total_steps=110)
        >>> [round(float(schedule(step)) * 1e4, 2) for step in (0, 5, 10, 60, 110)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    def __init__(self, peak: float, warmup_steps: int, total_steps: int) -> None:
        if not 0 <= warmup_steps <= total_steps:
            raise ValueError(f"warmup_steps is {warmup_steps}; expected 0 to total_steps, which is {total_steps}")
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.total_steps = total_steps
        self.scale = keras.Variable(1.0, trainable=False, name="scale")

    def __call__(self, step: int | Tensor) -> Tensor:
        return self.scale * self._unscaled(step)

    def _unscaled(self, step: int | Tensor) -> Tensor:
        step = ops.cast(step, "float32")
        rising = step / self.warmup_steps if self.warmup_steps else 1.0
        falling = (self.total_steps - step) / max(self.total_steps - self.warmup_steps, 1)
        return self.peak * ops.maximum(ops.minimum(rising, falling), 0.0)

    def rescale(self, rate: float, step: int | Tensor) -> None:
        """Scales the schedule so that its learning rate at this step is `rate`. Raises ValueError if it is 0 there."""
        unscaled = float(self._unscaled(step))
        if unscaled == 0 != rate:
            raise ValueError(
                f"the learning rate cannot become {rate:g} at step {int(step)}, where it is 0 by the schedule; with "
                "warmup=0 it begins at its peak"
            )
        if unscaled:
            self.scale.assign(rate / unscaled)

    def get_config(self) -> dict[str, Any]:
        peak = self.peak * float(self.scale)
        return {"peak": peak, "warmup_steps": self.warmup_steps, "total_steps": self.total_steps}


@keras.saving.register_keras_serializable(package="keras_bert")
class AdamW(undocumented.ReplicaOptimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2), BERT's optimizer.

    Use it to train any model of this package; for batches of thousands, use `LAMB`. Weights of one dimension (biases,
    layer normalization) do not decay. Epsilon is added to the square root of the corrected moment, as in Kingma and
    Ba's algorithm 1 and in PyTorch; Keras's Adam adds it before the correction.

    Args:
        learning_rate: a number or a schedule.
        weight_decay: each step subtracts `weight_decay * learning_rate * weight` from a weight.
        beta_1, beta_2, epsilon: as in Adam.
        layer_decay: a layer's learning rate is this factor times the learning rate of the layer above (Sun et al.
            2019, section 5.3.2: 0.95). The head and the pooler keep the full learning rate.
        num_layers: the number of layers of the encoder, which `layer_decay` needs.
        learning_rate_factors: by the path of a weight, a factor of its learning rate, but not of its decay: a number,
            or a number for each index of the last dimension. A task model multiplies the weight's gradient by it, too.
            With the labels' standard deviation as factor, a regression head trains the same whatever their unit.
        **kwargs: arguments of Keras's optimizers: `global_clipnorm`, `gradient_accumulation_steps`, ...

    Attributes:
        schedule: the schedule of the learning rate; None if it is a number.

    Raises:
        ValueError: `layer_decay` is not 1, and `num_layers` is missing.

    Example:
        >>> optimizer = AdamW(WarmupThenDecay(2e-5, 100, 1000), weight_decay=0.01, global_clipnorm=1.0)
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 5e-5,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        layer_decay: float = 1.0,
        num_layers: int | None = None,
        learning_rate_factors: Mapping[str, ArrayLike] | None = None,
        name: str = "adamw",
        **kwargs: Any,
    ) -> None:
        if layer_decay != 1.0 and num_layers is None:
            raise ValueError(f"layer_decay is {layer_decay}, but num_layers is missing; pass it, too")
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.schedule = _schedule_or_none(learning_rate)
        self.decay = weight_decay
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.layer_decay = layer_decay
        self.num_layers = num_layers
        factors = (learning_rate_factors or {}).items()
        self.learning_rate_factors = {path: np.asarray(factor, np.float32).tolist() for path, factor in factors}

    def build(self, variables: list[keras.Variable]) -> None:
        if self.built:
            return
        super().build(variables)
        self._moments = self.add_optimizer_variables(variables, ["momentum", "velocity"])
        self._rate_factors = [self._rate_factor(variable.path) for variable in variables]
        self._weight_factors = [self.learning_rate_factors.get(variable.path) for variable in variables]

    def _rate_factor(self, path: str) -> float:
        """Computes the factor of a weight's learning rate by `layer_decay`, from the path of the weight."""
        if self.layer_decay == 1.0 or self.num_layers is None:  # with a decay, `num_layers` is set
            return 1.0
        depth = self.num_layers + 1  # the head and the pooler
        for part in path.split("/"):
            if part == "embeddings":
                depth = 0
            elif part.startswith("block_"):
                depth = int(part.removeprefix("block_")) + 1
        return self.layer_decay ** (self.num_layers + 1 - depth)

    @property
    def learning_rate(self) -> Tensor:
        """The learning rate of the next update: a variable, or the value of the schedule."""
        # Keras calls a schedule with the number of batches, but with gradient accumulation, an update takes several
        # batches.
        return super().learning_rate if self.schedule is None else self.schedule(self.iterations)

    @learning_rate.setter
    def learning_rate(self, value: float | Schedule) -> None:
        if isinstance(self.schedule, WarmupThenDecay):
            if callable(value):  # training that has been traced would not follow it, and its state would lack it
                raise TypeError(
                    "the learning rate follows a WarmupThenDecay, and can only be set to a number, not to a "
                    f"{type(value).__name__}; for that, make another optimizer"
                )
            self.schedule.rescale(float(value), self.iterations)
            return
        keras.optimizers.Optimizer.learning_rate.fset(self, value)
        self.schedule = _schedule_or_none(value)

    def _apply_on_replicas(self, gradients: list[Tensor], variables: list[keras.Variable]) -> bool:
        if keras.backend.backend() != "tensorflow":
            return False
        import tensorflow as tf

        if tf.distribute.get_strategy().num_replicas_in_sync == 1 or tf.distribute.in_cross_replica_context():
            return False  # there is one gradient, which Keras can handle
        # Keras would clip each replica's gradients by their own norm, and cannot accumulate gradients on replicas.
        replica = tf.distribute.get_replica_context()
        sums = [tf.convert_to_tensor(each) for each in replica.all_reduce(tf.distribute.ReduceOp.SUM, gradients)]
        steps = self.gradient_accumulation_steps or 1
        accumulators = []
        if steps > 1:
            accumulators = [undocumented.accumulated_gradient(self, each) for each in variables]
            sums = [gradient + accumulator.value for gradient, accumulator in zip(sums, accumulators, strict=True)]
        means = undocumented.clip_gradients(self, [each / steps for each in sums])
        is_update = tf.equal((undocumented.batches_seen(self).value + 1) % steps, 0)
        rate = self.learning_rate

        def update(strategy: tf.distribute.Strategy, means: list[tf.Tensor], sums: list[tf.Tensor]) -> None:
            def step(variable: tf.Variable, mean: tf.Tensor, is_update: tf.Tensor, rate: tf.Tensor) -> None:
                if steps == 1:
                    return self.update_step(mean, variable, rate)
                return tf.cond(is_update, lambda: [self.update_step(mean, variable, rate), 0][1], lambda: 0)

            for variable, mean in zip(variables, means, strict=True):
                strategy.extended.update(variable.value, step, args=(mean, is_update, rate), group=False)
            for accumulator, total in zip(accumulators, sums, strict=False):
                strategy.extended.update(
                    accumulator.value,
                    lambda accumulator, total, is_update: accumulator.assign(
                        tf.where(is_update, tf.zeros_like(total), total)
                    ),
                    args=(total, is_update),
                    group=False,
                )

        replica.merge_call(update, args=(means, sums))
        return True

    def update_step(self, gradient: Tensor, variable: keras.Variable, learning_rate: Tensor) -> None:
        index = undocumented.variable_index(self, variable)
        momentum, velocity = (moments[index] for moments in self._moments)
        rate = ops.cast(learning_rate, variable.dtype) * self._rate_factors[index]
        step = ops.cast(self.iterations + 1, variable.dtype)
        power_1 = ops.power(ops.cast(self.beta_1, variable.dtype), step)
        power_2 = ops.power(ops.cast(self.beta_2, variable.dtype), step)
        correction = ops.sqrt(1 - power_2)
        if len(variable.shape) > 1:
            self.assign_sub(variable, variable * (rate * self.decay))
        if self._weight_factors[index] is not None:
            rate = rate * ops.convert_to_tensor(self._weight_factors[index], variable.dtype)  # [] or [last dimension]
        elif keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle, m=momentum.value.handle, v=velocity.value.handle,
                beta1_power=power_1, beta2_power=power_2, lr=rate, beta1=self.beta_1, beta2=self.beta_2,
                epsilon=self.epsilon * correction, grad=tf.cast(gradient, variable.dtype),
            )  # fmt: skip
            return
        self.update_moments(gradient, momentum, velocity)
        scale = ops.sqrt(velocity) / correction + self.epsilon
        self.assign_sub(variable, rate / (1 - power_1) * momentum / scale)

    def update_moments(self, gradient: Tensor, momentum: keras.Variable, velocity: keras.Variable) -> None:
        """Updates the moving averages of a weight's gradients and of their squares."""
        gradient = ops.cast(gradient, momentum.dtype)
        self.assign_add(momentum, (gradient - momentum) * (1 - self.beta_1))
        self.assign_add(velocity, (ops.square(gradient) - velocity) * (1 - self.beta_2))

    def get_config(self) -> dict[str, Any]:
        names = ("beta_1", "beta_2", "epsilon", "layer_decay", "num_layers", "learning_rate_factors")
        return {**super().get_config(), "weight_decay": self.decay, **{name: getattr(self, name) for name in names}}


def _schedule_or_none(learning_rate: float | Schedule) -> Schedule | None:
    return learning_rate if isinstance(learning_rate, Schedule) else None
