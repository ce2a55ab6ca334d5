"""BertReranker: its scores and their order, its directories, lists of passages, and CrossEncoder beside it."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertReranker
from keras_bert.answers import ranking
from keras_bert.formats import Preset
from keras_bert.formats.libraries import cross_encoder
from keras_bert.loss_table import losses_of
from keras_bert.tasks.losses import chosen
from keras_bert.tasks.losses import ranking_losses as losses
from keras_bert.tasks.registry import load_reranker, load_task, task_of
from keras_bert.training import evaluate, fine_tune

from ..support import small
from ..support.data import change_json
from ..support.losses import assert_saved_compiled_and_learned_from
from ..support.messages import error_names, warning_names

QUERY = "was the film good?"
PASSAGES = ["The film was very good.", "", "She loved it, and he hated the music.", "the bank of the river"]
THEIRS, PROMPT = "config_sentence_transformers.json", {"default_prompt_name": "q", "prompts": {"q": "query: "}}
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


def test_scores(model, untraced):
    queries = [QUERY] * len(PASSAGES)
    logits = np.asarray(model((queries, PASSAGES)))
    assert (logits.shape, logits.dtype) == ((4, 1), np.float32)
    pooled = model.encoder(model.preprocessor((queries, PASSAGES)))["pooled_output"]
    np.testing.assert_allclose(model.head(pooled), logits, atol=1e-5)
    scores = model.score(queries, PASSAGES)
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-logits[:, 0])), atol=1e-5)
    assert np.ptp(scores) > 0.01
    assert np.abs(model.score(PASSAGES, queries) - scores).max() > 0.01  # the order matters
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


def test_the_order_is_that_of_logits_where_scores_are_equal(untraced):
    model, passages = new(), PASSAGES[2:]
    kernel, bias = model.head.logits.get_weights()
    first, second = model.predict(([QUERY] * 2, passages), verbose=0).ravel()
    scale = 3 / (second - first)
    model.head.logits.set_weights([kernel * scale, (bias - first) * scale + 25])
    ranked = model.rank(QUERY, passages)
    assert [each["index"] for each in ranked] == [1, 0]
    assert {each["score"] for each in ranked} == {1.0}
    served = model.serve(tf.constant([QUERY]), tf.constant(passages))
    np.testing.assert_allclose(served["logit"], [25, 28], atol=0.01)
    lists = [QUERY], passages[1:], passages[:1]
    for labels, measures in (([[1, 0]], {"ndcg@10": 1, "mrr@10": 1}), ([[0, 1]], {"mrr@10": 0.5})):
        assert evaluate(model, lists, labels).items() >= measures.items()
    assert evaluate(model, ([QUERY] * 2, passages), [0.0, 1.0])["average_precision"] == 1


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda model: model.rank(QUERY, "a film"), TypeError, ("passages", "str")),
    (lambda model: model.rank([QUERY], ["a film"]), TypeError, ("passages[0", "str")),
    (lambda model: model.rank([QUERY, QUERY], [["a film"]]), ValueError, ("2 queries", "1 list")),
    (lambda model: model.rank(QUERY, ["a film"], top_k=0), ValueError, ("top_k", "0")),
    (lambda model: model.score(QUERY, ["a film"]), TypeError, ("str",)),
    (lambda model: model(tf.constant([QUERY])), ValueError, ("pairs",)),
    (lambda model: model.answers([QUERY]), ValueError, ("pairs",)),
    (lambda model: model.examples([QUERY], [1]), ValueError, ("pairs",)),
    (lambda model: model.targets([0, 1.5]), ValueError, ("label 1", "1.5", "0")),
    (lambda model: new(activation="tanh"), ValueError, ("activation", "'tanh'", "sigmoid", "identity")),
    (lambda model: new(text={"stride": 4}), ValueError, ("stride", "4")),
    (lambda model: new(labels=["a", "b", "c"]), ValueError, ("labels", "a, b, c", "two")),
    (lambda _: losses.ListNetLoss()(LABELS[:, :1], LOGITS[:, :1]), ValueError, ("pairs",)),
    (lambda _: losses.LambdaLoss()(LABELS[:, :2], LOGITS), ValueError, ("3 passages",)),
    (lambda _: losses.LambdaLoss(0), ValueError, ("k", "0")),
])  # fmt: skip
def test_what_cannot_be_scored_or_learned_is_refused(model, call, error, words):
    with error_names(error, *words):
        call(model)


def test_an_activation_that_is_chosen_is_not_that_of_the_encoder(model, saved):
    assert task_of(saved) is BertReranker
    chosen = BertReranker.from_preset(saved, activation="identity")
    assert chosen.activation == "identity"
    assert chosen.encoder.config == model.encoder.config


@pytest.mark.parametrize(("dialect", "name"), [
    *(("before 4", name) for name in (IDENTITY, SIGMOID, "torch.nn.Identity")),
    *((dialect, name) for dialect in ("before 5.4", "5.4") for name in (IDENTITY, SIGMOID)),
])  # fmt: skip
def test_dialects(saved, dialect, name):
    change_json(saved, "config.json", sbert_ce_default_activation_function=None, keras_bert=None)
    assert task_of(saved) is BertClassifier  # nothing says that it is a reranker
    assert BertReranker.from_preset(saved).activation == "sigmoid"
    if dialect == "before 4":
        change_json(saved, "config.json", sbert_ce_default_activation_function=name)
    elif dialect == "before 5.4":
        older = {"sbert_ce_default_activation_function": IDENTITY if name == SIGMOID else SIGMOID}  # it is not read
        change_json(saved, "config.json", sentence_transformers={"activation_fn": name, "version": "4.1.0"}, **older)
    else:
        settings = {"activation_fn": name, "model_type": "CrossEncoder", "default_prompt_name": None, "prompts": {}}
        (saved / THEIRS).write_text(json.dumps(settings))
        modality = {"text": {"method": "forward", "method_output_name": "logits"}}
        more = {"modality_config": modality, "module_output_name": "scores", "max_seq_length": 20}
        change_json(saved, "sentence_bert_config.json", transformer_task="sequence-classification", **more)
        kind = "sentence_transformers.base.modules.transformer.Transformer"
        (saved / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": kind}]))
    assert task_of(saved) is BertReranker
    read = BertReranker.from_preset(saved)
    assert read.activation == ("sigmoid" if name == SIGMOID else "identity")
    assert read.preprocessor.max_sequence_length == (20 if dialect == "5.4" else 24)
    assert BertReranker.from_preset(saved, sequence_length=48).preprocessor.sequence_length == 48  # all its positions


@pytest.mark.parametrize(("name", "values", "words"), [
    ("config.json", {"sbert_ce_default_activation_function": "torch.nn.Tanh"}, ("activation", "torch.nn.Tanh")),
    (THEIRS, {"model_type": "CrossEncoder", **PROMPT}, ("default_prompt_name", "'q'")),
    (THEIRS, {"model_type": "CrossEncoder", "activation_fn": 5}, ("5", "activation_fn")),
    ("tokenizer_config.json", {"model_max_length": -1}, ("model_max_length", "-1")),
])  # fmt: skip
def test_what_is_not_supported_is_refused(saved, name, values, words):
    change_json(saved, name, **values)
    with error_names(ValueError, *words):
        BertReranker.from_preset(saved)


def test_other_modules_are_refused(saved):
    change_json(saved, THEIRS, model_type="CrossEncoder")
    kinds = ("Transformer", "LogitScore")
    modules = [{"type": f"sentence_transformers.base.modules.{kind}", "path": ""} for kind in kinds]
    (saved / "modules.json").write_text(json.dumps(modules))
    with error_names(ValueError, "Transformer, LogitScore", "supported"):
        BertReranker.from_preset(saved)


@pytest.fixture(scope="module")
def two_labels(tmp_path_factory):
    """A classifier of pairs, as monoBERT is, and its directory."""
    directory = tmp_path_factory.mktemp("monobert")
    model = small.task(BertClassifier, ["no", "yes"], pairs=True, config={"num_layers": 1})
    model.save_preset(directory)
    return model, directory


@pytest.mark.parametrize("names", [{"0": "no", "1": "yes"}, None])
def test_two_labels_give_the_probability_of_the_second(two_labels, tmp_path, recwarn, names, untraced):
    classifier, directory = two_labels
    shutil.copytree(directory, tmp_path / "theirs")
    change_json(tmp_path / "theirs", "config.json", id2label=names, keras_bert=None)
    assert task_of(tmp_path / "theirs") is BertClassifier  # nothing says that it is a reranker
    model = load_reranker(tmp_path / "theirs")
    queries = [QUERY] * len(PASSAGES)
    logits = np.asarray(classifier((queries, PASSAGES)))
    expected = np.exp(logits[:, 1]) / np.exp(logits).sum(axis=1)
    np.testing.assert_allclose(model.score(queries, PASSAGES), expected, atol=1e-5)
    by_difference = BertReranker.from_preset(directory, activation="identity")
    np.testing.assert_allclose(by_difference.score(queries, PASSAGES), logits[:, 1] - logits[:, 0], atol=1e-5)
    assert [str(each.message) for each in recwarn if issubclass(each.category, UserWarning)] == []


def test_two_labels_are_saved_and_read(two_labels, tmp_path):
    model = BertReranker.from_preset(two_labels[1], activation="identity")
    model.save_preset(tmp_path / "preset")
    assert task_of(tmp_path / "preset") is BertReranker
    again = load_task(tmp_path / "preset")
    assert small.same(again, model)
    assert (again.labels, again.activation) == (["no", "yes"], "identity")
    assert json.loads((tmp_path / "preset/config.json").read_text())["id2label"] == {"0": "no", "1": "yes"}
    classifier = BertClassifier.from_preset(tmp_path / "preset", pairs=True)  # both logits are there
    np.testing.assert_array_equal(classifier.head.get_weights()[-1], model.head.get_weights()[-1])


def test_two_labels_learn_what_their_classifier_learns(two_labels, untraced):
    """The binary cross-entropy of the difference is the cross-entropy of both logits."""
    classifier, directory = two_labels
    pairs, labels = ([QUERY] * 4, PASSAGES), np.array([1, 0, 1, 0])
    model = BertReranker.from_preset(directory)
    logits = classifier(pairs)
    ours = model.training_loss()(model.targets(labels), model(pairs))
    assert float(ours) == pytest.approx(float(classifier.training_loss()(labels, logits)), abs=1e-5)


def test_a_head_of_three_labels(tmp_path, untraced):
    """A CrossEncoder of three classes is a classifier; and a classifier can be trained to be a reranker."""
    small.task(BertClassifier, ["yes", "no", "maybe"], pairs=True, config={"num_layers": 1}).save_preset(tmp_path)
    with warning_names("head", "yes, no, maybe", "one score", "new"):
        assert BertReranker.from_preset(tmp_path).score("a", "b") >= 0
    with error_names(ValueError, "no head", "pairs"):
        load_reranker(tmp_path)
    change_json(tmp_path, "config.json", sbert_ce_default_activation_function=IDENTITY)
    assert task_of(tmp_path) is BertClassifier
    with error_names(ValueError, "3 outputs", "BertClassifier"):
        BertReranker.from_preset(tmp_path)


@pytest.mark.parity
def test_long_pairs_get_the_scores_of_a_cross_encoder(saved, untraced):
    """A row of 24 has room for 21 tokens of both texts, an odd number."""
    change_json(saved, "config.json", keras_bert=None)
    theirs = pytest.importorskip("sentence_transformers").CrossEncoder(str(saved), device="cpu")
    texts = [" ".join((QUERY, *PASSAGES) * 2)[start:] for start in range(0, 60, 4)]
    for model in (BertReranker.from_preset(saved), BertReranker.from_preset(saved, long_text="truncate")):
        scores = model.score(texts, texts[::-1])
        np.testing.assert_allclose(scores, theirs.predict([*zip(texts, texts[::-1], strict=True)]), atol=1e-5)


def test_real_directories(shared_data):
    folders = "ms-marco-MiniLM-L-6-v2-st5.4", "ms-marco-MiniLM-L-12-v2", "mmarco-mMiniLMv2-L12-H384-v1"
    for folder, activation in {**dict.fromkeys(folders, "identity"), "bge-reranker-base-st5.5": "sigmoid"}.items():
        read = cross_encoder.read(Preset(shared_data / "modern" / folder))
        assert read == cross_encoder.Settings(True, activation, 512)
    for folder in ("e5-small-v2", "all-mpnet-base-v2-st5.5", "modernbert-base-25-labels"):
        assert not cross_encoder.read(Preset(shared_data / "modern" / folder)).is_declared


@pytest.mark.slow
def test_it_learns(untraced):
    """That a passage with one of four words is an answer."""
    passages = [f"{word} {other}" for word in small.WORDS.split()[:8] for other in small.WORDS.split()[8:11]]
    labels = [float(number < len(passages) // 2) for number in range(len(passages))]
    queries = [QUERY] * len(passages)
    model = new(scale=0.1)
    before = evaluate(model, (queries, passages), labels)
    fine_tune(model, ((queries, passages), labels), epochs=5, batch_size=8, learning_rate=5e-3, progress=False)
    assert before["average_precision"] < 0.8
    assert evaluate(model, (queries, passages), labels)["average_precision"] > 0.95


# -- Lists: a query with several passages; losses, labels and measures of them

WORDS = small.WORDS.split()
QUERIES = ["was the film good?", "the river", "he hated it"]
COLUMNS = (WORDS[:3], ["the bank of the river", *WORDS[3:5]], ["She loved it, and he hated the music.", *WORDS[5:7]])
LABELS = np.array([[2, 0, 1], [0, 0, 1], [1, 2, 0]], np.float32)
LOGITS = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)


def test_logits_of_lists_are_those_of_their_pairs(model, untraced):
    pairs = [np.asarray(model((QUERIES, passages)))[:, 0] for passages in COLUMNS]
    logits = np.asarray(model((QUERIES, *COLUMNS)))
    np.testing.assert_allclose(logits, np.stack(pairs, axis=1), atol=1e-5)
    assert np.ptp(logits) > 0.01
    examples = model.examples((QUERIES, *COLUMNS), None)
    x, _ = model.batch(examples.segments, examples.targets)
    assert x["input_word_ids"].shape[:2] == (3, 3)
    np.testing.assert_allclose(np.asarray(model(x)), logits, atol=1e-5)
    lengths = [model._by_length.lengths([examples.segments[0], each]) for each in examples.segments[1:]]
    assert examples.lengths.tolist() == np.max(lengths, axis=0).tolist()
    np.testing.assert_allclose(model.answers((QUERIES, *COLUMNS)), logits, atol=1e-5)


def test_lambda_loss_by_its_formula():
    """Wang et al. 2018, with loops over the passages: one query, then the number of pairs of both."""

    def of_query(labels, logits, k):
        order = sorted(range(len(labels)), key=lambda i: -logits[i])
        rank = {passage: place for place, passage in enumerate(order, start=1)}
        kept = [None, *[1 / np.log2(1 + place) for place in range(1, 9)]]
        highest = sum((2**label - 1) * kept[place + 1] for place, label in enumerate(sorted(labels)[::-1][:k]))
        total, count = 0.0, 0
        for i, better in enumerate(labels):
            for j, worse in enumerate(labels):
                if better > worse and (rank[i] <= k or rank[j] <= k):
                    apart = abs(rank[i] - rank[j])
                    weight = 10 * abs(kept[apart] - kept[apart + 1]) + abs(kept[rank[i]] - kept[rank[j]])
                    total += weight * (2**better - 2**worse) / highest * np.log2(1 + np.exp(logits[j] - logits[i]))
                    count += 1
        return total, count

    equal = np.zeros_like(LOGITS)  # they keep their order
    for k, logits in [(None, LOGITS), (1, LOGITS), (2, LOGITS), (2, equal)]:
        found = [of_query(*row, k or 3) for row in zip(LABELS, logits, strict=True)]
        expected = sum(total for total, _ in found) / sum(count for _, count in found)
        assert float(losses.LambdaLoss(k)(LABELS, logits)) == pytest.approx(expected, rel=1e-5)
    assert float(losses.LambdaLoss()(np.ones([2, 3]), LOGITS[:2])) == 0


def test_list_net_by_its_formula():
    """The other losses are those of sentence vectors."""
    wanted, found = (np.exp(each) / np.exp(each).sum(axis=1, keepdims=True) for each in (LABELS, LOGITS))
    expected = -(wanted * np.log(found)).sum(axis=1).mean()
    assert float(losses.ListNetLoss()(LABELS, LOGITS)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", losses_of("rankings"))
def test_each_can_be_compiled_saved_and_learned_from(name):
    assert_saved_compiled_and_learned_from(chosen(name, "rankings"), LABELS, LOGITS)


def test_measures():
    scores = np.array([[0.1, 0.9, 0.5], [0.3, 0.2, 0.1]])
    found = ranking.measure_ranking(scores, np.array([[2, 0, 1], [0, 0, 0]]))
    expected = (1 / np.log2(3) + 3 / np.log2(4)) / (3 + 1 / np.log2(3))  # and 0 without an answer
    assert found == {"ndcg@10": pytest.approx(expected / 2), "mrr@10": pytest.approx(0.25)}
    for equal in (1.0, np.nan):  # a model that tells nothing apart; the answer stands first in the file
        found = ranking.measure_ranking(np.full([1, 4], equal), np.array([[1, 0, 0, 0]]))
        assert found == {"ndcg@10": pytest.approx(1 / np.log2(5)), "mrr@10": 0.25}
    for labels in ([[0.3, 1.1, 0.7], [0.5, 0.4, 0.3]], [[-0.8, -0.4], [0.1, 0.2]]):
        found = ranking.measure_ranking(scores, np.array(labels))
        assert found == {"spearman": pytest.approx(1), "pearson": pytest.approx(1)}


@pytest.mark.slow
@pytest.mark.parametrize("labels", [None, "scores", "grades"])
def test_lists_are_learned(labels, untraced):
    """That passages of some words are answers."""
    good, bad = WORDS[:8], WORDS[8:16]
    passages = (good * 2, bad * 2, bad[1:] * 2 + bad[:1] * 2)
    queries = ["was the film good?"] * len(passages[0])
    y = {"scores": [[1.5, -0.5, -0.5]], "grades": [[2, 0, 0]], None: None}[labels]
    y = y and y * len(queries)
    model, x = new(scale=0.1), (queries, *passages)
    before = evaluate(model, x, None)
    history = fine_tune(model, (x, y), (x, y), epochs=4, batch_size=8, learning_rate=1e-2, progress=False)
    assert history[-1]["loss"] < history[0]["loss"]
    assert ("val_spearman" if labels == "scores" else "val_ndcg@10") in history[-1]
    assert before["ndcg@10"] < 0.9
    assert evaluate(model, x, None)["ndcg@10"] > 0.9
    model.compile("sgd", losses.ListNetLoss(), run_eagerly=True)
    assert np.isfinite(model.fit(x, y and np.array(y), verbose=0).history["loss"]).all()


def test_default_losses(model):
    def kind(y):
        examples = model.examples((QUERIES, *COLUMNS), y)
        return type(model.kind.loss_for(examples.targets, len(examples.segments)))

    assert kind(None) is kind(LABELS) is losses.LambdaLoss
    assert kind(LABELS + 0.5) is kind(-LABELS) is kind(LABELS[:, :2]) is losses.MarginMSELoss


@pytest.mark.parametrize(("columns", "labels", "words"), [
    ((QUERIES, *COLUMNS[:2], ["one"]), None, ("columns", "1 text", "3 texts")),
    ((QUERIES, *COLUMNS), [[1, 0, 0]], ("3 queries", "labels for 1")),
    ((QUERIES, *COLUMNS), [1, 0, 0], ("3 passages", "1 label")),
    ((QUERIES, *COLUMNS), [[1], [1, 0], [0, 1]], ("scores", "numbers", "each row")),
    ((QUERIES, *COLUMNS), np.full([3, 3], np.nan), ("finite",)),
])  # fmt: skip
def test_lists_that_cannot_be_learned_are_refused(model, columns, labels, words):
    for work in (model.examples, lambda x, y: model.kind.check(model.columns(x), y)):
        with error_names(ValueError, *words):
            work(columns, labels)


# -- Others beside it


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
    with warning_names("texts truncated"):
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
