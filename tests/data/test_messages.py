"""What is wrong with files of examples: errors name the file, the place in it, the value, and a way out."""

import json

import pytest

from keras_bert.data import Answer, Examples, read_columns, read_conll, read_squad, read_table
from keras_bert.data.task_files import AnswerFiles, ClassifyFiles, TagFiles
from keras_bert.data.texts import parse_label

from ..support.messages import error_names, warning_names

HEADER = "text,label\n"
READERS = {"conll": read_conll, "json": read_squad}  # else read_table


def squad(context, *questions):
    return json.dumps({"data": [{"paragraphs": [{"context": context, "qas": questions}]}]})


# What is wrong -> the name of the file, its content, options of the reader, the words of the message.
FILES = {
    "a CoNLL file is empty": ("a.conll", "", {}, ["a.conll is empty"]),
    "only -DOCSTART- lines": ("a.conll", "-DOCSTART- O\n\n", {}, ["-DOCSTART-", "no sentences"]),
    "only comments": ("a.conll", "# id 1\n\n-DOCSTART- O\n", {}, ["-DOCSTART-", "comments", "no sentences"]),
    "a label column that is not there": ("a.conll", "Ada O\n", {"label_column": 3}, ["no column 3", "1 to 2"]),
    "columns count from 1": ("a.conll", "Ada O\n", {"word_column": 0}, ["no column 0", "1 to 2"]),
    "one column is word and label": ("a.conll", "Ada\nsang\n\nYes\n", {}, ["column 1", "both", "word", "label"]),
    "CoNLL in Latin-1": ("a.conll", b"Ada O\n\xe9 O\n", {}, ["line 2", "UTF-8"]),
    "a number sign inside a sentence": ("a.conll", "Ada\tB\n# 2 3\nsang\tO\n", {}, ["line 2", "3 columns", 2]),
    "a hash tag without its label": ("a.conll", "#NFL\nAda\tB\nsang\tO\n", {}, ["line 1", "1 column", 2]),
    "a label with a line end": ("a.conll", "Ada\tB\nsang\tO\rx\n", {}, ["line 2", "label", r"'O\rx'", "line end"]),
    "a SQuAD file is empty": ("a.json", "", {}, ["a.json is empty"]),
    "an opened brace": ("a.json", "{", {}, ["JSON"]),
    "brackets without end": ("a.json", "[" * 100_000, {}, ["JSON", "nested"]),
    "a list instead of SQuAD": ("a.json", "[]", {}, ["SQuAD"]),
    "no data": ("a.json", '{"version": "1.1"}', {}, ["SQuAD", "context", "qas", "KeyError"]),
    "a context that is a number": ("a.json", squad(7, {}), {}, ["SQuAD"]),
    "a question that is a string": ("a.json", squad("x", "q"), {}, ["SQuAD"]),
    "data that are a number": ("a.json", '{"data": 7}', {}, ["SQuAD"]),
    "no questions": ("a.json", '{"data": []}', {}, ["no questions"]),
    "an empty context": ("a.json", squad(" ", {"id": "1", "question": "?"}), {}, ["context", "empty"]),
    "SQuAD in Latin-1": ("a.json", b'{"data": \n"\xe9"}', {}, ["line 2", "UTF-8"]),
    "a number of 5,000 digits": ("a.json", f'{{"data": [], "version": {"9" * 5000}}}', {}, ["JSON", "4,300", "digits"]),
    "a column that is not there": ("a.csv", "id,review\n1,x\n", {}, ["no column 'text'", "'id', 'review'"]),
    "columns of tables count from 1": ("a.csv", "id,review\n1,x\n", {"text_column": 0}, ["no column 0", "1 to 2"]),
    "no label column": ("a.csv", "text\nx\n", {"label_column": "label"}, ["no column 'label'"]),
    "no column of second texts": ("a.csv", "text\nx\n", {"text_pair_column": "b"}, ["no column 'b'"]),
    "two columns of one name": ("a.csv", "text,text\n1,x\n", {}, ["columns 'text'", "by number", "1 and 2"]),
    "a name without a header": ("a.csv", "1,x\n", {"header": False}, ["header", "by number", "1 to 2", "'text'"]),
    "a CSV is empty": ("a.csv", "", {}, ["a.csv is empty"]),
    "a CSV is blank": ("a.csv", "\ufeff \n\n", {}, ["a.csv is empty"]),
    "a header alone": ("a.csv", HEADER, {}, ["header", "no rows"]),
    "a header and blank lines": ("a.csv", HEADER + "\n\r\n", {}, ["header", "no rows"]),
    "a blank header": ("a.csv", "\ntext\nx\n", {}, ["line 1", "columns", "blank"]),
    "a header with a stray quote": ("a.csv", '"te"xt\nx\n', {}, ["line 1", "columns", "not CSV"]),
    "an opened quote": ("a.csv", HEADER + 'x,y\n"x,y\nx,y\n', {"skip_bad": True}, ["line 3", "quote", "tsv"]),
    "many columns": ("a.csv", ",".join(map(str, range(99))) + f"\nx{98 * ','}\n", {}, ["'18', '19' and 79 more"]),
    "keys that no row has": ("a.jsonl", '{"id": 1}\n{"review": "x"}\n', {}, ["no column 'text'", "'id', 'review'"]),
    "keys have no numbers": ("a.jsonl", '{"id": 1}\n', {"text_column": 1}, ["no column 1"]),
    "an ending that says nothing": ("a.txt", "text\nx\n", {}, ["a.txt", ".csv", ".ndjson", ".xlsx", "format", "'csv'"]),
    "nothing left of a CSV": ("a.csv", HEADER + "x\n\ny\n", {"skip_bad": True}, ["nothing", "3 of 3"]),
    "nothing left of JSON lines": ("a.jsonl", "{\n1\n", {"skip_bad": True}, ["nothing", "2 of 2"]),
    "nothing left of a bad CSV": ("a.csv", 'text\n"x"x\n', {"skip_bad": True}, ["nothing", "1 of 1"]),
    "an odd first row": (
        *("a.tsv", "one\tx\textra\ntwo\ty\nthree\tz\n", {"text_column": 1, "label_column": 2, "header": False}),
        ["1 of 3", "line 1", "3 cells", 2],
    ),
    "labels that are no numbers": (
        *("a.csv", HEADER + "one,x\ntwo,2\nthree,\n", {"label_column": "label", "label_kind": "number"}),
        ["2 of 3", "line 2", "label", "'x'", "number", "line 4", "empty"],
    ),
    "a label's column": ("a.csv", "text,kind\nx,a\ny,\n", {"label_column": "kind"}, ["line 3: kind is empty"]),
    "a sheet of a CSV": ("a.csv", HEADER, {"sheet": "S"}, ["sheet is 'S'", "a.csv is a table (CSV)", "workbook"]),
}


@pytest.mark.parametrize(("name", "content", "options", "words"), FILES.values(), ids=FILES)
def test_a_file_that_cannot_be_read(write, name, content, options, words):
    read = READERS.get(name.partition(".")[2], read_table)
    with error_names(ValueError, name, *words):
        read(write(name, content), **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"label_kind": "many"}, ["label_kind", "'many'", "'class', 'number', 'multi_label'"]),
        ({"format": "xls"}, ["format", "'xls'", "'csv', 'tsv', 'jsonl', 'parquet', 'xlsx'"]),
        *(({"delimiter": each}, ["delimiter", repr(each), "one character"]) for each in (";;", "", '"', "\n", 5)),
    ],
)
def test_an_option_that_cannot_be(write, options, words):
    with error_names(ValueError, *words):
        read_table(write("a.csv", "text\nx\n"), **options)


CONTEXT = "Ada sang. Bo sang. 😀 Ada left."
LEFT = {
    "a.conll": Examples({"words": [["Ada", "sings"], ["Yes"]]}, [["B-x", "O"], ["O"]]),
    "a.csv": Examples({"text": ["one", "two"]}, labels=["a", "b"]),
    "a.jsonl": Examples({"text": ["one", "two"]}, labels=["a", "b"]),
    "a.json": Examples({"question": ["Who sang?"] * 2, "context": [CONTEXT] * 2}, [(Answer("Ada", 0),)] * 2),
}


def conll(line):
    return "a.conll", f"Ada B-x\nsings O\n\nShe O\n{line}\nwell\n\nYes O\n", {}


def in_csv(row):
    return "a.csv", f"text,label\none,a\n{row}\ntwo,b\n", {"label_column": "label"}


def in_jsonl(row):
    good = [json.dumps({"text": text, "label": label}) for text, label in (("one", "a"), ("two", "b"))]
    return "a.jsonl", f"{good[0]}\n{row}\n{good[1]}\n\n", {"label_column": "label"}


def in_squad(*answers, **changes):
    if answers:
        changes["answers"] = [{"text": text, "answer_start": start} for text, start in answers]
    good = {"question": "Who sang?", "answers": [{"text": "Ada", "answer_start": 0}]}
    questions = [{"id": "q0", **good}, {"id": "q1", **good, **changes}, {"id": "q9", **good}]
    return "a.json", squad(CONTEXT, *questions), {}


# What is wrong -> the file, whose second of three rows it is; the words of the message.
ROWS = {
    "a word without a label": (conll("sang"), ["line 5", "1 column", 2]),
    "a column too many": (conll("sang VBD O"), ["line 5", "3 columns", 2]),
    "a label without a word": (conll("\tO"), ["line 5", "word", "empty"]),
    "an empty label": (conll("sang\t"), ["line 5", "label", "empty"]),
    "a word of white space": (conll("\u00a0\tO"), ["line 5", "word", "empty"]),
    "a cell too few": (in_csv("x"), ["line 3", "1 cell", 2]),
    "a cell too many": (in_csv("x,y,z"), ["line 3", "3 cells", 2]),
    "a blank row": (in_csv(""), ["line 3", "blank"]),
    "no text in a CSV": (in_csv(",y"), ["line 3", "text", "empty"]),
    "white space in a CSV": (in_csv(" \u3000,y"), ["line 3", "text", "empty"]),
    "no label in a CSV": (in_csv("x, "), ["line 3", "label", "empty"]),
    "a stray quote": (in_csv('"x"x,y'), ["line 3", "not CSV"]),
    "an open object": (in_jsonl('{"text": "x"'), ["line 2", "not JSON"]),
    "a list": (in_jsonl("[1]"), ["line 2", "JSON", "list", "object"]),
    "a blank line": (in_jsonl(""), ["line 2", "blank"]),
    "100,000 brackets": (in_jsonl("[" * 100_000), ["line 2", "not JSON", "nested"]),
    "no text": (in_jsonl('{"label": "y"}'), ["line 2", "no text"]),
    "no label": (in_jsonl('{"text": "x"}'), ["line 2", "no label"]),
    "null as text": (in_jsonl('{"text": null, "label": "y"}'), ["line 2", "text", "empty"]),
    "a number as text": (in_jsonl('{"text": 7, "label": "y"}'), ["line 2", "text", 7, "not a text"]),
    "a line end as text": (in_jsonl('{"text": "\\n", "label": "y"}'), ["line 2", "text", "empty"]),
    "half a character": (in_jsonl('{"text": "\\ud83d", "label": "y"}'), ["line 2", "text", "surrogate"]),
    "a fraction as label": (in_jsonl('{"text": "x", "label": 1.5}'), ["line 2", "label", "1.5", "class"]),
    "a label of two lines": (in_csv('x,"a\nb"'), ["line 3", "label", r"'a\nb'", "line end"]),
    "an id twice": (in_squad(id="q0"), ["question q0", "id", "unique"]),
    "no id": (in_squad(id=None), ["question 2", "id", None, "text"]),
    "a fraction as id": (in_squad(id=7.5), ["question 7.5", "id", "text"]),
    "true as id": (in_squad(id=True), ["question True", "id", "text"]),
    "a blank question": (in_squad(question=" "), ["question q1", "question is empty"]),
    "no question": (in_squad(question=None), ["question q1", "question is None", "text"]),
    "half a character in a question": (in_squad(question="\ud83d"), ["question q1", "question", "surrogate"]),
    "no answers": (in_squad(answers=[]), ["question q1", "no answers", "is_impossible"]),
    "impossible with answers": (in_squad(is_impossible=True), ["question q1", "is_impossible", "has answers"]),
    "an object of one list": (in_squad(answers={"text": ["Ada"]}), ["question q1", "answers", "object", "list"]),
    "lists of two lengths": (
        in_squad(answers={"text": ["Ada"], "answer_start": []}),
        ["question q1", "object", "lists"],
    ),
    "an object of no lists": (in_squad(answers={"text": "Ada", "answer_start": 0}), ["question q1", "object", "lists"]),
    "a string as answer": (in_squad(answers=["Ada"]), ["question q1", "'Ada'", "object", "text", "answer_start"]),
    "an answer without a place": (in_squad(answers=[{"text": "Ada"}]), ["question q1", "answer_start", "'Ada'", None]),
    "a string as place": (in_squad(("Ada", "0")), ["question q1", "answer_start", "'Ada'", "'0'", "whole number"]),
    "half a place": (in_squad(("Ada", 0.5)), ["question q1", "answer_start", "'Ada'", "0.5", "whole number"]),
    "false as place": (in_squad(("Ada", False)), ["question q1", "answer_start", "'Ada'", False, "whole number"]),
    "a list as place": (in_squad(("Ada", [0])), ["question q1", "answer_start", "'Ada'", "[0]", "whole number"]),
    "a place before the context": (in_squad(("Ada", -31)), ["question q1", "answer_start", "'Ada'", -31, 30]),
    "a place after the context": (in_squad(("Ada", 30)), ["question q1", "answer_start", "'Ada'", "30 characters"]),
    "bytes instead of characters": (in_squad(("left", 26)), ["question q1", "'left'", 26, 25, "characters"]),
    "an answer that is nowhere": (in_squad(("Ada", 0), ("Cy", 0)), ["question q1", "'Cy'", "answer_start", "nowhere"]),
    "an empty answer": (in_squad(("", 0)), ["question q1", "text is empty"]),
    "a place without an answer": (in_squad(answers=[{"answer_start": 0}]), ["question q1", "text is None"]),
}


@pytest.mark.parametrize(("file", "words"), ROWS.values(), ids=ROWS)
def test_a_bad_row_is_refused_or_left_out(write, file, words):
    name, content, options = file
    path, read = write(name, content), READERS.get(name.partition(".")[2], read_table)
    with error_names(ValueError, name, "1 of 3", *words, "skip_bad"):
        read(path, **options)
    with warning_names(name, "1 of 3", *words):
        assert read(path, **options, skip_bad=True) == LEFT[name]


# What is wrong -> a value, its kind, the words of the message.
LABELS = {
    "empty": ("", "class", ["empty"]),
    "None": (None, "class", ["empty"]),
    "half a character": ("go\ud800od", "class", ["surrogate"]),
    "a tab": ("go\tod", "class", [r"'go\tod'", "tab"]),
    "a line end among names": (["war", "lo\nve"], "multi_label", [r"'lo\nve'", "line end"]),
    "a fraction as class": (1.0, "class", ["1.0", "class"]),
    "an empty number": ("", "number", ["empty"]),
    "None as number": (None, "number", ["empty"]),
    "a word as number": ("good", "number", ["'good'", "not a number"]),
    "a comma in a number": ("4,5", "number", ["'4,5'", "not a number"]),
    "an underscore in a number": ("1_000", "number", ["'1_000'", "not a number"]),
    "true as number": (True, "number", [True, "not a number"]),
    "a list as number": ([1], "number", ["[1]", "not a number"]),
    "more digits than a float has": (10**400, "number", ["1" + "0" * 59, "not a number"]),
    "nan": ("nan", "number", ["'nan'", "finite"]),
    "infinity": (float("inf"), "number", ["inf", "finite"]),
    "an empty name among names": ("war||love", "multi_label", ["empty"]),
    "None among names": (["war", None], "multi_label", ["empty"]),
    "a fraction among names": (["war", 1.5], "multi_label", ["1.5", "class"]),
    "a number for names": (3, "multi_label", [3, "list of names"]),
    "None for names": (None, "multi_label", [None, "list of names"]),
}


@pytest.mark.parametrize(("value", "kind", "words"), LABELS.values(), ids=LABELS)
def test_a_label_that_is_none(value, kind, words):
    with error_names(ValueError, "label", *words):
        parse_label(value, kind)


# What is wrong -> examples that are made or checked, the words of the message.
EXAMPLES = {
    "more labels than texts": (lambda: Examples({"text": ["a"]}, labels=["x", "y"]), ["'text': 1", "'labels': 2"]),
    "fewer second texts": (lambda: Examples({"text": ["a"], "text_pair": []}), ["'text': 1", "'text_pair': 0"]),
    "fewer labels than sentences": (lambda: Examples({"words": [["a"]]}, []), ["'words': 1", "'labels': 0"]),
    "fewer words than labels": (
        lambda: Examples({"words": [["a"], ["b"]]}, [["O"], ["O", "O"]]),
        ["sentence 2", "1 word", "2 labels"],
    ),
    "no contexts": (lambda: Examples({"question": ["a?"], "context": []}), ["'question': 1", "'context': 0"]),
    "columns of two lengths": (
        lambda: Examples({"query": ["a", "b"], "positive": ["c"]}),
        ["'query': 2", "'positive': 1"],
    ),
}


@pytest.mark.parametrize(("make", "words"), EXAMPLES.values(), ids=EXAMPLES)
def test_lists_of_different_lengths(make, words):
    with error_names(ValueError, *words):
        make()


@pytest.mark.parametrize(
    ("examples", "words"),
    [
        (Examples({"text": ["a", "b"]}), ["without labels", "training"]),
        (Examples({"text": ["a", "b"]}, labels=["good", "good"]), ["2 labels", "'good'", "two classes"]),
        (Examples({"text": ["a", "b"]}, labels=[3.0, 3.0]), ["2 labels", "3.0", "two numbers"]),
        (Examples({"text": ["a", "b"]}, labels=[("x", "y"), ("y", "x")]), ["2 labels", "('x', 'y')"]),
        (Examples({"words": [["a", "b"], ["c"]]}), ["without labels"]),
        (Examples({"words": [["a", "b"], ["c"]]}, [["O", "O"], ["O"]]), ["3 labels", "'O'", "words"]),
        (Examples({"question": ["a?"], "context": ["b"]}), ["none", "1 question", "answer"]),
        (Examples({"question": ["a?"], "context": ["b"]}, [()]), ["none", "1 question", "answer"]),
        (Examples({"query": ["a", "b"], "positive": ["c", "c"]}), ["2 positives", "same"]),
        (
            Examples({"query": ["a", "b"], "positive": ["c", "d"]}, [1.0, 1.0]),
            ["2 labels", "1.0", "pairs", "two numbers"],
        ),
    ],
)
def test_nothing_to_learn(examples, words):
    with error_names(ValueError, "x.tsv", *words):
        examples.check_can_be_learned("x.tsv")


@pytest.mark.parametrize(
    "examples",
    [
        Examples({"text": ["a", "b"]}, labels=["good", "bad"]),
        Examples({"text": ["a", "b"]}, labels=[1.0, 2.0]),
        Examples({"text": ["a", "b"]}, labels=[("x",), ()]),
        Examples({"words": [["a", "b"]]}, [["O", "B-x"]]),
        Examples({"question": ["a?", "b?"], "context": ["b", "b"]}, [(), (Answer("b", 0),)]),
        Examples({"query": ["a", "b"], "positive": ["c", "d"]}),
    ],
)
def test_something_to_learn(examples):
    examples.check_can_be_learned("x")


@pytest.mark.parametrize(
    ("columns", "words"),
    [(["q", "n"], ["no column 'n'", "'q', 'p', 'score'"]), (["q"], ["text_columns", "['q']", "two"])],
)
def test_columns_of_texts_that_cannot_be_chosen(write, columns, words):
    path = write("a.tsv", "q\tp\tscore\nwho?\tAda\t1\n")
    with error_names(ValueError, *words):
        read_columns(path, text_columns=columns)


@pytest.mark.parametrize(("kind", "name", "content", "problem"), [
    (ClassifyFiles, "a.csv", "text,label\nx,good\ny,\n", "line 3"),
    (TagFiles, "a.conll", "Ada B\nsang O\n\nBo\n", "line 4"),
    (AnswerFiles, "a.json", squad("Ada", {"id": "1", "question": "?"}, {"id": "2", "question": " "}), "question 2"),
])  # fmt: skip
def test_the_settings_of_a_task_leave_bad_examples_out(write, kind, name, content, problem):
    path = write(name, content)
    with error_names(ValueError, problem):
        kind().open(path)(kind())
    settings = kind(skip_bad=True)
    with warning_names(problem):
        assert len(settings.open(path)(settings)) == 1
