"""Few-shot classification: pairs of examples, then logistic regression on the vectors that the head reads."""

import json

import keras
import numpy as np
import pytest
from keras import ops
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.multiclass import OneVsRestClassifier

from keras_bert import BertClassifier, BertReranker
from keras_bert.recipe import FEW_EXAMPLES, FineTuningRecipe
from keras_bert.tasks.few_shot import batches_of_pairs, pair_losses, texts_of_class
from keras_bert.training import fine_tune, fine_tune_files

from ..support import small
from ..support.commands import invoke
from ..support.messages import assert_names, error_names, warning_names
from ..support.reviews import LABELS, classifier, examples
from ..support.stopping import Stop, StopAt

RUN = {"few_shot": True, "learning_rate": 1e-3, "batch_size": 8, "progress": False}
pytestmark = pytest.mark.filterwarnings("ignore:labels with fewer than")
MEAN = {"config": {"pooler": False, "pooling": "unit_mean"}}
TAGS = ["fun", "long"]


def pooled(**settings):
    return classifier(**{**MEAN, **settings})


def several():
    return small.task(BertClassifier, TAGS, problem_type="multi_label_classification", **MEAN)


def tagged(count=12):
    x, y = examples(count)
    return x, [
        [TAGS[0]] * (label == "good") + [TAGS[1]] * (len(text.split()) > 4) for text, label in zip(x, y, strict=True)
    ]


def test_the_loss_is_that_of_all_pairs_of_a_batch():
    """Beside cosines of scikit-learn, summed in loops."""
    generator = np.random.default_rng(0)
    vectors, classes = generator.normal(size=(7, 5)).astype("float32"), [0, 0, 1, 1, 1, 2, 0]
    similarities = np.equal.outer(classes, classes).astype("float32")
    cosines, expected = cosine_similarity(vectors), []
    for i in range(7):
        similar = [(cosines[i, j] - 1) ** 2 for j in range(7) if j != i and classes[j] == classes[i]]
        others = [cosines[i, j] ** 2 for j in range(7) if classes[j] != classes[i]]
        expected.append(np.mean([np.mean(each) for each in (similar, others) if each]))
    losses, is_compared = pair_losses(vectors, similarities)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert np.asarray(is_compared).tolist() == [1] * 7
    _, alone = pair_losses(vectors[:1], similarities[:1, :1])
    assert np.asarray(alone).tolist() == [0]


def test_texts_are_as_alike_as_their_labels():
    model = several()
    targets = ops.convert_to_tensor(model.targets([["fun"], ["fun", "long"], [], []]))
    expected = [[1, 0.5, 0, 0], [0.5, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    assert np.asarray(model.similarities(targets)).tolist() == expected
    assert np.asarray(classifier().similarities(ops.array([0, 1, 0]))).tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_each_example_begins_pairs_and_its_partner_is_of_its_class():
    classes = np.array([0, 1] * 5 + [2])  # one example is the only one of its class
    batches = batches_of_pairs(classes, np.eye(3), seed=3, epoch=0, batch_size=8)
    anchors, partners = (np.concatenate([np.split(batch, 2)[half] for batch in batches]) for half in (0, 1))
    assert np.bincount(anchors).tolist() == [19] * 11  # of 50 batches of 4 pairs
    assert (classes[anchors] == classes[partners]).all()
    assert ((anchors == partners) == (anchors == 10)).all()
    assert {len(batch) for batch in batches[:-1]} == {8}
    assert any(
        (one != other).any()
        for one, other in zip(batches, batches_of_pairs(classes, np.eye(3), seed=3, epoch=1, batch_size=8), strict=True)
    )


def test_twenty_thousand_examples_need_no_table_of_all_pairs():
    classes = np.arange(20_000) % 10
    batches = batches_of_pairs(classes, np.eye(10), seed=0, epoch=0, batch_size=32)
    assert len(batches) == 5_000
    assert all((classes[batch[:16]] == classes[batch[16:]]).all() for batch in batches)


@pytest.mark.parametrize("make", [classifier, pooled])
def test_the_head_is_the_regression_of_scikit_learn(make):
    """Of two classes and of three, with any pooling."""
    for labels in (LABELS, [*LABELS, "odd"]):
        model, (x, y) = make(labels=labels), examples(12)
        y = ["odd" if i % 5 == 0 else label for i, label in enumerate(y)] if len(labels) == 3 else y
        fine_tune(model, (x, y), **RUN)
        vectors = np.asarray(model.features(model.arrays(x, None)[0]))
        vectors = vectors / np.linalg.norm(vectors, axis=1).mean()
        reference = LogisticRegression(max_iter=2000).fit(vectors, y)
        answers = model.classify(x)
        expected = reference.predict_proba(vectors)
        assert [each["label"] for each in answers] == reference.classes_[expected.argmax(1)].tolist()
        np.testing.assert_allclose([each["probability"] for each in answers], expected.max(1), atol=1e-3)


def test_each_of_several_labels_is_a_regression_of_its_own():
    model, (x, y) = several(), tagged()
    fine_tune(model, (x, y), **RUN)
    vectors = np.asarray(model.features(model.arrays(x, None)[0]))
    reference = OneVsRestClassifier(LogisticRegression(max_iter=2000)).fit(vectors, np.asarray(model.targets(y)))
    probabilities = ops.convert_to_numpy(ops.sigmoid(model(x)))
    np.testing.assert_allclose(probabilities, reference.predict_proba(vectors), atol=1e-3)


def test_classes_are_weighted_in_the_regression():
    model, (x, y) = pooled(), examples(12)
    fine_tune(model, (x, y), **RUN, class_weight={"bad": 5.0})
    vectors = np.asarray(model.features(model.arrays(x, None)[0]))
    reference = LogisticRegression(max_iter=2000, class_weight={"bad": 5.0, "good": 1.0}).fit(vectors, y)
    expected = reference.predict_proba(vectors)[:, reference.classes_.tolist().index("bad")]
    np.testing.assert_allclose(ops.softmax(model(x))[:, 1], expected, atol=1e-3)


def test_a_class_without_examples_is_never_the_answer():
    model, (x, y) = pooled(labels=["odd", *LABELS]), examples(12)
    fine_tune(model, (x, y), **RUN)
    assert {answer["label"] for answer in model.classify([*x, "", "odd"])} <= set(LABELS)
    assert np.mean([answer["label"] == label for answer, label in zip(model.classify(x), y, strict=True)]) > 0.8


def test_vectors_of_a_class_come_together():
    model, (x, y) = pooled(), examples()
    same = np.equal.outer(y, y)

    def contrast():
        cosines = cosine_similarity(np.asarray(model.features(model.arrays(x, None)[0])))
        return cosines[same].mean() - cosines[~same].mean()

    before = contrast()
    history = fine_tune(model, (x, y), **RUN)
    assert contrast() > before + 0.2
    assert len(history) == 1
    assert np.mean([answer["label"] == label for answer, label in zip(model.classify(x), y, strict=True)]) > 0.9


def test_a_run_resumes_with_the_same_weights(tmp_path):
    def trained(directory=None, *callbacks):
        model = pooled(dropout=0.3)
        try:
            history = fine_tune(model, examples(), examples(6), directory, callbacks=callbacks, epochs=2, **RUN)
        except Stop:
            return None
        return [each.numpy() for each in model.variables], history

    assert trained(tmp_path, StopAt(70)) is None  # of two epochs of 54 batches
    weights, history = trained(tmp_path)
    expected, expected_history = trained()
    assert history == expected_history
    for one, other in zip(weights, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_model_trains_on_with_all_its_weights():
    model, (x, y) = pooled(), examples()
    fine_tune(model, (x, y), **RUN)
    before = model.head.logits.get_weights()
    model.fit(x, y, epochs=3, verbose=0)
    assert all((one != other).any() for one, other in zip(before, model.head.logits.get_weights(), strict=True))


def test_a_directory_keeps_the_pooling(tmp_path):
    model, (x, y) = pooled(), examples()
    fine_tune(model, (x, y), **RUN)
    model.save_preset(tmp_path)
    loaded = BertClassifier.from_preset(tmp_path)
    np.testing.assert_array_equal(loaded(x), model(x))
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["architectures"], config["classifier_pooling"]) == (["BertModel"], "unit_mean")
    assert "length 1" in (tmp_path / "README.md").read_text()
    plain = classifier()
    plain.save_preset(tmp_path, overwrite=True)
    assert "classifier_pooling" not in json.loads((tmp_path / "config.json").read_text())


def test_few_examples_of_a_new_head_are_learned_by_pairs_and_the_run_says_so():
    model, few = pooled(), examples(8)
    model.head.logits.bias.assign(np.zeros(2))  # as that of a new head
    assert texts_of_class(model, *few) == 4
    with warning_names("few examples", "few_shot=False", 4):
        assert len(fine_tune(model, few, learning_rate=1e-3, batch_size=8, progress=False)) == 1
    assert texts_of_class(model, *few) is None  # its head is trained
    assert texts_of_class(several(), *tagged()) is None


@pytest.mark.parametrize(
    ("settings", "count", "is_few_shot"),
    [
        ({}, FEW_EXAMPLES, True),
        ({}, FEW_EXAMPLES + 1, False),
        ({}, None, False),
        ({"epochs": 3}, 2, False),
        ({"few_shot": False}, 2, False),
        ({"few_shot": True, "epochs": 3}, None, True),
    ],
)
def test_the_recipe_chooses_by_the_texts_of_a_class(settings, count, is_few_shot):
    recipe = FineTuningRecipe(**settings).for_examples(1000, count)
    assert recipe.few_shot is is_few_shot
    assert recipe.epochs == settings.get("epochs", 1 if is_few_shot else 7)


@pytest.mark.parametrize(
    ("make", "train", "settings", "words"),
    [
        (lambda: small.task(BertReranker), (["a"], ["b"]), {}, ["few_shot", "BertClassifier"]),
        (lambda: classifier(labels=["stars"], problem_type="regression"), ["a"], {}, ["few_shot", "BertClassifier"]),
        (lambda: classifier(pairs=True), (["a"] * 4, ["b"] * 4), {}, ["few_shot", "pairs"]),
        (classifier, None, {"teacher": classifier()}, ["few_shot", "teacher"]),
        (classifier, None, {"loss": keras.losses.CategoricalHinge()}, ["few_shot", "loss"]),
        (classifier, None, {"batch_tokens": 99, "batch_size": None}, ["few_shot", "batch_tokens", "batch_size"]),
        (lambda: classifier(config={"pooler": False, "pooling": "late"}), None, {}, ["few_shot", "pooling='mean'"]),
        (lambda: classifier(labels=["good", "bad", "odd"]), ["a"] * 4, {}, ["few_shot", "two classes", "bad"]),
    ],
)  # fmt: skip
def test_what_few_shot_cannot_do_is_refused(make, train, settings, words):
    x, y = examples(4)
    y = ["bad"] * 4 if train == ["a"] * 4 else y
    labels = [1.0] if train == ["a"] or train == (["a"], ["b"]) else y
    with error_names(ValueError, *words):
        fine_tune(make(), (x if train is None else train, labels), **{**RUN, **settings})


def test_the_command_learns_by_pairs_and_says_so(tmp_path):
    """With the pooling of the vectors of MiniLM."""
    rows = "".join(f"{text},{label}\n" for text, label in zip(*examples(8), strict=True))
    (tmp_path / "train.csv").write_text("text,label\n" + rows)
    options = ["--train", tmp_path / "train.csv", "--output", tmp_path / "model", "--frozen-layers", 6]
    result = invoke("finetune", "classify", *options)
    assert_names(result.stderr, "few examples", 4, "few_shot")
    config = json.loads((tmp_path / "model/config.json").read_text())
    assert config["classifier_pooling"] == "unit_mean"
    report = (tmp_path / "model/report.md").read_text()
    assert "| few_shot | True |" in report
    assert "| pooling | unit_mean |" in report


@pytest.mark.parametrize(
    ("task", "settings", "words"),
    [("tag", {}, ["'tag'", "'classify'"]), ("classify", {"teacher": "teacher", "num_layers": 1}, ["teacher"])],
)
def test_a_run_on_files_refuses_it_before_it_reads_them(task, settings, words, tmp_path):
    with error_names(ValueError, "few_shot", *words):
        fine_tune_files(task, tmp_path / "none", tmp_path / "model", few_shot=True, **settings)
