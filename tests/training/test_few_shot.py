"""Few-shot classification: pairs of examples, then logistic regression on the vectors that the head reads."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from keras.callbacks import LambdaCallback
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.multiclass import OneVsRestClassifier

from keras_bert import BertClassifier, BertReranker, BertSentenceEncoder
from keras_bert.recipe import FEW_EXAMPLES, FineTuningRecipe
from keras_bert.tasks import FocalLoss
from keras_bert.tasks.steps.few_shot import batches_of_pairs, learning_pairs, pair_losses, texts_per_class
from keras_bert.training import adapting, fine_tune, fine_tune_files, loop, report

from ..support import small
from ..support.commands import invoke
from ..support.messages import assert_names, error_names, warning_names
from ..support.reviews import LABELS, classifier, examples
from ..support.stopping import Stop, StopAt

RUN = {"few_shot": True, "learning_rate": 3e-3, "batch_size": 32, "progress": False}
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:labels with fewer than")]
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
    assert np.asarray(model.kind.similarities(targets)).tolist() == expected
    of_classes = classifier().kind.similarities(ops.array([0, 1, 0]))
    assert np.asarray(of_classes).tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_each_example_begins_pairs_and_its_partner_is_of_its_class():
    classes = np.array([0, 1] * 5 + [2])  # one example is the only one of its class
    batches = batches_of_pairs(classes, np.eye(3), seed=3, epoch=0, batch_size=8)
    anchors, partners = (np.concatenate([np.split(batch, 2)[half] for batch in batches]) for half in (0, 1))
    assert np.bincount(anchors).tolist() == [19] * 11  # of 50 batches of 4 pairs
    assert (classes[anchors] == classes[partners]).all()
    assert ((anchors == partners) == (anchors == 10)).all()
    assert {len(batch) for batch in batches[:-1]} == {8}
    others = batches_of_pairs(classes, np.eye(3), seed=3, epoch=1, batch_size=8)
    assert any((one != other).any() for one, other in zip(batches, others, strict=True))


def test_twenty_thousand_examples_need_no_table_of_all_pairs():
    classes = np.arange(20_000) % 10
    batches = batches_of_pairs(classes, np.eye(10), seed=0, epoch=0, batch_size=32)
    assert len(batches) == 5_000
    assert all((classes[batch[:16]] == classes[batch[16:]]).all() for batch in batches)


def regression(vectors, y, **settings):
    """The classes of scikit-learn's regression, and their probabilities for each of the vectors."""
    scaled = vectors / np.linalg.norm(vectors, axis=1).mean()
    fitted = LogisticRegression(max_iter=2000, **settings).fit(scaled, y)
    return fitted.classes_, fitted.predict_proba(scaled)


def vectors_of(model, x):
    return np.asarray(model.features(model.arrays(x, None)[0]))


@pytest.mark.parametrize("labels", [LABELS, [*LABELS, "odd"]])
@pytest.mark.parametrize("make", [classifier, pooled])
def test_the_head_is_the_regression_of_scikit_learn(make, labels, untraced):
    model, (x, y) = make(labels=labels), examples(12)
    y = ["odd" if i % 5 == 0 else label for i, label in enumerate(y)] if len(labels) == 3 else y
    vectors = vectors_of(model, x)
    model.fit_head(vectors, model.targets(y))
    classes, expected = regression(vectors, y)
    answers = model.classify(x)
    assert [each["label"] for each in answers] == classes[expected.argmax(1)].tolist()
    np.testing.assert_allclose([each["probability"] for each in answers], expected.max(1), atol=1e-3)


def test_each_of_several_labels_is_a_regression_of_its_own(untraced):
    model, (x, y) = several(), tagged()
    vectors, targets = vectors_of(model, x), np.asarray(model.targets(y))
    model.fit_head(vectors, targets)
    reference = OneVsRestClassifier(LogisticRegression(max_iter=2000)).fit(vectors, targets)
    probabilities = ops.convert_to_numpy(ops.sigmoid(model(x)))
    np.testing.assert_allclose(probabilities, reference.predict_proba(vectors), atol=1e-3)


def test_a_class_without_examples_is_never_the_answer(untraced):
    model, (x, y) = pooled(labels=["odd", *LABELS]), examples(12)
    model.fit_head(vectors_of(model, x), model.targets(y))
    assert set(np.argmax(model([*x, "", "odd"]), axis=1)) == {1, 2}


def learn(model, directory=None, *callbacks):
    """Two epochs of 14 batches, in which "bad" texts count five times."""
    settings = {**RUN, "epochs": 2, "class_weight": {"bad": 5.0}, "checkpoint_seconds": 0}
    with pytest.MonkeyPatch.context() as patch:  # nothing is traced to measure it
        patch.setattr(report, "evaluate", lambda model, x, *_: {"accuracy": float(np.mean(model(x)[:, 0]))})
        return fine_tune(model, examples(), examples(6), directory, callbacks=callbacks, **settings)


@pytest.fixture(scope="module")
def learned():
    """A model that learned and that tests must not change, its vectors of the examples before, and the history."""
    model = pooled(dropout=0.3)
    return model, vectors_of(model, examples()[0]), learn(model)


def test_vectors_of_a_class_come_together_and_the_head_is_fitted_to_them(learned):
    """To those of all examples, with the weights of their classes."""
    (model, vectors_before, _), (x, y) = learned, examples()
    same, vectors = np.equal.outer(y, y), vectors_of(model, x)
    cosines = [cosine_similarity(each) for each in (vectors_before, vectors)]
    before, after = (each[same].mean() - each[~same].mean() for each in cosines)
    assert after > before + 0.2
    classes, expected = regression(vectors, y, class_weight={"bad": 5.0, "good": 1.0})
    assert classes.tolist() == LABELS[::-1]
    np.testing.assert_allclose(ops.softmax(model(x)), expected[:, ::-1], atol=1e-3)
    assert np.mean(classes[expected.argmax(1)] == y) > 0.9


@pytest.mark.parametrize("is_same_model", [False, True])
def test_a_run_resumes_with_the_same_weights(is_same_model, learned, tmp_path):
    """Also the model whose run was interrupted, as a cell of a notebook that is run again: it goes back by half."""
    resumed, (unbroken, _, history) = pooled(dropout=0.3), learned
    with pytest.raises(Stop):
        learn(resumed if is_same_model else pooled(dropout=0.3), tmp_path, StopAt(18))
    assert learn(resumed, tmp_path) == history
    for one, other in zip(resumed.variables, unbroken.variables, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_run_that_chose_few_shot_itself_goes_on_after_it_has_fitted_the_head(tmp_path):
    """A cell of a notebook, interrupted at the end of the epoch, is run again."""

    def stop(*_):
        raise Stop

    model, settings = pooled(), {"learning_rate": 3e-3, "batch_size": 2, "progress": False}
    model.head.logits.bias.assign(np.zeros(2))  # as that of a new head
    with pytest.warns(UserWarning, match="pairs of texts"), pytest.raises(Stop):
        fine_tune(model, examples(8), None, tmp_path, callbacks=LambdaCallback(on_epoch_end=stop), **settings)
    state = model.get_weights()
    with pytest.warns(UserWarning, match="pairs of texts"):
        history = fine_tune(model, examples(8), None, tmp_path, **settings)
    assert [each["epoch"] for each in history] == [1]
    np.testing.assert_equal(model.get_weights(), state)


def test_with_lora_the_sum_of_kernel_and_product_goes_back_by_half():
    model, (x, y) = pooled(), examples(8)
    dense = model.encoder.blocks[-1].attention.qkv
    before = ops.convert_to_numpy(dense.kernel)
    with adapting(model, lora_rank=2), learning_pairs(model) as encoder_and_head:
        for factor in (dense.lora_kernel_a, dense.lora_kernel_b):
            factor.assign(np.random.default_rng(0).normal(size=factor.shape))
        learned = ops.convert_to_numpy(dense.kernel)
        encoder_and_head.end_epoch(tf.data.Dataset.from_tensors((model.packed(x), model.targets(y))))
    assert np.abs(learned - before).max() > 1
    np.testing.assert_allclose(dense.kernel, (before + learned) / 2, atol=1e-5)


def test_the_model_trains_on_with_all_its_weights(learned, untraced):
    model, (x, y) = learned[0], examples()
    states, before = [variable.numpy() for variable in model.variables], model.head.logits.get_weights()
    model.fit(x, y, epochs=2, verbose=0)
    assert all((one != other).any() for one, other in zip(before, model.head.logits.get_weights(), strict=True))
    for variable, state in zip(model.variables, states, strict=True):
        variable.assign(state)


def test_a_directory_keeps_the_pooling(learned, tmp_path, untraced):
    model, (x, _) = learned[0], examples()
    model.save_preset(tmp_path)
    np.testing.assert_array_equal(BertClassifier.from_preset(tmp_path)(x), model(x))
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["architectures"], config["classifier_pooling"]) == (["BertModel"], "unit_mean")
    assert "length 1" in (tmp_path / "README.md").read_text()
    plain = classifier()
    plain.save_preset(tmp_path, overwrite=True)
    assert "classifier_pooling" not in json.loads((tmp_path / "config.json").read_text())


def test_few_examples_of_a_new_head_are_learned_by_pairs_and_the_run_says_so(learned):
    model, few = pooled(), examples(8)
    model.head.logits.bias.assign(np.zeros(2))  # as that of a new head
    assert texts_per_class(model, *few) == 4
    late = classifier(config={"pooler": False, "pooling": "late"})
    late.head.logits.bias.assign(np.zeros(2))
    assert texts_per_class(late, *few) is None  # it cannot learn so
    before_training = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: 1 / 0)
    with warning_names("texts per class", "few_shot=False", 4), pytest.raises(ZeroDivisionError):
        fine_tune(model, few, learning_rate=1e-3, batch_size=8, progress=False, callbacks=[before_training])
    assert texts_per_class(learned[0], *few) is None  # its head is trained
    assert texts_per_class(several(), *tagged()) is None


@pytest.mark.parametrize(("settings", "count", "is_few_shot"), [
    ({}, FEW_EXAMPLES, True), ({}, FEW_EXAMPLES + 1, False), ({}, None, False),
    ({"epochs": 3}, 2, False), ({"few_shot": False}, 2, False), ({"few_shot": True, "epochs": 3}, None, True),
])  # fmt: skip
def test_the_recipe_chooses_by_the_texts_of_a_class(settings, count, is_few_shot):
    recipe = FineTuningRecipe(**settings).for_examples(1000, count)
    assert recipe.few_shot is is_few_shot
    assert recipe.epochs == settings.get("epochs", 1 if is_few_shot else 7)


@pytest.mark.parametrize(("make", "train", "settings", "words"), [
    (lambda: small.task(BertReranker), ((["a"], ["b"]), [1.0]), {}, ["BertClassifier"]),
    (lambda: classifier(labels=["stars"], problem_type="regression"), (["a"], [1.0]), {}, ["BertClassifier"]),
    (lambda: classifier(pairs=True), ((["a"] * 2, ["b"] * 2), LABELS), {}, ["pairs"]),
    (classifier, examples(4), {"teacher": classifier()}, ["teacher"]),
    (classifier, examples(4), {"loss": keras.losses.CategoricalHinge()}, ["loss"]),
    (classifier, examples(4), {"batch_tokens": 99, "batch_size": None}, ["batch_tokens", "batch_size"]),
    (lambda: classifier(config={"pooler": False, "pooling": "late"}), examples(4), {}, ["pooling='mean'"]),
    (lambda: classifier(labels=["good", "bad", "odd"]), (["a"] * 4, ["bad"] * 4), {}, ["two classes", "bad"]),
])  # fmt: skip
def test_what_few_shot_cannot_do_is_refused(make, train, settings, words):
    with error_names(ValueError, "few_shot", *words):
        fine_tune(make(), train, **{**RUN, **settings})


def test_the_command_learns_by_pairs_and_says_so(tmp_path):
    """With the pooling of a model of vectors."""
    BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor()).save_preset(tmp_path / "preset")
    rows = "".join(f"{text},{label}\n" for text, label in zip(*examples(8), strict=True))
    (tmp_path / "train.csv").write_text("text,label\n" + rows)
    options = ["--train", tmp_path / "train.csv", "--output", tmp_path / "model", "--preset", tmp_path / "preset"]
    result = invoke("finetune", "classify", *options)
    assert_names(result.stderr, "texts per class", 4, "few_shot")
    config = json.loads((tmp_path / "model/config.json").read_text())
    assert config["classifier_pooling"] == "unit_mean"
    written = (tmp_path / "model/report.md").read_text()
    assert "| few_shot | True |" in written
    assert "| pooling | unit_mean |" in written


def test_a_chosen_loss_trains_the_head_with_the_encoder_and_a_student(tmp_path, monkeypatch):
    seen, to_the_end = [], loop.Training.to_the_end

    def spy(training):
        seen.append((type(training.loss), training.recipe.few_shot))
        if training.teacher is None:
            raise Stop
        return to_the_end(training)

    monkeypatch.setattr(loop.Training, "to_the_end", spy)
    rows = "".join(f"{text},{label}\n" for text, label in zip(*examples(8), strict=True))
    (tmp_path / "train.csv").write_text("text,label\n" + rows)
    files = ("classify", tmp_path / "train.csv")
    BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor()).save_preset(tmp_path / "preset")
    with pytest.raises(Stop):
        fine_tune_files(*files, tmp_path / "model", preset=tmp_path / "preset", loss="focal")
    pooled().save_preset(tmp_path / "teacher")
    fine_tune_files(*files, tmp_path / "student", teacher=tmp_path / "teacher", num_layers=1, loss="focal")
    assert seen == [(FocalLoss, False)] * 2
    (tmp_path / "numbers.csv").write_text("text,label\nfine,1.5\nbad,0.5\n")
    settings = {"preset": tmp_path / "preset", "problem_type": "regression", "loss": "focal"}
    with error_names(ValueError, "loss is 'focal'", "regression"):
        fine_tune_files("classify", tmp_path / "numbers.csv", tmp_path / "new", **settings)


@pytest.mark.parametrize(("task", "settings", "words"), [
    ("tag", {}, ["'tag'", "'classify'"]), ("classify", {"loss": "focal"}, ["loss"]),
    ("classify", {"teacher": "teacher", "num_layers": 1}, ["teacher"]),
])  # fmt: skip
def test_a_run_on_files_refuses_it_before_it_reads_them(task, settings, words, tmp_path):
    with error_names(ValueError, "few_shot", *words):
        fine_tune_files(task, tmp_path / "none", tmp_path / "model", few_shot=True, **settings)
