"""Whole runs in Python, without the command: files in, a model with its report out; interrupted, resumed, refused."""

import os
import signal

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

SETTINGS = {"text_column": "sentence", "label_column": "kind", "epochs": 2, "batch_size": 8, "learning_rate": 1e-2}


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    keras.utils.set_random_seed(3)
    directory = tmp_path_factory.mktemp("preset")
    BertEncoder(BertConfig(vocab_size=len(small.VOCABULARY), initializer_range=0.2, **SIZES)).save_preset(directory)
    small.tokenizer().save_preset(directory)
    return directory


@pytest.fixture
def table(tmp_path):
    generator = np.random.default_rng(0)
    rows = [(" ".join(generator.choice(KINDS[kind], 3)), kind) for kind in generator.choice(list(KINDS), 64)]
    (tmp_path / "train.tsv").write_text("sentence\tkind\n" + "".join(f"{text}\t{kind}\n" for text, kind in rows))
    return tmp_path / "train.tsv"


class _Interrupting:
    """A log that sends SIGTERM after the first line of an epoch."""

    def __init__(self):
        self.lines = []

    def __call__(self, line):
        self.lines.append(line)
        if line.startswith(("epoch 1 of", "step 2 of")):
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_run_of_files_is_resumed_by_the_same_call(preset, table, tmp_path):
    def run(name, log):
        return fine_tune_files("classify", table, tmp_path / name, table, preset=preset, log=log, **SETTINGS)

    broken, resumed, whole, again = _Interrupting(), [], [], []
    with pytest.raises(Interrupted) as interruption:
        run("broken", broken)
    assert interruption.value.place.startswith("epoch ")
    assert interruption.value.place.split(",")[0].endswith("of 2")
    assert not (tmp_path / "broken/config.json").exists()
    measures = run("broken", resumed.append)
    assert run("whole", whole.append) == measures
    assert resumed[0] == f"resuming the run in {tmp_path / 'broken'} after {interruption.value.place}"
    assert whole[0] == f"64 examples from {table}, 64 to measure with from {table}"
    assert [line.split(":")[0] for line in whole[1:]] == ["labels", "epoch 1 of 2", "epoch 2 of 2"]
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("broken", "whole")]
    assert models[0] == models[1]
    assert f"| accuracy | {measures['accuracy']:.4f} |" in (tmp_path / "whole/report.md").read_text()
    assert run("whole", again.append) == measures
    assert again[0] == f"the run in {tmp_path / 'whole'} is finished, after epoch 2 of 2; nothing is trained"
    assert BertClassifier.from_preset(tmp_path / "whole").classify("good great")["label"] in KINDS


def test_a_run_of_files_trains_as_fine_tune_does(preset, table, tmp_path):
    """The held-out examples and the epochs are those of `fine_tune` on the same examples."""
    fine_tune_files("classify", table, tmp_path / "model", preset=preset, validation_split=0.25, log=str, **SETTINGS)
    rows = [line.split("\t") for line in table.read_text().splitlines()[1:]]
    texts, labels = map(list, zip(*rows, strict=True))
    keras.utils.set_random_seed(0)
    model = BertClassifier.from_preset(preset, labels=sorted(KINDS))
    recipe = {name: value for name, value in SETTINGS.items() if "column" not in name}
    fine_tune(model, (texts, labels), validation_split=0.25, progress=False, **recipe)
    trained = BertClassifier.from_preset(tmp_path / "model")
    for mine, its in zip(model.get_weights(), trained.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, its)


def test_overwrite_starts_again_and_refuses_foreign_files(preset, table, tmp_path):
    output = tmp_path / "model"
    settings = {"preset": preset, "log": str, **SETTINGS, "epochs": 1}
    fine_tune_files("classify", table, output, **settings)
    with error_names(ValueError, output, "seed", "0, now 1", "overwrite", f"the preset {output}"):
        fine_tune_files("classify", table, output, seed=1, **settings)
    (output / "notes.txt").touch()
    before = sorted(output.rglob("*"))
    with error_names(FileExistsError, output, "notes.txt", "move"):
        fine_tune_files("classify", table, output, seed=1, overwrite=True, **settings)
    assert sorted(output.rglob("*")) == before
    (output / "notes.txt").unlink()
    with error_names(FileExistsError, output, "read by this run", "overwrite", "another output"):
        fine_tune_files("classify", table, output, overwrite=True, **settings | {"preset": output})
    weights = (output / "model.safetensors").read_bytes()
    fine_tune_files("classify", table, output, seed=1, overwrite=True, **settings)
    assert (output / "model.safetensors").read_bytes() != weights


STUDENT = ["a student", "'classify'", "teacher", "num_layers"]


@pytest.mark.parametrize(
    ("task", "settings", "error", "words"),
    [
        ("classy", {}, ValueError, ["task", "'classy'", "classify, tag, answer, rank, embed"]),
        ("classify", {"epoch": 2}, TypeError, ["setting epoch", "sequence_length", "epochs"]),
        ("tag", {"text_column": "text"}, TypeError, ["setting text_column"]),
        ("classify", {"epochs": 0}, ValueError, ["epochs", 0, "1 or more"]),
        ("classify", {"batch_size": 2, "batch_tokens": 64}, ValueError, ["batch_size", "batch_tokens", "only one"]),
        (
            "classify",
            {"validation": "a.csv", "validation_split": 0.5},
            ValueError,
            ["validation", "validation_split", "only one"],
        ),
        ("classify", {"dtype": "float64"}, ValueError, ["dtype", "'float64'", "float32"]),
        ("classify", {"strategy": "two"}, ValueError, ["strategy", "'two'", "auto"]),
        ("classify", {"problem_type": "two"}, ValueError, ["problem_type", "'two'", "regression"]),
        ("tag", {"teacher": "a", "num_layers": 2}, ValueError, STUDENT),
        ("classify", {"num_layers": 2}, ValueError, STUDENT),
        ("rank", {"loss": "lambda"}, ValueError, ["loss lambda", "lists"]),
        ("embed", {"loss": "lambda"}, ValueError, ["loss is 'lambda'", "multiple_negatives_ranking"]),
    ],
)
def test_bad_arguments_are_refused_before_any_work(tmp_path, table, task, settings, error, words):
    before, policy = sorted(tmp_path.rglob("*")), keras.config.dtype_policy()
    with error_names(error, *words):
        fine_tune_files(task, table, tmp_path / "model", **settings)
    assert sorted(tmp_path.rglob("*")) == before
    assert keras.config.dtype_policy() == policy


def test_each_task_of_the_table_is_a_command():
    from keras_bert.cli import main
    from keras_bert.tasks.table import FROM_FILES

    assert sorted(main.commands["finetune"].commands) == sorted(FROM_FILES)


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "texts").mkdir()
    write_documents(tmp_path / "texts/a.txt", 12, 0)
    small.tokenizer().save_preset(tmp_path / "vocab")
    settings = {"vocab": tmp_path / "vocab", "size": "tiny", "objective": "sentences", "layout": "sentences"}
    return tmp_path / "texts", settings | {"sequence_length": 24, "batch_size": 4, "measure_every": 2, "steps": 4}


@pytest.mark.slow
def test_a_pre_training_of_files_is_resumed_by_the_same_call(corpus, tmp_path):
    texts, settings = corpus
    broken = _Interrupting()
    with pytest.raises(Interrupted) as interruption:
        pretrain_files(texts, tmp_path / "broken", log=broken, **settings)
    assert interruption.value.place.endswith("of 4")
    measures = [pretrain_files(texts, tmp_path / name, log=str, **settings) for name in ("broken", "whole")]
    assert measures[0] == measures[1]
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("broken", "whole")]
    assert models[0] == models[1]
    assert "## Steps" in (tmp_path / "whole/report.md").read_text()
    BertPretrainer.from_preset(tmp_path / "whole", sequence_length=24, pairs=False)


SOURCES = ["vocab and size", "teacher and num_layers"]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"teacher": "my-bert"}, ValueError, SOURCES),
        ({"vocab": None}, ValueError, SOURCES),
        ({"objective": "words"}, ValueError, ["objective", "'words'", "next_sentence"]),
        ({"pack": "yes"}, TypeError, ["pack", "'yes'", "True or False"]),
        ({"step": 4}, TypeError, ["setting step", "steps"]),
    ],
)
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


def test_numbers_are_measured_by_their_errors_too(preset, tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("sentence,kind\ngood film,4\nbad film,1\ngood,5\nbad,2\n")
    settings = {**SETTINGS, "problem_type": "regression", "log": lambda line: None}
    measures = fine_tune_files("classify", path, tmp_path / "model", path, preset=preset, **settings)
    assert list(measures) == ["spearman", "pearson", "mae", "rmse", "rmse_baseline"]
    answers = BertClassifier.from_preset(tmp_path / "model").classify(["good film", "bad film", "good", "bad"])
    errors = np.array([4, 1, 5, 2]) - [answer["value"] for answer in answers]
    np.testing.assert_allclose(
        [measures["mae"], measures["rmse"]], [np.abs(errors).mean(), np.sqrt((errors**2).mean())], 1e-4
    )
