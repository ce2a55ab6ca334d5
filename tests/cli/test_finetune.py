"""keras-bert finetune and evaluate: from files to a model that answers; what is refused, and when."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from safetensors import safe_open

from keras_bert import (
    BertClassifier,
    BertMultipleChoice,
    BertQuestionAnswerer,
    BertSentenceEncoder,
    BertTokenClassifier,
    files,
)
from keras_bert.choices import PROBLEM_TYPES
from keras_bert.data import Answer
from keras_bert.tasks.kinds import classes
from keras_bert.training import fine_tuning_run
from keras_bert.training.run import load_state, save_state
from keras_bert.training.run_of_files import RunOfFiles

from ..support import small
from ..support.commands import KINDS, QUICK, columns, flat, invoke, json_lines
from ..support.data import ROOT
from ..support.messages import assert_names


def test_classify(run, traced, untrained, table, tmp_path, monkeypatch):
    model, answered = tmp_path / "model", []
    classify = BertClassifier.classify
    monkeypatch.setattr(BertClassifier, "classify", lambda *all, **more: answered.append(1) or classify(*all, **more))
    command = ("finetune", "classify", *columns(table), "--preset", untrained, "--output", model, *QUICK)
    result = run(*command)
    assert result.stdout == f"accuracy\t1.0000\t(baseline: {37 / 64:.4f})\n"
    assert len(answered) == 4 + 1  # after each epoch, and once when all is over
    said = result.stderr.splitlines()
    assert said[0] == f"64 examples from {table}, 64 to measure with from {table}"
    assert said[1] == "labels: blame 27, praise 37"
    assert said[2].startswith("Warning: the run has only 32 updates; with fewer than 200 a model may learn little: ")
    assert [line.split(":")[0] for line in said[3:]] == [f"epoch {i} of 4" for i in range(1, 5)]
    assert all("loss" in line and "val_accuracy" in line for line in said[3:])
    report = (tmp_path / "model/report.md").read_text()
    assert "| accuracy | 1.0000 | 0.5781 |" in report
    assert "| learning_rate | 0.01 |" in report
    for picture in ("learning_curve.png", "confusion_matrix.png"):
        assert (tmp_path / "model" / picture).read_bytes().startswith(b"\x89PNG")
        assert f"]({picture})" in report

    again = run(*command)  # it is over, so nothing is trained
    assert again.stdout == result.stdout
    finished = f"the run in {model} is finished, after epoch 4 of 4; nothing is trained"
    assert again.stderr.splitlines() == [finished, *said[:3]]


@pytest.fixture(scope="module")
def finished(untrained, table, tmp_path_factory):
    """The options of a command that was run to its end."""
    folder = tmp_path_factory.mktemp("finished")
    options = [*columns(table), "--preset", untrained, "--output", folder / "model", "--epochs", "1"]
    invoke("finetune", "classify", *options)
    return dict(zip(*[iter(options)] * 2, strict=True))


def test_the_directory_of_a_finished_run_is_the_model(finished):
    model = Path(finished["--output"])
    assert {path.name for path in (model / "training").iterdir()} <= {"state.safetensors", "logs"}
    assert (model / "training/state.safetensors").stat().st_size < 10_000 < (model / "model.safetensors").stat().st_size
    assert load_state(model / "training/state.safetensors")[1]["measures"].keys() == {"accuracy", "accuracy_baseline"}


@pytest.fixture
def mine(finished, tmp_path):
    """The same run, to change."""
    copy = shutil.copytree(finished["--output"], tmp_path / "mine")
    return copy, finished | {"--output": copy}


def test_what_is_missing_or_damaged_is_told(run, fails, mine):
    model, options = mine
    state = model / "training/state.safetensors"
    advice = "choose another output, or start again with overwrite"
    (model / "model.safetensors").unlink()
    result = run("finetune", "classify", *flat(options), exit_code=2)
    missing = f"Error: {model} holds a finished run, but model.safetensors is missing; {advice}"
    assert result.stderr.splitlines()[-1] == missing
    state.write_bytes(state.read_bytes().replace(b"epoch", b"epocl"))
    message = fails("finetune", "classify", *flat(options))
    assert message == f"{state} is damaged: its checksum is wrong; {advice}"
    state.unlink()
    message = fails("finetune", "classify", *flat(options))
    assert message == f"{model} holds a model, but no state of its run in {model}/training; {advice}"


def test_overwrite(run, mine, untrained):
    model, options = mine
    (model / ".model.safetensors.4194399.tmp").touch()  # numbers of processes are lower
    before = (model / "model.safetensors").read_bytes()
    result = run("finetune", "classify", *flat(options | {"--seed": "1"}), "--overwrite")
    assert "epoch 1 of 1" in result.stderr
    assert (model / "model.safetensors").read_bytes() != before
    assert not list(model.rglob(".*"))
    again = run("finetune", "classify", *flat(options | {"--seed": "1"}))
    assert again.stdout == result.stdout
    assert "is finished, after epoch 1 of 1; nothing is trained" in again.stderr


def test_the_model_of_any_task_may_be_overwritten(tmp_path):
    """Its settings too, such as a sentence encoder's."""
    model = BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor(), dense={"units": 3})
    model.save_preset(tmp_path)
    assert (tmp_path / "2_Dense/config.json").exists()
    RunOfFiles(tmp_path, overwrite=True)  # raises nothing
    (tmp_path / "1_Pooling/mine.txt").touch()
    with pytest.raises(FileExistsError, match=r"holds 1_Pooling/mine\.txt, which no run wrote"):
        RunOfFiles(tmp_path, overwrite=True)


def test_overwriting_keeps_the_card_that_a_user_may_have_written(tmp_path):
    model = BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor())
    model.save_preset(tmp_path)
    (tmp_path / files.RUN).mkdir()
    (tmp_path / "README.md").write_text("my words")
    RunOfFiles(tmp_path, overwrite=True).clear()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "my words"


def test_a_terminal_gets_a_bar_in_place_of_lines(monkeypatch, tmp_path):
    for is_terminal, count in ((True, 0), (False, 1)):
        monkeypatch.setattr(sys.stderr, "isatty", lambda is_terminal=is_terminal: is_terminal)
        lines = []
        RunOfFiles(tmp_path, False, log=lines.append).log_epoch("loss 1.0")
        assert len(lines) == count


@pytest.fixture
def taught(monkeypatch):
    """What reaches the training, which trains nothing: a list of (model, examples, to measure with, settings)."""
    calls = []

    class Training:
        def __init__(self, model, examples, validation, run, recipe, **more):
            self.run = run
            calls.append((model, examples, validation, vars(recipe)))

        def to_the_end(self):
            save_state(self.run.directory / "state.safetensors", [], {})
            return [{"epoch": 1, "loss": 1.0}]

    monkeypatch.setattr(fine_tuning_run, "training_by", lambda recipe: Training)
    return calls


OPTIONS = {
    "--epochs": 7, "--batch-tokens": 64, "--learning-rate": 0.5, "--layer-decay": 0.75, "--frozen-layers": 1,
    "--lora-rank": 2, "--accumulate": 3, "--patience": 4, "--seed": 5, "--warmup": 0.25, "--weight-decay": 0.125,
    "--clip-norm": 2.0, "--validation-split": 0.25,
}  # fmt: skip


def test_options_reach_the_training_and_the_report(run, taught, untrained, table, tmp_path):
    files = ("--train", table, "--text-column", "sentence", "--label-column", "kind", "--output", tmp_path / "new")
    options = [each for pair in OPTIONS.items() for each in pair]
    weights = ("--class-weight", "blame=0", "--class-weight", "praise=2.5", "--long-text", "head_tail")
    run("finetune", "classify", *files, "--preset", untrained, *options, *weights, "--sequence-length", "9")
    ((model, (texts, labels), (held_out, _), settings),) = taught
    assert isinstance(model, BertClassifier)
    assert (model.labels, model.pairs, model.problem_type) == (list(KINDS), False, "single_label_classification")
    assert (model.preprocessor.sequence_length, model.preprocessor.truncation) == (9, "head_tail")
    assert (len(texts), len(held_out), set(labels)) == (48, 16, set(KINDS))
    expected = {name.strip("-").replace("-", "_"): value for name, value in OPTIONS.items()}
    expected |= {"batch_size": None, "class_weight": {"blame": 0.0, "praise": 2.5}}
    assert {name: settings[name] for name in expected} == expected
    assert set(settings) == {*expected, "few_shot", "temperature"}
    report = (tmp_path / "new/report.md").read_text()
    for name in {*expected} - {"batch_size"}:
        assert f"| {name} | {expected[name]} |" in report


def test_the_type_to_compute_in(run, taught, untrained, table, tmp_path):
    """The model that is trained computes in it; the one that is written is one of float32."""
    output, dtype = tmp_path / "new", "mixed_bfloat16"
    run("finetune", "classify", *columns(table), "--preset", untrained, "--output", output, "--dtype", dtype)
    ((model, *_),) = taught
    policies = {layer.dtype_policy.name for layer in (model.encoder, model.encoder.blocks[0], model.head)}
    assert policies == {dtype}
    with safe_open(tmp_path / "new/model.safetensors", "np") as weights:
        assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"F32"}  # noqa: SIM118
    assert BertClassifier.from_preset(output).encoder.dtype_policy.name == "float32"
    assert f"| dtype | {dtype} |" in (tmp_path / "new/report.md").read_text()


def test_a_share_is_held_out(run, fails, taught, untrained, table, tmp_path):
    files = ("--train", table, "--text-column", "sentence", "--label-column", "kind", "--preset", untrained)
    command = ("finetune", "classify", *files, "--output", tmp_path / "new")
    assert "which holds out 0 of 64 examples" in fails(*command, "--eval-split", "0.001")
    assert not (tmp_path / "new").exists()
    result = run(*command, "--eval-split", "0.125", "--no-few-shot")
    said = result.stderr.splitlines()
    (answer,) = {BertClassifier.from_preset(tmp_path / "new").classify(text)["label"] for text in ("bad", "good film")}
    assert (
        said.pop()
        == f"Warning: the model's answer to all examples is {answer!r}, so it has not learned to tell them apart"
    )
    assert said == [
        f"64 examples from {table}, 8 of them held out to measure with",
        "labels: blame 27, praise 37",
        "20 epochs, as there are few examples; epochs sets another number",
    ]
    assert result.stdout.startswith("accuracy\t")  # of the held-out ones, by the model
    ((_, (texts, _), to_measure, settings),) = taught
    assert (len(texts), len(to_measure[0]), settings["validation_split"]) == (56, 8, 0.125)
    assert settings["epochs"] == 20
    assert "| validation_split | 0.125 |" in (tmp_path / "new/report.md").read_text()


def test_pairs_and_numbers_reach_the_training(run, taught, untrained, tmp_path):
    (tmp_path / "train.jsonl").write_text('{"a": "one", "b": "two", "score": 3}\n{"a": "x", "b": "y", "score": 0.5}\n')
    run(
        "finetune", "classify", "--train", tmp_path / "train.jsonl", "--problem-type", "regression",
        "--text-column", "a", "--text-pair-column", "b", "--label-column", "score",
        "--preset", untrained, "--output", tmp_path / "new",
    )  # fmt: skip
    ((model, (texts, labels), *_),) = taught
    assert (model.labels, model.pairs, model.problem_type) == (["value"], True, "regression")
    assert texts == (["one", "x"], ["two", "y"])
    assert list(labels) == [3.0, 0.5]


def test_words_and_questions_reach_the_training(run, taught, untrained, tmp_path):
    (tmp_path / "train.conll").write_text("the O\ngood B-x\n\nfilm I-x\n")
    question = {"id": "1", "question": "what?", "answers": [{"text": "good", "answer_start": 2}]}
    context = {"context": "a good film", "qas": [question]}
    (tmp_path / "train.json").write_text(json.dumps({"data": [{"title": "", "paragraphs": [context]}]}))
    for command, name in (("tag", "train.conll"), ("answer", "train.json")):
        files = ("--train", tmp_path / name, "--output", tmp_path / command)
        run("finetune", command, *files, "--preset", untrained)
    (tagger, (words, tags), *_), (answerer, (questions, answers), *_) = taught
    assert isinstance(tagger, BertTokenClassifier)
    assert (tagger.labels, words, tags) == (["B-x", "I-x", "O"], [["the", "good"], ["film"]], [["O", "B-x"], ["I-x"]])
    assert isinstance(answerer, BertQuestionAnswerer)
    assert questions == (["what?"], ["a good film"])
    assert list(answers) == [(Answer("good", 2),)]


def test_mistakes(run, fails, untrained, classifier, table, tmp_path):
    command = ("finetune", "classify", *columns(table), "--output", tmp_path / "new", "--preset")
    for option, value, *words in (
        ("--sequence-length", 33, "--sequence-length", 33),
        ("--class-weight", "odd=2", "--class-weight", "odd", "blame, praise"),
        ("--frozen-layers", 2, "--frozen-layers", 2, "1 layer"),
    ):
        assert_names(run(*command, untrained, option, value, exit_code=2).stderr.splitlines()[-1], *words)
    assert fails(*command, ROOT / "tests/golden/tiny-bert").startswith(f"{ROOT}/tests/golden/tiny-bert has no ")
    unseen = tmp_path / "unseen.tsv"
    unseen.write_text("sentence\tkind\nbad\todd\ngood\tblame\ngreat\tstrange\n")
    said = run(*command, untrained, "--eval", unseen, exit_code=2).stderr.splitlines()[-1]
    assert "'odd' is not one of the labels, which are blame, praise" in said
    assert said.startswith(f"Error: {unseen}, line 2: ")
    assert said.endswith("; 2 of 3 rows have such a label")
    told = fails("evaluate", classifier, unseen, "--text-column", "sentence", "--label-column", "kind")
    assert said == f"Error: {told}"
    assert not (tmp_path / "new").exists()


def test_bad_examples(run, fails, taught, untrained, tmp_path):
    bad = tmp_path / "bad.tsv"
    bad.write_text("sentence\tkind\nbad\tblame\nbad\ngood\tpraise\n")
    command = ("finetune", "classify", "--preset", untrained, "--output", tmp_path / "new", *QUICK)
    read = ("--text-column", "sentence", "--label-column", "kind")
    message = fails(*command, "--train", bad, *read)
    assert "1 of 3 rows cannot be used: line 3" in message
    assert message.endswith("leave them out with --skip-bad")
    result = run(*command, "--train", bad, *read, "--skip-bad")
    assert "line 3" in result.stderr
    one_class = tmp_path / "one.tsv"
    one_class.write_text("sentence\tkind\nbad\tblame\ncold\tblame\n")
    assert "blame" in fails(*command[:4], "--output", tmp_path / "one", "--train", one_class, *read)
    unnamed = tmp_path / "train"
    unnamed.write_bytes(bad.read_bytes())
    message = fails(*command[:4], "--output", tmp_path / "other", "--train", unnamed, *read)
    assert message.endswith("choose the format 'csv', 'tsv', 'jsonl', 'parquet' or 'xlsx'")


def test_the_kinds_of_labels_are_those_of_a_classifier():
    assert list(PROBLEM_TYPES) == list(classes.KINDS)


ROWS = [("the film", "good", "river", "money", 0), ("he was cold", "warm", "a film", "river", 2)] * 8
CHOICES = ("--choice-column", "a", "--choice-column", "b", "--choice-column", "c")


@pytest.mark.slow
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
        assert fails(*command).startswith("--choice-column is for a BertMultipleChoice, which needs it, twice or more")
    assert "this model reads question and a and b and c: give a table" in fails("predict", model, "a text", *CHOICES)
    assert "two or more" in fails("finetune", "choose", *files[:2], "--output", tmp_path / "new", *CHOICES[:2])
