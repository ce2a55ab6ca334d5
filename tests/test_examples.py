"""The scripts in examples/ run as their first lines say (demo.py: test_readme.py)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(script, *arguments, cwd):
    result = subprocess.run(
        [sys.executable, EXAMPLES / script, *map(str, arguments)], cwd=cwd, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


@pytest.mark.slow
def test_classify_text_with_bert(tmp_path):
    pytest.importorskip("tensorflow_hub")
    pytest.importorskip("tf_keras")
    output = run("classify_text_with_bert.py", cwd=tmp_path)
    assert "36 reviews to train on, 12 to test on" in output
    before, after, accuracy = re.search(r"loss (\S+) before, (\S+) after; accuracy (\S+)", output).groups()
    assert float(after) < 0.75 * float(before)
    assert float(accuracy) > 0.8
    scores = {text: float(score) for score, text in re.findall(r"^(\d\.\d{3})  (.*)$", output, re.MULTILINE)}
    assert scores["Who pays for such rubbish?"] < 0.5 < scores["I could watch it every day!"]


@pytest.mark.slow
def test_classify_text_with_bert_on_a_file(tmp_path):
    pytest.importorskip("tensorflow_hub")
    pytest.importorskip("tf_keras")
    rows = [('a joy "from" start to finish', 1), ("a bore", 0), ("warm and funny", 1), ("cold and dull", 0)] * 4
    (tmp_path / "rows.tsv").write_text("label\tsentence\n" + "".join(f"{label}\t{text}\n" for text, label in rows))
    output = run("classify_text_with_bert.py", "--data", "rows.tsv", "--limit", 12, "--epochs", 3, cwd=tmp_path)
    assert "9 reviews to train on, 3 to test on" in output


@pytest.mark.slow
def test_sentiment(tmp_path):
    output = run("sentiment.py", cwd=tmp_path)
    assert re.search(r"^good \(0\.\d\d\)  a warm and funny joy$", output, re.MULTILINE)
    assert re.search(r"^bad \(0\.\d\d\)  dull, and never ends$", output, re.MULTILINE)
    before, after = map(float, re.search(r"functional model: loss (\S+) to (\S+)", output).groups())
    assert after < before
    assert (tmp_path / "saved_models/sentiment_serving/1/saved_model.pb").exists()


def test_every_example_says_how_to_run_it_and_is_short():
    scripts = sorted(EXAMPLES.glob("*.py"))
    assert scripts
    for script in scripts:
        text = script.read_text("utf-8")
        assert f"python examples/{script.name}" in text
        assert len(text.splitlines()) < 120
