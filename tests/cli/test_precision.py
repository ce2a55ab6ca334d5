"""`--precision` of the commands that compute answers."""

import json

import numpy as np
import pytest

from keras_bert import BertClassifier, BertSentenceEncoder

from ..support.precisions import needs_int8

pytestmark = needs_int8
TEXTS = ["the cat sat on the mat", "a very long story about a river", "good"]


@pytest.fixture(autouse=True)
def _a_model_for_each_command(monkeypatch, traced):
    """A precision stays with its model, which the other tests share, and is one of graphs."""
    monkeypatch.setattr(BertSentenceEncoder, "from_preset", BertSentenceEncoder.from_preset.__wrapped__)


@pytest.mark.slow
def test_encode_and_embed(run, tmp_path):
    for precision in ("float32", "int8"):
        result = run("encode", *TEXTS, "--precision", precision, "--output", tmp_path / f"{precision}.npy")
        assert ("a few built-in sentences" in result.stderr) == (precision == "int8")
    exact, lower = (np.load(tmp_path / f"{precision}.npy") for precision in ("float32", "int8"))
    assert 0.97 < (exact * lower).sum(axis=1).min() < 0.9999
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    run("embed", texts, "--precision", "int8", "--output", tmp_path / "vectors")
    rows = [json.loads(line)["vector"] for line in (tmp_path / "vectors" / "texts.jsonl").read_text().splitlines()]
    np.testing.assert_allclose(rows, lower, atol=1e-5)
    again = run("embed", texts, "--output", tmp_path / "vectors", exit_code=2)  # would mix two precisions
    assert "with other preset" in again.stderr


@pytest.mark.slow
def test_own_texts(run, tmp_path):
    given = tmp_path / "given.txt"
    given.write_text("\n".join(TEXTS * 5))
    result = run("encode", *TEXTS, "--precision", "int8", "--calibration", given)
    assert "built-in" not in result.stderr
    assert run("encode", *TEXTS, "--precision", "int8").stdout != result.stdout


@pytest.mark.slow
def test_ranges_that_a_preset_keeps(run, untrained, tmp_path):
    model = BertSentenceEncoder.from_preset(untrained)
    model.set_precision("int8", TEXTS)
    model.save_preset(tmp_path / "kept")
    result = run("encode", *TEXTS, "--preset", tmp_path / "kept", "--precision", "int8", small=False)
    assert result.stderr == ""
    assert run("summary", tmp_path / "kept").stdout.splitlines()[-1] == "int8           all 1 layer"
    assert "int8" not in run("summary", untrained).stdout
    result = run("summary", untrained, "--precision", "int8")
    assert result.stdout.splitlines()[-1].startswith("int8           ")
    assert "a few built-in sentences" in result.stderr


@pytest.mark.slow
def test_layers_that_are_left_out_are_told(run, untrained, monkeypatch):
    monkeypatch.setattr("keras_bert.inference.precision._MIN_CALIBRATION_COSINE", 1.1)  # never reached
    result = run("summary", untrained, "--precision", "int8")
    assert result.stdout.splitlines()[-1] == "int8           0 of 1 layer, without 1, which lose too much"


def test_no_option_is_advised_that_there_is_not(run, fails, classifier, tmp_path):
    given = tmp_path / "given.csv"
    command = ("--precision", "int8", "--calibration", given)
    for text, message in {
        "text,label\ngood,a\n,b\n": "1 of 2 rows cannot be used: line 3: text is empty. Fix the file",
        'text\n"open\n': "a quote is opened and never closed; double the quotes inside texts",
        "a good film\nthe cat\n": "no column 'text'; its columns are 'a good film'",
        "1,good\n2,bad\n": "no column 'text'; its columns are '1', 'good'",
    }.items():
        given.write_text(text)
        # One has --skip-bad, for another file, and --text-column, for this one.
        for each in (("summary", classifier), ("predict", classifier, "good")):
            advice = "; choose one with --text-column" if each[0] == "predict" else ""
            assert fails(*each, *command).removesuffix(advice).endswith(message)
    given.write_text("query,positive\n,b\na,b\n")
    message = fails("mine", given, "--output", tmp_path / "new.jsonl")
    assert message.endswith("1 of 2 rows cannot be used: line 2: query is empty. Fix the file")
    message = fails("embed", given, "--output", tmp_path / "new")
    assert message.endswith("'query', 'positive'; choose one with --text-column")


@pytest.mark.slow
def test_pairs(run, fails, pairs, tmp_path):
    given = tmp_path / "pairs.tsv"
    given.write_text("text\ttext_pair\n" + "".join(f"{text}\tgood film\n" for text in TEXTS))
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"text": "good", "text_pair": "bad"}))
    command = ("predict", pairs, "--file", rows, "--precision", "int8", "--calibration")
    result = run(*command, given)
    assert "built-in" not in result.stderr
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(TEXTS))
    assert fails(*command, lines) == (
        f"{lines}: this model reads text and text_pair; give a .csv, .tsv or .jsonl of both"
    )
    given.write_text("question\tcontext\nwho?\tthe cat\n")
    message = fails(*command, given)
    assert message == (
        f"{given} has no column 'text'; its columns are 'question', 'context'; choose one with --text-column"
    )
    columns = ("--text-column", "question", "--text-pair-column", "context")
    renamed = tmp_path / "renamed.jsonl"
    renamed.write_text(json.dumps({"question": "good", "context": "bad"}))
    assert "built-in" not in run("predict", pairs, "--file", renamed, *command[4:], given, *columns).stderr
    export = ("export", "serving", "--output", tmp_path / "export", "--precision", "int8", "--calibration", given)
    message = fails(*export, "--text-column", "q", "--preset", pairs)
    assert f"{given} has no column 'q'" in message
    given.write_text("text\ttext_pair\ngood\n")
    assert fails(*command, given) == (
        f"{given}: 1 of 1 rows cannot be used, so nothing is left: line 2: 1 cell instead of 2"
    )
    given.with_suffix(".jsonl").write_text('{"text": "good", "text_pair": 3}\n')
    message = fails(*command, str(given.with_suffix(".jsonl")))
    assert message.endswith("line 1: text_pair is 3, which is not a text")


@pytest.fixture(scope="module")
def pairs(untrained, tmp_path_factory):
    """The directory of an untrained classifier of pairs."""
    directory = tmp_path_factory.mktemp("pairs") / "model"
    BertClassifier.from_preset(untrained, labels=["no", "yes"], pairs=True).save_preset(directory)
    return directory
