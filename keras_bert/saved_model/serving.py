"""Exports a model to a version directory for TF Serving, with warm-up requests: strings to answers, ids to logits."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_bert import files, undocumented
from keras_bert.extras import import_extra
from keras_bert.formats.saved import write_configuration
from keras_bert.formats.tensorflow.saved_model import MODEL, TEXTS, WARMUP
from keras_bert.saved_model import saving, transformers_signature
from keras_bert.tasks.base.task import BertTask
from keras_bert.text import BertPreprocessor

_TOKEN_COUNT, _LOGIT = "token_count", "logit"

# A short text, and a batch with a long text, which makes the server allocate memory in advance.
_BATCHES = [["Hello, world!"], ["word " * 600, "Hello, world!", "", "Ünïcödé 你好 🙂"]]


def messages() -> ModuleType:
    """Imports TF Serving's messages. Raises ImportError if they are not installed."""
    return import_extra("tensorflow_serving.apis.prediction_log_pb2", "tensorflow-serving-api", extra="serve")


def write_warmup(directory: Path, requests: Iterable[saving.Request]) -> None:
    """Writes warm-up requests into a SavedModel."""
    (directory / WARMUP).parent.mkdir()
    with tf.io.TFRecordWriter(str(directory / WARMUP)) as file:
        for signature, inputs in requests:
            log = messages().PredictionLog()
            request = log.predict_log.request
            request.model_spec.signature_name = signature
            for name, values in inputs.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
            file.write(log.SerializeToString())


def _write_texts(model: BertTask, preprocessor: BertPreprocessor, directory: Path) -> None:
    """Writes the settings and the tokenizer, for programs that tokenize texts outside of the graph."""
    saved = model.saved_settings()
    if preprocessor.tokenizer.special_tokens_in_text:  # presets of masked language models do not say it
        saved = dataclasses.replace(saved, preprocessor={**saved.preprocessor, "special_tokens_in_text": True})
    directory.mkdir()
    preprocessor.save_preset(directory)
    write_configuration(directory, saved)


def _encode(texts: dict[str, bytes]) -> bytes:
    features = {name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text])) for name, text in texts.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def export_serving(
    model: keras.Model | str | Path,
    directory: str | Path,
    version: int | None = None,
    dtype: str | None = None,
    overwrite: bool = False,
    signature: str | None = None,
    dimensions: Sequence[int] | None = None,
) -> Path:
    """Writes `directory/<version>/`, a SavedModel that TF Serving and `keras-bert serve` serve from raw strings.

    Use it for a server; `export_encoder` is for programs that embed an encoder in their own model. The SavedModel has
    signatures with the same named outputs, for batches of any size:
        `serving_default`: a string tensor `[batch]` for each text of the model, by name;
        `serialized_examples`: a string tensor `examples` `[batch]` of serialized tf.Examples with those names;
        `with_token_count`, of a sentence encoder or a reranker: as `serving_default`, and with the outputs
            `token_count`, int32 `[batch]`, the tokens that the model reads of each text, special tokens included,
            `embedding_N` for each N of `dimensions`, and of a reranker `logit`, float32 `[batch]`, which orders equal
            scores. `keras-bert serve` needs it for OpenAI's clients and the like.
    The version includes warm-up requests, which a server runs before it accepts traffic, and for `keras-bert serve` the
    settings and the tokenizer of a task. A server that watches `directory` sees only complete versions. Check the
    version with `check_serving`.

    A model in bfloat16 or int8 (`set_precision`) keeps its precision, without its float weights. The `README.md` in its
    directory says which builds of TensorFlow and which processors can serve it.

    Args:
        model: a task model of this package, or a functional Keras model with the inputs
            `keras.Input(shape=(), dtype="string", name=...)`. With `signature`, a task, a `BertEncoder`, or the handle
            of a preset, which then needs no tokenizer.
        directory: the directory of the versions; created if missing.
        version: a positive number; by default, the highest existing version plus 1, or 1.
        dtype: "float16" or "bfloat16" halves the size of the stored weights, except those of a `HubLayer`; see
            `export_encoder`.
        overwrite: whether to replace an existing version.
        signature: "transformers" gives the names, types and numbers of transformers' TensorFlow models, for clients
            that had a SavedModel of these. `serving_default` then takes int32 ids `[batch, seq_length]`: `input_ids`,
            `attention_mask` and, except in DistilBERT, MPNet and other families without types, `token_type_ids`; for
            multiple choice `[batch, choices, seq_length]`. It returns the `logits` of the model's head, for question
            answering `start_logits` and `end_logits`; without a head (a sentence encoder, too) `last_hidden_state` and,
            with a pooler, `pooler_output`. `int64_serving` takes int64. By default, the model takes strings.
        dimensions: sizes to which clients may shorten the vectors of a sentence encoder, such as `[256, 128]`. By
            default, those that the model was trained for (`MatryoshkaLoss`): the `matryoshka_dimensions` of its
            `config.json`. If the model normalizes its vectors, the shortened ones have length 1, too.

    Returns:
        The directory of the version.

    Raises:
        FileExistsError: the version exists and `overwrite` is False; or `directory` is itself a SavedModel.
        ImportError: the extra `serve` is not installed.
        TypeError: the model's inputs are not strings; or with `signature`, the model is no task and no encoder; or
            with `dimensions`, it is no sentence encoder.
        ValueError: `version` is not a positive number, `dtype` or `signature` is unknown, the model has parts that the
            models of the signature had not, such as a CRF, or its vectors cannot have one of the `dimensions`.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertSentenceEncoder
        >>> model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
        >>> version = export_serving(model, tempfile.mkdtemp())
        >>> version.name
        '1'
        >>> signature = tf.saved_model.load(version).signatures["serving_default"]
        >>> signature(text=tf.constant(["I love pizza"]))["embedding"].shape
        TensorShape([1, 384])
    """
    directory = Path(directory)
    headed = transformers_signature.headed(model, signature)
    served, model = (ServedTexts.of(model, dimensions), model) if headed is None else (headed, headed)
    if (directory / MODEL).exists():
        raise FileExistsError(f"{directory} is itself a SavedModel; choose another directory for versions")
    version = max(versions(directory), default=0) + 1 if version is None else version
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ValueError(f"version is {version!r}; expected 1 or more, as TF Serving numbers versions")
    if dimensions and headed is not None:
        raise TypeError("dimensions are for vectors, and a model with a signature returns hidden states or logits")
    messages()
    with files.directory_written_whole(directory / str(version), MODEL, overwrite) as unfinished:
        weights = saving.StoredWeights(model, dtype)
        signatures = served.signatures(weights)
        serving_default = signatures["serving_default"]
        traced = serving_default.get_concrete_function()
        variables = saving.variables_read(traced, weights.variables)
        parts = undocumented.captured(traced, model)
        root = saving.callable_object(serving_default, variables=variables, **({"parts": parts} if parts else {}))
        tf.saved_model.save(root, str(unfinished), signatures=signatures)
        write_warmup(unfinished, served.requests(signatures))
        if headed is None and isinstance(model, BertTask) and model.preprocessor is not None:
            _write_texts(model, model.preprocessor, unfinished / TEXTS)
        if (precision := getattr(model, "precision", "float32")) != "float32":
            saving.write_card(unfinished, precision)
    return directory / str(version)


def versions(directory: Path) -> list[int]:
    """Lists the versions in a directory, the names that are numbers, in ascending order."""
    if not directory.is_dir():
        return []
    return sorted(int(each.name) for each in directory.iterdir() if each.name.isascii() and each.name.isdigit())


class ServedTexts(NamedTuple):
    """What is served of a model that takes strings."""

    names: tuple[str, ...]
    serve: Callable[..., dict[str, tf.Tensor]]  # from the texts to named outputs
    counted: frozenset[str] = frozenset()  # outputs that only the signature `with_token_count` returns
    more: Mapping[str, Callable[..., dict[str, tf.Tensor]]] = {}  # further signatures, like `serve`

    @classmethod
    def of(cls, model: Any, dimensions: Sequence[int] | None = ()) -> ServedTexts:
        """Finds what a model serves. Raises TypeError and ValueError as `export_serving`."""
        if dimensions is None:
            trained = getattr(model, "matryoshka_dimensions", None) or ()
            dimensions = [size for size in trained if size < model.vector_size]
        if dimensions:
            _check_dimensions(model, dimensions)
        if hasattr(model, "serve"):
            serve = functools.partial(_with_short_vectors, model, dimensions) if dimensions else model.serve
            counted = frozenset({_TOKEN_COUNT, _LOGIT, *map(_short_name, dimensions)})
            return cls(_parameters(model.serve), serve, counted, getattr(model, "serve_more", {}))
        inputs = getattr(model, "inputs", None)
        if not isinstance(model, keras.Model) or not inputs:
            raise TypeError(
                f"got a {type(model).__name__}; expected a model that takes strings, such as BertSentenceEncoder, "
                "or a functional Keras model with string inputs"
            )
        for each in inputs:
            if each.dtype != "string" or tuple(each.shape) != (None,):
                raise TypeError(
                    f"the input {each.name} is {each.dtype} of shape {tuple(each.shape)}; expected texts, "
                    'keras.Input(shape=(), dtype="string"): put a BertPreprocessor in front'
                )

        def serve_functional(*texts: tf.Tensor) -> dict[str, tf.Tensor]:
            outputs = model(tf.nest.pack_sequence_as(model.input, texts), training=False)
            if isinstance(outputs, dict):
                return outputs
            return dict(zip(model.output_names, tf.nest.flatten(outputs), strict=True))

        return cls(tuple(each.name for each in inputs), serve_functional)

    def signatures(self, weights: saving.StoredWeights) -> dict[str, Any]:
        """Makes the functions of the signatures. The model is traced once, in `with_token_count`."""
        names, with_token_count = self.names, _signature(self.names, self.serve, weights)

        @tf.function(input_signature=[_specs(names)], autograph=False)
        def serving_default(texts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            outputs = with_token_count(texts)
            return {name: x for name, x in outputs.items() if _TOKEN_COUNT not in outputs or name not in self.counted}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")], autograph=False)
        def serialized_examples(examples: tf.Tensor) -> dict[str, tf.Tensor]:
            features = {name: tf.io.FixedLenFeature([], tf.string) for name in names}
            return serving_default(tf.io.parse_example(examples, features))

        signatures = {"serving_default": serving_default, "serialized_examples": serialized_examples}
        if _TOKEN_COUNT in with_token_count.get_concrete_function().structured_outputs:
            signatures["with_token_count"] = with_token_count
        return signatures | {name: _signature(_parameters(serve), serve, weights) for name, serve in self.more.items()}

    def requests(self, signatures: Iterable[str]) -> Iterator[saving.Request]:
        """Yields warm-up requests for the signatures."""
        for texts in _BATCHES:
            feature = {name: [text.encode() for text in texts] for name in self.names}
            rows = [{name: values[row] for name, values in feature.items()} for row in range(len(texts))]
            for signature in (each for each in signatures if each not in self.more):
                is_serialized = signature == "serialized_examples"
                yield signature, {"examples": [_encode(row) for row in rows]} if is_serialized else feature


def _specs(names: Iterable[str]) -> dict[str, tf.TensorSpec]:
    return {name: tf.TensorSpec([None], tf.string, name) for name in names}


def _parameters(serve: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(serve).parameters)


def _signature(names: Sequence[str], serve: Callable[..., dict[str, tf.Tensor]], weights: saving.StoredWeights) -> Any:
    """Makes a function of texts by these names, whose outputs are float32, whatever computes them, or no floats."""

    @tf.function(input_signature=[_specs(names)], autograph=False)
    def signature(texts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        with weights.in_place():
            outputs = serve(*(texts[name] for name in names))
        return {name: tf.cast(x, tf.float32) if x.dtype.is_floating else x for name, x in outputs.items()}

    return signature


def _check_dimensions(model: Any, dimensions: Sequence[int]) -> None:
    if not hasattr(model, "vector_size"):
        raise TypeError(f"dimensions are for the vectors of a BertSentenceEncoder; got a {type(model).__name__}")
    for size in dimensions:
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= model.vector_size:
            raise ValueError(
                f"dimensions has {size!r}; expected numbers from 1 to {model.vector_size}, the vector's size"
            )


def _with_short_vectors(model: Any, dimensions: Sequence[int], text: tf.Tensor) -> dict[str, tf.Tensor]:
    outputs = model.serve(text)
    for size in dimensions:
        short = outputs["embedding"][:, :size]
        outputs[_short_name(size)] = keras.ops.normalize(short, axis=-1) if model.normalize else short
    return outputs


def _short_name(size: int) -> str:
    return f"embedding_{size}"
