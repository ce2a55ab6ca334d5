"""keras-bert predict and evaluate: what they read, and what they cannot."""

import json
from pathlib import Path

from keras_bert import BertQuestionAnswerer
from keras_bert.cli import streams
from keras_bert.tasks import table as tasks_table


def test_what_predict_cannot_read(fails, untrained, classifier, table):
    bad_rows = {
        b'{"text": "one"}\n{': "line 2: not JSON",
        b"[" * 100_000: "line 1: not JSON that can be read",
        b'{"text": "one"}\n["two"]': "line 2: a JSON list instead of an object",
        b'{"words": "one"}': "line 1: there is no string 'text' in it",
        b'{"text": "one"}\n{"text": "two \\ud83d"}': "line 2: text has half of a surrogate pair",
    }
    for lines, message in bad_rows.items():
        assert message in fails("predict", classifier, "--jsonl", input=lines)
    assert "is a table: predict reads a text a line, or JSON lines" in fails("predict", classifier, table)
    assert "no head for classes, labels of words or answers" in fails("predict", untrained, input=b"one")


def test_lines_and_json_lines(run, classifier, tmp_path):
    """JSON lines are known by the file's name."""
    texts = ["bad bad", "", "great"]
    lines = [
        json.loads(line) for line in run("predict", classifier, input="\n".join(texts).encode()).stdout.splitlines()
    ]
    answers = tasks_table.load_task(Path(classifier)).classify(texts)
    assert lines == [{"text": text, **answer} for text, answer in zip(texts, answers, strict=True)]
    for name in ("texts.jsonl", "TEXTS.NDJSON"):
        path = tmp_path / name
        path.write_text("".join(json.dumps({"text": text, "id": 7}) + "\n" for text in texts))
        assert [json.loads(line) for line in run("predict", classifier, str(path)).stdout.splitlines()] == lines


def test_evaluate(run, classifier, table):
    rows = [line.split("\t") for line in Path(table).read_text().splitlines()[1:]]
    answers = tasks_table.load_task(Path(classifier)).classify([text for text, _ in rows])
    right = sum(answer["label"] == label for answer, (_, label) in zip(answers, rows, strict=True))
    result = run("evaluate", classifier, table, "--text-column", "1", "--label-column", "kind")
    assert result.stdout == f"accuracy\t{right / len(rows):.4f}\n"


def test_the_line_of_what_cannot_be_read(run, fails, untrained, classifier, tmp_path, monkeypatch):
    """What comes before it is answered."""
    monkeypatch.setattr(streams, "TEXTS_AT_A_TIME", 2)
    result = run("predict", classifier, "--jsonl", input=b'{"text": "bad"}\n' * 3 + b'{"text": 7}')
    assert (result.exit_code, result.stdout.count("\n")) == (2, 2)
    assert "standard input, line 4: there is no string 'text' in it" in result.stderr
    model = str(tmp_path / "model")
    BertQuestionAnswerer.from_preset(untrained).save_preset(model)
    for name in ("question", "context"):
        bad = json.dumps({"question": "what?", "context": "one", name: " "}).encode()
        assert fails("predict", model, "--jsonl", input=bad) == f"standard input, line 1: {name} is empty"
