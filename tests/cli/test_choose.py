"""keras-bert finetune choose, and what it writes in evaluate and predict."""

from keras_bert import BertMultipleChoice

from ..support.commands import QUICK, json_lines

ROWS = [("the film", "good", "river", "money", 0), ("he was cold", "warm", "a film", "river", 2)] * 8
CHOICES = ("--choice-column", "a", "--choice-column", "b", "--choice-column", "c")


def test_choose(run, fails, untrained, tmp_path):
    path, model = tmp_path / "train.csv", tmp_path / "model"
    path.write_text("question,a,b,c,label\n" + "".join(f"{','.join(map(str, row))}\n" for row in ROWS))
    files = ("--train", path, "--eval", path, "--preset", untrained, "--output", model)
    result = run("finetune", "choose", *files, *CHOICES, *QUICK)
    assert run("evaluate", model, path, *CHOICES, "--errors", tmp_path / "errors.jsonl").stdout == result.stdout
    accuracy = float(result.stdout.split("\t")[1])
    errors = json_lines((tmp_path / "errors.jsonl").read_text())
    assert len(errors) == round(16 * (1 - accuracy))
    assert all({"question", "choice_1", "choice_3", "label", "answer", "probability"} <= set(row) for row in errors)
    predicted = json_lines(run("predict", model, "--file", path, *CHOICES).stdout)
    trained = BertMultipleChoice.from_preset(model)
    assert [row["index"] for row in predicted] == [trained.choose(row[0], row[1:4])["index"] for row in ROWS]
    for command in (("evaluate", model, path), ("predict", model, "--file", path)):
        assert "--choice-column" in fails(*command)
    assert "two or more" in fails("finetune", "choose", *files[:2], "--output", tmp_path / "new", *CHOICES[:2])
