"""HubLayer: a reusable SavedModel, of TF Hub or of this package, as a Keras 3 layer."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_bert import undocumented
from keras_bert.saved_model import reusable
from keras_bert.saved_model.reusable import Nest, ReusableSavedModel
from keras_bert.tensors import Tensor


@dataclasses.dataclass
class _Description:
    """The part of a `.keras` file's configuration that rebuilds a layer before its SavedModel is loaded."""

    supports_jit: bool
    weights: list[dict[str, Any]]  # path inside the SavedModel, name, shape, dtype, trainable
    calls: list[dict[str, Any]]  # symbolic inputs and outputs


@keras.saving.register_keras_serializable(package="keras_bert")
class HubLayer(keras.layers.Layer):
    """A layer that calls and trains a reusable SavedModel with TF Hub's interface: hub.KerasLayer for Keras 3.

    Use it for models of TF Hub, and for exports of `export_encoder` and `export_preprocessor`. A model's `.keras` file
    holds the SavedModel. A SavedModel is a program, so the file needs
    `keras.models.load_model(path, safe_mode=False)`. Mixed precision does not change the SavedModel's dtypes. With a
    `tf.distribute` strategy, create an encoder in the strategy's scope, and use a preprocessor in `Dataset.map`,
    because Keras's `fit` fails on strings there.

    Args:
        handle: the directory of a SavedModel, or any handle of `tensorflow_hub.resolve` (with the extra `hub`).
        trainable: whether to train the SavedModel's trainable variables. It can be changed later, as for any layer. If
            False, dropout is off, and batch normalization is not updated, even in training.
        arguments: more keyword arguments for every call, such as `{"seq_length": 64}` for `bert_pack_inputs`.
        endpoint: a part of the SavedModel to call instead of the whole, such as `"mlm"` or `"tokenize"`.

    Call arguments:
        inputs: the SavedModel's inputs: for a preprocessor, string `[batch]`, a tensor or a list of str; for an
            encoder, a dict of int `[batch, seq_length]`: `input_word_ids`, `input_mask` and `input_type_ids`.
        training: passed on if the layer is trainable and the SavedModel accepts it.

    Returns:
        The SavedModel's outputs: a tensor, or a dict or list of tensors.

    Raises:
        FileNotFoundError: there is no such directory, or a file in it is missing.
        ImportError: the handle is a URL and tensorflow_hub is not installed.
        RuntimeError: Keras's backend is not TensorFlow.
        TypeError, ValueError: the SavedModel is damaged or not reusable, has no such endpoint or argument, or does not
            take these inputs.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertPreprocessor, HubLayer
        >>> from keras_bert.saved_model import export_preprocessor
        >>> directory = tempfile.mkdtemp()
        >>> export_preprocessor(BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=6), directory)
        >>> text = keras.Input(shape=(), dtype="string")
        >>> model = keras.Model(text, HubLayer(directory)(text))
        >>> model.output["input_word_ids"].shape
        (None, 6)
        >>> model(tf.constant(["hello world"]))["input_word_ids"].numpy()
        array([[ 101, 7592, 2088,  102,    0,    0]], dtype=int32)
    """

    def __init__(
        self,
        handle: str | Path,
        trainable: bool = False,
        arguments: Mapping[str, Any] | None = None,
        endpoint: str | None = None,
        **kwargs: Any,
    ):
        self._init_unloaded(handle, trainable, arguments, endpoint, **kwargs)
        self.build()

    def _init_unloaded(
        self,
        handle: str | Path,
        trainable: bool,
        arguments: Mapping[str, Any] | None,
        endpoint: str | None,
        **kwargs: Any,
    ) -> None:
        if keras.backend.backend() != "tensorflow":
            raise RuntimeError(
                f"HubLayer runs TensorFlow SavedModels, but Keras's backend is {keras.backend.backend()}; set "
                "KERAS_BACKEND=tensorflow before keras is imported"
            )
        super().__init__(trainable=trainable, autocast=False, **kwargs)
        self.handle = os.fspath(handle)
        self.arguments = dict(arguments or {})
        self.endpoint = endpoint
        self._saved_model: ReusableSavedModel | None = None
        self._description = _Description(supports_jit=False, weights=[], calls=[])

    def build(self, input_shape: Any = None) -> None:
        if self.built:
            return
        saved_model = ReusableSavedModel(reusable.resolve(self.handle), self.endpoint)
        for name in self.arguments:
            if name not in saved_model.parameters[1:]:
                names = ", ".join(saved_model.parameters[1:]) or "none"
                raise ValueError(f"{saved_model.title} has no argument {name!r}; besides the inputs it has {names}")
        weights = [
            {
                "path": path,
                "name": variable.name.split(":")[0].replace("/", "."),  # Keras takes no slashes
                "shape": variable.shape.as_list(),
                "dtype": variable.dtype.name,
                "trainable": path in saved_model.trained,
            }
            for path, variable in saved_model.variables.items()
        ]
        self._make_weights(_Description(saved_model.supports_jit, weights, []))
        for keras_variable, saved_variable in zip(self.weights, saved_model.variables.values(), strict=True):
            undocumented.wrap_variable(keras_variable, saved_variable)  # Keras's variable wraps the SavedModel's
        self._set_saved_model(saved_model)

    def _make_weights(self, description: _Description) -> None:
        self.supports_jit = description.supports_jit
        for weight in description.weights:
            arguments = {key: value for key, value in weight.items() if key != "path"}
            self.add_weight(initializer="zeros", autocast=False, **arguments)
        self._description = description

    def _set_saved_model(self, saved_model: ReusableSavedModel) -> None:
        self._saved_model = saved_model
        self._root = saved_model.root  # so that TensorFlow saves tables and vocabularies

    def _get_saved_model(self) -> ReusableSavedModel:
        if self._saved_model is None:
            raise RuntimeError(
                f"the HubLayer {self.name!r} has no SavedModel, because it was made from its configuration only; load "
                "the whole .keras file with keras.models.load_model(path, safe_mode=False)"
            )
        return self._saved_model

    def __call__(self, inputs: Nest, **kwargs: Any) -> Nest:
        if not self.built:
            self.build()
        # Not in `call`: Keras accepts only tensors as positional arguments, and `convert` also takes lists of str.
        is_symbolic = any(isinstance(each, keras.KerasTensor) for each in keras.tree.flatten(inputs))
        if self._saved_model is not None or not is_symbolic:
            inputs = self._get_saved_model().convert(inputs)
        return super().__call__(inputs, **kwargs)

    def call(self, inputs: Nest, training: bool | None = None) -> Nest:
        saved_model = self._get_saved_model()
        training = bool(training) and self.trainable
        arguments = self.arguments | ({"training": training} if "training" in saved_model.parameters else {})
        if training:
            for loss in saved_model.regularization_losses:
                self.add_loss(loss())
        function = saved_model.with_dense_gradients if training and saved_model.trained else saved_model
        return function(inputs, **arguments)

    def compute_output_spec(self, inputs: Nest, training: bool | None = None) -> Nest:
        input_json, calls = _to_json(inputs), self._description.calls
        for call in calls:
            if call["inputs"] == input_json:
                return _from_json(call["outputs"])
        # TensorFlow infers the output shapes from static input shapes.
        convert = self._get_saved_model().convert
        function = tf.function(lambda inputs: self.call(convert(inputs)), autograph=False)
        concrete = function.get_concrete_function(keras.tree.map_structure(_type_spec, inputs))
        outputs = _to_json(concrete.structured_outputs)
        calls.append({"inputs": input_json, "outputs": outputs})
        return _from_json(outputs)

    def get_config(self) -> dict[str, Any]:
        arguments = {"handle": self.handle, "arguments": dict(self.arguments), "endpoint": self.endpoint}
        return {**super().get_config(), **arguments}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> HubLayer:
        """Makes a layer without its SavedModel, which `build` loads from the handle, or `load_assets` from a file.

        Raises:
            ValueError: a model is loaded without `safe_mode=False`.
        """
        if undocumented.in_safe_mode():
            raise ValueError(
                "this model has a HubLayer with a SavedModel, a program that could do anything on this computer. If "
                "you trust the file, pass safe_mode=False to keras.models.load_model"
            )
        layer = cls.__new__(cls)
        layer._init_unloaded(**config)
        return layer

    def get_build_config(self) -> dict[str, Any] | None:
        return dataclasses.asdict(self._description) if self.built else None

    def build_from_config(self, config: dict[str, Any]) -> None:
        self._make_weights(_Description(**config))

    def save_assets(self, directory: str) -> None:
        self._get_saved_model().write(directory)

    def load_assets(self, directory: str | None) -> None:
        if self._saved_model is not None:
            return  # the code gave a handle; the file must not replace it
        if directory is None:
            raise ValueError(f"the file holds no SavedModel for the HubLayer {self.name!r}")
        kept_directory = tempfile.mkdtemp(prefix="keras_bert_")  # for the vocabularies: Keras deletes its own directory
        weakref.finalize(self, shutil.rmtree, kept_directory, ignore_errors=True)
        shutil.copytree(directory, kept_directory, dirs_exist_ok=True)
        # The SavedModel must use this layer's variables: the optimizer and the model hold them already.
        paths = [weight["path"] for weight in self._description.weights]
        variables = {path: weight.value for path, weight in zip(paths, self.weights, strict=True)}
        self._set_saved_model(ReusableSavedModel(kept_directory, self.endpoint, variables))


def _to_json(tensors: Nest) -> dict[str, Any]:
    """Describes the structure, shapes and dtypes of a nest of tensors in JSON's types."""
    flat = keras.tree.flatten(tensors)
    description = {
        "nest": keras.tree.pack_sequence_as(tensors, list(range(len(flat)))),
        "tensors": [_tensor_to_json(tensor) for tensor in flat],
    }
    return json.loads(json.dumps(description))  # tuples become lists, as in the file


def _tensor_to_json(tensor: Tensor) -> dict[str, Any]:
    if isinstance(tensor, tf.RaggedTensor):
        tensor = tf.type_spec_from_value(tensor)
    description = {"shape": list(tensor.shape), "dtype": keras.backend.standardize_dtype(tensor.dtype)}
    if reusable.is_ragged(tensor):
        splits = keras.backend.standardize_dtype(tensor.row_splits_dtype)
        description |= {"ragged": True, "ragged_rank": tensor.ragged_rank, "row_splits_dtype": splits}
    return description


def _from_json(description: dict[str, Any]) -> Nest:
    tensors = [keras.KerasTensor(**each) for each in description["tensors"]]
    return keras.tree.map_structure(lambda index: tensors[index], description["nest"])


def _type_spec(tensor: Tensor) -> tf.TypeSpec:
    if reusable.is_ragged(tensor):
        return tf.RaggedTensorSpec(tensor.shape, tensor.dtype, tensor.ragged_rank, tensor.row_splits_dtype)
    return tf.TensorSpec(tensor.shape, tensor.dtype)
