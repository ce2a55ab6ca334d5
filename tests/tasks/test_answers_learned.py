"""BertQuestionAnswerer: where the answers to train on are in packed windows; training, and what it is worth."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.data import Answer
from keras_bert.tasks import question_answerer
from keras_bert.training import evaluate, fine_tune

from ..support.answering import CONTEXTS, QUESTIONS, WEIRD, lookup, new
from ..support.reference import squad


@pytest.fixture(scope="module")
def model():
    return new()


def at(context, text):
    return Answer(text, context.index(text))


@pytest.mark.parametrize("stride", [1, 5, 30])
def test_targets(stride):
    """Of answers anywhere in a text, against the rows and the places of run_squad.py."""
    model = new({"stride": stride})
    tokenizer = model.preprocessor.tokenizer
    question, text = "who is it", f"{WEIRD} {WEIRD[::-1]}"
    cut, before, starts, ends = squad.windows(model.preprocessor, question, text)
    want, answers = [], []
    for place in range(0, len(text), 4):
        answer = text[place : place + 1 + place % 7]
        first, last = (len(text[:each].encode()) for each in (place, place + len(answer)))
        inside = [i for i, (a, b) in enumerate(zip(starts, ends, strict=True)) if a < last and b > first]
        if not inside:
            with pytest.raises(ValueError, match="its answer .* has no tokens"):
                model.examples((["who"], [text]), [[(answer, place)]])
            continue
        answers.append([Answer(answer, place), Answer("no", 0)])
        for begin, tokens in cut:
            is_here = begin <= inside[0] and inside[-1] < begin + len(tokens)
            want.append([len(before) + i - begin if is_here else 0 for i in (inside[0], inside[-1])])
    segments, targets, lengths = model.examples(([question] * len(answers), [text] * len(answers)), answers)
    x, y = model.batch(segments, targets)
    assert y.numpy().tolist() == want
    assert 0 < len({*map(tuple, want)} - {(0, 0)}) < len(want)
    rows = [[*before, *tokens, tokenizer.sep_token_id] for _, tokens in cut]
    assert lengths.tolist() == [*map(len, rows)] * len(answers)
    longest = max(map(len, rows))
    rows = [row + [tokenizer.pad_token_id] * (longest - len(row)) for row in rows]
    np.testing.assert_array_equal(x["input_word_ids"], rows * len(answers))


def test_targets_of_many(model, monkeypatch):
    answers = [[at(CONTEXTS[0], "bank")], [], (Answer("😀", 0),), [at(CONTEXTS[3], "good"), Answer("日本", 0)], []]
    x, y, lengths = (*(one := model.examples((QUESTIONS, CONTEXTS), answers))[:2], one.lengths)
    assert len(lengths) == y.shape[0] == x[0].nrows() > 9
    alone = [
        model.examples(([question], [context]), [given])
        for question, context, given in zip(QUESTIONS, CONTEXTS, answers, strict=True)
    ]
    np.testing.assert_array_equal(y, np.concatenate([each.targets for each in alone]))
    np.testing.assert_array_equal(lengths, np.concatenate([each.lengths for each in alone]))
    monkeypatch.setattr(question_answerer, "_QUESTIONS_AT_A_TIME", 2)
    again = model.examples((QUESTIONS, CONTEXTS), answers)
    assert again.segments[1].to_list() == x[1].to_list()
    np.testing.assert_array_equal(again.targets, y)
    assert len(model.examples(([], []), []).lengths) == 0


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ((["who"], ["the film"]), [[("film", 3)]], r"question 0 \(from 0\): its answer 'film' is not at character 3"),
        ((["who"], ["the film"]), [[("film", -4)]], "is not at character -4"),
        ((["who"], ["the film"]), [[("", 4)]], "its answer '' is not"),
        ((["who"], ["the film"]), [Answer("film", 4)], r"answers to question 0 \(from 0\) are Answer"),
        ((["who"], ["the film"]), ["film"], "are 'film'; expected"),
        ((["who"], ["a \u200b b"]), [[("\u200b", 2)]], "its answer '.u200b' has no tokens"),
        ((["who"], ["the film"]), [[], []], "there are 1 questions, but answers to 2"),
        ((["who"], ["a", "b"]), [[], []], "there are 1 questions, but 2 contexts"),
        ((["who"], [""]), [[]], r"context 0 \(from 0\) is empty"),
        (["who"], [[]], "x is a list; expected a tuple of two lists"),
    ],
)
def test_examples_that_cannot_be(model, x, y, message):
    with pytest.raises(ValueError, match=message):
        model.examples(x, y)


def test_padding_changes_no_loss(model):
    row = {name: each[:, 0] for name, each in model.preprocessor((["the film"], ["she loved the bank"])).items()}
    padded = {name: tf.pad(each, [[0, 0], [0, 9]]) for name, each in row.items()}
    losses = [model.training_loss()(tf.constant([[4, 5]]), model(inputs)) for inputs in (padded, row)]
    np.testing.assert_allclose(*losses, rtol=1e-5)


TAUGHT = (
    ["Where is the film?", "movie plot time", "Is it good?", "日本語?"],
    [
        "The film was very good! She loved the bank by the river, and not the bank he loved.",
        "Naïve plots 😀, dull music & a cold river-bank (1987).",
        "😀 She hated it",
        "日本語の映画は good 🙂 e\u0301",
    ],
)
ANSWERS = [[at(TAUGHT[1][0], "the bank")], [at(TAUGHT[1][1], "river-bank")], (), [at(TAUGHT[1][3], "good")]]


@pytest.mark.slow
def test_it_learns():
    model = new(scale=0.1, no_answer_threshold=0.0)
    assert evaluate(model, TAUGHT, ANSWERS)["f1"] < 50
    history = fine_tune(model, (TAUGHT, ANSWERS), epochs=10, batch_size=1, learning_rate=5e-3, progress=False)
    assert history[-1]["loss"] < 0.2 < 1 < history[0]["loss"]
    answers = model.answer(*TAUGHT)
    found = [[(answer["answer"], answer["start"])] if answer["answer"] else () for answer in answers]
    assert found == ANSWERS


@pytest.mark.slow
def test_the_best_epoch_is_that_of_the_best_f1():
    model = new(scale=0.1, no_answer_threshold=0.0)
    x = tuple(column[:2] for column in TAUGHT)
    examples = (x, ANSWERS[:2])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Gradients do not exist")  # for the pooler
        history = fine_tune(model, examples, examples, epochs=6, batch_size=2, learning_rate=5e-3, progress=False)
    assert len({epoch["f1"] for epoch in history}) > 1
    assert evaluate(model, x, ANSWERS[:2])["f1"] == max(epoch["f1"] for epoch in history)


@pytest.mark.slow
def test_keras_fit_evaluate_predict():
    model = new(scale=0.1)
    model.compile(keras.optimizers.Adam(1e-2), model.training_loss())
    given = (TAUGHT, ANSWERS)
    history = model.fit(*given, epochs=10, verbose=0, batch_size=4, validation_data=given).history
    assert history["loss"][0] > 1
    assert history["val_loss"][-1] < history["val_loss"][0] / 2
    assert model.evaluate(*given, batch_size=4, verbose=0) == pytest.approx(history["val_loss"][-1], abs=1e-4)
    np.testing.assert_allclose(model.predict(TAUGHT, verbose=0), model(TAUGHT), atol=1e-4)


def test_measures():
    model = lookup(["green"], ["giraffe"], none=4.0)
    x = (["Who?"] * 3, ["a green giraffe", "a giraffe", "nothing"])
    some = [[Answer("a green giraffe", 0), Answer("green", 2)], [Answer("a giraffe", 0)], [Answer("nothing", 0)]]
    assert list(evaluate(model, x, some).items()) == [("f1", 100.0), ("exact_match", 100.0)]
    some[2] = []
    measures = evaluate(model, x, some)
    assert next(iter(measures)) == "f1"
    assert measures["f1"] == pytest.approx(200 / 3)
    assert (measures["best_f1"], measures["best_f1_thresh"]) == (100.0, -5.0)
    model.no_answer_threshold = measures["best_f1_thresh"]
    assert evaluate(model, x, some)["f1"] == 100.0
    model.no_answer_threshold = -14.0
    measures = evaluate(model, x, some)
    assert measures["f1"] == pytest.approx(200 / 3)
    assert measures["best_f1"] == 100.0  # found though nothing is answered
    some[2] = [Answer("nothing", 0)]
    assert evaluate(model, x, some)["f1"] == pytest.approx(100 / 3)
