"""Runs a model's warm-up requests, so that the first client does not wait for TensorFlow's lazy initialization."""

import logging
from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from keras_bert.server import tensor_protos
from keras_bert.server.errors import invalid_argument
from keras_bert.server.served_model import Model

FILE = Path("assets.extra/tf_serving_warmup_requests")
MAX_REQUESTS = 1000

_log = logging.getLogger(__name__)


def replay(model: Model, directory: Path) -> int:
    """Runs the warm-up requests (a TFRecord of PredictionLogs) in a SavedModel's directory, and returns their number.

    Raises ServingError if a request fails or cannot be parsed, and tf.errors.DataLossError if the file is damaged.
    """
    path = directory / FILE
    if not path.is_file():
        return 0
    answered = 0
    for number, record in enumerate(tf.data.TFRecordDataset(str(path)).as_numpy_iterator(), 1):
        if number > MAX_REQUESTS:
            raise invalid_argument(f"{path} has more than {MAX_REQUESTS} requests")
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
        inputs = tensor_protos.to_arrays(request.inputs, signature)
        model.run(signature, signature.complete(inputs))
        answered += 1
    return answered
