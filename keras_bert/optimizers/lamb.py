"""LAMB: Adam for very large batches (You et al. 2020, who pre-train BERT in 76 minutes)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_bert import undocumented
from keras_bert.optimizers.adamw import AdamW, Schedule
from keras_bert.tensors import Tensor


@keras.saving.register_keras_serializable(package="keras_bert")
class LAMB(AdamW):
    """Adam that scales the step of each weight matrix to the norm of the matrix (You et al. 2020, algorithm 2).

    Use it to pre-train with batches of thousands of sequences. Biases and the weights of layer normalization do not
    decay, and their steps are not scaled, as in the authors' code. `keras.optimizers.Lamb` scales their steps, too, and
    lets matrices decay outside of the scaled step.

    Args:
        learning_rate: a number or a schedule, about 1e-3: the norm of a matrix's step, divided by the matrix's norm.
        **kwargs: as for `AdamW`. A factor in `learning_rate_factors` multiplies Adam's step, before a matrix's decay is
            added and the sum is scaled to the norm of the matrix.

    Example:
        >>> optimizer = LAMB(1e-3, weight_decay=0.01, global_clipnorm=1.0)
    """

    def __init__(
        self, learning_rate: float | Schedule = 1e-3, epsilon: float = 1e-6, name: str = "lamb", **kwargs: Any
    ) -> None:
        super().__init__(learning_rate, epsilon=epsilon, name=name, **kwargs)

    def update_step(self, gradient: Tensor, variable: keras.Variable, learning_rate: Tensor) -> None:
        index = undocumented.variable_index(self, variable)
        momentum, velocity = (moments[index] for moments in self._moments)
        rate = ops.cast(learning_rate, variable.dtype) * self._rate_factors[index]
        step = ops.cast(self.iterations + 1, variable.dtype)
        self.update_moments(gradient, momentum, velocity)
        corrected_momentum = momentum / (1 - ops.power(ops.cast(self.beta_1, variable.dtype), step))
        scale = ops.sqrt(velocity / (1 - ops.power(ops.cast(self.beta_2, variable.dtype), step)))
        update = corrected_momentum / (scale + self.epsilon)
        if (factor := self._weight_factors[index]) is not None:
            update = update * ops.convert_to_tensor(factor, variable.dtype)  # [] or [last dimension]
        if len(variable.shape) > 1:
            update = update + self.decay * variable
            update = update * _trust_ratio(ops.norm(variable), ops.norm(update))
        self.assign_sub(variable, rate * update)


def _trust_ratio(weight_norm: Tensor, update_norm: Tensor) -> Tensor:
    """Divides `weight_norm` by `update_norm`; 1 where a norm is 0: with 0, a matrix of zeros would never change."""
    is_defined = ops.logical_and(weight_norm > 0, update_norm > 0)
    return ops.where(is_defined, weight_norm / ops.where(is_defined, update_norm, 1.0), 1.0)
