"""Weights of classes in the loss: of a text's class, of each of its labels, and of words."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit, log_softmax
from sklearn.utils.class_weight import compute_class_weight

from keras_bert import BertClassifier, BertReranker, BertTokenClassifier
from keras_bert.training import fine_tune

from ..support import small
from ..support.messages import error_names

TEXTS = ["the film was good", "dull plot", "a cold river", "she loved it", "warm music", "bad acting"]
TAGS = [["fun"], ["fun", "long"], [], ["long"], ["fun"], ["fun"]]
SENTENCES = [["the", "films"], ["dull"], ["a", "cold", "river"], ["she", "loved", "it"]]
LABELS = [["O", "B-X"], ["O"], ["B-X", "I-X", "O"], ["O", "O", "O"]]
RUN = {"epochs": 1, "batch_size": 2, "progress": False}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*shuffle=True:UserWarning", "ignore:labels with fewer than 3"),
    pytest.mark.usefixtures("untraced"),
]


def new(kind, *arguments, **settings):
    return small.task(kind, *arguments, config={"num_layers": 1}, **settings)


def several():
    return new(BertClassifier, ["fun", "long"], problem_type="multi_label_classification")


def tagger(**settings):
    return new(BertTokenClassifier, ["O", "B-X", "I-X"], **settings)


def fitted_loss(model, *arguments, **settings):
    """The loss of one batch of all examples, before its update."""
    model.compile("sgd", model.training_loss())
    return model.fit(*arguments, verbose=0, **settings).history["loss"][0]


def dataset_of(targets):
    return tf.data.Dataset.from_tensor_slices((TEXTS, targets)).batch(6)


def label_losses(model):
    """Binary cross-entropies of the texts' labels, float64 `[texts, labels]`, and the labels themselves."""
    logits, has_label = np.float64(model(TEXTS)), np.float64(model.targets(TAGS))
    return -np.log(expit(np.where(has_label == 1, logits, -logits))), has_label


def word_losses(model):
    """The cross-entropy of each word, in the order of `LABELS`, and the words' labels."""
    x, y = model.arrays(SENTENCES, LABELS)
    targets = np.asarray(y)
    log_probabilities = log_softmax(np.float64(model(x)), axis=-1)
    losses = -np.take_along_axis(log_probabilities, np.maximum(targets, 0)[..., None], -1)[..., 0]
    return losses[targets >= 0], [label for row in LABELS for label in row]


@pytest.mark.parametrize("class_weight", [{"long": 3.0}, {1: 3}, {np.int64(1): np.float32(3)}])
def test_the_weight_of_a_label_counts_for_the_texts_that_have_it(class_weight):
    losses, has_label = label_losses(several())
    expected = pytest.approx((losses * np.where(has_label == 1, [1, 3], 1)).mean(), rel=1e-5)
    assert fitted_loss(several(), TEXTS, TAGS, class_weight=class_weight) == expected
    model = several()
    assert fitted_loss(model, dataset_of(model.targets(TAGS)), class_weight=class_weight) == expected


@pytest.mark.parametrize("class_weight", [{"B-X": 4.0, "O": 0.5}, {1: 4.0, 0: 0.5}])
def test_the_weight_of_a_label_counts_for_its_words(class_weight):
    losses, labels = word_losses(tagger())
    weights = [{"B-X": 4.0, "O": 0.5}.get(label, 1.0) for label in labels]
    expected = (losses * weights).mean()
    assert fitted_loss(tagger(), SENTENCES, LABELS, class_weight=class_weight) == pytest.approx(expected, rel=1e-5)
    if "O" in class_weight:  # fine_tune finds weights as fit does
        run = {**RUN, "batch_size": 4}
        history = fine_tune(tagger(), (SENTENCES, LABELS), class_weight=class_weight, **run)
        assert history[0]["loss"] == pytest.approx(expected, rel=1e-5)


def test_a_sentence_may_have_a_weight():
    losses, _ = word_losses(tagger())
    weights = np.repeat([2.0, 1.0, 0.5, 0.0], [len(row) for row in LABELS])
    fitted = fitted_loss(tagger(), SENTENCES, LABELS, sample_weight=np.array([2.0, 1.0, 0.5, 0.0]))
    assert fitted == pytest.approx((losses * weights).mean(), rel=1e-5)


def test_words_in_windows_are_weighted_once():
    """A word that lies in two windows counts in one of them."""
    x, y = [["a", "cold", "river"] * 6], [["B-X", "O", "O"] * 6]
    settings = {"text": {"sequence_length": 8, "stride": 3}}
    plain = fitted_loss(tagger(**settings), x, y)
    twice = fitted_loss(tagger(**settings), x, y, class_weight=dict.fromkeys(["O", "B-X"], 2.0))
    assert twice == pytest.approx(2 * plain, rel=1e-5)


def test_balanced_classes_weigh_as_in_scikit_learn():
    model = new(BertClassifier, ["good", "bad", "never"])
    x, y = TEXTS[:4] * 2, ["good"] * 7 + ["bad"]
    losses = -log_softmax(np.float64(model(x)), axis=-1)[range(8), [0] * 7 + [1]]
    weights = compute_class_weight("balanced", classes=np.array(["good", "bad"]), y=y)
    expected = (losses * np.repeat(weights, [7, 1])).mean()
    assert fitted_loss(model, x, y, class_weight="balanced") == pytest.approx(expected, rel=1e-5)

    losses, labels = word_losses(tagger())
    names = ["O", "B-X", "I-X"]
    by_name = dict(zip(names, compute_class_weight("balanced", classes=np.array(names), y=labels), strict=True))
    expected = (losses * [by_name[label] for label in labels]).mean()
    assert fitted_loss(tagger(), SENTENCES, LABELS, class_weight="balanced") == pytest.approx(expected, rel=1e-5)

    losses, has_label = label_losses(several())
    weights = [compute_class_weight("balanced", classes=np.array([0.0, 1.0]), y=column) for column in has_label.T]
    weights = np.stack([np.take(*each) for each in zip(weights, has_label.T.astype(int), strict=True)], axis=1)
    expected = (losses * weights).mean()
    assert fitted_loss(several(), TEXTS, TAGS, class_weight="balanced") == pytest.approx(expected, rel=1e-5)
    history = fine_tune(several(), (TEXTS, TAGS), class_weight="balanced", **{**RUN, "batch_size": 6})
    assert history[0]["loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("make", "x", "y", "words"), [
    (lambda: tagger(crf=True), SENTENCES, LABELS, ("class_weight", "CRF", "crf=False")),
    (lambda: new(BertClassifier, ["stars"], "regression"), TEXTS, [1.0] * 6, ("class_weight", "numbers")),
    (lambda: new(BertReranker), (TEXTS, TEXTS), [1.0] * 6, ("class_weight", "rankings")),
])  # fmt: skip
def test_a_task_without_weights_of_classes_says_so(make, x, y, words):
    model = make()
    model.compile("sgd", model.training_loss())
    for class_weight in ({0: 2.0}, "balanced"):
        with error_names(ValueError, *words):
            model.fit(x, y, class_weight=class_weight, verbose=0)
        with error_names(ValueError, *words):
            fine_tune(model, (x, y), class_weight=class_weight, **RUN)


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        return np.array(TEXTS), np.zeros([6, 2])


@pytest.mark.parametrize(("data", "settings", "error", "words"), [
    ((TEXTS, TAGS), {"class_weight": {0: 1.0}, "sample_weight": np.ones(6)}, ValueError, ("sample_weight",)),
    ((dataset_of(np.zeros([6, 2])),), {"class_weight": "balanced"}, ValueError, ("balanced", "dataset")),
    ((Batches(),), {"class_weight": {0: 1.0}}, TypeError, ("class_weight", "tf.data.Dataset")),
])  # fmt: skip
def test_weights_that_cannot_be_applied_are_refused(data, settings, error, words):
    model = several()
    model.compile("sgd", model.training_loss())
    with error_names(error, *words):
        model.fit(*data, verbose=0, **settings)
