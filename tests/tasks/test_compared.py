"""Answers for people: which are the worst, and what stands beside a label."""

from keras_bert import BertQuestionAnswerer
from keras_bert.data import Answer
from keras_bert.tasks.kinds.classes import Classes, Numbers, Several
from keras_bert.tasks.kinds.words import WordLabels
from keras_bert.tasks.multiple_choice import Choices

from ..support import small


def said(label, probability):
    return {"label": label, "probability": probability}


def test_classes():
    kind, answers = Classes(["a", "b"]), [said("a", 0.6), said("a", 0.9), said("b", 0.7), said("b", 0.8)]
    assert kind.score(answers, ["b", "b", "b", "a"]).worst == [1, 3, 0]
    assert kind.compared(answers[0], "b") == [{"label": "b", "answer": "a", "probability": 0.6}]


def test_several_labels():
    kind, answers = Several(["a", "b"]), [[said("a", 0.6), said("b", 0.5)], [said("a", 0.6)], [said("a", 0.6)]]
    assert kind.score(answers, [("b", "a"), (), ("b",)]).worst == [2, 1]
    assert kind.compared(answers[0], ("b",)) == [{"label": "b", "answer": "a (0.6000), b (0.5000)"}]


def test_numbers():
    kind, answers = Numbers(["size"]), [{"size": 1.0}, {"size": 5.0}, {"size": 2.5}]
    assert kind.score(answers, [1.0, 2.0, 3.0]).worst == [1, 2, 0]
    assert kind.compared(answers[1], 2.0) == [{"number": "size", "label": 2.0, "answer": 5.0}]
    answers = [{"size": 1.0}, {"size": 5.5}, {"size": 9.1}]
    assert kind.score(answers, [1.0, 5.0, 9.0]).mistakes == [1]  # the rmse is 0.29, the labels' deviation 3.27
    two, answers = Numbers(["size", "price"]), [{"size": 1.0, "price": 9.0}, {"size": 3.0, "price": 8.0}]
    assert two.score(answers, [[1.0, 2.0], [1.0, 8.0]]).worst == [0, 1]


def test_choices():
    answers = [{"index": index, "probability": probability} for index, probability in ((0, 0.6), (0, 0.9), (1, 0.7))]
    found = Choices().score(answers, [1, 1, 1])
    assert (found.worst, found.mistakes) == ([1, 0], [0, 1])  # the surest first


WORDS_SAID = [("B-x", 0.5), ("O", 0.5), ("B-x", 1.0), ("O", 0.9)]


def test_words():
    kind = WordLabels(["O", "B-x"])
    answer = [{"word": "warm", **said("O", 0.9)}, {"word": "day", **said("O", 0.8)}, {"word": "!", **said(None, None)}]
    assert kind.score([answer[:2]] * 3, [["O", "O"], ["O", "B-x"], ["B-x", "B-x"]]).worst == [2, 1]
    assert kind.compared(answer, ["O", "B-x", 0]) == [
        {"word": 1, "words": "day", "label": "x", "answer": None, "probability": 0.8},
    ]
    answer = [{"word": word, **said(*each)} for word, each in zip("abcd", WORDS_SAID, strict=True)]
    assert kind.compared(answer, ["O", "B-x", "I-x", "O"]) == [
        {"word": 0, "words": "a", "label": None, "answer": "x", "probability": 0.5},  # nothing but the answer
        {"word": 1, "words": "b c", "label": "x", "answer": None, "probability": 0.75},
        {"word": 2, "words": "c", "label": None, "answer": "x", "probability": 1.0},  # an overlap is two entities
    ]
    kind = WordLabels(["A", "B"])
    assert kind.compared([{"word": "a", **said("A", 0.5)}, {"word": "b", **said(None, None)}], ["B", "B"]) == [
        {"word": 0, "words": "a", "label": "B", "answer": "A", "probability": 0.5},
        {"word": 1, "words": "b", "label": "B", "answer": None, "probability": None},
    ]


def test_questions():
    model = small.task(BertQuestionAnswerer, text={"stride": 8})
    ranked = [{"answer": "she", "probability": 0.5, "score": 3.0}, {"answer": "Ada", "probability": 0.4, "score": 2.0}]
    ranked = [{**each, "no_answer_score": 0.0} for each in ranked]
    assert model.kind.score([ranked[1:], ranked, ranked[1:]], [(), (), (Answer("Ada", 0),)]).worst == [1, 0]
    for right, label in ((), ""), ((Answer("Ada", 0), Answer("Ada", 0), Answer("Ada L.", 0)), "Ada | Ada L."):
        assert model.kind.compared(ranked, right) == [{"label": label, "answer": "she", "probability": 0.5}]
