"""Replays a model's warm-up requests, so that the first client does not wait for TensorFlow's lazy initialization."""

from pathlib import Path

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from keras_bert.server import examples, tensor_protos
from keras_bert.server.errors import invalid_argument
from keras_bert.server.served_model import Model
from keras_bert.server.signatures import CLASSIFY, PREDICT, REGRESS

FILE = Path("assets.extra/tf_serving_warmup_requests")
MAX_REQUESTS = 1000

_METHODS = {"predict_log": PREDICT, "classify_log": CLASSIFY, "regress_log": REGRESS}


def replay(model: Model, directory: Path) -> int:
    """Runs a SavedModel's warm-up requests, and returns their number.

    Args:
        model: the model.
        directory: the SavedModel; without the file, a TFRecord of PredictionLog, nothing is done.

    Raises:
        ServingError: a request fails, or cannot be parsed.
        tf.errors.DataLossError: the file is damaged.
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
        _run(model, log, path)
    return count


def _run(model: Model, log: PredictionLog, path: Path) -> None:
    kind = log.WhichOneof("log_type")
    if kind not in _METHODS:
        raise invalid_argument(f"{path} has a {kind}; predict, classify and regress can be warmed up")
    request = getattr(log, kind).request
    signature = model.signature(request.model_spec.signature_name, _METHODS[kind])
    if kind == "predict_log":
        inputs = tensor_protos.to_arrays(request.inputs, signature)
    else:
        inputs = {"inputs": examples.from_proto(request.input)}
    model.run(signature, signature.complete(inputs))
