"""What export_serving writes: answers, versions, warm-up requests, refusals."""

import dataclasses
import json
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertEncoder, BertReranker, BertSentenceEncoder
from keras_bert.convert import convert
from keras_bert.saved_model import export_serving, serving
from keras_bert.saved_model.serving import versions

from ..support import small
from ..support.hub import LABELS, classifier
from ..support.hub import TEXTS as WORDS
from ..support.messages import error_names

TEXTS = ["I love pizza", "", "Ünïcödé 你好", "word " * 700]


@pytest.fixture(scope="module")
def model():
    """Small, with dropout, so that an export that trains would be noticed."""
    keras.utils.set_random_seed(0)
    return BertSentenceEncoder(small_encoder(), small.preprocessor())


class Lengths(keras.layers.Layer):
    """Strings -> how long each is, `[batch, 1]`."""

    def call(self, texts):
        return tf.cast(tf.strings.length(texts), tf.float32)[:, None]

    def compute_output_spec(self, texts):
        return keras.KerasTensor((None, 1))


@pytest.fixture(scope="module")
def pair_model():
    keras.utils.set_random_seed(0)
    first, second = (keras.Input(shape=(), dtype="string", name=name) for name in ("text", "text_pair"))
    lengths = keras.layers.Concatenate()([Lengths()(first), 10.0 * Lengths()(second)])
    return keras.Model([first, second], {"scores": keras.layers.Dense(3)(keras.layers.Dropout(0.5)(lengths))})


def small_encoder(**options):
    return BertEncoder(dataclasses.replace(small.CONFIG, num_layers=1, initializer_range=0.3), **options)


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    return export_serving(model, tmp_path_factory.mktemp("serving") / "model")


@pytest.fixture(scope="module")
def signatures(exported, loaded):
    return loaded(exported).signatures


def example(**texts: str) -> bytes:
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()])) for name, text in texts.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def test_both_signatures_answer_as_the_model_does(model, signatures):
    expected = model(TEXTS)
    served = signatures["serving_default"](text=tf.constant(TEXTS))
    assert list(served) == ["embedding"]
    np.testing.assert_allclose(served["embedding"], expected, rtol=0, atol=1e-5)
    examples = tf.constant([example(text=text) for text in TEXTS])
    np.testing.assert_array_equal(
        signatures["serialized_examples"](examples=examples)["embedding"], served["embedding"]
    )


@pytest.mark.slow
def test_tokens_are_counted_and_vectors_are_shortened(tmp_path):
    settings = {"prompts": {"query": "you ask: "}, "default_prompt": "query", "include_prompt": False}
    parts = small_encoder(), small.preprocessor()
    version = export_serving(BertSentenceEncoder(*parts, **settings), tmp_path, dimensions=[16, 32])
    signatures = tf.saved_model.load(version).signatures
    served = signatures["with_token_count"](text=tf.constant(TEXTS))
    read = parts[1](["you ask: " + text for text in TEXTS])["input_mask"].numpy().sum(axis=1)
    assert served.pop("token_count").numpy().tolist() == read.tolist()
    assert sorted(served) == ["embedding", "embedding_16", "embedding_32"]
    for name, vectors in served.items():
        size = int(name.partition("_")[2] or 32)
        same_size = BertSentenceEncoder(*parts, **settings, truncate_dim=size)
        np.testing.assert_allclose(vectors, same_size(TEXTS), rtol=0, atol=1e-5)
    assert list(signatures["serving_default"].structured_outputs) == ["embedding"]


@pytest.mark.slow
def test_the_logits_of_a_reranker_are_for_clients_that_sort_only(tmp_path):
    signatures = tf.saved_model.load(export_serving(small.task(BertReranker), tmp_path)).signatures
    assert sorted(signatures["with_token_count"].structured_outputs) == ["logit", "score", "token_count"]
    assert list(signatures["serving_default"].structured_outputs) == ["score"]


@pytest.mark.slow
def test_the_sizes_that_vectors_were_trained_for_are_in_the_files_and_in_the_export(untraced, tmp_path):
    model = BertSentenceEncoder(small_encoder(), small.preprocessor(), matryoshka_dimensions=[32, 16])
    model.save_preset(tmp_path / "model")
    convert(tmp_path / "model", tmp_path / "copy")
    for name in ("model", "copy"):
        assert json.loads((tmp_path / name / "config.json").read_text())["matryoshka_dimensions"] == [32, 16]
    version = export_serving(BertSentenceEncoder.from_preset(tmp_path / "copy"), tmp_path / "served")
    outputs = tf.saved_model.load(version).signatures["with_token_count"].structured_outputs
    assert sorted(outputs) == ["embedding", "embedding_16", "token_count"]
    with error_names(ValueError, "matryoshka_dimensions", 33, 32):
        BertSentenceEncoder(small_encoder(), small.preprocessor(), matryoshka_dimensions=[33])


@pytest.mark.slow
def test_tokens_of_windows_and_of_pairs_are_counted(untraced):
    windows = small.preprocessor(stride=8)
    counts = BertSentenceEncoder(small_encoder(), windows).serve(tf.constant(TEXTS))["token_count"].numpy()
    assert counts.tolist() == windows(TEXTS)["input_mask"].numpy().sum(axis=(1, 2)).tolist()
    assert counts.max() > windows.longest
    counts = small.task(BertReranker).serve(tf.constant(["a"]), tf.constant(TEXTS))["token_count"].numpy()
    pairs = small.preprocessor()((["a"] * len(TEXTS), TEXTS))
    assert counts.tolist() == pairs["input_mask"].numpy().sum(axis=1).tolist()


@pytest.mark.parametrize(
    ("make", "settings", "error", "words"),
    [
        (None, {"dimensions": [16, 0]}, ValueError, ["dimensions", 0, 32]),
        (None, {"dimensions": [33]}, ValueError, ["dimensions", 33, 32]),
        (None, {"dimensions": [True]}, ValueError, ["dimensions", True]),
        (lambda: small.task(BertReranker), {"dimensions": [16]}, TypeError, ["BertReranker", "BertSentenceEncoder"]),
        (None, {"dimensions": [16], "signature": "transformers"}, TypeError, ["dimensions", "signature"]),
    ],
)
def test_sizes_that_vectors_cannot_have_are_refused(model, tmp_path, make, settings, error, words):
    with error_names(error, *words):
        export_serving(make() if make else model, tmp_path, **settings)
    assert not list(tmp_path.iterdir())


def test_batches_are_as_long_as_their_longest_text(signatures):
    signature = signatures["serving_default"]
    assert signature(text=tf.zeros([0], tf.string))["embedding"].shape == (0, 32)
    np.testing.assert_allclose(
        signature(text=tf.constant(["a"]))["embedding"],
        signature(text=tf.constant(["a", "word " * 700]))["embedding"][:1],
        rtol=0,
        atol=1e-5,
    )


def test_an_example_without_the_text_is_refused(signatures):
    with error_names(tf.errors.InvalidArgumentError, "Feature: text", "required"):
        signatures["serialized_examples"](examples=tf.constant([example(title="no text")]))


@pytest.mark.slow
def test_a_functional_model_of_a_pair_that_was_trained(pair_model, tmp_path):
    pair = [tf.constant(["The film was good!", "a"]), tf.constant(["Very bad.", "b"])]
    before = pair_model(pair)["scores"]
    loss = {"scores": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    pair_model.compile("adam", loss, metrics={"scores": "accuracy"})
    pair_model.fit(tf.data.Dataset.from_tensors((tuple(pair), {"scores": tf.constant([0, 2])})), verbose=0)
    signatures = tf.saved_model.load(export_serving(pair_model, tmp_path / "pairs")).signatures
    served = signatures["serving_default"](text=pair[0], text_pair=pair[1])
    np.testing.assert_allclose(served["scores"], pair_model(pair)["scores"], rtol=0, atol=1e-5)
    swapped = signatures["serving_default"](text=pair[1], text_pair=pair[0])
    assert all(np.abs(other["scores"] - served["scores"]).max() > 1e-3 for other in (swapped, {"scores": before}))
    rows = zip(*(texts.numpy() for texts in pair), strict=True)
    examples = [example(text=a.decode(), text_pair=b.decode()) for a, b in rows]
    again = signatures["serialized_examples"](examples=tf.constant(examples))
    np.testing.assert_array_equal(again["scores"], served["scores"])


@pytest.mark.slow
def test_a_model_with_graphs_and_tables_of_its_own(ours, tmp_path):
    hub = classifier(ours)
    hub.fit(WORDS, LABELS, verbose=0)  # so that the file's values are not the answer
    hub.save(tmp_path / "hub.keras")
    text = keras.Input(shape=(), dtype="string")
    words = keras.layers.TextVectorization(output_sequence_length=4)
    words.adapt(["good film", "bad plot"])
    table = keras.Model(text, keras.layers.Embedding(9, 3)(words(text)))
    for name, model in {
        "hub": hub,
        "read again": keras.models.load_model(tmp_path / "hub.keras", safe_mode=False),
        "table": table,
    }.items():
        (tmp_path / "new").mkdir()
        version = export_serving(model, tmp_path / "new" / name)
        moved = (tmp_path / "new").rename(tmp_path / f"moved {name}") / name / version.name
        (served,) = tf.saved_model.load(moved).signatures["serving_default"](WORDS).values()
        np.testing.assert_allclose(served, model(WORDS), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_served_floats_are_float32(tmp_path):
    text = keras.Input(shape=(), dtype="string", name="text")
    pooled = small_encoder(dtype="mixed_bfloat16")(small.preprocessor()(text))["pooled_output"]
    signature = tf.saved_model.load(export_serving(keras.Model(text, pooled), tmp_path)).signatures["serving_default"]
    assert [output.dtype for output in signature.structured_outputs.values()] == [tf.float32]


@pytest.mark.slow
def test_half_the_size_as_the_next_version(model, exported, tmp_path):
    assert exported.name == "1"
    assert not (exported / "README.md").exists()  # it needs no special processor
    for name in ("notes", "007", "2"):
        (tmp_path / name).mkdir()
    half = export_serving(model, tmp_path, dtype="bfloat16")
    assert half == tmp_path / "8"
    assert versions(tmp_path) == [2, 7, 8]
    saved = [(each / "variables/variables.data-00000-of-00001").stat().st_size for each in (exported, half)]
    assert saved[0] - saved[1] == pytest.approx(2 * model.count_params(), abs=200)
    served = tf.saved_model.load(half).signatures["serving_default"](text=tf.constant(TEXTS))["embedding"]
    np.testing.assert_allclose(served, model(TEXTS), rtol=0, atol=1e-1)


def test_nothing_is_overwritten(model, exported):
    before = (exported / "saved_model.pb").stat().st_mtime_ns
    with error_names(FileExistsError, exported, "overwrite"):
        export_serving(model, exported.parent, version=1)
    with error_names(FileExistsError, exported, "itself a SavedModel", "another directory"):
        export_serving(model, exported)
    assert (exported / "saved_model.pb").stat().st_mtime_ns == before
    export_serving(model, exported.parent, version=1, overwrite=True)
    assert (exported / "saved_model.pb").stat().st_mtime_ns > before
    assert [each.name for each in exported.parent.iterdir()] == ["1"]


def model_of_ids():
    ids = keras.Input(shape=(8,), dtype="int32", name="input_word_ids")
    return keras.Model(ids, small_encoder()({"input_word_ids": ids})["default"])


@pytest.mark.parametrize(
    ("make", "version", "error", "words"),
    [
        *((None, version, ValueError, ["version", repr(version), "1 or more"]) for version in (0, -1, "1", True, 1.0)),
        (small_encoder, None, TypeError, ["BertEncoder", "strings"]),
        (model_of_ids, None, TypeError, ["input_word_ids", "int32", 'dtype="string"', "BertPreprocessor"]),
    ],
)
def test_a_version_that_is_no_number_and_a_model_of_ids_are_refused(model, tmp_path, make, version, error, words):
    with error_names(error, *words):
        export_serving(make() if make else model, tmp_path, version=version)
    assert not list(tmp_path.iterdir())


def test_a_failed_export_leaves_nothing(model, tmp_path, monkeypatch):
    def full_disk(*_, **__):
        raise OSError("No space left on device")

    monkeypatch.setattr(tf.saved_model, "save", full_disk)
    with error_names(OSError, "No space left"):
        export_serving(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_warm_up_requests_are_in_tf_servings_format(exported, signatures):
    prediction_log_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    path = exported / "assets.extra" / "tf_serving_warmup_requests"
    requests = [
        prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
        for record in tf.data.TFRecordDataset(str(path))
    ]
    assert {request.model_spec.signature_name for request in requests} == set(signatures)
    lengths = set()
    for request in requests:
        fed = {name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()}
        answer = signatures[request.model_spec.signature_name](**fed)["embedding"]
        lengths.add(len(answer))
        assert np.isfinite(answer).all()
    assert {1} < lengths  # one text, and several at a time


def test_without_the_extra(monkeypatch):
    for name in ("tensorflow_serving", "tensorflow_serving.apis", "tensorflow_serving.apis.prediction_log_pb2"):
        monkeypatch.setitem(sys.modules, name, None)  # cannot be imported
    with error_names(ImportError, "pip install 'keras-bert-models[serve]'"):
        serving.messages()
