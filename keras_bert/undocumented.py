"""All private, undocumented or experimental calls of Keras, TensorFlow and TensorFlow Text, with a function for each.

Such a call may change with any release, so no other module makes one. Each function names the public way, and says why
it does not suffice. `tests/test_undocumented.py` tests most by themselves. `setup.cfg` bounds Keras's version for as
long as this module calls Keras.

Messages of `tensorflow.core` (`*_pb2`) do not belong here: they are formats of files, which TensorFlow keeps readable.
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

_F = TypeVar("_F", bound=Callable)
_Attribute: TypeAlias = "bool | int | float | str | tf.DType | Sequence[str] | Sequence[tf.DType]"  # of an operation

# -- Keras: layers and variables


def flatten_layers(layer: keras.Layer) -> list[keras.Layer]:
    """Lists a layer and all layers inside it."""
    # Public way: `keras.Model.layers`, which lists only the layers directly inside a model. Layers lack this attribute.
    return list(layer._flatten_layers())


def sublayers(layer: keras.Layer) -> list[keras.Layer]:
    """Lists the layers directly inside a layer. Public way: as for `flatten_layers`."""
    return list(layer._flatten_layers(include_self=False, recursive=False))


def set_initializer(variable: keras.Variable, initializer: Callable[[tuple[int, ...], str], Tensor]) -> None:
    """Sets the initializer of a variable that was made in a `keras.StatelessScope`, before the scope ends."""
    # Public way: `assign` after the scope. Every weight is then randomly initialized first, which takes longer than
    # loading.
    variable._initializer = initializer


def wrap_variable(variable: keras.Variable, value: tf.Variable) -> None:
    """Makes a Keras variable hold an existing `tf.Variable`, so that a Keras optimizer trains it."""
    # Public way: `keras.Variable(value)`, which copies the value into a new variable.
    variable._initialize(value)


def in_safe_mode() -> bool | None:
    """Checks whether Keras is reading a file with `safe_mode=True`; None: it is not reading a file."""
    # Public way: none; `from_config` does not get `safe_mode`.
    from keras.src.saving import serialization_lib

    return serialization_lib.in_safe_mode()


def get_mask(tensor: Any) -> Any:
    """Reads the mask that Keras carries with a tensor, or None."""
    # Public way: a layer's argument `mask`; a loss has none.
    from keras.src import backend

    return backend.get_keras_mask(tensor)


def set_mask(tensor: Any, mask: Any) -> None:
    """Sets the mask that Keras carries with a tensor; the mean of a loss is over the values that their mask keeps."""
    # Public way: `sample_weight`, which a loss receives but cannot make.
    from keras.src import backend

    backend.set_keras_mask(tensor, mask)


# -- Keras: LoRA of dense layers, and seeds


def has_lora(layer: keras.Layer) -> bool:
    """Checks whether LoRA is enabled in a layer."""
    # Public way: none; only `enable_lora` is documented.
    return getattr(layer, "lora_enabled", False)


def lora_weight(layer: keras.Layer) -> str:
    """Names the weight that LoRA changes: "kernel", or of an embedding "embeddings". Public way: none, as above."""
    return "embeddings" if isinstance(layer, keras.layers.Embedding) else "kernel"


def lora_change(layer: Any) -> Tensor:
    """Computes LoRA's change to the weight, `alpha / rank * A B`, float32 of its shape."""
    # Public way: `kernel`, which is the sum of the frozen kernel and the change, in a type that may be lower.
    first, second = (getattr(layer, f"lora_{lora_weight(layer)}_{part}") for part in "ab")
    return layer.lora_alpha / layer.lora_rank * keras.ops.matmul(first, second)


def merge_lora(dense: keras.layers.Dense) -> None:
    """Adds LoRA's change to the kernel, and removes LoRA from the layer; the kernel stays frozen."""
    # Public way: a new layer whose kernel is the sum, in a new model.
    change = lora_change(dense)
    dense.lora_kernel_b.assign(keras.ops.zeros_like(dense.lora_kernel_b))  # graphs traced before still add it
    dense.lora_enabled = False
    dense.lora_rank = dense.lora_alpha = None
    del dense.lora_kernel_a, dense.lora_kernel_b
    dense.kernel.assign_add(change)


def seed_states(model: keras.Model) -> list[keras.Variable]:
    """Lists the states of a model's `keras.random.SeedGenerator`s, such as the generators of its dropout layers."""
    # Public way: `non_trainable_variables`, which holds other variables, too.
    return [variable for variable in model.variables if variable.name == "seed_generator_state"]


def seed_after(state: tf.Tensor, draws: int | tf.Tensor) -> tf.Tensor:
    """Computes the state of a `SeedGenerator`, `(seed, draws so far)`, after further draws."""
    # Public way: `SeedGenerator.next`, once for each draw.
    import tensorflow as tf

    return state + tf.stack([tf.zeros([], state.dtype), tf.cast(draws, state.dtype)])


# -- Keras: models and losses


def set_xla(model: keras.Model, value: bool | str) -> None:
    """Sets `jit_compile` of a model, whatever layers the model has."""
    # Public way: the attribute. It refuses XLA if XLA cannot compile one of the layers, even a layer never called.
    model._jit_compile = value


def loss_tracker(model: keras.Model) -> keras.metrics.Metric:
    """Finds the metric in which Keras records the loss of each step of a compiled model."""
    # Public way: `model.metrics[0]`, whose place is not documented either.
    return model._loss_tracker


def replace_loss_tracker(model: keras.Model, metric: keras.metrics.Metric) -> None:
    """Replaces the metric in which Keras records the loss of each step of a compiled model."""
    # Public way: a metric of the model in addition to Keras's metric. The loss would be shown twice.
    vars(model)["_loss_tracker"] = metric  # setting an attribute would add a second metric to the model


def loss_from_function(function: Callable[[Tensor, Tensor], Tensor], name: str) -> keras.losses.Loss:
    """Wraps a function of `(y_true, y_pred)` as `compile` does: equalizes the ranks, and takes the mean over rows."""
    # Public way: `keras.losses.get`, which returns a function unwrapped.
    from keras.src.losses.losses import LossFunctionWrapper

    return LossFunctionWrapper(function, name=name)


def epoch_datasets(model: keras.Model, make_dataset: Callable[[], tf.data.Dataset]) -> Any:
    """Makes the `x` of `fit` from a dataset for each epoch: `fit` calls `make_dataset` at each beginning."""
    # `fit` then counts no batches: `stop_training` ends an epoch.
    # Public way: a single `tf.data.Dataset`, which must have the same number of batches in each epoch.
    import tensorflow as tf
    from keras.src.trainers.data_adapters.data_adapter import DataAdapter

    class EpochDatasets(DataAdapter, tf.distribute.DistributedDataset):
        num_batches = batch_size = property(lambda self: None)  # MLflow asks for the latter

        def get_tf_dataset(self) -> tf.distribute.DistributedDataset:
            return self

        def __iter__(self) -> Iterator[Any]:
            return iter(model.distribute_strategy.experimental_distribute_dataset(make_dataset()))

    return EpochDatasets()


class BuiltFromOneReplica:
    """A mixin for models: under `tf.distribute`, `fit` builds the model from the first replica's batch."""

    # Keras would average the replicas' batches, though it needs only their shapes. Strings have no mean, and the
    # batches of several workers differ in shape.
    # Public way: `model.build` and `optimizer.build` before `fit`. Keras averages the batches nevertheless.

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
        data_batch = getattr(data_batch, "batch", data_batch)  # of a `AccumulatedBatch`
        first = keras.tree.map_structure(lambda each: local_results(self._distribute_strategy, each)[0], data_batch)
        with self._distribute_strategy.scope():
            self._symbolic_build(data_batch=first)


def build_any_model_from_one_replica() -> None:
    """Makes `fit` build the models of all classes as `BuiltFromOneReplica` does, in the rest of this process."""
    # Public way: the mixin. A functional `keras.Model` has no class of the user's to add it to.
    from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

    model_base: Any = TensorFlowTrainer
    model_base._maybe_symbolic_build = BuiltFromOneReplica._maybe_symbolic_build


# -- Keras: optimizers


class ReplicaOptimizer(keras.optimizers.Optimizer):
    """An optimizer whose subclass sums the replicas' gradients."""

    # With one replica, there is nothing to sum. Keras would call TensorFlow's `all_reduce`, which keeps the graph of
    # the training step, the model and its moments in memory until the process ends.
    # Public way: overriding `apply`, which also increments the private count of batches, applies constraints and
    # unscales the loss.

    def _apply_on_replicas(self, gradients: list[Tensor], variables: list[tf.Variable]) -> bool:
        """Updates variables with the sum of the replicas' gradients. On one replica, does nothing and returns False."""
        raise NotImplementedError

    def _backend_apply_gradients(self, grads: list[Tensor], trainable_variables: list[tf.Variable]) -> None:
        if not self._apply_on_replicas(grads, trainable_variables):
            super()._backend_apply_gradients(grads, trainable_variables)

    def _clip_gradients(self, grads: list[Tensor]) -> list[Tensor]:
        if not self.global_clipnorm or keras.backend.backend() != "tensorflow":
            return super()._clip_gradients(grads)
        import tensorflow as tf

        # Keras writes the squares of all gradients to memory before it sums them, which takes 2 to 6% of a small
        # batch's time. It also counts repeated lookups of one row of a table as separate rows, so its norm is wrong.
        norm = tf.sqrt(2 * tf.add_n([tf.nn.l2_loss(tf.cast(each, tf.float32)) for each in grads]))
        scale = self.global_clipnorm / tf.maximum(norm, self.global_clipnorm)
        scale += norm - norm  # makes the scale NaN if a gradient is NaN
        return [each * tf.cast(scale, each.dtype) for each in grads]

    def _all_reduce_sum_gradients(
        self, grads_and_vars: Iterable[tuple[Tensor, tf.Variable]]
    ) -> list[tuple[Tensor, tf.Variable]]:
        return list(grads_and_vars)


def variable_index(optimizer: keras.optimizers.Optimizer, variable: keras.Variable | tf.Variable) -> int:
    """Finds the index of a variable among the variables that an optimizer was built with."""
    # Public way: a dict by `id`. On replicas, however, `update_step` receives one replica's TensorFlow variables.
    return optimizer._get_variable_index(variable)


def clip_gradients(optimizer: keras.optimizers.Optimizer, gradients: list[Tensor]) -> list[Tensor]:
    """Clips gradients by the optimizer's `clipnorm`, `global_clipnorm` or `clipvalue`."""
    # Public way: none; Keras clips each replica's gradients before it sums them.
    return optimizer._clip_gradients(gradients)


def batches_seen(optimizer: keras.optimizers.Optimizer) -> keras.Variable:
    """Returns the variable that counts the batches that an optimizer has seen."""
    # Public way: `iterations`, which counts updates; with `gradient_accumulation_steps`, an update has several batches.
    return optimizer._iterations


def accumulated_gradient(
    optimizer: keras.optimizers.Optimizer, variable: keras.Variable | tf.Variable
) -> keras.Variable:
    """Returns the variable that sums gradients since the last update, with `gradient_accumulation_steps`."""
    # Public way: a variable in `optimizer.variables`, whose order and names are not documented.
    return optimizer._accumulated_gradients[variable_index(optimizer, variable)]


# -- TensorFlow: graphs and SavedModels


def is_in_xla() -> bool:
    """Checks whether code is being traced for XLA."""
    # Public way: none; `jit_compile` is an argument of the function that is traced.
    import tensorflow as tf

    return tf.__internal__.get_enclosing_xla_context() is not None


def add_private_operation(
    name: str, inputs: Sequence[tf.Tensor], output_dtypes: Sequence[tf.DType], **attributes: _Attribute
) -> list[tf.Tensor]:
    """Adds an operation that `tf.raw_ops` lacks, such as a fused one of oneDNN, to the graph that is being traced."""
    # Public way: none; `tf.raw_ops` has no operation whose name begins with an underscore.
    import tensorflow as tf

    attrs = {key: _attribute(value) for key, value in attributes.items()}
    graph = tf.compat.v1.get_default_graph()
    return graph.create_op(name, list(inputs), list(output_dtypes), attrs=attrs, name=name.strip("_")).outputs


def _attribute(value: Any) -> tf.compat.v1.AttrValue:
    import tensorflow as tf

    make_value = tf.compat.v1.AttrValue
    if isinstance(value, bool):
        return make_value(b=value)
    if isinstance(value, list):
        types = [each.as_datatype_enum for each in value if isinstance(each, tf.DType)]
        return make_value(
            list=make_value.ListValue(type=types, s=[each.encode() for each in value if isinstance(each, str)])
        )
    if isinstance(value, tf.DType):
        return make_value(type=value.as_datatype_enum)
    if isinstance(value, str):
        return make_value(s=value.encode())
    return make_value(i=value) if isinstance(value, int) else make_value(f=value)


def load_with_variables(directory: str, variables: Mapping[str, tf.Variable]) -> Any:
    """Loads a SavedModel with existing variables, by paths in it such as `root.variables.0`, in place of its own."""
    # Public way: `tf.saved_model.load`, which makes new variables that the model and its optimizer do not hold.
    import tensorflow as tf

    return tf.__internal__.saved_model.load_partial(directory, {"root": None, **variables})["root"]


def captured(function: Any, model: keras.Model) -> list[Any]:
    """Finds what a traced function takes from a model by itself: other variables, tables, and files."""
    # An object that is saved with the function must have them as attributes. A `HubLayer` and a `StringLookup` hold
    # such. Public way: an attribute that is the model itself, whose weights, optimizer and seeds would be saved, too.
    import tensorflow as tf

    handles = {id(each) for each in function.captured_inputs}
    parts = tf.train.TrackableView(model).descendants()
    variables = [each for each in parts if isinstance(each, tf.Variable) and id(each.handle) in handles]
    kind = tf.saved_model.experimental.TrackableResource
    tables = [each for each in parts if isinstance(each, kind) and id(each.resource_handle) in handles]
    return [*variables, *tables, *(each for each in parts if tables and isinstance(each, tf.saved_model.Asset))]


def share_memory(values: np.ndarray) -> tf.Tensor:
    """Makes a tensor that shares the memory of an array."""
    # Public way: `tf.constant`, which copies; this takes as long as reading the file.
    import tensorflow as tf

    return tf.experimental.dlpack.from_dlpack(values.__dlpack__())


def litert_schema() -> ModuleType:
    """Imports the module with the classes of LiteRT's file format."""
    # Public way: `ai-edge-litert`, which is optional, and also has these classes in a private module.
    from tensorflow.lite.python import schema_py_generated

    return schema_py_generated


def litert_files() -> ModuleType:
    """Imports the module with `read_model` and `convert_object_to_bytearray`, for LiteRT's files."""
    # Public way: see `litert_schema`.
    from tensorflow.lite.tools import flatbuffer_utils

    return flatbuffer_utils


def sentencepiece_operations() -> ModuleType:
    """Imports the module with SentencePiece's operations: `sentencepiece_tokenize_with_offsets_op`, ..."""
    # Public way: `tf_text.SentencepieceTokenizer`, which holds a resource that functions capture and SavedModels track.
    from tensorflow_text.python.ops import sentencepiece_tokenizer

    return sentencepiece_tokenizer.gen_sentencepiece_tokenizer


# -- TensorFlow: experimental calls that have no other name


def without_autograph(function: _F) -> _F:
    """Marks a function that `tf.data` traces without autograph."""
    # Public way: `tf.function(autograph=False)`, which adds a function call to the graph of each element.
    import tensorflow as tf

    return tf.autograph.experimental.do_not_convert(function)


def with_cardinality(dataset: tf.data.Dataset, batches: int) -> tf.data.Dataset:
    """Sets a dataset's number of batches, so that Keras knows the number before the first epoch."""
    # Public way: none for generators and files of records; `take` leaves the cardinality unknown.
    import tensorflow as tf

    return dataset.apply(tf.data.experimental.assert_cardinality(batches))


def shuffle_by_seed(values: tf.Tensor, seed: tf.Tensor | Sequence[int]) -> tf.Tensor:
    """Shuffles the rows of a tensor by a seed, int `[2]`: equal seeds give equal orders."""
    # Public way: `tf.random.shuffle`, whose order also depends on earlier operations.
    import tensorflow as tf

    return tf.random.experimental.stateless_shuffle(values, seed)


def split_rows_between_workers(options: tf.data.Options) -> None:
    """Makes each worker read all batches of a dataset, and take its share of each batch's rows."""
    # Public way: `strategy.distribute_datasets_from_function`, which `fit` does not take.
    import tensorflow as tf

    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA


def local_results(strategy: tf.distribute.Strategy, value: Tensor) -> tuple[Tensor, ...]:
    """Lists the values of this process's replicas."""
    # Public way: `strategy.gather`, which waits for the other processes, and does not take strings.
    return strategy.experimental_local_results(value)


def connect_to_tpu(resolver: tf.distribute.cluster_resolver.TPUClusterResolver) -> None:
    """Connects to a TPU and initializes it."""
    # Public way: none; TensorFlow's guide to TPUs makes the same calls.
    import tensorflow as tf

    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
