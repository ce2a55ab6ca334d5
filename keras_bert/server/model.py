"""One version of a model: a SavedModel in a session, its signatures, and its warm-up requests."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import os
import queue
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the operations of tokenizers
from google.protobuf.message import DecodeError
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow.core.framework.types_pb2 import DataType
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef, TensorInfo
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from keras_bert.processors import check_graph
from keras_bert.server.errors import (
    MAX_BYTES,
    MAX_ROWS,
    ServingError,
    failed_precondition,
    invalid_argument,
    without_directories,
)

_log = logging.getLogger(__name__)

# The kinds of signatures that Predict can call.
_METHODS = frozenset(f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress"))
DEFAULT = "serving_default"
TOKEN_COUNT = "with_token_count"  # of export_serving, for vector clients
_LONG_TEXT = b"a " * 2**16  # longer than any model reads

Arrays = dict[str, np.ndarray]  # strings are arrays of bytes objects


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of a signature."""

    tensor: str  # its name in the graph
    dtype: tf.DType
    shape: tf.TensorShape  # its rank and sizes may be unknown


@dataclass(frozen=True, eq=False)
class Signature:
    """A signature of a SavedModel."""

    name: str  # in requests
    inputs: dict[str, TensorSpec]  # in alphabetical order; the outputs, too
    outputs: dict[str, TensorSpec]
    defaults: Arrays = field(default_factory=dict)  # values of inputs that a request may leave out

    @functools.cached_property
    def batchable(self) -> bool:
        """Whether rows of different requests can share a run."""
        shapes = [spec.shape for spec in (*self.inputs.values(), *self.outputs.values())]
        return all(shape.rank and shape[0] is None for shape in shapes) and all(
            # An output as long as the batch's longest text would depend on the texts of other clients.
            spec.shape[1:].is_fully_defined()
            for spec in self.outputs.values()
        )

    def input(self, name: str) -> TensorSpec:
        """Finds an input by its name. Raises ServingError if there is none."""
        if name not in self.inputs:
            raise invalid_argument(f"the signature {self.name} has no input {name}; it has {', '.join(self.inputs)}")
        return self.inputs[name]

    def complete(self, inputs: Arrays) -> Arrays:
        """Adds defaults for missing inputs. Raises ServingError for a missing input or a wrong shape."""
        inputs = self.defaults | inputs
        if missing := [name for name in self.inputs if name not in inputs]:
            raise invalid_argument(f"the signature {self.name} also needs the input {', '.join(missing)}")
        for name, spec in self.inputs.items():
            shape = inputs[name].shape
            if not spec.shape.is_compatible_with(shape):
                raise invalid_argument(f"the input {name} has the shape {shape}; the signature needs {spec.shape}")
            if self.batchable:
                check_rows(shape[0])
        return {name: inputs[name] for name in self.inputs}

    def chosen_outputs(self, names: list[str]) -> list[str]:
        """Checks the requested outputs, by default all. Raises ServingError for an unknown or repeated name."""
        for position, name in enumerate(names):
            if name not in self.outputs:
                outputs = ", ".join(self.outputs)
                raise invalid_argument(f"the signature {self.name} has no output {name}; it has {outputs}")
            if name in names[:position]:
                raise invalid_argument(f"output_filter has {name} twice")
        return names or list(self.outputs)


def check_rows(rows: int) -> None:
    """Raises ServingError if a request has too many rows."""
    if rows > MAX_ROWS:
        raise invalid_argument(f"the request has {rows} rows, more than {MAX_ROWS}; send several requests")


def read_signatures(definitions: Mapping[str, SignatureDef]) -> dict[str, Signature]:
    """Reads a SavedModel's signatures, by name."""
    return {
        name: Signature(
            name,
            _specs(definition.inputs),
            _specs(definition.outputs),
            {key: tf.make_ndarray(value) for key, value in definition.defaults.items()},
        )
        for name, definition in definitions.items()
        if definition.method_name in _METHODS
    }


def _specs(infos: Mapping[str, TensorInfo]) -> dict[str, TensorSpec]:
    return {
        name: TensorSpec(infos[name].name, tf.as_dtype(infos[name].dtype), tf.TensorShape(infos[name].tensor_shape))
        for name in sorted(infos)
    }


# -- gRPC's message TensorProto <-> arrays.

# The field for the values of each type. TF Serving fills these fields, so clients read them. We do the same, although
# `tensor_content` is denser.
_FIELDS = {
    tf.float32: "float_val",
    tf.float64: "double_val",
    tf.int64: "int64_val",
    tf.uint32: "uint32_val",
    tf.uint64: "uint64_val",
    tf.bool: "bool_val",
    tf.string: "string_val",
} | dict.fromkeys((tf.int8, tf.int16, tf.int32, tf.uint8, tf.uint16), "int_val")


def to_arrays(protos: Mapping[str, TensorProto], signature: Signature) -> Arrays:
    """Converts a request's inputs. Raises ServingError for an unknown input, a wrong type, or bad or large data."""
    return {name: _to_array(name, protos[name], signature.input(name)) for name in protos}


def _to_array(name: str, proto: TensorProto, spec: TensorSpec) -> np.ndarray:
    if proto.dtype != spec.dtype.as_datatype_enum:
        type_name = DataType.Name(proto.dtype) if proto.dtype in DataType.values() else proto.dtype
        raise invalid_argument(f"the input {name} takes {spec.dtype.name}, not {type_name}")
    sizes = [dimension.size for dimension in proto.tensor_shape.dim]
    if proto.tensor_shape.unknown_rank or min(sizes, default=0) < 0:
        raise invalid_argument(f"the input {name} has no shape")
    # The last value is repeated for missing ones, so a few bytes can make an array of any size.
    count, last_value = math.prod(sizes), proto.string_val[-1:]
    repeated = (count - len(proto.string_val)) * len(last_value[0]) if last_value else 0
    if count * np.dtype(spec.dtype.as_numpy_dtype).itemsize + repeated > MAX_BYTES:
        raise invalid_argument(f"the input {name} of shape {sizes} takes more than {MAX_BYTES} bytes")
    try:
        return tf.make_ndarray(proto)
    except (TypeError, ValueError, OverflowError):
        raise invalid_argument(f"the values of the input {name} do not fit its shape {sizes} and its type") from None


def from_array(array: np.ndarray) -> TensorProto:
    """Converts an array to a proto, with the values in the field of their type."""
    dtype = tf.as_dtype(array.dtype)
    if dtype not in _FIELDS:
        return tf.make_tensor_proto(array)
    proto = TensorProto(dtype=dtype.as_datatype_enum)
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    getattr(proto, _FIELDS[dtype]).extend(array.ravel().tolist())
    return proto


# -- The SavedModel, run as TF Serving runs it.

# The number of parallel runs. In a single run, some cores wait for others; with many, requests do not form batches.
RUNS_AT_A_TIME = 2

_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}


class Model:
    """A SavedModel in memory. If the SavedModel is damaged, TensorFlow raises any kind of exception."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name  # in requests
        self.most_tokens: int | None = None
        threads = max(1, (os.cpu_count() or 1) // RUNS_AT_A_TIME)
        if "TF_NUM_INTRAOP_THREADS" in os.environ:
            threads = 0  # TensorFlow reads the variable
        config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads)
        self._free_threads: queue.LifoQueue[int] = queue.LifoQueue()  # the thread used last comes first
        for number in range(RUNS_AT_A_TIME):
            config.session_inter_op_thread_pool.add(num_threads=1)  # most operations are too short for more
            self._free_threads.put(number)
        config.gpu_options.allow_growth = True  # during a swap, two versions share the GPU
        graph = tf.Graph()
        # Not `tf.saved_model.load`: a session runs SavedModels of TensorFlow 1, too, and frees all memory at its end.
        self._session = tf.compat.v1.Session(graph=graph, config=config)
        try:
            with graph.as_default():
                meta_graph = tf.compat.v1.saved_model.load(self._session, ["serve"], str(directory))
            try:
                check_graph(meta_graph.graph_def, str(directory))
            except ValueError as error:
                raise failed_precondition(str(error)) from None
            graph.finalize()  # runs that add operations would leak memory
        except BaseException:
            self._session.close()
            raise
        self.definitions = dict(meta_graph.signature_def)
        self.signatures = read_signatures(meta_graph.signature_def)

    def signature(self, name: str) -> Signature:
        """Finds a signature by its name (empty: the default). Raises ServingError if there is none."""
        signature = self.signatures.get(name or DEFAULT)
        if signature is None:
            raise failed_precondition(f"no signature {name or DEFAULT}; the model has {', '.join(self.signatures)}")
        return signature

    def run(self, signature: Signature, inputs: Arrays, seconds: float | None = None) -> Arrays:
        """Computes all outputs of a signature. RUNS_AT_A_TIME threads may call it, and others wait."""
        fetches = {name: spec.tensor for name, spec in signature.outputs.items()}
        feeds = {signature.inputs[name].tensor: value for name, value in inputs.items()}
        thread = self._free_threads.get()
        options = tf.compat.v1.RunOptions(inter_op_thread_pool=thread)
        if seconds is not None:
            options.timeout_in_ms = max(1, int(seconds * 1000))
        try:
            outputs = self._session.run(fetches, feeds, options)
        except tf.errors.OpError as error:
            message = without_directories(_first_line(error.message))
            raise ServingError(_STATUS_CODES[error.error_code], message) from None
        finally:
            self._free_threads.put(thread)
        types = {name: spec.dtype.as_numpy_dtype for name, spec in signature.outputs.items()}
        return {name: np.asarray(value, types[name]) for name, value in outputs.items()}  # scalars are not arrays yet

    def measure(self) -> None:
        """Counts the most tokens that a reranker reads of a pair: one that has fewer was not truncated."""
        signature = self.signatures.get(TOKEN_COUNT)
        if signature is not None and "text_pair" in signature.inputs:
            inputs = {name: np.array([_LONG_TEXT], object) for name in signature.inputs}
            with contextlib.suppress(ServingError):  # another program's signature
                self.most_tokens = int(self.run(signature, inputs)["token_count"][0])

    def close(self) -> None:
        self._session.close()


def _first_line(message: str) -> str:
    """Keeps the first line of TensorFlow's message; a list of graph nodes follows it."""
    return message.removeprefix("Graph execution error:").strip().partition("\n")[0]


# -- Warm-up requests: TensorFlow initializes much at its first use, and the first client should not wait for that.

WARMUP_FILE = Path("assets.extra/tf_serving_warmup_requests")
MAX_WARMUP_REQUESTS = 1000


def replay_warmup(model: Model, directory: Path) -> int:
    """Runs the warm-up requests, a TFRecord of PredictionLogs, of a SavedModel, and returns their number."""
    path = directory / WARMUP_FILE
    if not path.is_file():
        return 0
    count = 0
    for number, record in enumerate(tf.data.TFRecordDataset(str(path)).as_numpy_iterator(), 1):
        if number > MAX_WARMUP_REQUESTS:
            raise invalid_argument(f"{path} has more than {MAX_WARMUP_REQUESTS} requests")
        try:
            log = PredictionLog.FromString(record)
        except DecodeError:
            raise invalid_argument(f"request {number} of {path} is not a PredictionLog") from None
        kind = log.WhichOneof("log_type")
        if kind != "predict_log":
            _log.warning("request %d of %s is a %s, which this server does not answer: left out", number, path, kind)
            continue
        request = log.predict_log.request
        signature = model.signature(request.model_spec.signature_name)
        inputs = to_arrays(request.inputs, signature)
        model.run(signature, signature.complete(inputs))
        count += 1
    return count
