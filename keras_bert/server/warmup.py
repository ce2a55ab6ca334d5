"""Replays a model's warm-up requests, so that the first client does not wait for TensorFlow's lazy initialization."""

from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from keras_bert.server import tensor_protos
from keras_bert.server.errors import invalid_argument
from keras_bert.server.served_model import Model
from keras_bert.server.signatures import DEFAULT

FILE = Path("assets.extra/tf_serving_warmup_requests")
MAX_REQUESTS = 1000


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
            raise invalid_argument(f"Number of warmup records exceeds the maximum ({MAX_REQUESTS}) at {path}")
        try:
            log = PredictionLog.FromString(record)
        except DecodeError:
            raise invalid_argument(f"Failed to parse warmup record {count} from {path}") from None
        _run(model, log, path)
    return count


def _run(model: Model, log: PredictionLog, path: Path) -> None:
    kind = log.WhichOneof("log_type")
    if kind not in ("predict_log", "classify_log", "regress_log"):
        raise invalid_argument(f"Unsupported log_type for warmup: {kind} in {path}")
    request = getattr(log, kind).request
    name = request.model_spec.signature_name or DEFAULT
    signature = model.signatures.get(name)
    if signature is None:
        raise invalid_argument(f"{path} asks for the signature {name}, which the model does not have")
    if kind == "predict_log":
        inputs = {key: tensor_protos.to_array(key, proto) for key, proto in request.inputs.items()}
    else:
        inputs = {key: np.array(tensor_protos.examples(request.input), object) for key in signature.inputs}
    model.run(signature, signature.complete(inputs))
