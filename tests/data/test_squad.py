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


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (question(id="q0"), "question q0: its id is not unique"),
        (question(id=None), "question 2: id is None, which is not a text"),
        (question(id=7.5), "question 7.5: id is 7.5, which is not a text"),
        (question(id=True), "question True: id is True, which is not a text"),
        (question(question=" "), "question q1: question is empty"),
        (question(question=None), "question q1: question is None, which is not a text"),
        (question(question="\ud83d"), "question q1: question has half of a surrogate pair"),
        (question(answers=[]), "question q1: no answers, and is not is_impossible"),
        (question(is_impossible=True), "question q1: is_impossible, but has answers"),
        (question(answers={"text": ["Ada"]}), "question q1: answers are an object; expected a list"),
        (question(answers=["Ada"]), "question q1: an answer is 'Ada' instead of an object with text and answer_start"),
        (
            question(answers=[{"text": "Ada"}]),
            "question q1: answer_start of 'Ada' is None, which is not a whole number",
        ),
        *(
            (
                question(answers=[{"text": "Ada", "answer_start": start}]),
                f"question q1: answer_start of 'Ada' is {told}",
            )
            for start, told in [
                ("0", "'0', which is not a whole number"),
                (0.5, "0.5, which is not a whole number"),
                (False, "False, which is not a whole number"),
                ([0], r"\[0\], which is not a whole number"),
                (-31, "-31, but its context has 30 characters"),
                (30, "30, but its context has 30 characters"),
            ]
        ),
        (
            question(answers=[{"text": "left", "answer_start": 26}]),
            "question q1: answer 'left' is not at its answer_start 26, but first at 25, counted in characters",
        ),
        (
            question(answers=[{"text": "Ada", "answer_start": 0}, {"text": "Cy", "answer_start": 0}]),
            "question q1: answer 'Cy' is not at its answer_start 0, but nowhere in its context",
        ),
        (question(answers=[{"text": "", "answer_start": 0}]), "question q1: text is empty"),
        (question(answers=[{"answer_start": 0}]), "question q1: text is None"),
    ],
)
def test_bad_questions(write, bad, what):
    path = file_of(write, question(id="q0"), bad, question(id="q9"))
    with pytest.raises(ValueError, match=f"a.json: 1 of 3 questions cannot be used: .*{what}"):
        read_squad(path)
    with pytest.warns(UserWarning, match=f"1 of 3 questions are left out: .*{what}"):
        assert read_squad(path, skip_bad=True).ids == ["q0", "q9"]


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


def test_a_number_that_python_refuses(write):
    path = write("a.json", f'{{"data": [], "version": {"9" * 5000}}}')
    with pytest.raises(ValueError, match="a.json is not a JSON file: a whole number of more than 4,300 digits"):
        read_squad(path)


def test_what_is_certain_is_read(write):
    """Ids and places as other programs write them."""
    both = {"text": ["Ada", "Bo"], "answer_start": [0, 10]}
    examples = read_squad(file_of(write, question(id=17), question(answers=both)))
    assert examples.ids == ["17", "q1"]
    assert examples.answers == [(Answer("Ada", 0),), (Answer("Ada", 0), Answer("Bo", 10))]
    floating = question(answers=[{"text": "Ada", "answer_start": 0.0}])
    assert read_squad(file_of(write, floating)).answers == [(Answer("Ada", 0),)]
    none = {"text": [], "answer_start": []}
    examples = read_squad(file_of(write, question(), question(id="q2", answers=none, is_impossible=True)))
    assert examples.impossible == [False, True]
    for answers in ({"text": ["Ada"], "answer_start": []}, {"text": "Ada", "answer_start": 0}):
        with pytest.raises(ValueError, match="answers are an object; expected a list, or an object of two equal lists"):
            read_squad(file_of(write, question(answers=answers)))


def test_bad_rows_are_left_out_by_line(write):
    good = {"id": "q1", "context": CONTEXT, "question": "Who?", "answers": {"text": ["Bo"], "answer_start": [10]}}
    path = write("a.jsonl", json.dumps(good) + '\n{"id": \n')
    with pytest.raises(ValueError, match="a.jsonl: 1 of 2 questions cannot be used: question 2: line 2: not JSON"):
        read_squad(path)
    with pytest.warns(UserWarning, match="1 of 2 questions are left out"):
        assert read_squad(path, skip_bad=True).ids == ["q1"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.parquet"])
def test_rows_of_the_library_datasets(write, tmp_path, name):
    rows = [
        {"id": "q1", "context": CONTEXT, "question": "Who?", "answers": {"text": ["Bo"], "answer_start": [10]}},
        {"id": "q2", "context": CONTEXT, "question": "When?", "answers": {"text": [], "answer_start": []}},
    ]
    if name == "a.parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    else:
        write(name, "".join(json.dumps(row) + "\n" for row in rows))
    examples = read_squad(tmp_path / name)
    assert examples == QuestionExamples(["q1", "q2"], ["Who?", "When?"], [CONTEXT] * 2, [(Answer("Bo", 10),), ()])
