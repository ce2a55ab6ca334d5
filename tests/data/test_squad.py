"""SQuAD's JSON."""

import json

import pytest

from keras_bert.data import Answer, QuestionExamples, read_squad

CONTEXT = "Ada sang. Bo sang. 😀 Ada left."


def question(**fields):
    return {"id": "q1", "question": "Who sang?", "answers": [{"text": "Ada", "answer_start": 0}], **fields}


def file_of(write, *questions, context=CONTEXT, mark=""):
    content = {"version": "x", "data": [{"title": "T", "paragraphs": [{"context": context, "qas": list(questions)}]}]}
    return write("a.json", mark + json.dumps(content))


def test_version_1(write):
    several = [{"text": "Ada", "answer_start": 0}, {"text": "Bo", "answer_start": 10}]
    path = file_of(write, question(), question(id="q2", question="Who?", answers=several), mark="\ufeff")
    examples = read_squad(path)
    assert examples == QuestionExamples(
        ["q1", "q2"],
        ["Who sang?", "Who?"],
        [CONTEXT, CONTEXT],
        [(Answer("Ada", 0),), (Answer("Ada", 0), Answer("Bo", 10))],
    )
    assert examples.impossible == [False, False]


def test_version_2(write):
    examples = read_squad(file_of(write, question(), question(id="q2", answers=[], is_impossible=True)))
    assert examples.answers == [(Answer("Ada", 0),), ()]
    assert examples.impossible == [False, True]
    assert read_squad(file_of(write, question(answers=[], is_impossible=True))).impossible == [True]


def test_without_answers(write):
    asked = question()
    del asked["answers"]
    for path in (file_of(write, asked), file_of(write, question(answers=[]))):
        examples = read_squad(path)
        assert examples == QuestionExamples(["q1"], ["Who sang?"], [CONTEXT])
        assert examples.impossible is None


@pytest.mark.parametrize(("start", "nearest"), [(1, 0), (10, 0), (11, 21), (12, 21), (99, 21), (-8, 0), (-30, 0)])
def test_a_moved_answer_is_taken_from_the_nearest_place(write, start, nearest):
    path = file_of(write, question(answers=[{"text": "Ada", "answer_start": start}]), question(id="q2"))
    with pytest.warns(UserWarning, match="a.json: 1 of 2 answers are not at their answer_start: 1 are moved") as warned:
        assert read_squad(path).answers == [(Answer("Ada", nearest),), (Answer("Ada", 0),)]
    assert warned[0].filename == __file__


def test_of_two_as_near_the_first(write):
    path = file_of(write, question(answers=[{"text": "b", "answer_start": 1}]), context="b.b")
    with pytest.warns(UserWarning, match="1 are moved"):
        assert read_squad(path).answers == [(Answer("b", 0),)]


def test_an_answer_that_is_nowhere_is_left_out_and_counted(write):
    nowhere = {"text": "Cy", "answer_start": 0}
    path = file_of(
        write,
        question(answers=[nowhere, {"text": "Ada", "answer_start": 0}]),
        question(id="q2", answers=[nowhere]),
        question(id="q3"),
    )
    with pytest.warns(UserWarning, match="left out") as warned:
        examples = read_squad(path)
    assert examples.ids == ["q1", "q3"]
    assert examples.answers == [(Answer("Ada", 0),), (Answer("Ada", 0),)]
    answers, questions = (str(warning.message) for warning in warned)
    assert "2 of 4 answers are not at their answer_start: 0 are moved" in answers
    assert "2 do not occur in their contexts and are left out" in answers
    assert "1 of 3 questions are left out: question q2: 'Cy' is not in its context" in questions
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(ValueError, match="1 of 1 questions cannot be used, so nothing is left"),
    ):
        read_squad(file_of(write, question(answers=[nowhere])))


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (question(id="q0"), "question q0: its id is not unique"),
        (question(id=None), "question 2: id is None, which is not a text"),
        (question(id=7), "question 7: id is 7, which is not a text"),
        (question(question=" "), "question q1: question is empty"),
        (question(question=None), "question q1: question is None, which is not a text"),
        (question(question="\ud83d"), "question q1: question has half of a surrogate pair"),
        (question(answers=[]), "question q1: no answers, and is not is_impossible"),
        (question(is_impossible=True), "question q1: is_impossible, but has answers"),
        (question(answers={"text": ["Ada"], "answer_start": [0]}), "question q1: answers are a dict instead of a list"),
        (question(answers=["Ada"]), "question q1: an answer is 'Ada'; expected a text, and a whole number"),
        (question(answers=[{"text": "Ada"}]), "question q1: an answer is .*expected a text, and a whole number"),
        (question(answers=[{"text": "Ada", "answer_start": "0"}]), "question q1: an answer is .*whole number"),
        (question(answers=[{"text": "", "answer_start": 0}]), "question q1: text is empty"),
        (question(answers=[{"answer_start": 0}]), "question q1: text is None"),
    ],
)
def test_bad_questions(write, bad, what):
    path = file_of(write, question(id="q0"), bad, question(id="q9"))
    with pytest.raises(ValueError, match=f"a.json: 1 of 3 questions cannot be used: {what}"):
        read_squad(path)
    with pytest.warns(UserWarning, match=f"1 of 3 questions are left out: {what}"):
        assert read_squad(path, skip_bad=True).ids == ["q0", "q9"]


def test_nothing_is_left_of_bad_and_lost(write):
    path = file_of(write, question(question=""), question(id="q2", answers=[{"text": "Cy", "answer_start": 0}]))
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(ValueError, match="has no questions that can be used"),
    ):
        read_squad(path, skip_bad=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a.json is empty"),
        ("{", "a.json is not a JSON file"),
        ("[" * 100_000, "a.json is not a JSON file"),
        ("[]", "not in SQuAD's format"),
        ('{"version": "1.1"}', "not in SQuAD's format, data > paragraphs > context and qas: KeyError"),
        ('{"data": [{"paragraphs": [{"context": 7, "qas": [{}]}]}]}', "not in SQuAD's format"),
        ('{"data": [{"paragraphs": [{"context": "x", "qas": ["q"]}]}]}', "not in SQuAD's format"),
        ('{"data": 7}', "not in SQuAD's format"),
        ('{"data": []}', "a.json has no questions"),
        ('{"data": [{"paragraphs": [{"context": " ", "qas": [{"id": "1", "question": "?"}]}]}]}', "context is empty"),
        (b'{"data": \n"\xe9"}', "line 2, is not UTF-8"),
    ],
)
def test_files_that_cannot_be_read(write, content, message):
    with pytest.raises(ValueError, match=message):
        read_squad(write("a.json", content))
