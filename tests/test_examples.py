"""The scripts in examples/ run as their first lines say (demo.py: test_readme.py)."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keras_bert import BertClassifier, BertMaskedLM

from .support import forking
from .support.data import ROOT

EXAMPLES = ROOT / "examples"
pytestmark = pytest.mark.usefixtures("reader")


def run(script, *arguments, cwd, python=None):
    result = subprocess.run(
        [python or forking.commands() / "python", EXAMPLES / script, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "TMPDIR": str(cwd)},  # what an example exports is large, and goes with the test
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


@pytest.mark.slow
def test_classify_text_with_bert(tmp_path):
    pytest.importorskip("tensorflow_hub")
    pytest.importorskip("tf_keras")
    output = run("classify_text_with_bert.py", cwd=tmp_path, python=sys.executable)  # as Keras 2 is imported
    assert "36 reviews to train on, 12 to test on" in output
    before, after, accuracy = re.search(r"loss (\S+) before, (\S+) after; accuracy (\S+)", output).groups()
    assert float(after) < 0.85 * float(before)  # how far it falls depends on what dropout draws
    assert float(accuracy) > 0.7  # of four runs, the least good had ten of twelve right
    scores = {text: float(score) for score, text in re.findall(r"^(\d\.\d{3})  (.*)$", output, re.MULTILINE)}
    assert scores["Who pays for such rubbish?"] < 0.5 < scores["I could watch it every day!"]


def test_classify_text_with_bert_on_a_file(tmp_path):
    """Its reader alone; what is done with reviews is the same."""
    expected = [('a joy "from" start to finish', 1.0), ("a bore", 0.0), ("warm and funny", 1.0)]
    lines = "".join(f"{int(label)}\t{text}\n" for text, label in expected)
    (tmp_path / "rows.tsv").write_text(f"label\tsentence\n{lines}1\tone too many\n")
    source = (EXAMPLES / "classify_text_with_bert.py").read_text("utf-8")
    reader = {"Path": Path}
    exec(source[source.index("def rows(") : source.index("def dataset(")], reader)
    assert reader["rows"](tmp_path / "rows.tsv", 3) == expected


@pytest.mark.slow
def test_other_runtimes(tmp_path):
    for module in ("tf2onnx", "onnxruntime", "openvino", "nncf", "ai_edge_litert"):
        pytest.importorskip(module)
    output = run("other_runtimes.py", cwd=tmp_path)
    for name in ("Keras", "ONNX Runtime", "OpenVINO", "LiteRT"):
        assert f"{name}: ['food', 'weather']" in output


@pytest.mark.slow
def test_sentiment(tmp_path):
    output = run("sentiment.py", cwd=tmp_path)
    assert re.search(r"^good \(0\.\d\d\)  a warm and funny joy$", output, re.MULTILINE)
    assert re.search(r"^bad \(0\.\d\d\)  dull, and never ends$", output, re.MULTILINE)
    before, after = map(float, re.search(r"functional model: loss (\S+) to (\S+)", output).groups())
    assert after < before
    assert (tmp_path / "saved_models/sentiment_serving/1/saved_model.pb").exists()


@pytest.mark.slow
def test_pair_similarity(tmp_path):
    rows = [
        "A plane is taking off.,An air plane is taking off.,5.0",
        "A man is playing a large flute.,A man is playing a flute.,3.8",
        '"A woman, in red, dances.",A woman is dancing.,3.5',
        "A man is smoking.,A man is skating.,0.5",
        "A girl is brushing her hair.,The price of oil fell again.,0.0",
        "A dog runs on the beach.,The parliament will vote on Monday.,0.0",
    ]
    (tmp_path / "pairs.csv").write_text("\n".join(rows))
    options = ["--no-header", "--columns", 1, 2, 3, "--epochs", 30]
    output = run("pair_similarity.py", "--train", "pairs.csv", "--eval", "pairs.csv", *options, cwd=tmp_path)
    assert float(re.search(r"'spearman': (\S+),", output)[1]) > 0.8
    alike, unlike = map(float, re.findall(r"^(-?\d\.\d)  A (?:man|dog)", output, re.MULTILINE))
    assert alike > unlike  # of the best epoch by their order, which may be an early one
    before, after = map(float, re.search(r"functional model: squared error (\S+) to (\S+)", output).groups())
    assert after < before / 2
    alike, unlike = map(float, re.search(r"functional model: (\S+) and (\S+) for", output).groups())
    assert alike > unlike + 1
    assert (tmp_path / "saved_models/pair_similarity/model.safetensors").exists()


@pytest.mark.slow
def test_entities(tmp_path):
    output = run("entities.py", cwd=tmp_path)
    assert float(re.search(r"'f1': (\S+),", output)[1]) > 0.9
    assert "   0 to 11  person: Alan Turing\n  27 to 35  place: New York\n" in output
    before, after = map(float, re.search(r"functional model: loss (\S+) to (\S+)", output).groups())
    assert after < before / 2
    assert "functional model: marie/B-person cu/I-person" in output
    assert (tmp_path / "saved_models/entities/model.safetensors").exists()


@pytest.mark.slow
def test_bert_in_one_file(tmp_path):
    output = run("bert_in_one_file.py", cwd=tmp_path)
    assert re.search(r"tokens: \[CLS\] the cat sat on .*masked word: door", output, re.DOTALL)
    before, after = map(float, re.findall(r"masked words (\S+),", output))
    assert after < before / 2


@pytest.mark.slow
def test_crf_chunks(tmp_path):
    output = run("crf_chunks.py", cwd=tmp_path)
    before, after = map(float, re.search(r"loss (\S+) to (\S+)", output).groups())
    assert after < before / 5
    assert "Alan/B-person Turing/I-person never/O lived/O in/O New/B-place York/I-place" in output


@pytest.mark.slow
def test_question_answering_from_a_file(tmp_path):
    contexts = {
        "The tower was built in Paris by the company of Gustave Eiffel from 1887 to 1889.": [
            ("Where was the tower built?", "Paris"),
            ("Whose company built it?", "Gustave Eiffel"),
        ],
        "Ada Lovelace wrote the first program, for a machine that Charles Babbage had designed.": [
            ("Who wrote the first program?", "Ada Lovelace"),
        ],
    }
    paragraphs = []
    for context, asked in contexts.items():
        questions = [
            {"id": question, "question": question, "answers": [{"text": text, "answer_start": context.index(text)}]}
            for question, text in asked
        ]
        paragraphs.append({"context": context, "qas": questions})
    (tmp_path / "squad.json").write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": paragraphs}]}))
    files = ["--train", "squad.json", "--eval", "squad.json"]
    output = run("question_answering.py", *files, "--epochs", 30, cwd=tmp_path)
    assert float(re.search(r"'exact_match': ([\d.]+)", output)[1]) == 100
    before, after = map(float, re.search(r"functional model: loss (\S+) to (\S+)", output).groups())
    assert after < before / 2
    assert "functional model: paris  Where was the tower built?" in output
    assert (tmp_path / "saved_models/question_answering/model.safetensors").exists()


@pytest.mark.slow
def test_long_reviews(tmp_path):
    output = run("long_reviews.py", cwd=tmp_path)
    assert "truncate: {'accuracy': 0.5}" in output  # of each pair of reviews with one beginning, one is right
    assert float(re.search(r"windows: {'accuracy': (\S+)}", output)[1]) == 1
    assert float(re.search(r"functional model: (\S+) of", output)[1]) == 1
    assert (tmp_path / "saved_models/long_reviews/model.safetensors").exists()


@pytest.mark.timing
@pytest.mark.slow
def test_pretrain_from_scratch(tmp_path):
    pytest.importorskip("tokenizers")
    pytest.importorskip("tensorflow_serving")
    (tmp_path / "texts").mkdir()
    for name, animal, food in (("one.txt", "cat", "fish"), ("two.txt", "dog", "bone")):
        sentences = [
            f"The {size} {animal} ate the {food} of day {day}." for day in range(40) for size in ("big", "old")
        ]
        (tmp_path / "texts" / name).write_text("\n\n".join(sentences))
    command = ["pretrain_from_scratch.py", "texts", "--steps", 60, "--output", "made"]
    state = tmp_path / "made/run/state.safetensors"

    killed = subprocess.Popen([sys.executable, EXAMPLES / command[0], *map(str, command[1:])], cwd=tmp_path)
    while not state.exists():
        assert killed.poll() is None
        time.sleep(0.1)
    killed.kill()
    killed.wait()
    assert not (tmp_path / "made/model").exists()

    output = run(*command, cwd=tmp_path)
    losses = [float(loss) for loss in re.findall(r"^step \d+: loss (\S+)$", output, re.MULTILINE)]
    assert len(losses) == 10
    assert losses[-1] < losses[0]
    assert output.count("He looked at") == 3
    assert re.search(r"^(good|bad) \(\d\.\d\d\)  a warm and funny joy$", output, re.MULTILINE)
    assert (tmp_path / "made/serving/1/saved_model.pb").exists()

    finished = state.stat().st_mtime_ns
    assert run(*command, cwd=tmp_path) == output
    assert state.stat().st_mtime_ns == finished


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="jax is not installed")
def test_jax_data_parallel(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    output = run("jax_data_parallel.py", cwd=tmp_path)
    before, after = map(float, re.search(r"^jax, 2 devices: loss (\S+) to (\S+), accuracy", output, re.M).groups())
    assert after < before
    model = BertClassifier.from_preset(tmp_path / "saved_models/jax_data_parallel")
    answers = model.classify(["a joy from start to finish", "two hours that never end"])
    assert [answer["label"] for answer in answers] == ["good", "bad"]


@pytest.mark.slow
def test_probing(tmp_path):
    (tmp_path / "all-MiniLM-L6-v2").unlink()  # the small one has too few layers to compare
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    seen = [("dog", "saw", "big"), ("cat", "heard", "red"), ("man", "took", "old"), ("girl", "bought", "small")]
    unseen = [("king", "wrote", "green"), ("horse", "lost", "sad"), ("teacher", "found", "new")]
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/README").write_text("A small corpus.\n")
    for number in range(10):
        words = unseen if number % 5 == 4 else seen
        lines = [
            f"\tThe/at {a}/nn-tl {verb}/vbd a/at {adjective}/jj {b}/nn ,/, and/cc it/pps didn't/dod* run/vb ./.\n\n"
            for a, verb, adjective in words
            for b, _, _ in words
        ]
        (tmp_path / f"corpus/c{number}").write_text("".join(lines))
    shutil.make_archive(tmp_path / "corpus", "zip", tmp_path, "corpus")
    functions = {}
    exec((EXAMPLES / "probing.py").read_text("utf-8").partition("\nparser = ")[0], functions)
    assert functions["read"](tmp_path / "corpus") == functions["read"](tmp_path / "corpus.zip")
    output = run("probing.py", "corpus.zip", "--sentences", 72, cwd=tmp_path)
    assert "720 words to train on, 180 of other files to measure with" in output  # ten a sentence
    baseline, *layers = map(float, re.findall(r" (\d\.\d{3})$", output, re.MULTILINE))
    assert baseline < 0.7  # of ten words four never occurred
    assert len(layers) == 7
    assert max(layers) > 0.9
    assert (tmp_path / "saved_models/probing.png").stat().st_size > 5000


_CHAPTER = """<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><body>
<h2>Not a paragraph</h2>{}</body></html>"""


@pytest.mark.slow
def test_bert_books(tmp_path, monkeypatch):
    """With local repositories of the same form; what is no story is left out, as are notes."""
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{tmp_path}/repositories/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/standardebooks/")
    held_out = ["arthur-conan-doyle_the-hound-of-the-baskervilles", "jerome-k-jerome_three-men-in-a-boat"]
    note = '<a href="endnotes.xhtml" epub:type="noteref">7</a>'
    for i, name in enumerate(["one", "two", *held_out]):
        epub = tmp_path / "repositories" / name / "src/epub"
        (epub / "text").mkdir(parents=True)
        spine = "".join(f'<itemref idref="{each}.xhtml"/>' for each in ("imprint", "chapter-1"))
        (epub / "content.opf").write_text(f"<package><spine>{spine}</spine></package>")
        (epub / "text/imprint.xhtml").write_text(_CHAPTER.format("<p>No story.</p>"))
        paragraphs = f"<p>It was a fine\n day,{note} and the cat number {i} <i>slept</i>.</p><p>She ran.</p>" * 40
        (epub / "text/chapter-1.xhtml").write_text(_CHAPTER.format(paragraphs))
        for command in (
            ["init", "-q"],
            ["add", "."],
            ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "a"],
        ):
            subprocess.run(["git", "-C", epub.parents[1], *command], check=True)
    arguments = ("novels", "--books", "one", "two", "--steps", "2", "--then-steps", "1", "--output", "model")
    assert "next_sentence_accuracy" in run("bert_books.py", *arguments, cwd=tmp_path)
    text = (tmp_path / "novels/train/one.txt").read_text()
    assert text.startswith("It was a fine day, and the cat number 0 slept.\n\nShe ran.\n\nIt was")
    model = BertMaskedLM.from_preset(tmp_path / "model")
    assert (tmp_path / "model/model.safetensors").stat().st_size < 2.5 * model.count_params()


@pytest.mark.slow
def test_train_sentence_encoder(tmp_path):
    output = run("train_sentence_encoder.py", cwd=tmp_path)
    assert "8 pairs to train on, 8 to measure with" in output
    before, after = map(float, re.search(r"ndcg@10: (\S+) before, (\S+) after", output).groups())
    assert before + 0.1 < after
    assert "ERR-17 -> The disk is full: remove old backups." in output
    assert (tmp_path / "saved_models/my_encoder/modules.json").exists()
    rows = [{"q": f"Who wrote book {i}?", "a": f"Book {i} is by author {i}."} for i in range(20)]
    (tmp_path / "qa.jsonl").write_text("\n".join(map(json.dumps, rows)))
    columns = ("--query-column", "q", "--positive-column", "a")
    output = run("train_sentence_encoder.py", "--train", "qa.jsonl", *columns, "--epochs", 1, cwd=tmp_path)
    assert "18 pairs to train on, 2 to measure with" in output


@pytest.mark.slow
def test_retrieve_and_rerank(tmp_path):
    pytest.importorskip("faiss")
    output = run("retrieve_and_rerank.py", "how long must I wait for a parcel?", cwd=tmp_path)
    before, after = map(float, re.search(r"mrr@10: (\S+) before, (\S+) after", output).groups())
    assert before < after
    found = re.findall(r"^  (\d\.\d{3})  (.*)$", output, re.MULTILINE)
    assert len(found) == len({text for _, text in found}) == 3
    assert [score for score, _ in found] == sorted((score for score, _ in found), reverse=True)
