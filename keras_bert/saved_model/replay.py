"""Answers a SavedModel's warm-up requests in a session, as TF Serving does. `check.py` runs it in a fresh process."""

import os
import sys
from collections.abc import Iterator

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (its operations)

_REQUESTS = "assets.extra/tf_serving_warmup_requests"


def replay(directory: str) -> int:
    """Runs the requests and returns their number. Ends the process with a message if an output is wrong."""
    answered = 0
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        graph = tf.compat.v1.saved_model.load(session, ["serve"], directory)
        for name, inputs in _requests(directory, graph):
            signature = graph.signature_def[name]
            feeds = {signature.inputs[key].name: value for key, value in inputs.items()}
            answers = session.run({key: output.name for key, output in signature.outputs.items()}, feeds)
            rows = {len(value) for value in feeds.values()}
            for key, answer in answers.items():
                if {len(answer)} != rows:
                    sys.exit(f"{name} was sent {rows} rows, and its output {key} has {len(answer)}")
                if answer.dtype.kind == "f" and not np.isfinite(answer).all():
                    sys.exit(f"{name}: its output {key} is not finite")
            answered += 1
    return answered or sys.exit("there are none")


def _requests(directory: str, graph: tf.compat.v1.MetaGraphDef) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Yields the signature and the inputs of each warm-up request; for an encoder, which has none, a batch of ids."""
    path = f"{directory}/{_REQUESTS}"
    if not os.path.exists(path):
        ids = {}
        for name, spec in graph.signature_def["serving_default"].inputs.items():
            shape = [2] * (len(spec.tensor_shape.dim) - 1)
            ids[name] = np.full([*shape, 8], "type" not in name, np.int32)  # some families have only type 0
        yield "serving_default", ids
        return
    from tensorflow_serving.apis import prediction_log_pb2

    for record in tf.compat.v1.io.tf_record_iterator(path):
        request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
        yield request.model_spec.signature_name, inputs


if __name__ == "__main__":
    count = replay(sys.argv[1])
    if "keras_bert" in sys.modules:
        sys.exit("keras_bert was imported")
    kind = "warm-up requests" if os.path.exists(f"{sys.argv[1]}/{_REQUESTS}") else "request of ids"
    print(f"{count} {kind} answered by a process that has never seen keras_bert")
