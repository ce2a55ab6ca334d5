"""Multiple choice: answers, measures, training."""

import keras
import numpy as np
import pytest

from keras_bert import BertMultipleChoice
from keras_bert.tasks.registry import Job
from keras_bert.training import evaluate, fine_tune, score

from ..support import small
from ..support.messages import error_names

QUESTIONS = ["she loved the film", "he was cold", "the bank", "it was dull"]
CHOICES = [["good", "bad plot", "the river"], ["warm", "cold cold", "love"], ["river", "money", "time"], [*"abc"]]
COLUMNS = (QUESTIONS, *map(list, zip(*CHOICES, strict=True)))


@pytest.fixture(scope="module")
def model():
    return small.task(BertMultipleChoice)


def pair_logits(model, question, choices):
    return np.array([model(model.preprocessor(([question], [choice]))).numpy()[0, 0] for choice in choices])


def test_the_best_choice_has_the_highest_logit(model):
    answers = model.choose(QUESTIONS, CHOICES)
    for question, choices, answer in zip(QUESTIONS, CHOICES, answers, strict=True):
        logits = pair_logits(model, question, choices)
        expected = np.exp(logits) / np.exp(logits).sum()
        np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-5)
        assert (answer["index"], answer["text"]) == (logits.argmax(), choices[logits.argmax()])
        assert answer["probability"] == answer["probabilities"][answer["index"]]
    assert len({answer["index"] for answer in answers}) > 1
    longer = model.choose(QUESTIONS[:2], [CHOICES[0], CHOICES[1][:2]])
    assert [len(answer["probabilities"]) for answer in longer] == [3, 2]


@pytest.mark.slow
def test_columns_have_the_logits_of_their_choices(model):
    expected = [pair_logits(model, *each) for each in zip(QUESTIONS, CHOICES, strict=True)]
    np.testing.assert_allclose(model(COLUMNS), expected, atol=1e-5)
    np.testing.assert_allclose(model.predict(COLUMNS, verbose=0), expected, atol=1e-5)


@pytest.mark.parametrize(("call", "words"), [
    (lambda model: model.choose("a", "b"), ("choices", "str")),
    (lambda model: model.choose(["a", "b"], [["c"]]), ("2 questions", "1 list of choices")),
    (lambda model: model.choose(["a", "b"], [["c"], []]), ("question 1", "no choices")),
    (lambda model: model(["a"]), ("tuple", "choices")),
    (lambda model: fine_tune(model, (COLUMNS[:2], [0] * 4), progress=False), ("tuple", "choices")),
    (lambda model: fine_tune(model, (COLUMNS, [0, 1, 3, 0]), progress=False), ("label 2", "3", "0 to 2")),
    (lambda model: evaluate(model, COLUMNS, [0, 1, -1, 0]), ("labels", "-1", "number of the right choice")),
    (lambda model: evaluate(model, COLUMNS, ["a"] * 4), ("labels", "numbers", "'a'")),
    (lambda model: evaluate(model, COLUMNS, [0]), ("4", "1 label")),
    (lambda _: Job("choose", "a.csv", None, {"choice_columns": ["a"]}), ("choice_columns", "two")),
])  # fmt: skip
def test_what_it_cannot_read_is_refused(model, call, words):
    with error_names((TypeError, ValueError), *words):
        call(model)


def test_measures(model):
    chosen = [answer["index"] for answer in model.choose(QUESTIONS, CHOICES)]
    found = score(model, COLUMNS, [(chosen[0] + 1) % 3, *chosen[1:]])
    assert (found.measures, found.mistakes, found.worst) == ({"accuracy": 0.75}, [0], [0])


@pytest.mark.slow
def test_it_learns_which_choice_is_right():
    model = small.task(BertMultipleChoice, scale=0.1)
    labels = [2, 0, 1, 1]
    history = fine_tune(model, (COLUMNS, labels), epochs=30, batch_size=2, learning_rate=3e-3, progress=False)
    assert history[-1]["loss"] < 0.3 < history[0]["loss"]
    assert [answer["index"] for answer in model.choose(QUESTIONS, CHOICES)] == labels
    model.compile(keras.optimizers.SGD(0.0), model.training_loss())
    expected = -np.log([answer["probabilities"][i] for answer, i in zip(model.answers(COLUMNS), labels, strict=True)])
    assert model.evaluate(COLUMNS, labels, verbose=0) == pytest.approx(expected.mean(), rel=1e-3)
