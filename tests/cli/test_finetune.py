"""keras-bert finetune, evaluate and predict: from files to a model that answers; what is refused, and when."""

import json
import signal
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertConfig, BertEncoder, BertQuestionAnswerer
from keras_bert.cli import streams
from keras_bert.text import WordPieceTokenizer

from .test_processes import HANGS, start  # noqa: F401

WORDS = {"number": ["one", "two", "three", "four"], "colour": ["red", "green", "blue", "white"]}
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "is", "it", "what", "?", *WORDS["number"], *WORDS["colour"]]
QUICK = ("--epochs", "6", "--batch-size", "8", "--learning-rate", "5e-3")


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """A tiny encoder with a vocabulary, not trained."""
    keras.utils.set_random_seed(3)
    directory = tmp_path_factory.mktemp("preset")
    sizes = {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "intermediate_size": 48, "max_positions": 32}
    no_dropout = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    BertEncoder(BertConfig(vocab_size=len(PIECES), initializer_range=0.2, **sizes, **no_dropout)).save_preset(directory)
    WordPieceTokenizer(PIECES).save_preset(directory)
    return str(directory)


@pytest.fixture
def table(tmp_path):
    """Sentences of numbers or of colours, as a TSV file."""
    generator = np.random.default_rng(0)
    rows = [(" ".join(generator.choice(WORDS[kind], 3)), kind) for kind in generator.choice(list(WORDS), 64)]
    path = tmp_path / "train.tsv"
    path.write_text("sentence\tkind\n" + "".join(f"{text}\t{kind}\n" for text, kind in rows))
    return str(path)


def columns(path):
    return ("--train", path, "--eval", path, "--text-column", "sentence", "--label-column", "kind")


def test_classify(run, preset, table, tmp_path):
    model = str(tmp_path / "model")
    command = ("finetune", "classify", *columns(table), "--preset", preset, "--output", model, *QUICK)
    result = run(*command)
    assert result.exit_code == 0, result.output
    assert result.stdout == "accuracy\t1.0000\n"
    said = result.stderr.splitlines()
    assert said[0] == f"64 examples from {table}, 64 to measure with from {table}"
    assert [line.split(":")[0] for line in said[1:]] == [f"epoch {i}" for i in range(1, 7)]
    assert all("padding" in line and "accuracy" in line for line in said[1:])
    report = (tmp_path / "model/report.md").read_text()
    assert "| accuracy | 1.0000 |" in report
    assert "| learning_rate | 0.005 |" in report
    for picture in ("learning_curve.png", "confusion_matrix.png"):
        assert (tmp_path / "model" / picture).read_bytes().startswith(b"\x89PNG")
        assert f"]({picture})" in report
    assert BertClassifier.from_preset(model).classify(["red blue"])[0]["label"] == "colour"

    again = run(*command)  # it is over, so nothing is trained
    assert again.stdout == result.stdout
    assert "epoch" not in again.stderr

    assert run("evaluate", model, table, "--text-column", "1", "--label-column", "2").stdout == "accuracy\t1.0000\n"
    assert run("export", "serving", "--preset", model, "--output", str(tmp_path / "served")).exit_code == 0
    signature = tf.saved_model.load(tmp_path / "served/1").signatures["serving_default"]
    assert signature(text=tf.constant(["red"]))["label"].numpy().tolist() == [b"colour"]
    predicted = [json.loads(line) for line in run("predict", model, input=b"two two\n\nwhite\n").stdout.splitlines()]
    assert [(answer["text"], answer["label"]) for answer in predicted[::2]] == [
        ("two two", "number"),
        ("white", "colour"),
    ]
    assert len(predicted) == 3
    assert all(0.5 <= answer["probability"] <= 1 for answer in predicted)


@pytest.mark.slow
def test_what_is_trained_and_how(run, preset, table, tmp_path, monkeypatch):
    """Everything reaches `fine_tune` and the report; the evaluation examples are answered once when all is over."""
    classified = []
    classify = BertClassifier.classify
    monkeypatch.setattr(
        BertClassifier,
        "classify",
        lambda *given, **settings: classified.append(classify(*given, **settings)) or classified[-1],
    )
    options = ("--class-weight", "colour=0", "--class-weight", "number=2", "--batch-tokens", "64", "--lora-rank", "2")
    model = tmp_path / "model"
    quick = ("--epochs", "2", "--learning-rate", "5e-2")
    result = run("finetune", "classify", *columns(table), "--preset", preset, "--output", str(model), *options, *quick)
    assert result.exit_code == 0, result.output
    assert len(classified) == 2 + 1
    assert {answer["label"] for answer in classified[-1]} == {"number"}  # the other class counts for nothing
    report = (model / "report.md").read_text()
    for line in ("| class_weight | {'colour': 0.0, 'number': 2.0} |", "| batch_tokens | 64 |", "| lora_rank | 2 |"):
        assert line in report
    before, after = (BertEncoder.from_preset(each) for each in (preset, model))
    np.testing.assert_array_equal(
        before.embeddings.word_embeddings.embeddings, after.embeddings.word_embeddings.embeddings
    )
    assert not np.array_equal(before.blocks[0].attention.qkv.kernel, after.blocks[0].attention.qkv.kernel)


def test_pairs_and_numbers(run, preset, tmp_path):
    generator = np.random.default_rng(0)
    words = WORDS["number"] + WORDS["colour"]
    rows = [generator.choice(words, 2).tolist() for _ in range(64)]
    lines = [json.dumps({"a": a, "b": b, "score": float(a in WORDS["number"])}) for a, b in rows]
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    result = run(
        "finetune", "classify", "--train", str(tmp_path / "train.jsonl"), "--eval", str(tmp_path / "train.jsonl"),
        "--text-column", "a", "--text-pair-column", "b", "--label-column", "score", "--problem", "numbers",
        "--preset", preset, "--output", str(tmp_path / "model"), *QUICK,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    measures = dict(line.split("\t") for line in result.stdout.splitlines())
    assert float(measures["pearson"]) > 0.9
    (tmp_path / "pairs.jsonl").write_text('{"text": "one", "text_pair": "red"}\n{"text": "red", "text_pair": "one"}\n')
    one, two = map(
        json.loads, run("predict", str(tmp_path / "model"), str(tmp_path / "pairs.jsonl")).stdout.splitlines()
    )
    assert one["values"]["value"] > 0.5 > two["values"]["value"]


@pytest.mark.slow
def test_tag(run, preset, tmp_path):
    generator = np.random.default_rng(0)
    tag_of = {word: "O" if kind == "number" else "B-colour" for kind, words in WORDS.items() for word in words}
    sentences = [generator.choice(list(tag_of), 5) for _ in range(48)]
    path = tmp_path / "train.conll"
    path.write_text("\n\n".join("\n".join(f"{word}\t{tag_of[word]}" for word in words) for words in sentences) + "\n")
    model = str(tmp_path / "model")
    files = ("--train", str(path), "--eval", str(path))
    windows = ("--sequence-length", "5", "--long-text", "windows")  # of three words
    result = run("finetune", "tag", *files, "--preset", preset, "--output", model, *windows, *QUICK)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == "f1\t1.0000"
    assert run("evaluate", model, str(path)).stdout == result.stdout
    (answer,) = map(json.loads, run("predict", model, input=b"two red three\n").stdout.splitlines())
    (entity,) = answer["entities"]
    assert (entity["text"], entity["label"], entity["start"], entity["end"]) == ("red", "colour", 4, 7)


@pytest.mark.slow
def test_answer(run, preset, tmp_path):
    generator = np.random.default_rng(0)
    questions = []
    for i in range(64):
        words = [*generator.choice(WORDS["number"], 3), generator.choice(WORDS["colour"])]
        generator.shuffle(words)
        context = " ".join(words)
        colour = next(word for word in words if word in WORDS["colour"])
        answers = [{"text": colour, "answer_start": context.index(colour)}]
        questions.append({"context": context, "qas": [{"id": str(i), "question": "what is it?", "answers": answers}]})
    path = tmp_path / "train.json"
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "", "paragraphs": questions}]}))
    files = ("--train", str(path), "--eval", str(path))
    model = str(tmp_path / "model")
    result = run("finetune", "answer", *files, "--preset", preset, "--output", model, *QUICK)
    assert result.exit_code == 0, result.output
    measures = dict(line.split("\t") for line in result.stdout.splitlines())
    assert float(measures["exact_match"]) > 90
    line = json.dumps({"question": "what is it?", "context": "four white one"}).encode()
    (answer,) = map(json.loads, run("predict", model, "--jsonl", input=line).stdout.splitlines())
    assert (answer["answer"], answer["start"], answer["end"]) == ("white", 5, 10)
    assert isinstance(BertQuestionAnswerer.from_preset(model), BertQuestionAnswerer)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--train": "nowhere.tsv"}, "cannot read nowhere.tsv"),
        ({"--text-column": "text"}, "has no column 'text'; its columns are 'sentence', 'kind'"),
        ({"--sequence-length": "33"}, "sequence_length is 33"),
        ({"--batch-size": "8", "--batch-tokens": "256"}, "--batch-size and --batch-tokens are given"),
        ({"--class-weight": "colour"}, "--class-weight colour: expected LABEL=NUMBER"),
        ({"--preset": "nowhere"}, "neither a directory nor a known preset"),
    ],
)
def test_mistakes(fails, preset, table, tmp_path, changes, message):
    given = dict(zip(*[iter(columns(table))] * 2, strict=True)) | {
        "--preset": preset,
        "--output": str(tmp_path / "new"),
    }
    arguments = [each for pair in (given | changes).items() for each in pair]
    assert message in fails("finetune", "classify", *arguments)
    assert not (tmp_path / "new").exists()


def test_a_preset_without_a_vocabulary(fails, preset, table, tmp_path):
    BertEncoder.from_preset(preset).save_preset(tmp_path / "bare")
    given = ("--preset", str(tmp_path / "bare"), "--output", str(tmp_path / "new"))
    message = fails("finetune", "classify", *columns(table), *given)
    assert message.startswith(f"{tmp_path / 'bare'} has no spiece.model or")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--class-weight", "odd=2", "class_weight names odd, but the labels are colour, number"),
        ("--frozen-layers", "2", "frozen_layers is 2, but this model has 1 layers"),
        ("--learning-rate", "-1", "learning_rate is -1.0; expected a number above 0"),
    ],
)
def test_what_does_not_fit_the_model(run, preset, table, tmp_path, option, value, message):
    new = tmp_path / "new"
    command = ("finetune", "classify", *columns(table), "--preset", preset, "--output", str(new), option, value)
    result = run(*command)
    assert result.exit_code == 2
    assert message in result.stderr.splitlines()[-1]
    assert not new.exists()


def test_bad_examples(run, fails, preset, table, tmp_path):
    bad = tmp_path / "bad.tsv"
    bad.write_text("sentence\tkind\none\tnumber\ntwo\nred\tcolour\n")
    command = ("finetune", "classify", "--preset", preset, "--output", str(tmp_path / "new"), *QUICK)
    read = ("--text-column", "sentence", "--label-column", "kind")
    message = fails(*command, "--train", str(bad), *read)
    assert "1 of 3 rows cannot be used: line 3" in message
    assert "--skip-bad" in message
    result = run(*command, "--train", str(bad), *read, "--skip-bad", "--epochs", "1")
    assert result.exit_code == 0, result.output
    assert "line 3" in result.stderr
    one_class = tmp_path / "one.tsv"
    one_class.write_text("sentence\tkind\none\tnumber\ntwo\tnumber\n")
    assert "number" in fails(*command[:-6], "--train", str(one_class), *read)
    unseen = tmp_path / "unseen.tsv"
    unseen.write_text("sentence\tkind\none\todd\n")
    output = ("--output", str(tmp_path / "other"))
    result = run(*command[:4], *output, "--train", table, "--eval", str(unseen), *read)
    assert result.exit_code == 2
    assert "'odd' is not one of the labels, which are colour, number" in result.stderr.splitlines()[-1]
    assert not (tmp_path / "other").exists()
    unnamed = tmp_path / "train"
    unnamed.write_bytes(bad.read_bytes())
    message = fails(*command[:4], *output, "--train", str(unnamed), *read)
    assert message.endswith("say what it is: --format 'csv', 'tsv' or 'jsonl'")


def test_another_directory_is_not_touched(fails, preset, table, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").write_text("precious")
    command = ("finetune", "classify", *columns(table), "--preset", preset, "--output", str(tmp_path / "mine"))
    assert "exists and is no run of this command" in fails(*command)


def test_a_directory_that_cannot_be_made(run, preset, table, tmp_path):
    (tmp_path / "file").touch()
    output = str(tmp_path / "file/model")
    result = run("finetune", "classify", *columns(table), "--preset", preset, "--output", output)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (1, f"Error: {output}/training: Not a directory")


def test_what_predict_cannot_read(fails, preset, table, tmp_path):
    model = str(tmp_path / "model")
    BertClassifier.from_preset(preset, labels=list(WORDS)).save_preset(model)
    bad_rows = {
        b'{"text": "one"}\n{': "line 2: not JSON",
        b"[" * 100_000: "line 1: not JSON that can be read",
        b'{"text": "one"}\n["two"]': "line 2: a JSON list instead of an object",
        b'{"words": "one"}': "line 1: there is no string 'text' in it",
        b'{"text": "one"}\n{"text": "two \\ud83d"}': "line 2: text has half of a surrogate pair",
    }
    for lines, message in bad_rows.items():
        assert message in fails("predict", model, "--jsonl", input=lines)
    assert "is a table: predict reads a text a line, or JSON lines" in fails("predict", model, table)
    assert "no head for classes, tags or answers" in fails("predict", preset, input=b"one")


def test_predict_knows_json_lines_by_their_name(run, preset, tmp_path):
    model = str(tmp_path / "model")
    BertClassifier.from_preset(preset, labels=list(WORDS)).save_preset(model)
    for name in ("texts.jsonl", "TEXTS.NDJSON"):
        (tmp_path / name).write_text('{"text": "one red", "id": 7}\n')
        (answer,) = map(json.loads, run("predict", model, str(tmp_path / name)).stdout.splitlines())
        assert answer["text"] == "one red"


def test_the_line_of_a_bad_question(run, preset, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "TEXTS_AT_A_TIME", 2)
    model = str(tmp_path / "model")
    BertQuestionAnswerer.from_preset(preset).save_preset(model)
    good = b'{"question": "what is it?", "context": "four white one"}\n'
    for name in ("question", "context"):
        bad = json.dumps({"question": "what?", "context": "one", name: " "}).encode()
        result = run("predict", model, "--jsonl", input=good * 3 + bad)
        assert (result.exit_code, result.stdout.count("\n")) == (2, 2)
        assert f"standard input, line 4: {name} is empty" in result.stderr


@pytest.mark.slow
def test_an_interrupted_run_goes_on(start, preset, table, tmp_path):  # noqa: F811
    def command(name):
        settings = ("--preset", preset, "--epochs", "15", "--batch-size", "2", "--learning-rate", "1e-4")
        return start("finetune", "classify", *columns(table), *settings, "--output", str(tmp_path / name))

    process = command("broken")
    while not (tmp_path / "broken/training/state.safetensors").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert said.decode().splitlines()[-1] == "Interrupted; the same command goes on with what was done."
    assert not (tmp_path / "broken/config.json").exists()
    for name in ("broken", "unbroken"):
        process = command(name)
        _, said = process.communicate(timeout=HANGS)
        assert process.returncode == 0, said
        assert (b"epoch 1:" in said) == (name == "unbroken")
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("broken", "unbroken")]
    assert models[0] == models[1]
