"""Coordinates several processes that train one model."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import tensorflow as tf

from keras_bert import undocumented
from keras_bert.pipelines import UNTUNED

# Options of training datasets. Batches are global: every process reads all batches, and takes its part of each.
DATA_OPTIONS = UNTUNED.merge(tf.data.Options())
undocumented.split_rows_between_workers(DATA_OPTIONS)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes the common files, as a single process does."""
    return strategy.extended.should_checkpoint


def are_several(strategy: tf.distribute.Strategy) -> bool:
    """Whether other processes take part."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) and strategy.num_replicas_in_sync > len(
        strategy.extended.worker_devices
    )


def any_of(strategy: tf.distribute.Strategy, here: bool) -> bool:
    """Whether `here` is true in any of the processes. Waits for all of them."""
    if not are_several(strategy):
        return here

    return float(_summing(strategy)(tf.constant(float(here)))) > 0


@contextlib.contextmanager
def chief_first(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """A block that the chief leaves before the others enter it, so that they find the files it wrote."""
    if not is_chief(strategy):
        any_of(strategy, True)
    yield
    if is_chief(strategy):
        any_of(strategy, True)


@functools.cache
def _summing(strategy: tf.distribute.Strategy) -> Callable[[tf.Tensor], tf.Tensor]:
    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def over_all(here: tf.Tensor) -> tf.Tensor:
        def add(here: tf.Tensor) -> tf.Tensor:
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(here))

        return undocumented.local_results(strategy, strategy.run(add, args=(here,)))[0]

    return over_all
