"""Runs a model's warm-up requests, so that the first client does not wait for TensorFlow's lazy initialization."""

from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from keras_bert.server import example_requests, tensor_protos
from keras_bert.server.errors import invalid_argument
from keras_bert.server.served_model import Model
from keras_bert.server.signatures import CLASSIFY, PREDICT, REGRESS

FILE = Path("assets.extra/tf_serving_warmup_requests")
MAX_REQUESTS = 1000

_METHODS = {"predict_log": PREDICT, "classify_log": CLASSIFY, "regress_log": REGRESS}


def replay(model: Model, directory: Path) -> int:
    """Runs the warm-up requests (a TFRecord of PredictionLogs) in a SavedModel's directory, and returns their number.

    Raises ServingError if a request fails or cannot be parsed, and tf.errors.DataLossError if the file is damaged.
    """
    path = directory / FILE
    if not path.is_file():
        return 0
    count = 0
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        count += 1
        if count > MAX_REQUESTS:
            raise invalid_argument(f"{path} has more than {MAX_REQUESTS} requests")
        try:
            log = PredictionLog.FromString(record)
        except DecodeError:
            raise invalid_argument(f"request {count} of {path} is no PredictionLog") from None
        kind = log.WhichOneof("log_type")
        if kind not in _METHODS:
            raise invalid_argument(f"request {count} of {path} is a {kind}; expected {', '.join(_METHODS)}")
        request = getattr(log, kind).request
        signature = model.signature(request.model_spec.signature_name, _METHODS[kind])
        if kind == "predict_log":
            inputs = tensor_protos.to_arrays(request.inputs, signature)
        else:
            inputs = {"inputs": example_requests.from_proto(request.input)}
        model.run(signature, signature.complete(inputs))
    return count
