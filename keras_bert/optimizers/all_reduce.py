"""Makes an optimizer's step on several replicas equal to the step of one replica on the global batch."""

from __future__ import annotations

import keras
import tensorflow as tf

from keras_bert import undocumented


def apply_on_replicas(
    optimizer: keras.optimizers.Optimizer, gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> bool:
    """Updates variables with the sum of the replicas' gradients, clipped after the sum, or accumulates it."""
    if tf.distribute.get_strategy().num_replicas_in_sync == 1 or tf.distribute.in_cross_replica_context():
        return False  # there is one gradient, which Keras can handle
    # Keras would clip each replica's gradients by their own norm, and cannot accumulate gradients on replicas.
    replica = tf.distribute.get_replica_context()
    sums = [tf.convert_to_tensor(each) for each in replica.all_reduce(tf.distribute.ReduceOp.SUM, gradients)]
    steps = optimizer.gradient_accumulation_steps or 1
    accumulators = []
    if steps > 1:
        accumulators = [undocumented.accumulated_gradient(optimizer, each) for each in variables]
        sums = [gradient + accumulator.value for gradient, accumulator in zip(sums, accumulators, strict=True)]
    means = undocumented.clip_gradients(optimizer, [each / steps for each in sums])
    is_update = tf.equal((undocumented.batches_seen(optimizer).value + 1) % steps, 0)
    rate = optimizer.learning_rate

    def update(strategy: tf.distribute.Strategy, means: list[tf.Tensor], sums: list[tf.Tensor]) -> None:
        def step(variable: tf.Variable, mean: tf.Tensor, is_update: tf.Tensor, rate: tf.Tensor) -> None:
            if steps == 1:
                return optimizer.update_step(mean, variable, rate)
            return tf.cond(is_update, lambda: [optimizer.update_step(mean, variable, rate), 0][1], lambda: 0)

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
