"""Labels: names, numbers and several names; and whether there is something to learn from them."""

import pytest

from keras_bert.data import Answer, QuestionExamples, TextExamples, WordExamples, read_table
from keras_bert.data.texts import parse_label


@pytest.mark.parametrize(
    ("value", "kind", "label"),
    [
        (" good\r", "class", "good"),
        (0, "class", "0"),
        (True, "class", "true"),
        (False, "class", "false"),
        (" 4.5 ", "number", 4.5),
        ("-1e-3", "number", -0.001),
        (5, "number", 5.0),
        ("war|love", "multi_label", ("war", "love")),
        (" war | love |war", "multi_label", ("war", "love")),
        ("", "multi_label", ()),
        ([], "multi_label", ()),
        (["war", 7], "multi_label", ("war", "7")),
    ],
)
def test_labels(value, kind, label):
    parsed = parse_label(value, kind)
    assert parsed == label
    assert type(parsed) is type(label)


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ("", "class", "label is empty"),
        (None, "class", "label is empty"),
        ("go\ud800od", "class", "label has half of a surrogate pair, which is not a character"),
        ("go\tod", "class", r"label is 'go\\tod', with a tab or a line end"),
        (["war", "lo\nve"], "multi_label", r"label is 'lo\\nve', with a tab or a line end"),
        (1.0, "class", "label is 1.0, which is not the name of a class"),
        ("", "number", "label is empty"),
        (None, "number", "label is empty"),
        ("good", "number", "label is 'good', which is not a number"),
        ("4,5", "number", "label is '4,5', which is not a number"),
        ("1_000", "number", "label is '1_000', which is not a number"),
        (True, "number", "label is True, which is not a number"),
        ([1], "number", r"label is \[1\], which is not a number"),
        (10**400, "number", "which is not a number"),
        ("nan", "number", "label is 'nan', which is not a finite number"),
        (float("inf"), "number", "label is inf, which is not a finite number"),
        ("war||love", "multi_label", "label is empty"),
        (["war", None], "multi_label", "label is empty"),
        (["war", 1.5], "multi_label", "label is 1.5, which is not the name of a class"),
        (3, "multi_label", "label is 3; expected a list of names"),
        (None, "multi_label", "label is None; expected a list of names"),
    ],
)
def test_what_is_no_label(value, kind, message):
    with pytest.raises(ValueError, match=message):
        parse_label(value, kind)


def test_kinds_in_tables(write):
    path = write("a.csv", "text,score,topics\none,0.5,war;love\ntwo,2,\n")
    assert read_table(path, label_column="score", label_kind="number").labels == [0.5, 2.0]
    assert read_table(path, label_column="topics", label_kind="multi_label", separator=";").labels == [
        ("war", "love"),
        (),
    ]
    path = write("a.jsonl", '{"text": "one", "topics": ["war", "love"]}\n{"text": "two", "topics": []}\n')
    assert read_table(path, label_column="topics", label_kind="multi_label").labels == [("war", "love"), ()]
    with pytest.raises(
        ValueError, match="2 of 3 rows cannot be used: line 2: label is 'x', which is not a number; line 4"
    ):
        read_table(write("b.csv", "text,label\none,x\ntwo,2\nthree,\n"), label_column="label", label_kind="number")


def test_labels_that_no_file_could_hold_are_told_by_row(write):
    path = write("a.jsonl", '{"text": "one", "label": "a"}\n{"text": "two", "label": "\\ud800"}\n')
    with pytest.raises(ValueError, match="1 of 2 rows cannot be used: line 2: label has half of a surrogate pair"):
        read_table(path, label_column="label")
    path = write("a.csv", 'text,label\none,"a\nb"\ntwo,c\n')
    with pytest.raises(ValueError, match=r"1 of 2 rows cannot be used: line 2: label is 'a\\nb', with a tab or a line"):
        read_table(path, label_column="label")


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (TextExamples(["a", "b"]), "x.tsv was read without labels, but training needs them"),
        (TextExamples(["a", "b"], labels=["good", "good"]), "all 2 labels are 'good'.*takes at least two classes"),
        (TextExamples(["a", "b"], labels=[3.0, 3.0]), "all 2 labels are 3.0.*takes at least two numbers"),
        (TextExamples(["a", "b"], labels=[("x", "y"), ("y", "x")]), r"all 2 labels are \('x', 'y'\)"),
        (WordExamples([["a", "b"], ["c"]]), "was read without labels"),
        (WordExamples([["a", "b"], ["c"]], [["O", "O"], ["O"]]), "all 3 labels are 'O'; to tell words apart"),
        (QuestionExamples(["q"], ["a?"], ["b"]), "none of its 1 questions has an answer"),
        (QuestionExamples(["q"], ["a?"], ["b"], [()]), "none of its 1 questions has an answer"),
    ],
)
def test_nothing_to_learn(examples, message):
    with pytest.raises(ValueError, match=message):
        examples.check_can_be_learned("x.tsv")


def test_something_to_learn():
    TextExamples(["a", "b"], labels=["good", "bad"]).check_can_be_learned("x")
    TextExamples(["a", "b"], labels=[1.0, 2.0]).check_can_be_learned("x")
    TextExamples(["a", "b"], labels=[("x",), ()]).check_can_be_learned("x")
    WordExamples([["a", "b"]], [["O", "B-x"]]).check_can_be_learned("x")
    QuestionExamples(["q", "r"], ["a?", "b?"], ["b", "b"], [(), (Answer("b", 0),)]).check_can_be_learned("x")
