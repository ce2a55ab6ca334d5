"""Metrics: values worked out by hand, and inputs that cannot be measured."""

import sys

import numpy as np
import pytest

from keras_bert.answers import metrics

from ..support.messages import error_names

# What is not defined has a value that the docstring gives, and no warning from a library beside it.
pytestmark = pytest.mark.filterwarnings("error::UserWarning", "error::RuntimeWarning")


def test_accuracy():
    assert metrics.accuracy([0, 1, 2, 2], [0, 1, 1, 1]) == {"accuracy": 0.5}
    assert metrics.accuracy(np.array(["a", "b"]), ["a", "b"]) == {"accuracy": 1.0}
    # Several labels an example: the whole row must be right.
    assert metrics.accuracy([[1, 0], [1, 1], [0, 0]], [[1, 0], [1, 0], [0, 0]]) == {"accuracy": pytest.approx(2 / 3)}


def test_f1_of_two_classes():
    labels, predictions = [1, 1, 1, 0, 0, 0, 0], [1, 1, 0, 1, 0, 0, 0]  # 2 found of 3, 1 found that is none
    expected = {"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3}
    assert metrics.f1(labels, predictions) == pytest.approx(expected)
    expected = {"precision": 3 / 4, "recall": 3 / 4, "f1": 3 / 4}
    assert metrics.f1(labels, predictions, positive=0) == pytest.approx(expected)
    expected = {"precision": 1 / 2, "recall": 1, "f1": 2 / 3}
    assert metrics.f1(["y", "n", "n"], ["y", "y", "n"], positive="y") == pytest.approx(expected)


def test_f1_of_nothing_found_is_0():
    nothing = {"precision": 0, "recall": 0, "f1": 0}
    assert metrics.f1([1, 0], [0, 0]) == metrics.f1([0, 0], [1, 0]) == metrics.f1([0, 0], [0, 0]) == nothing
    assert metrics.f1([[1, 0]], [[0, 0]], average="micro")["micro_f1"] == 0


def test_f1_of_several_classes():
    # Of class 0: precision 1, recall 1/2. Of class 1: 1/3 and 1. Of class 2, never predicted: 0 and 0.
    labels, predictions = [0, 0, 1, 2], [0, 1, 1, 1]
    macro = {"macro_precision": (1 + 1 / 3) / 3, "macro_recall": (1 / 2 + 1) / 3, "macro_f1": (2 / 3 + 1 / 2) / 3}
    assert metrics.f1(labels, predictions, average="macro") == pytest.approx(macro)
    micro = metrics.f1(labels, predictions, average="micro")
    assert micro["micro_f1"] == metrics.accuracy(labels, predictions)["accuracy"] == 0.5


def test_f1_of_several_labels():
    labels, predictions = [[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]  # 2 right of 3 predicted, of 3 there are
    micro = {"micro_precision": 2 / 3, "micro_recall": 2 / 3, "micro_f1": 2 / 3}
    assert metrics.f1(labels, predictions, average="micro") == pytest.approx(micro)
    assert metrics.f1(labels, predictions, average="macro")["macro_f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_matthews():
    # 3 true and 4 false ones right, 1 wrong of each kind: (3 * 4 - 1 * 1) / sqrt(4 * 4 * 5 * 5)
    labels, predictions = [1] * 4 + [0] * 5, [1, 1, 1, 0, 0, 0, 0, 0, 1]
    assert metrics.matthews(labels, predictions) == pytest.approx({"matthews_correlation": 11 / 20})
    assert metrics.matthews([0, 1], [1, 0]) == {"matthews_correlation": -1}
    assert metrics.matthews([0, 1, 2], [0, 1, 2]) == {"matthews_correlation": 1}
    assert metrics.matthews([0, 1], [1, 1]) == metrics.matthews([1, 1], [1, 1]) == {"matthews_correlation": 0}


def test_correlation():
    # Deviations -1 0 1 and -3 -2 5: 8 / sqrt(2 * 38). Ranks are the same.
    expected = {"pearson": 8 / 76**0.5, "spearman": 1}
    assert metrics.correlation([1, 2, 3], np.float32([0, 1, 8])) == pytest.approx(expected)
    # Ranks 1 2.5 2.5 4 and 2 1 3 4, deviations -1.5 0 0 1.5 and -.5 -1.5 .5 1.5: 3 / sqrt(4.5 * 5)
    assert metrics.correlation([0, 5, 5, 9], [2, 1, 3, 4])["spearman"] == pytest.approx(3 / 22.5**0.5)
    assert metrics.correlation([1, 2, 3], [7, 7, 7]) == {"pearson": 0, "spearman": 0}
    assert metrics.correlation([1, 1, 1], [7, 8, 9]) == {"pearson": 0, "spearman": 0}


@pytest.mark.parametrize("scheme", ["B I I U", "B I L U", "B M E S", "B I E S"])
def test_entity_f1_is_of_entities_in_every_scheme(scheme):
    """Two entities, of three words and of one; the second is found, and the first is found a word too short."""
    begin, inside, end, single = scheme.replace("B I I U", "B I I B").split()
    right = [f"{begin}-a", f"{inside}-a", f"{end}-a", "O", f"{single}-b"]
    predicted = [f"{begin}-a", f"{end}-a", "O", "O", f"{single}-b"]
    assert metrics.entity_f1([right], [predicted])["f1"] == 0.5
    by_kind = metrics.entities_by_kind([right], [predicted])
    assert (by_kind["f1 of a"], by_kind["f1 of b"]) == (0, 1)
    assert not any("-" in name for name in by_kind)


def test_entity_f1():
    tags = [["B-a", "I-a", "O", "B-b"], ["B-a", "B-a", "O"]]
    # Of the first sentence the second one is right, of the second too; the others have another end, another kind.
    predictions = [["B-a", "O", "O", "B-b"], ["B-b", "B-a", "O"]]
    assert metrics.entity_f1(tags, predictions) == pytest.approx({"precision": 2 / 4, "recall": 2 / 4, "f1": 2 / 4})
    # As conlleval reads it: an I- that follows nothing of its kind begins an entity.
    assert metrics.entity_f1([["O", "B-a", "I-a"]], [["O", "I-a", "I-a"]])["f1"] == 1
    # An entity does not go on in the next sentence.
    assert metrics.entity_f1([["B-a"], ["I-a"]], [["B-a"], ["O"]])["recall"] == 0.5
    nothing = {"precision": 0, "recall": 0, "f1": 0}
    assert metrics.entity_f1([["O", "B-a"]], [["O", "O"]]) == metrics.entity_f1([["O"]], [["O"]]) == nothing


def test_classes_have_a_support_and_macro_averages_count_each_class_alike():
    """Of "a" 2 of 3 are right and 1 of 3 answers is wrong; of "b" 1 of 2; "never" is no class of this file."""
    labels, predictions = ["a", "a", "a", "b", "b"], ["a", "a", "b", "b", "a"]
    measured = metrics.by_class(labels, predictions, ["never", "b", "a"])
    assert [measured[f"support of {name}"] for name in ("never", "b", "a")] == [0, 2, 3]
    assert all(type(value) is (int if name.startswith("support") else float) for name, value in measured.items())
    assert [measured["precision of a"], measured["recall of b"], measured["f1 of never"]] == [2 / 3, 1 / 2, 0]
    averages = {"macro_precision": (2 / 3 + 1 / 2) / 2, "macro_recall": (2 / 3 + 1 / 2) / 2}
    assert {name: measured[name] for name in averages} == pytest.approx(averages)


def test_kinds_of_entities_have_a_support_of_entities_not_of_words():
    tags = [["B-a", "I-a", "O", "B-b"], ["B-a", "O", "O"]]
    measured = metrics.entities_by_kind(tags, [["B-a", "I-a", "O", "O"], ["O", "O", "B-c"]])
    assert [measured[f"support of {kind}"] for kind in "abc"] == [2, 1, 0]
    assert (measured["recall of a"], measured["macro_recall"]) == (0.5, pytest.approx(0.5 / 3))
    assert metrics.entities_by_kind([["O", "O"]], [["O", "O"]]) == {}


def test_confusion_matrix():
    matrix = metrics.confusion_matrix(["b", "a", "b", "b"], ["b", "b", "a", "a"], ["b", "a", "never"])
    np.testing.assert_array_equal(matrix, [[1, 2, 0], [1, 0, 0], [0, 0, 0]])
    assert matrix.dtype == np.int64
    np.testing.assert_array_equal(metrics.confusion_matrix([0, 1], [1, 1], range(2)), [[0, 1], [0, 1]])


@pytest.mark.parametrize(("measure", "arguments", "words"), [
    (metrics.accuracy, ([1, 0], [1]), ("labels [2", "predictions [1", "shape")),
    (metrics.accuracy, ([[1, 0]], [1, 0]), ("shape",)),
    (metrics.accuracy, ([], []), ("no labels",)),
    (metrics.accuracy, (["1"], [1]), ("<U1", "int64")),
    (metrics.f1, ([1, 0], [1]), ("shape",)),
    (metrics.f1, ([0, 1, 2], [0, 1, 2]), ("multiclass",)),
    (metrics.f1, ([0, 1], [0, 1], "weighted"), ("average", "'weighted'", "'binary', 'macro' or 'micro'")),
    (metrics.matthews, ([1, 0], [1]), ("shape",)),
    (metrics.correlation, ([1, 2], [1]), ("shape",)),
    (metrics.correlation, ([1], [1]), ("labels", "shape [1", "two or more examples")),
    (metrics.correlation, ([[[1]], [[2]]], [[[1]], [[2]]]), ("labels", "shape [2, 1, 1")),
    (metrics.correlation, ([1, 2], [1, np.nan]), ("1 of 2 predictions", "finite")),
    (metrics.entity_f1, ([["O"]], []), ("1 sentence", "0")),
    (metrics.entity_f1, ([], []), ("0 sentences",)),
    (metrics.entity_f1, ([["O"], ["O", "O"]], [["O"], ["O"]]), ("sentence 2", "2 labels", "1 prediction")),
    (metrics.entity_f1, ([["O"]], [["person"]]), ("'person'", "BIO")),
    (metrics.confusion_matrix, ([0, 1], [0, 2], [0, 1]), ("2", "classes, 0, 1")),
    (metrics.confusion_matrix, ([0, 1], [0], [0, 1]), ("shape",)),
    (metrics.squad_v1, ([["a"]], []), ("1 question", "0 predictions")),
    (metrics.squad_v1, ([], []), ("0 questions", "0 predictions")),
    (metrics.squad_v1, (["a"], ["a"]), ("answers", "list of strings")),
    (metrics.squad_v1, ([["b"], []], ["a", "b"]), ("question 2", "squad_v2")),
    (metrics.squad_v2, ([["a"]], []), ("1 question", "0 predictions")),
    (metrics.squad_v2, ([["a"]], ["a"], []), ("1 question", "0 no_answer_scores")),
])  # fmt: skip
def test_what_cannot_be_measured_is_refused(measure, arguments, words):
    with error_names(ValueError, *words):
        measure(*arguments)


@pytest.mark.parametrize(("measure", "missing", "install"), [
    (lambda: metrics.f1([1], [1]), "sklearn.metrics", "scikit-learn"),
    (lambda: metrics.matthews([1], [1]), "sklearn.metrics", "scikit-learn"),
    (lambda: metrics.confusion_matrix([1], [1], [1]), "sklearn.metrics", "scikit-learn"),
    (lambda: metrics.correlation([1, 2], [1, 2]), "scipy.stats", "scipy"),
    (lambda: metrics.entity_f1([["O"]], [["O"]]), "seqeval.metrics", "seqeval"),
])  # fmt: skip
def test_without_the_extra(measure, missing, install, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)  # what Python does for a module that is not there
    with error_names(ImportError, install, "keras-bert-models[train"):
        measure()
    metrics.accuracy([1], [1])  # which needs none of them
