"""A SavedModel in a session, with its signatures and its warm-up requests; and TF Serving's messages of arrays."""

from __future__ import annotations

import functools
import logging
import math
import os
import queue
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the operations of tokenizers
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow.core.framework.types_pb2 import DataType
from tensorflow.core.protobuf.meta_graph_pb2 import SignatureDef, TensorInfo
from tensorflow_serving.apis.get_model_metadata_pb2 import SignatureDefMap
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from keras_bert.engines.loading import Reading, read_texts
from keras_bert.engines.runtime import Spec
from keras_bert.formats import Preset
from keras_bert.formats.tensorflow.saved_model import TEXTS, WARMUP
from keras_bert.processors import check_graph
from keras_bert.server.errors import (
    MAX_BYTES,
    Code,
    ServingError,
    failed_precondition,
    invalid_argument,
    without_directories,
)
from keras_bert.server.model import RUNS_AT_A_TIME, Arrays, Model, Signature

_log = logging.getLogger(__name__)

# The kinds of signatures that Predict can call.
_METHODS = frozenset(f"tensorflow/serving/{method}" for method in ("predict", "classify", "regress"))


def read_signatures(definitions: Mapping[str, SignatureDef]) -> dict[str, Signature]:
    """Reads a SavedModel's signatures, by name: those of the methods above, whose values NumPy's arrays can hold."""
    return {
        name: Signature(
            _specs(definition.inputs),
            _specs(definition.outputs),
            name,
            {key: tf.make_ndarray(value) for key, value in definition.defaults.items()},
        )
        for name, definition in definitions.items()
        if definition.method_name in _METHODS
        and all(
            tf.as_dtype(info.dtype).is_numpy_compatible
            for info in (*definition.inputs.values(), *definition.outputs.values())
        )
    }


def _specs(infos: Mapping[str, TensorInfo]) -> dict[str, Spec]:
    return {name: _spec(infos[name]) for name in sorted(infos)}


def _spec(info: TensorInfo) -> Spec:
    shape = tf.TensorShape(info.tensor_shape)
    return Spec(np.dtype(tf.as_dtype(info.dtype).as_numpy_dtype), None if shape.rank is None else tuple(shape))


MAX_WARMUP_REQUESTS = 1000


class SavedModel(Model):
    """A SavedModel in memory, run as TF Serving runs it. If it is damaged, TensorFlow raises any kind of exception."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
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
        self._definitions = dict(meta_graph.signature_def)
        self.signatures = read_signatures(self._definitions)
        self._directory = directory

    def run(self, signature: Signature, inputs: Arrays, seconds: float | None = None) -> Arrays:
        definition = self._definitions[signature.name]
        fetches = {name: definition.outputs[name].name for name in signature.outputs}
        feeds = {definition.inputs[name].name: value for name, value in inputs.items()}
        thread = self._free_threads.get()
        options = tf.compat.v1.RunOptions(inter_op_thread_pool=thread)
        if seconds is not None:
            options.timeout_in_ms = max(1, int(seconds * 1000))
        try:
            outputs = self._session.run(fetches, feeds, options)
        except tf.errors.OpError as error:
            first_line, *_ = error.message.removeprefix("Graph execution error:").strip().split("\n")  # nodes follow
            raise ServingError(Code(error.error_code), without_directories(first_line)) from None
        finally:
            self._free_threads.put(thread)
        # Scalars are not arrays yet.
        return {name: np.asarray(outputs[name], spec.dtype) for name, spec in signature.outputs.items()}

    @functools.cached_property
    def reading(self) -> Reading:
        try:
            with Preset.open(self._directory / TEXTS) as preset:
                saved, preprocessor = read_texts(preset, has_library_files=False)
        except FileNotFoundError:
            message = f"{self.name} has no tokenizer beside its graph; export it again with this version"
            raise failed_precondition(message, field="model") from None
        except (ImportError, OSError, ValueError) as error:
            raise failed_precondition(f"the server cannot tokenize: {without_directories(str(error))}") from None
        return Reading(saved.settings, saved.labels, preprocessor)

    def metadata(self) -> dict[str, Any]:
        return json_format.MessageToDict(
            SignatureDefMap(signature_def=self._definitions),
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        )

    def warm_up(self) -> int:
        """Replays the warm-up requests of the SavedModel, a TFRecord of PredictionLogs."""
        path = self._directory / WARMUP
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
                _log.warning(
                    "request %d of %s is a %s, which this server does not answer: left out", number, path, kind
                )
                continue
            request = log.predict_log.request
            signature = self.signature(request.model_spec.signature_name)
            inputs = to_arrays(request.inputs, signature)
            self.run(signature, signature.complete(inputs))
            count += 1
        return count

    def close(self) -> None:
        self._session.close()


# -- TensorProto <-> arrays

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


def _to_array(name: str, proto: TensorProto, spec: Spec) -> np.ndarray:
    if proto.dtype != tf.as_dtype(spec.dtype).as_datatype_enum:
        type_name = DataType.Name(proto.dtype) if proto.dtype in DataType.values() else proto.dtype
        raise invalid_argument(f"the input {name} takes {spec.type_name}, not {type_name}")
    sizes = [dimension.size for dimension in proto.tensor_shape.dim]
    if proto.tensor_shape.unknown_rank or min(sizes, default=0) < 0:
        raise invalid_argument(f"the input {name} has no shape")
    # The last value is repeated for missing ones, so a few bytes can make an array of any size.
    count, last_value = math.prod(sizes), proto.string_val[-1:]
    repeated = (count - len(proto.string_val)) * len(last_value[0]) if last_value else 0
    if count * spec.dtype.itemsize + repeated > MAX_BYTES:
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
