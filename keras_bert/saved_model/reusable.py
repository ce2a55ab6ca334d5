"""Finds and loads a reusable SavedModel (TF Hub's interface), and converts its inputs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import keras
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the operations of text preprocessors

from keras_bert import files, undocumented
from keras_bert.counted import listed
from keras_bert.extras import import_extra
from keras_bert.formats import recognition
from keras_bert.formats.tensorflow.saved_model import MODEL
from keras_bert.processors import check_graph
from keras_bert.tensors import Tensor

_GRAPHS = (MODEL, "saved_model.pbtxt")
_VARIABLES = "variables"
_HUB_MODULE = "tfhub_module.pb"  # marks the format of TensorFlow 1

Nest: TypeAlias = Any  # a tensor, ragged or not, or a dict, list or tuple of nests
Specs: TypeAlias = Any  # a nest of tf.TypeSpec


class ReusableSavedModel:
    """A SavedModel with TF Hub's interface, or a callable part of one (its docs, `reusable_saved_models`)."""

    def __init__(
        self,
        directory: str,
        endpoint: str | None = None,  # a callable part, such as "mlm"; None: the whole SavedModel
        variables: Mapping[str, tf.Variable] | None = None,  # that replace its own, by path inside the SavedModel
    ) -> None:
        self.title = directory if endpoint is None else f"the endpoint {endpoint!r} of {directory}"
        self.root = load(directory, variables or {})
        callable_part = _find_endpoint(self.root, directory, endpoint)
        self.variables = {}  # of the endpoint, by path inside the SavedModel, trainable ones first
        for kind in ("trainable_variables", "variables"):
            for i, variable in enumerate(getattr(callable_part, kind, ())):
                if all(variable is not other for other in self.variables.values()):
                    self.variables[".".join(["root", *([endpoint] if endpoint else []), kind, str(i)])] = variable
        self.trained = [path for path in self.variables if "trainable_variables" in path]
        self._tables: list[tf.Variable] | None = None  # the trained variables with sparse gradients
        self.regularization_losses = list(getattr(callable_part, "regularization_losses", ()))
        self._function = callable_part.__call__
        concrete = self._function.concrete_functions
        check_graph(concrete[0].graph.as_graph_def(), self.title)
        # The names of the endpoint's arguments; the inputs come first.
        self.parameters = list(concrete[0].function_type.parameters)
        structures = [each.structured_input_signature[0][0] for each in concrete]
        self.input_specs = list({_describe(specs): specs for specs in structures}.values())  # names may differ
        self.supports_jit = all(_compiles(each) for each in concrete)
        # Read now, without the variables, because the directory may be replaced or removed before `write`.
        self._files = _read_files(directory)

    def __call__(self, inputs: Nest, **arguments: Any) -> Nest:
        return self._function(inputs, **arguments)

    def with_dense_gradients(self, inputs: Nest, **arguments: Any) -> Nest:
        """Calls the endpoint so that embedding tables get dense gradients, not `tf.IndexedSlices`."""
        # `tf.IndexedSlices` hold a row for each occurrence of a token in the batch. Keras 3's optimizers treat these as
        # different rows: Adam adds the squares of their gradients instead of squaring the sum.
        if self._tables is None:
            self._tables = self._find_sparse(inputs, arguments)
        outputs = self._function(inputs, **arguments)
        if not self._tables:
            return outputs
        # TensorFlow sums the gradients of all uses of a variable, and IndexedSlices + tensor = tensor. `zero` uses
        # an empty slice of each table, and so adds a dense gradient of zeros. (TensorFlow would never free the graph of
        # a `custom_gradient`, nor the model.)
        zero = tf.add_n([tf.cast(tf.reduce_sum(tf.reshape(each, [-1])[:0]), tf.float32) for each in self._tables])
        add_zero = lambda output: output + tf.cast(zero, output.dtype) if output.dtype.is_floating else output  # noqa: E731
        return tf.nest.map_structure(add_zero, outputs, expand_composites=True)

    def _find_sparse(self, inputs: Nest, arguments: dict[str, Any]) -> list[tf.Variable]:
        """Finds the trainable variables whose gradients are `tf.IndexedSlices`."""
        variables = [self.variables[path] for path in self.trained]
        sparse = []

        def compute_gradients(inputs: Nest) -> None:
            with tf.GradientTape() as tape:
                outputs = self._function(inputs, **arguments)
            gradients = tape.gradient(outputs, variables)
            pairs = zip(variables, gradients, strict=True)
            sparse[:] = [variable for variable, gradient in pairs if isinstance(gradient, tf.IndexedSlices)]

        specs = tf.nest.map_structure(tf.type_spec_from_value, inputs)
        tf.function(compute_gradients, autograph=False).get_concrete_function(specs)
        return sparse

    def write(self, directory: str | Path) -> None:
        """Writes the SavedModel with the current values of its variables."""
        for name, content in self._files.items():
            path = Path(directory) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        tf.train.Checkpoint(root=self.root).write(str(Path(directory) / _VARIABLES / "variables"))

    def convert(self, inputs: object) -> Nest:
        """Converts a call's inputs to tensors for the endpoint; Keras's symbolic tensors stay as they are."""
        errors = []
        for specs in self.input_specs:
            try:
                return _convert(specs, inputs, "")
            except (TypeError, ValueError) as error:
                errors.append(error)
        expected = ", or ".join(map(_describe, self.input_specs))
        # If the endpoint takes several structures, the errors of each would not help.
        reason = errors[0] if len(errors) == 1 else f"got {_describe(inputs)}"
        raise type(errors[0])(f"{reason}; {self.title} takes {expected}")


def resolve(handle: str) -> str:
    """Finds the directory of a handle: the handle itself, or tensorflow_hub's cached download."""
    if tf.io.gfile.isdir(handle):
        return handle
    if "://" not in handle:
        state = "is a file" if tf.io.gfile.exists(handle) else "does not exist"
        raise FileNotFoundError(
            f"{handle} {state}; expected the directory of a SavedModel, or an address like https://"
        )
    return import_extra("tensorflow_hub", "tensorflow_hub", "hub").resolve(handle)


def load(directory: str, variables: Mapping[str, tf.Variable] | None = None) -> Any:
    """Loads a SavedModel; `variables` replace its own, by path inside it. Raises ValueError or FileNotFoundError."""
    names = sorted(name.rstrip("/") for name in tf.io.gfile.listdir(directory))
    contents = f"it holds {listed(names) or 'nothing'}"
    if _HUB_MODULE in names:
        raise ValueError(f"{directory} is a TF1 Hub module ({_HUB_MODULE}), not a reusable TF2 SavedModel")
    if not any(name in names for name in _GRAPHS):
        kind = f"; it is {recognition.recognize(Path(directory)).title}" if Path(directory).is_dir() else ""
        raise FileNotFoundError(f"{directory} is not a SavedModel: it has no {MODEL}; {contents}{kind}")
    if not tf.io.gfile.exists(f"{directory}/{_VARIABLES}/variables.index"):
        raise FileNotFoundError(f"{directory} is incomplete: it has no {_VARIABLES}/variables.index; {contents}")
    for path in Path(directory).rglob("*"):  # of one elsewhere, such as gs://, there is none
        if path.exists():  # all but the variables are read whole
            files.check_regular(path, None if path.parent.name == _VARIABLES else files.MOST_GRAPH_BYTES)
    try:
        with tf.name_scope(""):  # variables keep their names, even while a layer is built
            if not variables:
                return tf.saved_model.load(directory)
            return undocumented.load_with_variables(directory, variables)
    except Exception as error:
        # TensorFlow raises any kind of exception here, even KeyError and AssertionError.
        files.raise_if_not_of_content(directory, error)
        if "Op type not registered" in str(error):
            raise ValueError(
                f"{directory} needs an operation that is not loaded; import the package that has it, such as "
                f"tensorflow_text: {error}"
            ) from error
        raise ValueError(f"{directory} cannot be loaded, and may be damaged: {error}") from error


def _find_endpoint(root: Any, directory: str, name: str | None) -> Any:
    """Finds the object to call: the SavedModel's root, or its part of this name."""
    endpoints = {
        key: value
        for key, value in vars(root).items()
        if key.isidentifier() and key != "keras_api" and not key.startswith("_") and _is_reusable(value)
    }
    if name in endpoints:
        return endpoints[name]
    if name is None and _is_reusable(root):
        return root
    available = f"its endpoints are {', '.join(sorted(endpoints))}" if endpoints else "it has no other endpoint"
    if name is not None:
        raise ValueError(f"{directory} has no endpoint {name!r}; {available if endpoints else 'it has none'}")
    signatures = ", ".join(getattr(root, "signatures", ())) or "none"
    raise ValueError(
        f"{directory} is a SavedModel, but not a reusable one: it cannot be called as a whole, and {available}. Use "
        f"keras.layers.TFSMLayer, which can call its signatures: {signatures}"
    )


def _is_reusable(value: object) -> bool:
    """Checks whether an object has a restored `__call__`; plain functions and lists of layers have none."""
    return bool(getattr(getattr(value, "__call__", None), "concrete_functions", ()))  # noqa: B004


def _compiles(function: Any) -> bool:
    """Guesses whether XLA can compile a function: it must have no strings, ragged tensors or TF Text operations."""
    specs = keras.tree.flatten((function.structured_input_signature, function.structured_outputs))
    if any(isinstance(spec, tf.TypeSpec) and not isinstance(spec, tf.TensorSpec) for spec in specs):
        return False
    graph = function.graph.as_graph_def()
    nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
    strings = tf.string.as_datatype_enum
    return all(
        hasattr(tf.raw_ops, node.op) and all(attribute.type != strings for attribute in node.attr.values())
        for node in nodes
        if node.op not in ("Placeholder", "Const") and node.op not in graph.library.function
    )


def _read_files(directory: str) -> dict[str, bytes]:
    """Reads all files, by name, except the variables and the fingerprint, which depends on the variables."""
    contents = {}
    for folder, _, names in tf.io.gfile.walk(directory):
        relative = folder[len(directory) :].strip("/")
        if relative.split("/")[0] == _VARIABLES:
            continue
        for name in names:
            if name != "fingerprint.pb":
                with tf.io.gfile.GFile(f"{folder}/{name}", "rb") as file:
                    contents[f"{relative}/{name}".lstrip("/")] = file.read()
    return contents


def _describe(value: Nest) -> str:
    """Describes tensors or their specs for a message: `{ids: int32 [?, ?]}`."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_describe(part)}" for key, part in sorted(value.items())) + "}"
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        if isinstance(value, list | tuple) and all(hasattr(part, "shape") for part in value):
            return "[" + ", ".join(map(_describe, value)) + "]"
        return f"a {type(value).__name__}"
    shape = tf.TensorShape(value.shape)
    dims = "of any shape" if shape.rank is None else "[" + ", ".join(str(size or "?") for size in shape) + "]"
    ragged = "ragged " if is_ragged(value) else ""
    return f"{ragged}{keras.backend.standardize_dtype(value.dtype)} {dims}"


def _convert(specs: Specs, value: object, name: str) -> Nest:
    if isinstance(specs, Mapping):
        if not isinstance(value, Mapping):
            raise TypeError(f"{name or 'the input'} is {_describe(value)}, not a dict")
        for key in sorted(specs.keys() ^ value.keys()):
            raise ValueError(f"{key!r} is {'missing' if key in specs else 'not an input'}")
        return {key: _convert(spec, value[key], key) for key, spec in specs.items()}
    if isinstance(specs, list | tuple):
        if not isinstance(value, list | tuple) or len(value) != len(specs):
            raise TypeError(f"{name or 'the input'} is {_describe(value)}, not a list of {len(specs)}")
        parts = [_convert(spec, part, f"{name}[{i}]") for i, (spec, part) in enumerate(zip(specs, value, strict=True))]
        return type(specs)(parts)
    return _convert_tensor(specs, value, name or "the input")


def _convert_tensor(spec: tf.TypeSpec, argument: object, name: str) -> Tensor:
    ragged = is_ragged(spec)
    value: Tensor = argument
    if isinstance(argument, list | tuple) and not argument and not ragged:
        value = tf.zeros([0, *spec.shape[1:]], spec.dtype)
    if not tf.is_tensor(value) and not isinstance(value, keras.KerasTensor):
        try:
            value = tf.ragged.constant(value, ragged_rank=spec.ragged_rank) if ragged else tf.convert_to_tensor(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name} cannot be read as {_describe(spec)}: {error}") from error
    dtype = tf.as_dtype(value.dtype)
    from_integer = (dtype.is_integer or dtype.is_bool) and spec.dtype.is_integer
    if not (dtype == spec.dtype or from_integer or (dtype.is_floating and spec.dtype.is_floating)):
        raise TypeError(f"{name} is {_describe(value)}, not {spec.dtype.name}")
    if not spec.shape.is_compatible_with(value.shape) or ragged != is_ragged(value):
        raise ValueError(f"{name} is {_describe(value)}, not {_describe(spec)}")
    if isinstance(value, keras.KerasTensor):
        return value
    if ragged:
        value = value.with_row_splits_dtype(spec.row_splits_dtype)
    return tf.cast(value, spec.dtype)


def is_ragged(value: object) -> bool:
    """Checks whether a tensor, a spec or a KerasTensor is ragged."""
    return isinstance(value, tf.RaggedTensor | tf.RaggedTensorSpec) or bool(getattr(value, "ragged", False))
