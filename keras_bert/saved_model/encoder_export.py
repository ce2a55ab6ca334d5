"""Exports a BertEncoder as a SavedModel with TF Hub's API for Transformer encoders."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_bert import undocumented
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.encoder import NAMES
from keras_bert.encoder.weights import variables_by_name
from keras_bert.formats import write_config
from keras_bert.formats.saved_model import CONFIG
from keras_bert.saved_model import saving
from keras_bert.saved_model.saving import callable_object, new_directory
from keras_bert.tasks.masked_lm import POSITIONS, BertMaskedLM

DTYPES = ("float32", "float16", "bfloat16")


class StoredWeights:
    """Copies of a Keras model's weights, which replace the originals while a function is traced.

    The SavedModel has no Keras objects, and no variables for random seeds, because a variable that every call changes
    can neither be mirrored on devices nor serve several clients at a time. An operation gives dropout its seeds.

    Args:
        model: a Keras model or layer that has been built.
        dtype: the dtype to store float weights in, "float16" or "bfloat16"; calls cast them back to their own dtype.
        root: a part of the model. The names of its variables leave out the part's name, which Keras may have numbered.

    Attributes:
        variables: list of tf.Variable, in the model's order, named by their path inside the model.

    Raises:
        ValueError: the dtype is unknown, or cannot hold a weight.
    """

    def __init__(self, model: keras.Layer, dtype: str | None = None, root: keras.Layer | None = None) -> None:
        if dtype not in (None, *DTYPES):
            raise ValueError(f"dtype is {dtype!r}; weights can be stored as {', '.join(DTYPES)}")
        names = {
            id(weight): name for part in (model, root or model) for name, weight in variables_by_name(part).items()
        }
        self._copies = {id(weight): _copy(names[id(weight)], weight, dtype) for weight in model.weights}
        self._weights = model.weights
        # `variables` are weights, and the states of seeds and metrics.
        self._seeds = undocumented.seed_states(model)
        self.variables = self.of(model)

    def of(self, part: keras.Layer) -> list[tf.Variable]:
        """The copies of the weights of a part of the model."""
        return [self._copies[id(weight)] for weight in part.weights]

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside this block, the model computes with the copies."""
        # Not tf.random.uniform: it would put this program's global seed into the graph, and two calls in one step, or
        # two replicas, would drop the same elements.
        limits = {"minval": 0, "maxval": 2**31 - 1, "seed": 0, "seed2": 0}
        seeds = [tf.cast(tf.raw_ops.RandomUniformInt(shape=seed.shape, **limits), seed.dtype) for seed in self._seeds]
        mapping = [*zip(self._weights, self.variables, strict=True), *zip(self._seeds, seeds, strict=True)]
        with keras.StatelessScope(state_mapping=mapping):
            yield


def _copy(name: str, weight: keras.Variable, dtype: str | None) -> tf.Variable:
    value = tf.convert_to_tensor(weight.value)
    if dtype is not None and value.dtype.is_floating:
        stored = tf.cast(value, dtype)
        lost = tf.math.is_finite(value) & ~tf.math.is_finite(stored)
        if tf.reduce_any(lost):
            example = tf.boolean_mask(value, lost)[0]
            raise ValueError(f"{name} holds {example:.3g}, more than {dtype} can hold; store it as bfloat16")
        value = stored
    # Frozen weights are trainable, too: the user of the SavedModel decides what to freeze.
    return tf.Variable(value, name=name, trainable=value.dtype.is_floating)


def export_encoder(
    model: BertEncoder | BertMaskedLM, directory: str | Path, dtype: str | None = None, overwrite: bool = False
) -> None:
    """Writes a SavedModel to call and fine-tune with `hub.KerasLayer`, `HubLayer` or `tf.saved_model.load`.

    It follows TF Hub's reusable SavedModel interface and its common API for text encoders. The loaded `model` has:
        `model(inputs, training=False)`: a preprocessor's dict of three int32 `[batch, seq_length]` -> `pooled_output`,
            `sequence_output`, `encoder_outputs` and `default` of `BertEncoder`, in float32, with dropout in training;
        `model.variables`, `model.trainable_variables`: all weights; `model.regularization_losses`: empty;
        `model.mlm(inputs, training=False)`, for a `BertMaskedLM`: with the additional input `masked_lm_positions`,
            int32 `[batch, predictions]`, and output `mlm_logits`, `[batch, predictions, vocab_size]`. The head's
            weights are in `model.mlm.variables`, not in `model.variables`.
    `BertEncoder.from_preset(directory)` reads it too.

    An encoder in bfloat16 or int8 (`set_precision`) keeps its precision, without the float weights of its layers. It is
    for inference only: a call with `training=True` raises an error, `trainable_variables` is empty, and `from_preset`
    does not read it. The `README.md` in its directory says which processor it needs.

    Args:
        model: an encoder, or an encoder with a masked language modeling head.
        directory: a new directory.
        dtype: "float16" or "bfloat16" halves the size of the stored weights. Every call casts them back to float32,
            which takes time, and fine-tuning loses small updates.
        overwrite: whether to replace an existing SavedModel.

    Raises:
        FileExistsError: `directory` exists, and `overwrite` is False or it is not a SavedModel.
        TypeError: `model` is something else.
        ValueError: `dtype` is unknown, or cannot hold a weight.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertEncoder
        >>> directory = tempfile.mkdtemp()
        >>> export_encoder(BertEncoder.from_preset("all-MiniLM-L6-v2"), directory)
        >>> encoder = tf.saved_model.load(directory)
        >>> inputs = {"input_word_ids": [[101, 102]], "input_mask": [[1, 1]], "input_type_ids": [[0, 0]]}
        >>> encoder({name: tf.constant(value) for name, value in inputs.items()})["pooled_output"].shape
        TensorShape([1, 384])
    """
    has_masked_lm = list(getattr(model, "heads", {})) == [BertMaskedLM.HEAD]
    if not has_masked_lm and not isinstance(model, BertEncoder):
        raise TypeError(f"got a {type(model).__name__}; export_encoder takes a BertEncoder or a BertMaskedLM")
    encoder = model.encoder if has_masked_lm else model
    trains = encoder.precision == "float32"
    with new_directory(directory, overwrite) as unfinished:
        weights = StoredWeights(model, dtype, root=encoder)
        positions = encoder.config.max_positions

        def encode(inputs: dict[str, tf.Tensor], training: bool) -> dict[str, Any]:
            tokens = tf.shape(inputs[NAMES[0]])[1]
            message = f"the model has {positions} positions, but the sequence tokens:"
            checks = [tf.debugging.Assert(tokens <= positions, [message, tokens])]
            # A lookup past the end of a table reads zeros on GPUs; on CPUs, its error could come first.
            inputs = {name: values[:, :positions] for name, values in inputs.items()}
            if training and not trains:
                message = f"this SavedModel computes in {encoder.precision} and cannot be trained; export it in float32"
                checks.append(tf.debugging.Assert(False, [message]))
            with weights.in_place(), tf.control_dependencies(checks):
                return encoder(inputs, training=training and trains)

        def predict(inputs: dict[str, tf.Tensor], training: bool) -> dict[str, Any]:
            inputs = dict(inputs)
            masked = inputs.pop(POSITIONS)
            outputs = root.__call__(inputs, training)  # the encoder itself would be traced again
            with weights.in_place():
                return {**outputs, "mlm_logits": model.logits(outputs["sequence_output"], masked)}

        root = _part(encode, NAMES, weights.of(encoder), trains)
        if has_masked_lm:
            root.mlm = _part(predict, (*NAMES, POSITIONS), weights.variables, trains)

        @tf.function(input_signature=[_specs(NAMES)], autograph=False)
        def serving_default(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            outputs = root.__call__(inputs, False)  # not `root(...)`: the class has no __call__
            return {name: outputs[name] for name in ("pooled_output", "sequence_output")}

        tf.saved_model.save(root, str(unfinished), signatures=serving_default.get_concrete_function())
        if trains:
            write_config(unfinished / CONFIG, encoder.config)  # for BertEncoder.from_preset
        else:
            saving.write(unfinished, encoder.precision)


def _specs(names: tuple[str, ...]) -> dict[str, tf.TensorSpec]:
    return {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}


def _part(
    compute: Callable[..., Any], names: tuple[str, ...], variables: list[tf.Variable], trains: bool
) -> tf.train.Checkpoint:
    """An object of TF Hub's interface that calls `compute(inputs, training)`."""

    @tf.function(autograph=False)
    def call(inputs: dict[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        # TF Hub's interface has float32, even for a model in another dtype.
        return tf.nest.map_structure(lambda output: tf.cast(output, tf.float32), compute(inputs, training))

    traced = [call.get_concrete_function(_specs(names), training) for training in (False, True)]
    if not trains:  # most weights are constants
        read = {id(variable) for variable in traced[0].variables}
        variables = [variable for variable in variables if id(variable) in read]
    trainable = [variable for variable in variables if variable.trainable and trains]
    return callable_object(call, variables=variables, trainable_variables=trainable, regularization_losses=[])
