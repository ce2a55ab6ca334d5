"""SQuAD's JSON."""

import json

import pytest

from keras_bert.data import Answer, Examples, read_squad

from ..support.messages import error_names, warning_names

CONTEXT = "Ada sang. Bo sang. 😀 Ada left."


def question(**fields):
    return {"id": "q1", "question": "Who sang?", "answers": [{"text": "Ada", "answer_start": 0}], **fields}


def file_of(write, *questions, context=CONTEXT, mark=""):
    content = {"version": "x", "data": [{"title": "T", "paragraphs": [{"context": context, "qas": list(questions)}]}]}
    return write("a.json", mark + json.dumps(content))


def test_version_1(write):
    several = [{"text": "Ada", "answer_start": 0}, {"text": "Ada", "answer_start": 21}]  # 24 in bytes
    path = file_of(write, question(), question(id="q2", question="Who?", answers=several), mark="\ufeff")
    examples = read_squad(path)
    assert examples == Examples(
        {"question": ["Who sang?", "Who?"], "context": [CONTEXT, CONTEXT]},
        [(Answer("Ada", 0),), (Answer("Ada", 0), Answer("Ada", 21))],
    )
    assert examples.rows.places == {"id": ["q1", "q2"]}


def test_version_2(write):
    examples = read_squad(file_of(write, question(), question(id="q2", answers=[], is_impossible=True)))
    assert examples.labels == [(Answer("Ada", 0),), ()]
    assert read_squad(file_of(write, question(answers=[], is_impossible=True))).labels == [()]


def test_without_answers(write):
    asked = question()
    del asked["answers"]
    for path in (file_of(write, asked), file_of(write, question(answers=[]))):
        examples = read_squad(path)
        assert examples == Examples({"question": ["Who sang?"], "context": [CONTEXT]})


def test_what_is_certain_is_read(write):
    """Ids and places as other programs write them."""
    both = {"text": ["Ada", "Bo"], "answer_start": [0, 10]}
    examples = read_squad(file_of(write, question(id=17), question(answers=both)))
    assert examples.rows.places["id"] == ["17", "q1"]
    assert examples.labels == [(Answer("Ada", 0),), (Answer("Ada", 0), Answer("Bo", 10))]
    floating = question(answers=[{"text": "Ada", "answer_start": 0.0}])
    assert read_squad(file_of(write, floating)).labels == [(Answer("Ada", 0),)]
    none = {"text": [], "answer_start": []}
    examples = read_squad(file_of(write, question(), question(id="q2", answers=none, is_impossible=True)))
    assert examples.labels == [(Answer("Ada", 0),), ()]


def test_bad_rows_are_left_out_by_line(write):
    good = {"id": "q1", "context": CONTEXT, "question": "Who?", "answers": {"text": ["Bo"], "answer_start": [10]}}
    path = write("a.jsonl", json.dumps(good) + '\n{"id": \n')
    bad = ["a.jsonl", "1 of 2", "question 2", "line 2", "not JSON"]
    with error_names(ValueError, *bad, "skip_bad"):
        read_squad(path)
    with warning_names(*bad):
        assert read_squad(path, skip_bad=True).rows.places == {"line": [1], "id": ["q1"]}


def test_rows_of_impossible_questions_need_no_answers(write):
    row = {"id": "q1", "question": "Who?", "context": CONTEXT, "is_impossible": True, "source": "x"}
    path = write("a.jsonl", json.dumps(row))
    examples = read_squad(path)
    assert examples.labels == [()]
    assert examples.rows.other_cells() == [{"is_impossible": True, "source": "x"}]


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
    assert examples == Examples({"question": ["Who?", "When?"], "context": [CONTEXT] * 2}, [(Answer("Bo", 10),), ()])
