"""Whole runs in Python, without the command: files in, a model with its report out; interrupted, resumed, refused."""

import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import pytest

from keras_bert import BertClassifier, BertConfig, BertEncoder
from keras_bert.pretraining import BertPretrainer
from keras_bert.training import fine_tune, fine_tune_files, pretrain_files
from keras_bert.training.loop import Interrupted

from ..support import small
from ..support.commands import KINDS, SIZES, write_documents
from ..support.messages import error_names, warning_names

RECIPE = {"epochs": 2, "batch_size": 8, "learning_rate": 1e-2, "frozen_layers": 1, "class_weight": {"praise": 1.3}}
SETTINGS = {"text_column": "sentence", "label_column": "kind", **RECIPE}
pytestmark = pytest.mark.usefixtures("untraced_module")


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    keras.utils.set_random_seed(3)
    directory = tmp_path_factory.mktemp("preset")
    BertEncoder(BertConfig(vocab_size=len(small.VOCABULARY), initializer_range=0.2, **SIZES)).save_preset(directory)
    small.tokenizer().save_preset(directory)
    return directory


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    generator, path = np.random.default_rng(0), tmp_path_factory.mktemp("table") / "train.tsv"
    rows = [(" ".join(generator.choice(KINDS[kind], 3)), kind) for kind in generator.choice(list(KINDS), 64)]
    path.write_text("sentence\tkind\n" + "".join(f"{text}\t{kind}\n" for text, kind in rows))
    return path


class Whole(NamedTuple):
    run: Callable[..., dict[str, float]]  # again, in this directory or another, with other settings
    directory: Path
    measures: dict[str, float]
    lines: list[str]  # its log


@pytest.fixture(scope="module")
def whole(preset, table, tmp_path_factory):
    """A run that nothing interrupted. Tests must not change its directory."""

    def run(output, log=str, **settings):
        settings = {"preset": preset, "validation_split": 0.25, **SETTINGS, **settings}
        return fine_tune_files("classify", table, output, log=log, **settings)

    directory, lines = tmp_path_factory.mktemp("whole") / "model", []
    return Whole(run, directory, run(directory, lines.append), lines)


@pytest.mark.slow
def test_a_run_of_files_is_resumed_by_the_same_call(whole, table, tmp_path):
    broken, resumed, again = tmp_path / "broken", [], []

    def interrupting(line):
        if line.startswith("epoch 1 of"):
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted) as interruption:
        whole.run(broken, interrupting)
    assert re.fullmatch("epoch 1 of 2|epoch 2 of 2, step [1-6] of 6", interruption.value.place)
    assert not (broken / "config.json").exists()
    measures = whole.run(broken, resumed.append)
    assert whole.measures == measures
    assert resumed[0] == f"resuming the run in {broken} after {interruption.value.place}"
    assert whole.lines[0] == f"64 examples from {table}, 16 of them held out to measure with"
    assert [line.split(":")[0] for line in whole.lines[1:]] == ["labels", "epoch 1 of 2", "epoch 2 of 2"]
    models = [(each / "model.safetensors").read_bytes() for each in (broken, whole.directory)]
    assert models[0] == models[1]
    assert f"| accuracy | {measures['accuracy']:.4f} |" in (broken / "report.md").read_text()
    assert whole.run(broken, again.append) == measures
    assert again[0] == f"the run in {broken} is finished, after epoch 2 of 2; nothing is trained"
    assert BertClassifier.from_preset(broken).classify("good great")["label"] in KINDS


def test_a_run_of_files_trains_as_fine_tune_does(whole, preset, table):
    """The held-out examples and the epochs are those of `fine_tune` on the same examples."""
    rows = [line.split("\t") for line in table.read_text().splitlines()[1:]]
    texts, labels = map(list, zip(*rows, strict=True))
    keras.utils.set_random_seed(0)
    model = BertClassifier.from_preset(preset, labels=sorted(KINDS))
    fine_tune(model, (texts, labels), validation_split=0.25, progress=False, **RECIPE)
    trained = BertClassifier.from_preset(whole.directory)
    np.testing.assert_equal(model.get_weights(), trained.get_weights())


def test_the_model_card_of_a_run_has_its_measures_data_and_recipe(whole, preset, table):
    card = (whole.directory / "README.md").read_text()
    assert "# A BertClassifier (bert)" in card
    assert f"| accuracy | {whole.measures['accuracy']:.4f} |" in card
    assert re.search(rf"\| training data \| \d+ examples of {table.name} \|", card)
    assert f"| weights of | {Path(preset).name} |" in card
    assert f"| batch_size | {RECIPE['batch_size']} |" in card
    assert str(Path(preset).parent) not in card
    assert str(table.parent) not in card


def test_overwrite_starts_again_and_refuses_foreign_files(whole, tmp_path):
    output = shutil.copytree(whole.directory, tmp_path / "model")
    for changes, words in (
        ({"seed": 1}, ["seed", "0, now 1"]),
        ({"dtype": "mixed_float16"}, ["dtype", "'float32', now 'mixed_float16'"]),
        ({"sequence_length": 9}, ["configuration of the model"]),
    ):
        with error_names(ValueError, output, *words, "overwrite", f"the preset {output}"):
            whole.run(output, **changes)
    before = sorted(output.rglob("*"))
    for name in ("notes.txt", "training/mine.csv", "serving/saved_model.pb", "vocabulary"):
        foreign = output / name
        foreign.parent.mkdir(exist_ok=True)
        foreign.symlink_to(tmp_path) if name == "vocabulary" else foreign.touch()
        with error_names(FileExistsError, output, name, "move"):
            whole.run(output, seed=1, overwrite=True)
        foreign.unlink()
    (output / "serving").rmdir()
    assert sorted(output.rglob("*")) == before
    (tmp_path / "eval.tsv").write_text("sentence\tkind\ngood\tnew\n")
    with error_names(ValueError, "'new'"):
        whole.run(output, validation=tmp_path / "eval.tsv", validation_split=None, overwrite=True)
    assert sorted(output.rglob("*")) == before
    with error_names(FileExistsError, output, "read by this run", "overwrite", "another output"):
        whole.run(output, preset=output, overwrite=True)
    weights = (output / "model.safetensors").read_bytes()
    whole.run(output, seed=1, epochs=1, overwrite=True)
    assert (output / "model.safetensors").read_bytes() != weights


STUDENT = ["a student", "'classify'", "teacher", "num_layers"]


@pytest.mark.parametrize(("task", "settings", "error", "words"), [
    ("classy", {}, ValueError, ["task", "'classy'", "classify, tag, answer, rank, choose, embed"]),
    ("classify", {"epoch": 2}, TypeError, ["setting epoch", "sequence_length", "epochs"]),
    ("tag", {"text_column": "text"}, TypeError, ["setting text_column"]),
    ("classify", {"validation": "a", "validation_split": 0.5}, ValueError, ["validation", "validation_split"]),
    ("classify", {"dtype": "float64"}, ValueError, ["dtype", "'float64'", "float32"]),
    ("classify", {"strategy": "two"}, ValueError, ["strategy", "'two'", "auto"]),
    ("classify", {"problem_type": "two"}, ValueError, ["problem_type", "'two'", "regression"]),
    ("tag", {"teacher": "a", "num_layers": 2}, ValueError, STUDENT),
    ("classify", {"num_layers": 2}, ValueError, STUDENT),
    ("rank", {"loss": "lambda"}, ValueError, ["loss lambda", "lists"]),
    ("embed", {"loss": "lambda"}, ValueError, ["loss is 'lambda'", "multiple_negatives_ranking"]),
])  # fmt: skip
def test_bad_arguments_are_refused_before_any_work(tmp_path, table, task, settings, error, words):
    before, policy = sorted(tmp_path.rglob("*")), keras.config.dtype_policy()
    with error_names(error, *words):
        fine_tune_files(task, table, tmp_path / "model", **settings)
    assert sorted(tmp_path.rglob("*")) == before
    assert keras.config.dtype_policy() == policy


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "texts").mkdir()
    write_documents(tmp_path / "texts/a.txt", 12, 0)
    small.tokenizer().save_preset(tmp_path / "vocab")
    settings = {"vocab": tmp_path / "vocab", "size": "tiny", "objective": "sentences", "layout": "sentences"}
    return tmp_path / "texts", settings | {"sequence_length": 24, "batch_size": 4, "measure_every": 2, "steps": 4}


@pytest.mark.slow
def test_a_model_is_saved_with_the_length_of_its_longest_rows(corpus, tmp_path):
    """With new weights, as a preset that is trained further, and as a student."""
    texts, settings = corpus
    recipe = {name: settings.pop(name) for name in ("objective", "layout", "batch_size")}
    recipe |= {"steps": 2, "then_steps": 1, "then_batch_size": 4, "log": str}
    new, trained = {name: settings[name] for name in ("vocab", "size")}, tmp_path / "new"
    for name, source, length, then_length in (
        ("new", new, 24, 32),
        ("preset", {"preset": trained}, 20, 16),
        ("student", {"teacher": trained, "num_layers": 1}, 16, 24),
    ):
        pretrain_files(texts, tmp_path / name, sequence_length=length, then_length=then_length, **source, **recipe)
        preprocessor = BertPretrainer.from_preset(tmp_path / name).preprocessor
        assert preprocessor.sequence_length == max(length, then_length)
    with error_names(ValueError, "then_length", 600, "512 positions"):
        pretrain_files(texts, tmp_path / "long", preset=trained, then_length=600, **recipe)


@pytest.mark.slow
def test_an_old_model_stays_until_the_new_text_was_read(corpus, tmp_path):
    texts, settings = corpus
    settings |= {"steps": 1, "overwrite": True, "log": str}
    for output in (tmp_path / "run", tmp_path / "model"):
        small.encoder(num_layers=1).save_preset(output)
    (tmp_path / "run/training/records").mkdir(parents=True)
    (tmp_path / "run/training/records/examples-00000-of-00001.tfrecord").touch()
    (tmp_path / "blank.txt").write_text("\u200b \u200b\n" * 4)
    for output in (tmp_path / "run", tmp_path / "model"):
        before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
        with error_names(ValueError, "no examples"):
            pretrain_files(tmp_path / "blank.txt", output, **settings)
        assert {path: path.read_bytes() for path in output.rglob("*") if path.is_file()} == before
        assert not list(output.rglob(".*"))
        pretrain_files(texts, output, **settings)
        assert BertPretrainer.from_preset(output).encoder.config.hidden_size == 128
        assert not list(output.rglob(".*"))
    assert "masked_lm_loss" in pretrain_files(texts, tmp_path / "new", texts, **settings)
    del settings["vocab"], settings["size"]
    before = (tmp_path / "run/model.safetensors").read_bytes()
    with error_names(ValueError, "num_layers", 9, "1 to 2"):
        pretrain_files(texts, tmp_path / "run", teacher=tmp_path / "model", num_layers=9, **settings)
    assert (tmp_path / "run/model.safetensors").read_bytes() == before


SOURCES = ["vocab and size", "teacher and num_layers"]


@pytest.mark.parametrize(("changes", "error", "words"), [
    ({"teacher": "my-bert"}, ValueError, SOURCES),
    ({"vocab": None}, ValueError, SOURCES),
    ({"objective": "words"}, ValueError, ["objective", "'words'", "next_sentence"]),
    ({"pack": "yes"}, TypeError, ["pack", "'yes'", "True or False"]),
    ({"step": 4}, TypeError, ["setting step", "steps"]),
])  # fmt: skip
def test_bad_arguments_of_pre_training(corpus, tmp_path, changes, error, words):
    texts, settings = corpus
    with error_names(error, *words):
        pretrain_files(texts, tmp_path / "model", **settings | changes)
    assert not (tmp_path / "model").exists()


def test_labels_are_counted_and_two_spellings_of_one_are_warned_of(preset, tmp_path):
    path, lines = tmp_path / "train.csv", []
    path.write_text("sentence,kind\n" + "good film,praise\nbad film,blame\ngood,Praise\n" * 4)
    with warning_names(path, "'Praise' (4)", "'praise' (4)", "case"):
        fine_tune_files("classify", path, tmp_path / "model", preset=preset, log=lines.append, **SETTINGS)
    assert "labels: Praise 4, blame 4, praise 4" in lines


@pytest.mark.slow
def test_numbers_are_measured_by_their_errors_too(preset, tmp_path):
    path, lines = tmp_path / "train.csv", []
    path.write_text("sentence,kind\ngood film,4\nbad film,1\ngood,5\nbad,2\n")
    settings = {**SETTINGS, "class_weight": None, "problem_type": "regression", "log": lines.append}
    measures = fine_tune_files("classify", path, tmp_path / "model", path, preset=preset, **settings)
    assert lines[0] == f"4 examples from {path}, 4 to measure with from {path}"
    assert list(measures) == ["spearman", "pearson", "mae", "rmse", "rmse_baseline", "mae_baseline"]
    answers = BertClassifier.from_preset(tmp_path / "model").classify(["good film", "bad film", "good", "bad"])
    errors = np.array([4, 1, 5, 2]) - [answer["value"] for answer in answers]
    expected = [np.abs(errors).mean(), np.sqrt((errors**2).mean())]
    np.testing.assert_allclose([measures["mae"], measures["rmse"]], expected, 1e-4)
