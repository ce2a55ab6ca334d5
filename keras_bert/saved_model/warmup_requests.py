"""Warm-up requests: TF Serving runs them before the first client's request."""

from pathlib import Path
from types import ModuleType

import tensorflow as tf

from keras_bert.extras import needed

FILE = Path("assets.extra") / "tf_serving_warmup_requests"  # TF Serving's name

# A short text, and a batch with a long one, so that memory is allocated in advance.
_BATCHES = [["Hello, world!"], ["word " * 600, "Hello, world!", "", "Ünïcödé 你好 🙂"]]


def messages() -> ModuleType:
    """The module of TF Serving's messages. Raises ImportError if it is not installed."""
    return needed("tensorflow_serving.apis.prediction_log_pb2", "tensorflow-serving-api", extra="serve")


def write(directory: Path, names: tuple[str, ...]) -> None:
    """Writes requests for both signatures of `export_serving` into a SavedModel with these names of input texts."""
    (directory / FILE).parent.mkdir()
    with tf.io.TFRecordWriter(str(directory / FILE)) as file:
        for texts in _BATCHES:
            feature = {name: [text.encode() for text in texts] for name in names}
            examples = [_example({name: values[row] for name, values in feature.items()}) for row in range(len(texts))]
            for signature, inputs in (("serving_default", feature), ("serialized_examples", {"examples": examples})):
                log = messages().PredictionLog()
                request = log.predict_log.request
                request.model_spec.signature_name = signature
                for name, values in inputs.items():
                    request.inputs[name].CopyFrom(tf.make_tensor_proto(values, tf.string))
                file.write(log.SerializeToString())


def _example(texts: dict[str, bytes]) -> bytes:
    features = {name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text])) for name, text in texts.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
