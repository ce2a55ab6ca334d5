"""One version of a model: a SavedModel in a session, as TF Serving runs it, and its warm-up requests."""

from __future__ import annotations

import logging
import os
import queue
from pathlib import Path

import grpc
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the operations of tokenizers
from google.protobuf.message import DecodeError
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from keras_bert.server import signatures
from keras_bert.server.errors import ServingError, failed_precondition, invalid_argument
from keras_bert.server.signatures import DEFAULT, Arrays, Signature, read_signatures

# The number of parallel runs. In a single run, some cores wait for others; with many, requests do not form batches.
RUNS_AT_A_TIME = 2

_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}


class Model:
    """A SavedModel in memory. If it is damaged, TensorFlow raises any kind of exception.

    It runs in a session, not by tf.saved_model.load: TF Serving uses a session, a session also runs SavedModels of
    TensorFlow 1, and closing it frees all memory.

    Each run has one thread for its operations, which follow one another: most are too short to be handed between
    threads. Large operations use more threads inside.
    """

    def __init__(self, directory: Path) -> None:
        cores = os.cpu_count() or 1
        config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=max(1, cores // RUNS_AT_A_TIME))
        self._free_threads: queue.LifoQueue[int] = queue.LifoQueue()  # first the one used last
        for number in range(RUNS_AT_A_TIME):
            config.session_inter_op_thread_pool.add(num_threads=1)
            self._free_threads.put(number)
        config.gpu_options.allow_growth = True  # during a swap, two versions share the GPU
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph, config=config)
        try:
            with graph.as_default():
                meta_graph = tf.compat.v1.saved_model.load(self._session, ["serve"], str(directory))
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
        """All outputs of a signature for all its inputs. RUNS_AT_A_TIME threads may call it; more wait.

        Raises ServingError, with the code of TensorFlow's error: DEADLINE_EXCEEDED after `seconds`.
        """
        fetches = {name: spec.tensor for name, spec in signature.outputs.items()}
        feeds = {signature.inputs[name].tensor: value for name, value in inputs.items()}
        thread = self._free_threads.get()
        options = tf.compat.v1.RunOptions(inter_op_thread_pool=thread)
        if seconds is not None:
            options.timeout_in_ms = max(1, int(seconds * 1000))
        try:
            outputs = self._session.run(fetches, feeds, options)
        except tf.errors.OpError as error:
            raise ServingError(_STATUS_CODES[error.error_code], _first_line(error.message)) from None
        finally:
            self._free_threads.put(thread)
        types = {name: spec.dtype.as_numpy_dtype for name, spec in signature.outputs.items()}
        return {name: np.asarray(value, types[name]) for name, value in outputs.items()}  # scalars are not arrays yet

    def close(self) -> None:
        self._session.close()


def _first_line(message: str) -> str:
    """The first line of TensorFlow's message, without the prefix; a list of graph nodes follows."""
    return message.removeprefix("Graph execution error:").strip().partition("\n")[0]


# Warm-up requests spare the first client the wait for what TensorFlow initializes when it is first used.

WARMUP_FILE = Path("assets.extra/tf_serving_warmup_requests")
MAX_WARMUP_REQUESTS = 1000

_log = logging.getLogger(__name__)


def replay_warmup(model: Model, directory: Path) -> int:
    """Runs the warm-up requests (a TFRecord of PredictionLogs) in a SavedModel's directory, and returns their number.

    Raises ServingError if a request fails or cannot be parsed, and tf.errors.DataLossError if the file is damaged.
    """
    path = directory / WARMUP_FILE
    if not path.is_file():
        return 0
    answered = 0
    for number, record in enumerate(tf.data.TFRecordDataset(str(path)).as_numpy_iterator(), 1):
        if number > MAX_WARMUP_REQUESTS:
            raise invalid_argument(f"{path} has more than {MAX_WARMUP_REQUESTS} requests")
        try:
            log = PredictionLog.FromString(record)
        except DecodeError:
            raise invalid_argument(f"request {number} of {path} is no PredictionLog") from None
        kind = log.WhichOneof("log_type")
        if kind != "predict_log":
            _log.warning("request %d of %s is a %s, which this server does not answer: left out", number, path, kind)
            continue
        request = log.predict_log.request
        signature = model.signature(request.model_spec.signature_name)
        inputs = signatures.to_arrays(request.inputs, signature)
        model.run(signature, signature.complete(inputs))
        answered += 1
    return answered
