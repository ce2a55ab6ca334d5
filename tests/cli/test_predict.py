"""keras-bert predict and evaluate: what they read, and what they cannot."""

import csv
import gzip
import hashlib
import json
from html import escape
from pathlib import Path

import keras
import numpy as np
import openpyxl
import pytest
from sklearn.metrics import precision_recall_fscore_support

from keras_bert import (
    BertClassifier,
    BertMultiVectorEncoder,
    BertNextSentence,
    BertQuestionAnswerer,
    BertSentenceEncoder,
    BertSparseEncoder,
    BertTokenClassifier,
)
from keras_bert.answers import metrics, vector_metrics
from keras_bert.cli import streams
from keras_bert.cli.terminal import Misuse
from keras_bert.data.tables import read_rows
from keras_bert.tasks import registry

from ..support import small
from ..support.commands import KINDS, json_lines


def test_what_predict_cannot_read(fails, untrained, classifier, table):
    bad_rows = {
        b'{"text": "one"}\n{': "line 2: not JSON",
        b"[" * 100_000: "line 1: not JSON that can be read",
        b'{"text": "one"}\n["two"]': "line 2: a JSON list instead of an object",
        b'{"words": "one"}': "line 1: no 'text'; its keys are 'words'",
        b'{"text": "one"}\n{"text": "two \\ud83d"}': "line 2: text has half of a surrogate pair",
    }
    for lines, message in bad_rows.items():
        assert message in fails("predict", classifier, "--format", "jsonl", input=lines)
    assert f"{table} is a file: read it with --file" in fails("predict", classifier, table)
    assert "not a fine-tuned classifier, tagger or question answerer" in fails("predict", untrained, input=b"one")


def test_lines_and_json_lines(run, fails, classifier, tmp_path):
    """JSON lines are known by the file's name. A line of text may be empty; a cell may not."""
    texts = ["bad bad", "", "great"]
    lines = json_lines(run("predict", classifier, input="\n".join(texts).encode()).stdout)
    answers = registry.load_task(Path(classifier)).classify(texts)
    assert lines == [{"text": text, **answer} for text, answer in zip(texts, answers, strict=True)]
    path = tmp_path / "TEXTS.NDJSON"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    message = fails("predict", classifier, "--file", path)
    assert message.startswith(f"{path}: 1 of 3 rows cannot be used: line 2: text is empty")
    result = run("predict", classifier, "--file", path, "--skip-bad")
    assert "1 of 3 rows are left out: line 2: text is empty" in result.stderr
    rows = json_lines(result.stdout)
    assert [(row["text"], row["label"]) for row in rows] == [(each["text"], each["label"]) for each in lines[::2]]


def test_tables_and_arguments(run, classifier, tmp_path):
    """Other columns are handed on, and nothing is lost if an answer has the name of a column."""
    rows = [("bad, bad", "x", "1"), ("great", "y", "2")]
    answers = registry.load_task(Path(classifier)).classify([text for text, _, _ in rows])
    table, tsv = tmp_path / "a.csv", tmp_path / "a.txt"
    table.write_text('review,label,id\n"bad, bad",x,1\ngreat,y,2\n')
    tsv.write_text("bad, bad\tx\t1\ngreat\ty\t2\n")
    by_name = run("predict", classifier, "--file", table, "--text-column", "review").stdout
    expected = [
        {"review": text, "given_label": label, "id": number, **answer}
        for (text, label, number), answer in zip(rows, answers, strict=True)
    ]
    assert json_lines(by_name) == expected
    options = ("--text-column", "1", "--no-header", "--format", "tsv")
    by_number = run("predict", classifier, "--file", tsv, *options).stdout.splitlines()
    assert [json.loads(line) for line in by_number] == [
        {"1": text, "2": label, "3": number, **answer}
        for (text, label, number), answer in zip(rows, answers, strict=True)
    ]
    (one,) = run("predict", classifier, "great").stdout.splitlines()
    assert json.loads(one)["label"] == answers[1]["label"]


@pytest.mark.parametrize("end", ["csv", "tsv", "jsonl"])
def test_the_name_of_the_output_decides_its_format(run, classifier, tmp_path, end):
    texts = ['bad, "bad"', "great film", "日本\u2028語"]
    path, lines = tmp_path / f"answers.{end}", "\n".join(texts).encode()
    answers = [json.loads(line) for line in run("predict", classifier, input=lines).stdout.split("\n")[:-1]]
    assert run("predict", classifier, "--output", path, input=lines).output == ""
    rows = [row for _, row in read_rows(path, end, header=True).rows]
    as_texts = [[each if isinstance(each, str) else json.dumps(each) for each in row.values()] for row in answers]
    assert rows == (answers if end == "jsonl" else as_texts)


def test_what_a_table_of_answers_cannot_hold(run, fails, classifier, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a\\tb", "more": {"x": [1]}}\n{"text": "c"}\n')
    run("predict", classifier, "--file", path, "--output", tmp_path / "a.csv")
    (_, first), (_, second) = read_rows(tmp_path / "a.csv", "csv", header=True).rows
    assert (first[:2], second[:2]) == (["a\tb", '{"x": [1]}'], ["c", ""])
    message = fails("predict", classifier, "--file", path, "--output", tmp_path / "a.tsv")
    assert message == "'a\\tb' has a tab or a line end, which TSV cannot hold; write .csv or .jsonl"
    assert not (tmp_path / "a.tsv").exists()
    assert message == fails("predict", classifier, "--file", path, "--output", tmp_path / "b.tsv")  # before any work
    lines = [*['{"text": "a"}\n'] * streams.TEXTS_AT_A_TIME, '{"text": "c", "late": "d", "label": "e"}\n']
    path.write_text("".join(lines))
    run("predict", classifier, "--file", path, "--output", tmp_path / "late.csv")
    rows = list(csv.DictReader((tmp_path / "late.csv").open(newline="")))
    assert list(rows[0]) == ["text", "label", "probability", "late", "given_label"]
    assert [(row["late"], row["given_label"]) for row in rows] == [("", "")] * (len(lines) - 1) + [("d", "e")]
    with open(tmp_path / "b.csv", "xb") as file:
        writer = streams.RowWriter(file, "csv")
        writer.write([{"a": 1}])
        with pytest.raises(Misuse, match="a row has the column 'b', which the rows"):
            writer.write([{"a": 1, "b": 2}])


FORMULAS = ["=cmd|' /C calc'!A0", "+1+2", "-2+3", "@sum(a1)", "＝1+1", "\t=1", "\r=1", "- item"]
PLAIN = ["a=1", "-2", "+2.5e-3", "-.5", "1,5", "50%", " =1", "'quoted'", ""]


@pytest.mark.parametrize("raw", [False, True])
def test_no_spreadsheet_computes_a_text_of_a_table(run, classifier, tmp_path, raw):
    path, guard = tmp_path / "a.jsonl", "" if raw else "'"
    path.write_text("".join(json.dumps({"text": "bad", "=id": each, "n": -1}) + "\n" for each in FORMULAS + PLAIN))
    for command, output in ("predict", "--output"), ("evaluate", "--errors"):
        columns = ("--label-column", "text") if command == "evaluate" else ()
        source = (path,) if command == "evaluate" else ("--file", path)
        if command == "evaluate":
            path.write_text(path.read_text().replace('"bad"', f'"{answered_and_other(classifier)[1]}"'))
        options = (output, tmp_path / f"{command}.csv", *columns, *(["--raw-cells"] if raw else []))
        run(command, classifier, *source, *options)
        rows = list(csv.DictReader((tmp_path / f"{command}.csv").open(newline="")))
        assert [row[f"{guard}=id"] for row in rows] == [f"{guard}{each}" for each in FORMULAS] + PLAIN
        assert {row["n"] for row in rows} == {"-1"}
        if not raw:  # in a workbook, a text is no formula, and a number is a number
            book = tmp_path / f"{command}.xlsx"
            run(command, classifier, *source, output, book, *columns)
            names, *cells = openpyxl.load_workbook(book).active.iter_rows()
            column = [each.value for each in names].index("=id")
            number = [each.value for each in names].index("n")
            assert {each[column].data_type for each in cells} <= {"s", "n"}
            texts = [str(each[column].value or "").replace("_x000D_", "\r") for each in cells]
            assert texts == [*FORMULAS, *PLAIN]
            assert {each[number].value for each in cells} == {-1}


def test_json_lines_are_read_by_every_parser(run, classifier, tmp_path):
    """Python's own parser also reads NaN, Infinity and -Infinity, which are no JSON."""

    def refuse(constant):
        raise AssertionError(constant)

    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "bad", "x": NaN, "more": [{"y": -Infinity}, "NaN", 1]}\n')
    for output in ("b.jsonl", "b.csv"):
        run("predict", classifier, "--file", path, "--output", tmp_path / output)
    row = json.loads((tmp_path / "b.jsonl").read_text(), parse_constant=refuse)
    assert (row["x"], row["more"]) == (None, [{"y": None}, "NaN", 1])
    (row,) = csv.DictReader((tmp_path / "b.csv").open(newline=""))
    assert json.loads(row["more"], parse_constant=refuse) == [{"y": None}, "NaN", 1]


def test_other_columns_that_cannot_be_written_are_named(fails, run, classifier, tmp_path):
    line = b'{"text": "one"}\n{"text": "two", "by": "\\ud83d"}'
    message = fails("predict", classifier, "--format", "jsonl", input=line)
    assert message.endswith("line 2: 'by' has half of a surrogate pair, which is not a character")
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    day = pa.array(np.array(["2026-11-22", "12000-01-01"], "datetime64[D]"))
    parquet.write_table(pa.table({"text": ["one", "two"], "day": day}), tmp_path / "a.parquet")
    lines = run("predict", classifier, "--file", tmp_path / "a.parquet").stdout.splitlines()
    assert [json.loads(line)["day"] for line in lines] == ["2026-11-22", "12000-01-01"]


def test_a_pre_trained_model_predicts_the_next_sentence(run, tmp_path):
    model = small.task(BertNextSentence, config={"num_layers": 1})
    model.save_preset(tmp_path / "model")
    pairs = [("good film", "the river"), ("the bank", "money")]
    (tmp_path / "pairs.csv").write_text("text,text_pair,label\ngood film,the river,0\nthe bank,money,1\n")
    command = (tmp_path / "model", "--file", tmp_path / "pairs.csv")
    rows = json_lines(run("predict", *command).stdout)
    scores = model.score(*map(list, zip(*pairs, strict=True)))
    assert [row["probability"] for row in rows] == pytest.approx(scores.tolist(), abs=1e-5)
    right = sum((scores < 0.5) == [0, 1]) / 2
    errors = tmp_path / "errors.csv"
    columns = ("--text-pair-column", "text_pair", "--errors", errors)
    shown = run("evaluate", tmp_path / "model", tmp_path / "pairs.csv", *columns).stdout
    assert shown == f"accuracy\t{right:.4f}\t(baseline: 0.5000)\n"
    assert len(errors.read_text().splitlines()) == (3 - 2 * right if right < 1 else 0)


def test_evaluate_measures_and_lists_what_is_answered_wrongly(run, classifier, table, tmp_path):
    """Only these examples, with their lines."""
    rows = [line.split("\t") for line in Path(table).read_text().splitlines()[1:]]
    answers = registry.load_task(Path(classifier)).classify([text for text, _ in rows])
    options = ("--text-column", "1", "--label-column", "kind", "--errors", tmp_path / "errors.jsonl")
    result = run("evaluate", classifier, table, *options)
    measures = dict(line.split("\t")[:2] for line in result.stdout.splitlines())
    wrong = [
        {"line": line, "text": text, "label": label, "answer": answer["label"], "probability": answer["probability"]}
        for line, ((text, label), answer) in enumerate(zip(rows, answers, strict=True), start=2)
        if answer["label"] != label
    ]
    assert 0 < len(wrong) < len(rows)
    assert json_lines((tmp_path / "errors.jsonl").read_text()) == wrong
    assert measures["accuracy"] == f"{1 - len(wrong) / len(rows):.4f}"
    kinds = [label for _, label in rows]
    found = precision_recall_fscore_support(kinds, [answer["label"] for answer in answers], zero_division=0)
    for i, name in enumerate(sorted(set(kinds))):
        for kind, values in zip(("precision", "recall", "f1"), found, strict=False):
            assert measures[f"{kind} of {name}"] == f"{values[i]:.4f}"
        assert measures[f"support of {name}"] == str(kinds.count(name))
    assert measures["macro_f1"] == f"{np.mean(found[2]):.4f}"


def test_measures_for_a_pipeline(run, fails, classifier, table, tmp_path):
    """What is printed, by name, with the files it belongs to; a bound that is not met ends with 1, a mistake with 2."""
    command = ("evaluate", classifier, table, "--text-column", "sentence", "--label-column", "kind")
    path = tmp_path / "measures.json"
    printed = run(*command, "--output", path, "--require", "accuracy<=1", "--require", "support of praise > 3").stdout
    found = json.loads(path.read_text())
    by_class = {f"{kind} of {name}": value for name, row in found["classes"].items() for kind, value in row.items()}
    lines = (line.split("\t") for line in printed.splitlines())
    assert found["measures"].pop("accuracy_baseline") == 37 / 64
    shown = {name: float(value) for name, value, *_ in lines}
    assert shown == pytest.approx({**found["measures"], **by_class}, abs=1e-4)
    assert [each["is_met"] for each in found["requirements"]] == [True, True]
    assert found["data"]["examples"] == sum(map(sum, found["confusion"]["counts"])) == 64
    for part, files in (("model", Path(classifier)), ("data", Path(table).parent)):
        assert (files / "model.safetensors").exists() == ("model.safetensors" in found[part]["sha256"])
        for name, digest in found[part]["sha256"].items():
            assert digest == hashlib.sha256((files / name).read_bytes()).hexdigest()
    value = found["measures"]["accuracy"]
    result = run(*command, "--output", path, "--overwrite", "--require", f"accuracy > {value}", exit_code=1)
    assert result.stderr.splitlines()[-1] == f"Error: not met: accuracy > {value}, but it is {value:.4f}"
    assert result.stdout == printed
    assert json.loads(path.read_text())["requirements"] == [
        {"measure": "accuracy", "sign": ">", "bound": value, "is_met": False}
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BertClassifier, "answers", lambda *_: pytest.fail("the model has run"))
        message = fails(*command, "--require", "acuracy > 0.5", "--output", tmp_path / "other.json")
    assert message.startswith("there is no measure 'acuracy'; the measures are accuracy, macro_precision, ")
    assert message.endswith("; did you mean 'accuracy'?")
    assert not (tmp_path / "other.json").exists()


def write_reviews(path, rows, names):
    """Writes a table in the format of its name."""
    kind = path.name.split(".")[1]
    if kind == "parquet":
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]), path)
    elif kind == "xlsx":
        book = pytest.importorskip("openpyxl").Workbook()
        for row in [names, *rows]:
            book.active.append(row)
        book.save(path)
    else:
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
        if kind != "jsonl":
            lines = [{"csv": ",", "tsv": "\t"}[kind].join(row) for row in [names, *rows]]
        text = "".join(f"{line}\n" for line in lines).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def answered_and_other(classifier):
    """The answer of the untrained model, and the label that it did not give."""
    (answer,) = registry.load_task(Path(classifier)).classify(["bad"])
    return answer, next(label for label in KINDS if label != answer["label"])


@pytest.mark.parametrize(
    ("name", "end"),
    [
        *(("a.csv", "jsonl"), ("a.tsv", "csv"), ("a.jsonl", "csv"), ("a.parquet", "csv"), ("a.xlsx", "jsonl")),
        *(("a.csv.gz", "csv"), ("a.jsonl.gz", "jsonl")),
    ],
)
def test_errors_keep_all_columns_and_the_line_of_the_file(run, classifier, tmp_path, name, end):
    """Those named as what is written get a prefix, and rows that are left out are counted."""
    answer, label = answered_and_other(classifier)
    names = ["label", "review", "line", "given_line", "day", "kind", "answer"]
    rows = [["l1", "bad", "7", "g", "2026-11-25", label, "yes"]] * 3
    rows += [["l4", "", "8", "g", "today", label, ""], ["l5", "bad", "9", "h", "2026-11-26", label, "no"]]
    write_reviews(tmp_path / name, rows, names)
    options = ("--text-column", "review", "--label-column", "kind", "--skip-bad", "--errors", tmp_path / f"e.{end}")
    result = run("evaluate", classifier, tmp_path / name, *options)
    assert result.stderr.count("1 of 5 rows are left out") == 1
    if end == "jsonl":
        wrong = json_lines((tmp_path / "e.jsonl").read_text())
    else:
        wrong = list(csv.DictReader((tmp_path / "e.csv").open(newline="")))
    first = 1 if name.split(".")[1] in ("parquet", "jsonl") else 2  # after a header
    assert [str(row["line"]) for row in wrong] == [str(first + i) for i in (0, 1, 2, 4)]
    assert all(float(row.pop("probability")) == pytest.approx(answer["probability"], abs=1e-5) for row in wrong)
    ours = {"line": wrong[-1]["line"], "text": "bad", "label": label, "answer": answer["label"]}
    others = {"given_label": "l5", "given_given_line": "9", "given_line": "h", "given_answer": "no"}
    assert wrong[-1] == {**ours, **others, "day": "2026-11-26"}


def test_errors_of_rows_without_names_with_equal_names_and_with_different_keys(run, classifier, tmp_path):
    options = ("--errors", tmp_path / "e.jsonl", "--overwrite")
    kind = ("--text-column", "text", "--label-column", "kind")
    _, label = answered_and_other(classifier)
    numbers = ("--no-header", "--text-column", "1", "--label-column", "3")
    lines = ({"text": "bad", "kind": label, "id": 7}, {"kind": label, "text": "bad", "by": ["x"]})
    tables = {
        "a.csv": (f"bad,7,{label},x\n", numbers, {"2": "7", "4": "x"}),
        "b.csv": (f"text,id,kind,id\nbad,7,{label},x\n", kind, {"id": "7", "id (4)": "x"}),
        "c.jsonl": ("\n".join(map(json.dumps, lines)), kind, {"id": None, "by": ["x"]}),
    }
    for name, (text, columns, others) in tables.items():
        (tmp_path / name).write_text(text)
        run("evaluate", classifier, tmp_path / name, *columns, *options)
        *_, wrong = json_lines((tmp_path / "e.jsonl").read_text())
        assert {name: wrong[name] for name in list(wrong)[5:]} == others
    folder = tmp_path / "reviews"
    for kind in KINDS:
        (folder / kind).mkdir(parents=True)
        (folder / kind / "1.txt").write_text("bad")
    run("evaluate", classifier, folder, *options)
    (wrong,) = json_lines((tmp_path / "e.jsonl").read_text())
    assert (wrong["file"], wrong["label"]) == (f"{label}/1.txt", label)


def test_errors_of_numbers_are_the_largest_the_largest_first(run, tmp_path):
    model = small.task(BertClassifier, ["stars"], problem_type="regression", config={"num_layers": 1})
    model.save_preset(tmp_path / "model")
    texts = ["good film", "the river", "bad", "money", "the bank"]
    answers = [answer["stars"] for answer in model.classify(texts)]
    apart = [0.0, 3.0, -1.0, -5.0, 0.5]  # the root of their mean square is 2.66
    labels = [answer + each for answer, each in zip(answers, apart, strict=True)]
    rows = "".join(f"{text},{label!r},{i}\n" for i, (text, label) in enumerate(zip(texts, labels, strict=True)))
    (tmp_path / "a.csv").write_text("text,label,id\n" + rows)
    options = ("--errors", tmp_path / "e.jsonl", "--report", tmp_path / "e.html")
    shown = run("evaluate", tmp_path / "model", tmp_path / "a.csv", *options).stdout
    (baseline,) = (line.split("\t")[2] for line in shown.splitlines() if line.startswith("rmse\t"))
    assert baseline == f"(baseline: {np.std(labels):.4f})"
    wrong = json_lines((tmp_path / "e.jsonl").read_text())
    assert [(row["line"], row["text"], row["id"]) for row in wrong] == [(5, "money", "3"), (3, "the river", "1")]
    assert [row["answer"] for row in wrong] == pytest.approx([answers[3], answers[1]], abs=1e-5)
    page = (tmp_path / "e.html").read_text()
    assert page.index("<td>money</td>") < page.index("<td>the river</td>") < page.index("<td>bad</td>")


@pytest.mark.slow
def test_errors_of_questions(run, untrained, tmp_path):
    """A question keeps its id; rows of a table keep their columns."""
    keras.utils.set_random_seed(0)  # by chance, a new head may know the answer
    answerer = BertQuestionAnswerer.from_preset(untrained)
    answerer.save_preset(tmp_path / "answerer")
    answers = {"text": ["film"], "answer_start": [5]}
    row = {"id": "q1", "question": "what?", "context": "good film and music", "answers": answers, "title": "Films"}
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({**row, "id": f"q{i}"}) + "\n" for i in range(2)))
    asked = {"question": "what?", "id": "q1", "answers": [{"text": "film", "answer_start": 5}]}
    paragraph = {"context": "good film and music", "qas": [asked]}
    (tmp_path / "a.json").write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": [paragraph]}]}))
    best = answerer.answer("what?", "good film and music")
    assert best["answer"] != "film"
    ours = {"question": "what?", "context": "good film and music", "label": [["film", 5]], "answer": best["answer"]}
    rows = {"a.jsonl": {"line": 2, "id": "q1", **ours, "title": "Films"}, "a.json": {"id": "q1", **ours}}
    for name, expected in rows.items():
        options = ("--errors", tmp_path / "e.jsonl", "--overwrite")
        run("evaluate", tmp_path / "answerer", tmp_path / name, *options)
        *_, wrong = json_lines((tmp_path / "e.jsonl").read_text())
        assert wrong.pop("probability") == pytest.approx(best["probability"], abs=1e-5)
        assert wrong == expected


def test_errors_of_words_are_a_row_each(run, tmp_path):
    """Of an entity, with the line of its first word; a comment is a line, too."""
    tagger = small.task(BertTokenClassifier, ["O", "B-x"], config={"num_layers": 1})
    tagger.save_preset(tmp_path / "tagger")
    (tmp_path / "a.conll").write_text("# one\ngood\tO\nfilm\tB-C\nbad\tI-C\n\n\nbad\tB-C\n")
    command = ("evaluate", tmp_path / "tagger", tmp_path / "a.conll", "--errors", tmp_path / "e.csv")
    assert "support of C\t2\n" in run(*command, "--report", tmp_path / "e.html").stdout
    rows = list(csv.DictReader((tmp_path / "e.csv").open(newline="")))
    assert list(rows[0]) == ["line", "words", "label", "answer", "probability"]
    found = [(row["line"], row["words"], row["label"]) for row in rows]
    assert ("3", "film bad", "C") in found
    assert ("7", "bad", "C") in found
    page = (tmp_path / "e.html").read_text()
    assert "<th>sentence</th><th>line</th><th>words</th>" in page
    assert '<td class="number">3</td><td>film bad</td><td>C</td>' in page


def test_report(run, classifier, table, tmp_path):
    """A page of what evaluate says, and of the worst answers, the most certain first; it is only texts."""
    path, html = tmp_path / "hostile.tsv", tmp_path / "report.html"
    path.write_text(Path(table).read_text() + "<script>alert(1)</script> bad\tpraise\n")
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    answers = registry.load_task(Path(classifier)).classify([text for text, _ in rows])
    command = ("evaluate", classifier, path, "--text-column", "sentence", "--label-column", "kind")
    result = run(*command, "--report", html)
    assert result.stdout == run(*command).stdout
    page = html.read_text()
    assert "<h1>model: 65 examples from hostile.tsv</h1>" in page
    for line in result.stdout.splitlines():
        assert f">{line.split(chr(9))[1]}</td>" in page
    wrong = [(*row, answer) for row, answer in zip(rows, answers, strict=True) if answer["label"] != row[1]]
    wrong.sort(key=lambda each: -each[2]["probability"])
    assert f"{len(wrong)} of {len(wrong)}, the worst first." in page
    assert "<tr><th>line</th><th>text</th><th>label</th>" in page
    places = [
        page.index(f"<td>{rows.index([text, label]) + 2}</td><td>{escape(text)}</td><td>{label}</td>")
        for text, label, _ in wrong
    ]
    assert places == sorted(places)


def test_the_line_of_what_cannot_be_read(run, fails, untrained, classifier, tmp_path, monkeypatch):
    """What comes before it is answered."""
    monkeypatch.setattr(streams, "TEXTS_AT_A_TIME", 2)
    lines = b'{"text": "bad"}\n' * 3 + b'{"text": 7}'
    result = run("predict", classifier, "--format", "jsonl", input=lines, exit_code=2)
    assert result.stdout.count("\n") == 2
    assert "standard input, line 4: text is 7, which is not a text" in result.stderr
    model = tmp_path / "model"
    BertQuestionAnswerer.from_preset(untrained).save_preset(model)
    for name in ("question", "context"):
        bad = json.dumps({"question": "what?", "context": "one", name: " "}).encode()
        assert fails("predict", model, "--format", "jsonl", input=bad) == f"standard input, line 1: {name} is empty"


@pytest.mark.slow
def test_evaluate_vectors(run, fails, small_preset, tmp_path):
    """The measures of Python, of a search with and without a corpus, and of scores."""
    rows = [("good film", "great movie", 4), ("bad film", "dull movie", 3), ("the bank", "river money", 0)]
    pairs, corpus = tmp_path / "pairs.csv", tmp_path / "more.txt"
    pairs.write_text("q,p,s\n" + "".join(f"{q},{p},{s}\n" for q, p, s in rows))
    corpus.write_text("warm story\ngreat movie\ngood film\n")
    command = ("evaluate", small_preset, pairs, "--query-column", "q", "--positive-column", "p")

    def printed(*options):
        result = run(*command, *options)
        return {name: float(value) for name, value in (line.split("\t") for line in result.stdout.splitlines())}

    model = BertSentenceEncoder.from_preset(small_preset)
    first, second, scores = map(list, zip(*rows, strict=True))
    score = model.kind.score(model.answers((first, second)), None)
    assert printed() == pytest.approx({**score.measures, **score.details}, abs=1e-4)
    assert len(printed()) == 30
    vectors = model.encode([*second, "warm story", "good film"])
    expected = vector_metrics.retrieval(model.encode(first), vectors, [{0}, {1}, {2}], (1, 3, 5, 10, 100))
    assert printed("--corpus", corpus) == pytest.approx(expected, abs=1e-4)
    assert expected["mrr@10"] < printed()["mrr@10"]  # "good film" is among the texts now
    cosines = vector_metrics.cosines(model.encode(first), model.encode(second))
    expected = metrics.correlation(scores, cosines)
    found = printed("--score-column", "s")
    assert list(found) == ["spearman", "pearson"]
    assert found == pytest.approx({name: expected[name] for name in found}, abs=1e-4)
    assert fails(*command[:3], "--score-column", "s") == "sentence encoders need --query-column and --positive-column"
    assert fails(*command, "--query-prompt", "query") == "there is no prompt 'query'; this model has no prompts"
    assert fails(*command, "--errors", "x").startswith("--errors and --report are for models with labels")


def test_weights_of_tokens(run, fails, table, tmp_path):
    model = BertSparseEncoder(small.encoder(num_layers=1), small.preprocessor())
    model.save_preset(tmp_path / "sparse")
    message = json.loads(run("predict", tmp_path / "sparse", "good film").stdout)
    assert message["weights"] == pytest.approx(model.encode("good film"), abs=1e-5)
    assert "gives weights or vectors of tokens, which cannot be compared" in fails(
        "evaluate", tmp_path / "sparse", table
    )


def test_vectors_of_tokens(run, fails, tmp_path):
    model = BertMultiVectorEncoder(small.encoder(num_layers=1), small.preprocessor(), [{"units": 4}], query_length=9)
    model.save_preset(tmp_path / "tokens")
    command = ("encode", "good film", "--preset", tmp_path / "tokens")
    for kind in ("document", "query"):
        found = json.loads(run(*command, "--prompt", kind).stdout)
        np.testing.assert_allclose(found["embeddings"], model.encode("good film", kind=kind), atol=1e-5)
    assert "is query or document" in fails(*command, "--prompt", "passage")
    assert "only jsonl holds" in fails(*command, "--format", "text")
