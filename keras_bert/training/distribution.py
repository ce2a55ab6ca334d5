"""Chooses the `tf.distribute.Strategy` of a run, its devices and machines, and coordinates its processes."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator

import tensorflow as tf

from keras_bert import undocumented
from keras_bert.choices import STRATEGIES
from keras_bert.counted import counted
from keras_bert.pipelines import UNTUNED

_, _ONE, _MIRRORED, _MULTI_WORKER, _TPU = STRATEGIES
_NO_PARAMETER_SERVERS = 'Keras 3 cannot train with parameter servers; use "multi_worker"'


def strategy(kind: str = "auto", tpu: str | None = None) -> tf.distribute.Strategy:
    """Chooses a strategy for the available devices, and prints its name on standard error.

    Use it to train on several GPUs, machines or TPU cores. Make and compile the model in the strategy's `scope()`: then
    all replicas train it. With several processes, call this function before anything else of TensorFlow. It sets the
    same random seed in all of them, because each process shuffles all examples and takes its part of each batch.

    Args:
        kind:

            - "one": one device, a GPU if there is one;
            - "mirrored": all GPUs of this machine, or all of its logical CPUs if it has none;
            - "multi_worker": the devices of several processes that run the same program, in a step of Slurm or with
              the environment variable `TF_CONFIG`, as Kubernetes' training operators set it;
            - "tpu": the cores of a TPU;
            - "auto": the first that is available: several processes, a TPU (in the variable `TPU_NAME`), several GPUs,
              one device.
        tpu: name or address of a TPU; by default that of `TPU_NAME`, or the local one.

    Raises:
        ValueError: there is no such kind, or `TF_CONFIG` cannot be used.
        RuntimeError: there are several processes, and TensorFlow has already started.

    Example:
        >>> from keras_bert import BertClassifier
        >>> with strategy("one").scope():
        ...     model = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["good", "bad"])
        ...     model.compile(loss=model.training_loss())
    """
    devices, description = choose(kind, tpu)
    print(f"training on {description}", file=sys.stderr)
    return devices


def choose(kind: str = "auto", tpu: str | None = None) -> tuple[tf.distribute.Strategy, str]:
    """Chooses a strategy as `strategy` does, and returns it with a description; prints nothing."""
    if kind not in STRATEGIES:
        unsupported = kind in ("parameter_server", "central_storage")
        advice = f". {_NO_PARAMETER_SERVERS}" if unsupported else ""
        raise ValueError(f"strategy is {kind!r}; expected one of {', '.join(STRATEGIES)}{advice}")
    workers = _workers()
    gpus = tf.config.list_logical_devices("GPU") if kind != _MULTI_WORKER and not workers else []
    tpu = tpu or os.environ.get("TPU_NAME")
    if kind == "auto":
        kind = _MULTI_WORKER if workers else _TPU if tpu else _MIRRORED if len(gpus) > 1 else _ONE
    if kind == _MULTI_WORKER:
        strategy = _multi_worker(workers)
        tf.random.set_seed(0)  # the same in all processes: each shuffles all examples and takes its part
    elif kind == _TPU:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=tpu or "local")
        undocumented.connect_to_tpu(resolver)
        strategy = tf.distribute.TPUStrategy(resolver)
    elif kind == _MIRRORED:
        strategy = tf.distribute.MirroredStrategy()
    else:
        strategy = tf.distribute.get_strategy()
    count = strategy.num_replicas_in_sync
    descriptions = {
        _ONE: "one device",
        _MIRRORED: f"{counted(count, 'device')} of this machine",
        _MULTI_WORKER: f"{counted(count, 'device')} of {counted(workers, 'process', 'processes')}",
        _TPU: f"{counted(count, 'core')} of a TPU",
    }
    return strategy, descriptions[kind]


def _workers() -> int:
    """Counts the processes that `TF_CONFIG` or Slurm names; 0 if there is no cluster."""
    if "TF_CONFIG" not in os.environ:
        tasks = int(os.environ.get("SLURM_STEP_NUM_TASKS", 0))
        return tasks if tasks > 1 else 0
    try:
        config = json.loads(os.environ["TF_CONFIG"])
        cluster, task = config.get("cluster", {}), config.get("task", {})
        workers = len(cluster.get("worker", [])) + len(cluster.get("chief", []))
    except (ValueError, AttributeError) as error:
        raise ValueError(f"the variable TF_CONFIG cannot be read: {error}") from None
    if "ps" in cluster:
        raise ValueError(f"the variable TF_CONFIG names parameter servers. {_NO_PARAMETER_SERVERS}")
    if workers and not {"type", "index"} <= set(task):
        raise ValueError("the variable TF_CONFIG has a cluster, but not the task of this process in it")
    return workers


def _multi_worker(workers: int) -> tf.distribute.Strategy:
    if not workers:
        raise ValueError(
            "this process is the only one; start several with `keras-bert launch --workers N`, or set the variable "
            "TF_CONFIG in each"
        )
    if "TF_CONFIG" in os.environ:
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    else:
        # TensorFlow's resolver gives each task its share of a node's GPUs, but fails on a node without GPUs.
        shares = {} if tf.config.list_physical_devices("GPU") else {"gpus_per_node": workers, "gpus_per_task": 1}
        resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(auto_set_gpu=not shares, **shares)
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
    except RuntimeError as error:
        if "startup" not in str(error):
            raise
        raise RuntimeError(
            "TensorFlow was used before it was connected to the other processes; call strategy() first"
        ) from error


# -- Coordinates several processes that train one model.

# Options of training datasets. Batches are global: every process reads all of them, and takes its part of each.
DATA_OPTIONS = UNTUNED.merge(tf.data.Options())
undocumented.split_rows_between_workers(DATA_OPTIONS)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Checks whether this process writes the common files; a single process does."""
    return strategy.extended.should_checkpoint


def true_in_any_process(strategy: tf.distribute.Strategy, condition: bool) -> bool:
    """Checks whether `condition` is true in any process. Waits for all processes."""
    is_multi_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    if not is_multi_worker or strategy.num_replicas_in_sync == len(strategy.extended.worker_devices):
        return condition  # there is one process
    return float(_make_all_reduce_sum(strategy)(tf.constant(float(condition)))) > 0


@contextlib.contextmanager
def chief_first(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Lets the chief run the block first, so that the other processes find the files that it writes."""
    if not is_chief(strategy):
        true_in_any_process(strategy, True)
    yield
    if is_chief(strategy):
        true_in_any_process(strategy, True)


@functools.cache
def _make_all_reduce_sum(strategy: tf.distribute.Strategy) -> Callable[[tf.Tensor], tf.Tensor]:
    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def all_reduce_sum(value: tf.Tensor) -> tf.Tensor:
        def reduce_replica(value: tf.Tensor) -> tf.Tensor:
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(value))

        return undocumented.local_results(strategy, strategy.run(reduce_replica, args=(value,)))[0]

    return all_reduce_sum
