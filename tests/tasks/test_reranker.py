"""BertReranker: its scores and their order, its directories, and CrossEncoder beside it."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertReranker, presets
from keras_bert.formats import Preset, cross_encoder
from keras_bert.saved_model import export_serving
from keras_bert.saved_model.check import check_serving
from keras_bert.tasks.table import load_reranker, load_task, task_of
from keras_bert.training import evaluate, fine_tune

from ..support import small

QUERY = "was the film good?"
PASSAGES = ["The film was very good.", "", "She loved it, and he hated the music.", "the bank of the river"]
IDENTITY, SIGMOID = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid"


def new(**settings):
    return small.task(BertReranker, config={"num_layers": 1}, **settings)


@pytest.fixture(scope="module")
def model():
    return new()


@pytest.fixture
def saved(model, tmp_path):
    directory = tmp_path / "reranker"
    model.save_preset(directory)
    return directory


def change(directory, name, **values):
    """Changes entries of a JSON file; None removes them."""
    path = directory / name
    entries = {**(json.loads(path.read_text()) if path.exists() else {}), **values}
    path.write_text(json.dumps({key: value for key, value in entries.items() if value is not None}))


def test_scores(model):
    queries = [QUERY] * len(PASSAGES)
    logits = np.asarray(model((queries, PASSAGES)))
    assert (logits.shape, logits.dtype) == ((4, 1), np.float32)
    pooled = model.encoder(model.preprocessor((queries, PASSAGES)))["pooled_output"]
    np.testing.assert_allclose(model.head(pooled), logits, atol=1e-5)
    scores = model.score(queries, PASSAGES)
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-logits[:, 0])), atol=1e-5)
    assert np.ptp(scores) > 0.01
    assert np.abs(model.score(PASSAGES, queries) - scores).max() > 0.01  # the order matters
    assert model.score(QUERY, PASSAGES[0]) == pytest.approx(float(scores[0]), abs=1e-6)
    assert model.score([], []).shape == (0,)
    served = model.serve(tf.constant(queries), tf.constant(PASSAGES))
    np.testing.assert_allclose(served["score"], scores, atol=1e-5)
    of_one = model.serve(tf.constant([QUERY]), tf.constant(PASSAGES))  # a query and its passages
    np.testing.assert_allclose(of_one["score"], scores, atol=1e-5)


def test_rank(model):
    scores = model.score([QUERY] * len(PASSAGES), PASSAGES)
    order = np.argsort(-scores).tolist()
    ranked = model.rank(QUERY, PASSAGES)
    assert [each["index"] for each in ranked] == order
    assert [each["text"] for each in ranked] == [PASSAGES[index] for index in order]
    np.testing.assert_allclose([each["score"] for each in ranked], scores[order], atol=1e-5)
    assert [each["index"] for each in model.rank(QUERY, PASSAGES, top_k=2)] == order[:2]
    many = model.rank([QUERY, "the river"], [PASSAGES, PASSAGES[:1]])
    assert [[each["index"] for each in ranked] for ranked in many] == [order, [0]]
    assert model.rank(QUERY, []) == []


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda model: model.rank(QUERY, "a film"), TypeError, "passages is a single str"),
        (lambda model: model.rank([QUERY], ["a film"]), TypeError, r"passages\[0\] is a single str"),
        (lambda model: model.rank([QUERY, QUERY], [["a film"]]), ValueError, "2 queries, but 1 lists of passages"),
        (lambda model: model.rank(QUERY, ["a film"], top_k=0), ValueError, "top_k is 0"),
        (lambda model: model.score(QUERY, ["a film"]), TypeError, "single str"),
        (lambda model: model(tf.constant([QUERY])), ValueError, "this model takes pairs"),
        (lambda model: model.answers([QUERY]), ValueError, "this model takes pairs"),
        (lambda model: model.examples([QUERY], [1]), ValueError, "this model takes pairs"),
        (lambda model: model.targets([0, 1.5]), ValueError, "label 1 is 1.5; expected a number from 0"),
        (lambda model: model.targets(["yes"]), ValueError, r"labels, from 0 .* must be numbers.*'yes'"),
        (lambda model: new(activation="tanh"), ValueError, "activation is 'tanh'; expected sigmoid or identity"),
        (lambda model: new(text={"stride": 4}), ValueError, "stride is 4"),
        (lambda model: new(labels=["a", "b", "c"]), ValueError, "labels are a, b, c; a reranker has two"),
    ],
)
def test_mistakes(model, call, error, message):
    with pytest.raises(error, match=message):
        call(model)


@pytest.mark.parametrize("activation", ["sigmoid", "identity"])
def test_saved_and_read(tmp_path, activation):
    model = new(activation=activation)
    model.save_preset(tmp_path)
    assert task_of(tmp_path) is BertReranker
    again = load_task(tmp_path)
    assert small.same(again, model)
    np.testing.assert_array_equal(again.score([QUERY], PASSAGES[:1]), model.score([QUERY], PASSAGES[:1]))
    other = {"sigmoid": "identity", "identity": "sigmoid"}[activation]
    chosen = BertReranker.from_preset(tmp_path, activation=other)  # not the encoder's, which has the same name
    assert chosen.activation == other
    assert chosen.encoder.config == model.encoder.config


@pytest.mark.parametrize("name", [IDENTITY, SIGMOID, "torch.nn.Identity"])
@pytest.mark.parametrize("dialect", ["before 4", "before 5.4", "5.4"])
def test_dialects(saved, name, dialect):
    change(saved, "config.json", sbert_ce_default_activation_function=None, keras_bert=None)
    assert task_of(saved) is BertClassifier  # nothing says that it is a reranker
    assert BertReranker.from_preset(saved).activation == "sigmoid"
    if dialect == "before 4":
        change(saved, "config.json", sbert_ce_default_activation_function=name)
    elif dialect == "before 5.4":
        change(saved, "config.json", sentence_transformers={"activation_fn": name, "version": "4.1.0"})
    else:
        settings = {"activation_fn": name, "model_type": "CrossEncoder", "default_prompt_name": None, "prompts": {}}
        (saved / "config_sentence_transformers.json").write_text(json.dumps(settings))
        transformer = {
            "transformer_task": "sequence-classification",
            "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
            "module_output_name": "scores",
            "max_seq_length": 20,
        }
        (saved / "sentence_bert_config.json").write_text(json.dumps(transformer))
        kind = "sentence_transformers.base.modules.transformer.Transformer"
        (saved / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": kind}]))
    assert task_of(saved) is BertReranker
    read = BertReranker.from_preset(saved)
    assert read.activation == ("sigmoid" if name == SIGMOID else "identity")
    assert read.preprocessor.max_sequence_length == (20 if dialect == "5.4" else 24)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("config.json", {"sbert_ce_default_activation_function": "torch.nn.Tanh"}, "the activation is torch.nn.Tanh"),
        (
            "config_sentence_transformers.json",
            {"model_type": "CrossEncoder", "default_prompt_name": "q", "prompts": {"q": "query: "}},
            "default_prompt_name is 'q'",
        ),
        (
            "config_sentence_transformers.json",
            {"model_type": "CrossEncoder", "activation_fn": 5},
            "has 5 in activation",
        ),
        ("tokenizer_config.json", {"model_max_length": -1}, "the maximum length, model_max_length, is -1"),
    ],
)
def test_what_is_not_supported_is_refused(saved, name, values, message):
    change(saved, name, **values)
    with pytest.raises(ValueError, match=message):
        BertReranker.from_preset(saved)


def test_other_modules_are_refused(saved):
    change(saved, "config_sentence_transformers.json", model_type="CrossEncoder")
    modules = [
        {"type": f"sentence_transformers.base.modules.{kind}", "path": ""} for kind in ("Transformer", "LogitScore")
    ]
    (saved / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match="asks for Transformer, LogitScore; only Transformer is supported"):
        BertReranker.from_preset(saved)


@pytest.fixture(scope="module")
def two_labels(tmp_path_factory):
    """A classifier of pairs, as monoBERT is, and its directory."""
    directory = tmp_path_factory.mktemp("monobert")
    model = small.task(BertClassifier, ["no", "yes"], pairs=True, config={"num_layers": 1})
    model.save_preset(directory)
    return model, directory


@pytest.mark.parametrize("names", [{"0": "no", "1": "yes"}, None])
def test_two_labels_give_the_probability_of_the_second(two_labels, tmp_path, recwarn, names):
    classifier, directory = two_labels
    shutil.copytree(directory, tmp_path / "theirs")
    change(tmp_path / "theirs", "config.json", id2label=names, keras_bert=None)
    assert task_of(tmp_path / "theirs") is BertClassifier  # nothing says that it is a reranker
    model = load_reranker(tmp_path / "theirs")
    queries = [QUERY] * len(PASSAGES)
    logits = np.asarray(classifier((queries, PASSAGES)))
    expected = np.exp(logits[:, 1]) / np.exp(logits).sum(axis=1)
    np.testing.assert_allclose(model.score(queries, PASSAGES), expected, atol=1e-5)
    by_difference = BertReranker.from_preset(directory, activation="identity")
    np.testing.assert_allclose(by_difference.score(queries, PASSAGES), logits[:, 1] - logits[:, 0], atol=1e-5)
    assert [str(each.message) for each in recwarn if issubclass(each.category, UserWarning)] == []


@pytest.mark.parametrize("activation", ["sigmoid", "identity"])
def test_two_labels_are_saved_and_read(two_labels, tmp_path, activation):
    model = BertReranker.from_preset(two_labels[1], activation=activation)
    model.save_preset(tmp_path / "preset")
    assert task_of(tmp_path / "preset") is BertReranker
    again = load_task(tmp_path / "preset")
    assert small.same(again, model)
    assert (again.labels, again.activation) == (["no", "yes"], activation)
    assert json.loads((tmp_path / "preset/config.json").read_text())["id2label"] == {"0": "no", "1": "yes"}
    classifier = BertClassifier.from_preset(tmp_path / "preset", pairs=True)  # both logits are there
    np.testing.assert_array_equal(classifier.head.get_weights()[-1], model.head.get_weights()[-1])


def test_two_labels_learn_what_their_classifier_learns(two_labels):
    """The binary cross-entropy of the difference is the cross-entropy of both logits."""
    classifier, directory = two_labels
    pairs, labels = ([QUERY] * 4, PASSAGES), np.array([1, 0, 1, 0])
    reranker = BertReranker.from_preset(directory)
    logits = classifier(pairs)
    ours = reranker.training_loss()(reranker.targets(labels), reranker(pairs))
    assert float(ours) == pytest.approx(float(classifier.training_loss()(labels, logits)), abs=1e-5)


def test_a_head_of_three_labels(tmp_path):
    """A CrossEncoder of three classes is a classifier; and a classifier can be trained to be a reranker."""
    small.task(BertClassifier, ["yes", "no", "maybe"], pairs=True, config={"num_layers": 1}).save_preset(tmp_path)
    with pytest.warns(UserWarning, match="has a trained head for yes, no, maybe; for one score a new one is drawn"):
        assert BertReranker.from_preset(tmp_path).score("a", "b") >= 0
    with pytest.raises(ValueError, match="has no head that scores pairs"):
        load_reranker(tmp_path)
    change(tmp_path, "config.json", sbert_ce_default_activation_function=IDENTITY)
    assert task_of(tmp_path) is BertClassifier
    with pytest.raises(ValueError, match="has 3 outputs for a pair, not one score; load it as a BertClassifier"):
        BertReranker.from_preset(tmp_path)


@pytest.mark.parametrize(
    ("folder", "activation"),
    [
        ("ms-marco-MiniLM-L-6-v2-st5.4", "identity"),
        ("ms-marco-MiniLM-L-12-v2", "identity"),
        ("mmarco-mMiniLMv2-L12-H384-v1", "identity"),
        ("bge-reranker-base-st5.5", "sigmoid"),
    ],
)
def test_real_directories(shared_data, folder, activation):
    directory = shared_data / "modern" / folder
    assert cross_encoder.read(Preset(directory)) == cross_encoder.CrossEncoderSettings(True, activation, 512)


def test_a_sentence_encoder_is_no_reranker():
    assert not cross_encoder.read(Preset(presets.resolve("all-MiniLM-L6-v2"))).is_declared


def test_real_directories_of_others(shared_data):
    for folder in ("e5-small-v2", "all-mpnet-base-v2-st5.5", "modernbert-base-25-labels"):
        assert not cross_encoder.read(Preset(shared_data / "modern" / folder)).is_declared


def test_it_learns():
    """That a passage with one of four words is an answer."""
    passages = [f"{word} {other}" for word in small.WORDS.split()[:8] for other in small.WORDS.split()[8:14]]
    labels = [float(number < len(passages) // 2) for number in range(len(passages))]
    queries = [QUERY] * len(passages)
    model = new(scale=0.1)
    before = evaluate(model, (queries, passages), labels)
    fine_tune(model, ((queries, passages), labels), epochs=4, batch_size=8, learning_rate=3e-3, progress=False)
    assert before["average_precision"] < 0.8
    assert evaluate(model, (queries, passages), labels)["average_precision"] > 0.95


@pytest.mark.slow
def test_served(model, tmp_path):
    export_serving(model, tmp_path / "served")
    assert "TF Serving has all of them" in check_serving(tmp_path / "served")[0]
    loaded = tf.saved_model.load(str(tmp_path / "served" / "1"))
    scores = loaded.signatures["serving_default"](text=tf.constant([QUERY]), text_pair=tf.constant(PASSAGES[:1]))
    np.testing.assert_allclose(scores["score"], model.score([QUERY], PASSAGES[:1]), atol=1e-5)
    ranked = loaded.signatures["serving_default"](text=tf.constant([QUERY]), text_pair=tf.constant(PASSAGES))
    expected = {each["index"]: each["score"] for each in model.rank(QUERY, PASSAGES)}
    np.testing.assert_allclose(ranked["score"], [expected[index] for index in range(len(PASSAGES))], atol=1e-5)


@pytest.mark.parity
@pytest.mark.parametrize("activation", ["sigmoid", "identity"])
def test_cross_encoder_reads_what_we_write_and_we_read_theirs(tmp_path, activation):
    theirs = pytest.importorskip("sentence_transformers")
    ours = new(activation=activation)
    ours.save_preset(tmp_path / "ours")
    queries = [QUERY] * len(PASSAGES)
    passages = [*PASSAGES[:-1], "the river bank and the music " * 20]
    model = theirs.CrossEncoder(str(tmp_path / "ours"), device="cpu")
    expected = model.predict(list(zip(queries, passages, strict=True)))
    with pytest.warns(UserWarning, match="texts cut"):
        np.testing.assert_allclose(ours.score(queries, passages), expected, rtol=0, atol=1e-4)
    ranked = model.rank(QUERY, PASSAGES)
    assert [each["corpus_id"] for each in ranked] == [each["index"] for each in ours.rank(QUERY, PASSAGES)]
    model.save_pretrained(str(tmp_path / "theirs"))
    assert task_of(tmp_path / "theirs") is BertReranker
    again = load_task(tmp_path / "theirs")
    np.testing.assert_allclose(again.score(queries, PASSAGES), ours.score(queries, PASSAGES), rtol=0, atol=1e-5)
    assert again.activation == activation


@pytest.mark.parity
def test_transformers_and_cross_encoder_read_two_labels(two_labels, tmp_path):
    theirs = pytest.importorskip("sentence_transformers")
    transformers = pytest.importorskip("transformers")
    model = BertReranker.from_preset(two_labels[1])
    model.save_preset(tmp_path)
    queries = [QUERY] * len(PASSAGES)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    loaded = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert loaded.config.id2label == {0: "no", 1: "yes"}
    logits = loaded(**tokenizer(queries, PASSAGES, padding=True, return_tensors="pt")).logits.detach().numpy()
    expected = np.exp(logits[:, 1]) / np.exp(logits).sum(axis=1)
    np.testing.assert_allclose(model.score(queries, PASSAGES), expected, rtol=0, atol=1e-5)
    pairs = list(zip(queries, PASSAGES, strict=True))
    scores = theirs.CrossEncoder(str(tmp_path), device="cpu").predict(pairs)  # the logits of both
    np.testing.assert_allclose(scores, logits, rtol=0, atol=1e-5)
