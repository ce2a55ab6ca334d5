"""A small model with a signature for everything that a server must cope with: as a SavedModel, and as an export.

The export is none of a runtime's: `Export` stands for the models that `keras_bert.runtimes.load` returns.
"""

import functools
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from keras_bert.engines import loading
from keras_bert.engines.models import RuntimeModel
from keras_bert.engines.runtime import Signature, Spec
from keras_bert.server import exported, saved_model
from keras_bert.text.arrays.preprocessor import ArrayPreprocessor
from keras_bert.text.arrays.tokenizer import ArrayTokenizer

from ..support import small


def _floats(*shape):
    return tf.TensorSpec(shape, tf.float32)


def _strings(*shape):
    return tf.TensorSpec(shape, tf.string)


class Toy(tf.Module):
    def __init__(self, factor, megabytes):
        super().__init__()
        self.factor = tf.Variable(float(factor))
        self.ballast = tf.Variable(tf.zeros([megabytes, 2**18]))

    @tf.function(input_signature=[_floats(None)])
    def serving_default(self, x):
        return {"y": x * self.factor}

    @tf.function(input_signature=[_floats(None, 2), _floats(None)])
    def scaled(self, x, scale):
        product = x * scale[:, None]
        return {"product": product, "total": tf.reduce_sum(product, axis=1)}

    @tf.function(input_signature=[_strings(None)])
    def text(self, text):
        message = "the text is poison"
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(text != "poison"), [message])]):
            return {"length": tf.strings.length(text), "upper": tf.strings.upper(text), "same_bytes": text}

    @tf.function(input_signature=[_floats(None)])
    def together(self, x):
        """How many rows were computed at a time."""
        return {"rows": tf.fill(tf.shape(x), tf.size(x))}

    @tf.function(input_signature=[_strings(None)])
    def longest(self, text):
        """How long the longest text of the batch is, to which the others would be padded."""
        return {"longest": tf.fill(tf.shape(text), tf.reduce_max(tf.strings.length(text)))}

    @tf.function(input_signature=[_floats(2)])
    def whole(self, x):
        return {"mean": tf.reduce_mean(x)}

    @tf.function(input_signature=[_strings(None)])
    def words(self, text):
        """As wide as the longest text: strangers' texts must not make it wider."""
        return {"words": tf.strings.split(text).to_tensor()}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def busy(self, rounds):
        """Takes about a millisecond a round."""
        matrix = tf.eye(300)
        for _ in tf.range(tf.reduce_max(rounds)):
            matrix = tf.linalg.matmul(matrix, matrix)
        return {"rounds": rounds + tf.cast(matrix[0, 1], tf.int32)}

    @tf.function(input_signature=[_strings(None)])
    def with_token_count(self, text):
        """A sentence encoder, whose texts say for how many rounds it is busy."""
        rounds = self.busy(tf.strings.to_number(text, tf.int32))["rounds"]
        return {"embedding": tf.cast(rounds, tf.float32)[:, None], "token_count": tf.strings.length(text)}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], dtype) for dtype in (tf.int32, tf.int64, tf.uint8, tf.bool, tf.float64, tf.float16)
        ]
    )
    def types(self, int32, int64, uint8, bool, double, half):
        return {"int32": int32, "int64": int64, "uint8": uint8, "bool": bool, "double": double, "half": half}

    @tf.function(input_signature=[_floats(None, None)])
    def square(self, x):
        return {"y": tf.reduce_sum(x * x, axis=1)}


NAMES = [
    "serving_default", "scaled", "text", "together", "longest", "whole", "words", "busy", "types", "square",
    "with_token_count",
]  # fmt: skip


def write(directory: Path, factor: float = 2, megabytes: int = 0) -> Path:
    """Writes the model, which multiplies by `factor` and has `megabytes` of weights."""
    module = Toy(factor, megabytes)
    tf.saved_model.save(module, str(directory), signatures={name: getattr(module, name) for name in NAMES})
    file = directory / "saved_model.pb"
    model = SavedModel.FromString(file.read_bytes())
    signatures = model.meta_graphs[0].signature_def
    signatures["scaled"].defaults["scale"].CopyFrom(tf.make_tensor_proto([10.0]))
    file.write_bytes(model.SerializeToString())
    return directory


def copy(model: Path, directory: Path, factor: float) -> Path:
    """Copies a model that `write` wrote; the copy multiplies by `factor`. That takes no time, writing one does."""
    shutil.copytree(model, directory)
    variables = str(directory / "variables/variables")
    reader = tf.train.load_checkpoint(variables)
    values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    (name,) = (name for name in values if name.startswith("factor/"))
    values[name] = np.float32(factor)
    whole = [""] * len(values)
    tf.raw_ops.SaveV2(
        prefix=variables, tensor_names=list(values), shape_and_slices=whole, tensors=list(values.values())
    )
    return directory


# -- The export: the factor is in a file that is read after the graph's, as some models' weights are.

MOST_SECONDS = 2  # that it is busy: nothing can stop it


def write_export(directory: Path, factor: float = 2) -> Path:
    (directory / "onnx").mkdir(parents=True)
    (directory / "config.json").write_text("{}")
    (directory / "onnx/model.onnx").write_text("toy")
    (directory / "onnx/model.onnx.data").write_text(str(factor))
    return directory


def copy_export(model: Path, directory: Path, factor: float) -> Path:
    return write_export(directory, factor)


def _busy(rounds):
    time.sleep(min(int(max(rounds, default=0)) / 1000, MOST_SECONDS))
    return rounds


def _text(text):
    if b"poison" in text:
        raise ValueError("assertion failed: [the text is poison]")
    lengths = np.array([*map(len, text)], np.int32)
    return {"length": lengths, "upper": np.array([each.upper() for each in text], object), "same_bytes": text}


def _words(text):
    rows = [each.split() for each in text]
    width = max(map(len, rows), default=0)
    return {"words": np.array([row + [b""] * (width - len(row)) for row in rows], object).reshape(len(rows), width)}


FUNCTIONS = {
    "scaled": lambda x, scale: {"product": x * scale[:, None], "total": (x * scale[:, None]).sum(axis=1)},
    "text": _text,
    "together": lambda x: {"rows": np.full(x.shape, x.size, np.int32)},
    "longest": lambda text: {"longest": np.full(text.shape, max(map(len, text)), np.int32)},
    "whole": lambda x: {"mean": x.mean()},
    "words": _words,
    "busy": lambda rounds: {"rounds": _busy(rounds)},
    "types": lambda **values: values,
    "square": lambda x: {"y": (x * x).sum(axis=1)},
    "with_token_count": lambda text: {
        "embedding": np.array(_busy([int(each) if each.isdigit() else 0 for each in text]), np.float32)[:, None],
        "token_count": np.array([*map(len, text)], np.int32),
    },
}


def _specs(tensors) -> dict[str, Spec]:
    return {name: Spec(np.dtype(each.dtype.as_numpy_dtype), tuple(each.shape)) for name, each in tensors.items()}


@functools.cache
def _signatures() -> dict[str, Signature]:
    module, found = Toy(1, 0), {}
    for name in NAMES:
        function = getattr(module, name).get_concrete_function()
        inputs = {each.name: each for each in function.structured_input_signature[0]}
        found[name] = Signature(_specs(inputs), _specs(function.structured_outputs))
    return found


@functools.cache
def _tokenizer() -> ArrayTokenizer:
    with tempfile.TemporaryDirectory() as folder:
        return ArrayPreprocessor.from_preset(small.write_preset(Path(folder))).tokenizer


class Export:
    """The model that `load` returns."""

    settings, labels = {"pooling": "mean"}, None

    def __init__(self, directory: Path) -> None:
        if (directory / "onnx/model.onnx").read_text() != "toy":
            raise ValueError(f"{directory}/onnx/model.onnx is damaged")
        self.factor = np.float32((directory / "onnx/model.onnx.data").read_text())
        self.signatures = _signatures()
        self.preprocessor = ArrayPreprocessor(_tokenizer())

    def serve(self, signature: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if signature == "serving_default":
            return {"y": inputs["x"] * self.factor}
        return {name: np.asarray(each) for name, each in FUNCTIONS[signature](**inputs).items()}


def load(directory: Path, **options) -> Export | RuntimeModel:
    is_toy = (directory / "config.json").read_text() == "{}"
    return Export(directory) if is_toy else loading.load(directory, **options)


# -- What the tests need to know of the two.


class Engine(NamedTuple):
    write: Callable[[Path], Path]
    copy: Callable[[Path, Path, float], Path]
    files: tuple[str, ...]  # by which a version is known
    data: str  # what else it reads
    module: ModuleType  # of the server
    name: str  # its class there


ENGINES = {
    "SavedModel": Engine(
        write, copy, ("saved_model.pb",), "variables/variables.data-00000-of-00001", saved_model, "SavedModel"
    ),
    "export": Engine(
        write_export, copy_export, ("config.json", "onnx/model.onnx"), "onnx/model.onnx.data", exported, "Export"
    ),
}
