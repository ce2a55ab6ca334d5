"""Calls of Keras, TensorFlow and TensorFlow Text that are private, undocumented or experimental: a function each.

Such a call may change with any release, so no other module makes one. Each function says why it is needed and which
public way was tried. `tests/test_undocumented.py` fails with the name of a symbol that has changed, and `setup.cfg`
bounds Keras's version for as long as this module holds anything of Keras.

Messages of `tensorflow.core` (`*_pb2`) are formats of files, which TensorFlow keeps readable. They are no part of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import keras

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from keras_bert.tensors import Tensor

F = TypeVar("F", bound=Callable)
Attribute: TypeAlias = "bool | int | float | str | tf.DType | Sequence[str] | Sequence[tf.DType]"  # of an operation

# -- Keras: layers and variables


def flatten_layers(layer: keras.Layer) -> list[keras.Layer]:
    """Lists a layer and all layers inside it.

    Public way: `keras.Model.layers` lists the layers directly inside a model; a layer has no such attribute.
    """
    return list(layer._flatten_layers())


def set_initializer(variable: keras.Variable, initializer: Callable[[tuple[int, ...], str], Tensor]) -> None:
    """Sets what initializes a variable that was made in a `keras.StatelessScope`, before the scope ends.

    Public way: `assign` after the scope. Every weight is then drawn at random first, which takes longer than loading.

    Args:
        variable: a variable without a value.
        initializer: shape and dtype -> the first value.
    """
    variable._initializer = initializer


def wrap_variable(variable: keras.Variable, value: tf.Variable) -> None:
    """Makes a Keras variable hold an existing `tf.Variable`, so that an optimizer of Keras trains it.

    Public way: `keras.Variable(value)` copies the value into a variable of its own.
    """
    variable._initialize(value)


def in_safe_mode() -> bool | None:
    """Whether Keras is reading a file with `safe_mode=True`; None: it is not reading a file.

    Public way: none; `from_config` does not get `safe_mode`.
    """
    from keras.src.saving import serialization_lib

    return serialization_lib.in_safe_mode()


# -- Keras: LoRA of dense layers, and seeds


def has_lora(layer: keras.Layer) -> bool:
    """Whether a layer is one that `enable_lora` adapts.

    Public way: none; only `enable_lora` is documented.
    """
    return getattr(layer, "lora_enabled", False)


def lora_change(dense: keras.layers.Dense) -> Tensor:
    """LoRA's change to the kernel `[inputs, units]`: `alpha / rank * A B`, in float32.

    Public way: `kernel`, which is the sum, of a type that may be lower.
    """
    return dense.lora_alpha / dense.lora_rank * keras.ops.matmul(dense.lora_kernel_a, dense.lora_kernel_b)


def merge_lora(dense: keras.layers.Dense) -> None:
    """Adds LoRA's change to the kernel, and removes LoRA from the layer; the kernel stays frozen.

    Public way: a new layer with the sum as its kernel, in a model made anew.

    Example:
        >>> dense = keras.layers.Dense(3)
        >>> dense.build((None, 2))
        >>> dense.enable_lora(rank=1)
        >>> merge_lora(dense)
        >>> [variable.name for variable in dense.variables]
        ['kernel', 'bias']
    """
    added = lora_change(dense)
    dense.lora_kernel_b.assign(keras.ops.zeros_like(dense.lora_kernel_b))  # graphs traced before still add it
    dense.lora_enabled = False
    dense.lora_rank = dense.lora_alpha = None
    del dense.lora_kernel_a, dense.lora_kernel_b
    dense.kernel.assign_add(added)


def seed_states(model: keras.Model) -> list[keras.Variable]:
    """The states of a model's `keras.random.SeedGenerator`s, such as those of its dropout layers.

    Public way: `non_trainable_variables`, which holds others, too.
    """
    return [variable for variable in model.variables if variable.name == "seed_generator_state"]


def seed_after(state: tf.Tensor, draws: int | tf.Tensor) -> tf.Tensor:
    """The state of a `SeedGenerator` after further draws: `(seed, draws so far)`.

    Public way: `SeedGenerator.next`, once for each draw.
    """
    import tensorflow as tf

    return state + tf.stack([tf.zeros([], state.dtype), tf.cast(draws, state.dtype)])


# -- Keras: models and losses


def set_jit_compile(model: keras.Model, value: bool | str) -> None:
    """Sets `jit_compile` of a model, whatever layers it has.

    Public way: the attribute. It refuses XLA for a model with a layer that XLA cannot compile, even one never called.
    """
    model._jit_compile = value


def loss_tracker(model: keras.Model) -> keras.metrics.Metric:
    """The metric of a compiled model that Keras records the loss of each step in.

    Public way: `model.metrics[0]`, whose place is not documented either.
    """
    return model._loss_tracker


def replace_loss_tracker(model: keras.Model, metric: keras.metrics.Metric) -> None:
    """Replaces the metric of a compiled model that the loss of each step is recorded in.

    Public way: a metric of the model's own beside Keras's, which would be shown twice.
    """
    vars(model)["_loss_tracker"] = metric  # setting an attribute would add a second metric to the model


def loss_from_function(function: Callable[[Tensor, Tensor], Tensor], name: str) -> keras.losses.Loss:
    """Wraps a function of `(y_true, y_pred)` as `compile` does: the mean over rows, of tensors of the same rank.

    Public way: `keras.losses.get` returns functions as they are.
    """
    from keras.src.losses.losses import LossFunctionWrapper

    return LossFunctionWrapper(function, name=name)


class BuiltFromOneReplica:
    """A mixin for models: `fit` builds a model under `tf.distribute` from the first replica's batch.

    Keras averages the replicas' batches, but only needs their shapes. Strings have no mean, and batches of several
    workers differ in shape.

    Public way: `model.build` and `optimizer.build` before `fit`. Keras averages the batches nevertheless.
    """

    _distribute_strategy: tf.distribute.Strategy | None  # the model's
    _symbolic_build: Callable[..., None]

    def _maybe_symbolic_build(
        self, iterator: Iterable[tuple[int, int, Iterator[Any]]] | None = None, data_batch: Any = None
    ) -> None:
        if self._distribute_strategy is None:
            return
        if iterator is not None:
            for _, _, batches in iterator:
                data_batch = next(batches)
                break
        first = keras.tree.map_structure(lambda each: local_results(self._distribute_strategy, each)[0], data_batch)
        with self._distribute_strategy.scope():
            self._symbolic_build(data_batch=first)


# -- Keras: optimizers


class ReplicaOptimizer(keras.optimizers.Optimizer):
    """An optimizer whose subclass sums the replicas' gradients.

    With one replica, there is nothing to sum. Keras would call TensorFlow's `all_reduce`, which keeps the graph of the
    training step, the model and its moments in memory until the process ends.

    Public way: `apply`, but it increments the private count of batches, applies constraints and unscales the loss.
    """

    def _apply_on_replicas(self, gradients: list[Tensor], variables: list[tf.Variable]) -> bool:
        """Updates variables with the sum of the replicas' gradients. Returns False, and does nothing, on one replica.

        Args:
            gradients: the gradients of this replica.
            variables: one for each gradient.
        """
        raise NotImplementedError

    def _backend_apply_gradients(self, grads: list[Tensor], trainable_variables: list[tf.Variable]) -> None:
        if not self._apply_on_replicas(grads, trainable_variables):
            super()._backend_apply_gradients(grads, trainable_variables)

    def _all_reduce_sum_gradients(
        self, grads_and_vars: Iterable[tuple[Tensor, tf.Variable]]
    ) -> list[tuple[Tensor, tf.Variable]]:
        return list(grads_and_vars)


def variable_index(optimizer: keras.optimizers.Optimizer, variable: keras.Variable | tf.Variable) -> int:
    """The index of a variable among those that an optimizer was built with.

    Public way: a dict by `id`. But `update_step` gets TensorFlow's variables, those of one replica each.
    """
    return optimizer._get_variable_index(variable)


def clip_gradients(optimizer: keras.optimizers.Optimizer, gradients: list[Tensor]) -> list[Tensor]:
    """Clips gradients by the optimizer's `clipnorm`, `global_clipnorm` or `clipvalue`.

    Public way: none; Keras clips each replica's gradients, before they are summed.
    """
    return optimizer._clip_gradients(gradients)


def batches_seen(optimizer: keras.optimizers.Optimizer) -> keras.Variable:
    """The number of batches that an optimizer has seen.

    Public way: `iterations`, which counts updates; with `gradient_accumulation_steps`, an update has several batches.
    """
    return optimizer._iterations


def accumulated_gradient(
    optimizer: keras.optimizers.Optimizer, variable: keras.Variable | tf.Variable
) -> keras.Variable:
    """The sum of a variable's gradients since the last update, with `gradient_accumulation_steps`.

    Public way: a variable of `optimizer.variables`, but neither their order nor their names are documented.
    """
    return optimizer._accumulated_gradients[variable_index(optimizer, variable)]


# -- TensorFlow: graphs and SavedModels


def is_in_xla() -> bool:
    """Whether code is being traced for XLA.

    Public way: none; `jit_compile` is an argument of the function that is traced.
    """
    import tensorflow as tf

    return tf.__internal__.get_enclosing_xla_context() is not None


def add_private_operation(
    name: str, inputs: Sequence[tf.Tensor], dtypes: Sequence[tf.DType], **attributes: Attribute
) -> list[tf.Tensor]:
    """Adds an operation that `tf.raw_ops` lacks, such as oneDNN's fused ones, to the graph that is being traced.

    Public way: none; `tf.raw_ops` has no operation whose name begins with an underscore.

    Args:
        name: the operation, which begins with an underscore.
        inputs: its inputs.
        dtypes: the types of its outputs.
        **attributes: its attributes: bool, int, float, str, dtype, or a list of strings or dtypes.
    """
    import tensorflow as tf

    attrs = {key: _attribute(value) for key, value in attributes.items()}
    graph = tf.compat.v1.get_default_graph()
    return graph.create_op(name, list(inputs), list(dtypes), attrs=attrs, name=name.strip("_")).outputs


def _attribute(value: Any) -> tf.compat.v1.AttrValue:
    import tensorflow as tf

    made = tf.compat.v1.AttrValue
    if isinstance(value, bool):
        return made(b=value)
    if isinstance(value, list):
        types = [each.as_datatype_enum for each in value if isinstance(each, tf.DType)]
        return made(list=made.ListValue(type=types, s=[each.encode() for each in value if isinstance(each, str)]))
    if isinstance(value, tf.DType):
        return made(type=value.as_datatype_enum)
    if isinstance(value, str):
        return made(s=value.encode())
    return made(i=value) if isinstance(value, int) else made(f=value)


def load_with_variables(directory: str, variables: Mapping[str, tf.Variable]) -> Any:
    """Loads a SavedModel with existing variables in place of its own; tf_keras does the same.

    Public way: `tf.saved_model.load` makes variables of its own, which the model and its optimizer do not hold.

    Args:
        directory: the SavedModel's directory.
        variables: path inside the SavedModel, such as `root.variables.0` -> the variable.
    """
    import tensorflow as tf

    return tf.__internal__.saved_model.load_partial(directory, {"root": None, **variables})["root"]


def share_memory(values: np.ndarray) -> tf.Tensor:
    """A tensor that shares the memory of an array.

    Public way: `tf.constant` copies, which takes as long as reading the file.
    """
    import tensorflow as tf

    return tf.experimental.dlpack.from_dlpack(values.__dlpack__())


def litert_schema() -> ModuleType:
    """The classes of LiteRT's file format.

    Public way: `ai-edge-litert`, which is optional, and has them in a private module, too.
    """
    from tensorflow.lite.python import schema_py_generated

    return schema_py_generated


def litert_files() -> ModuleType:
    """`read_model` and `convert_object_to_bytearray` for LiteRT's files.

    Public way: see `litert_schema`.
    """
    from tensorflow.lite.tools import flatbuffer_utils

    return flatbuffer_utils


def sentencepiece_operations() -> ModuleType:
    """SentencePiece's operations: `sentencepiece_op`, `sentencepiece_tokenize_with_offsets_op`, ...

    Public way: `tf_text.SentencepieceTokenizer`, which is a resource that functions capture and SavedModels must track.
    """
    from tensorflow_text.python.ops import sentencepiece_tokenizer

    return sentencepiece_tokenizer.gen_sentencepiece_tokenizer


# -- TensorFlow: experimental calls without another name


def without_autograph(function: F) -> F:
    """Marks a function that `tf.data` traces as it is.

    Public way: `tf.function(autograph=False)` adds a call of a function to the graph of each element.
    """
    import tensorflow as tf

    return tf.autograph.experimental.do_not_convert(function)


def with_cardinality(dataset: tf.data.Dataset, batches: int) -> tf.data.Dataset:
    """A dataset of this number of batches, so that Keras knows the number before the first epoch.

    Public way: none for generators and files of records; `take` leaves the cardinality unknown.
    """
    import tensorflow as tf

    return dataset.apply(tf.data.experimental.assert_cardinality(batches))


def shuffle_by_seed(values: tf.Tensor, seed: tf.Tensor | Sequence[int]) -> tf.Tensor:
    """Shuffles the rows of a tensor; equal seeds, int `[2]`, give equal orders.

    Public way: `tf.random.shuffle`, whose order depends on the operations before it, too.
    """
    import tensorflow as tf

    return tf.random.experimental.stateless_shuffle(values, seed)


def split_rows_between_workers(options: tf.data.Options) -> None:
    """Makes each worker read all batches of a dataset, and take its part of their rows.

    Public way: `strategy.distribute_datasets_from_function`, which `fit` does not take.
    """
    import tensorflow as tf

    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA


def local_results(strategy: tf.distribute.Strategy, value: Tensor) -> tuple[Tensor, ...]:
    """The values of this process's replicas.

    Public way: `strategy.gather`, which waits for the other processes, and takes no strings.
    """
    return strategy.experimental_local_results(value)


def connect_to_tpu(resolver: tf.distribute.cluster_resolver.TPUClusterResolver) -> None:
    """Connects to a TPU and initializes it.

    Public way: none; TensorFlow's guide to TPUs makes the same calls.
    """
    import tensorflow as tf

    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
