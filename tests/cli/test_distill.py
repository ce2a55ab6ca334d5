"""keras-bert distill: a smaller model of a directory, that goes on if it is interrupted; which teachers are refused."""

import json

import numpy as np
import pytest

from keras_bert import BertClassifier, BertConfig, BertEncoder, BertSentenceEncoder, BertTokenClassifier
from keras_bert.formats import read_config
from keras_bert.pretraining import BertPretrainer
from keras_bert.tasks import BertMaskedLM, BertNextSentence, BertReranker

from ..support import small
from ..support.commands import QUICK, SIZES, columns, flat
from ..support.messages import assert_names


@pytest.mark.slow
def test_a_classifier(run, traced, untrained, table, tmp_path):
    teacher, student = tmp_path / "teacher", tmp_path / "student"
    result = run("finetune", "classify", *columns(table), "--preset", untrained, "--output", teacher, *QUICK)
    assert result.stdout.startswith("accuracy\t1.0000\t")
    command = ("distill", "classify", "--teacher", teacher, "--num-layers", "1", *columns(table), "--output", student)
    settings = (*QUICK, "--dtype", "mixed_bfloat16", "--temperature")
    result = run(*command, *settings, "3")
    assert result.stdout.startswith("accuracy\t1.0000\t")
    report = (tmp_path / "student/report.md").read_text()
    for line in (f"| preset | {teacher} |", "| num_layers | 1 |", "| temperature | 3.0 |"):
        assert line in report
    assert BertClassifier.from_preset(student).classify(["good great"])[0]["label"] == "praise"

    again = run(*command, *settings, "3")  # it is over
    assert again.stdout == result.stdout
    assert "is finished, after epoch 4 of 4; nothing is trained" in again.stderr
    assert "loss" not in again.stderr
    other = run(*command, *settings, "4", exit_code=2)
    assert "a finished run with other temperature (3.0, now 4.0)" in other.stderr


@pytest.mark.slow
def test_a_masked_language_model(run, corpus):
    folder, options = corpus
    teacher, student = folder / "teacher", folder / "student"
    config = BertConfig(**{**read_config(folder / "config.json").to_dict(), "num_layers": 4})
    BertPretrainer(BertEncoder(config), small.preprocessor(sequence_length=24)).save_preset(teacher)
    for name in ("--vocab", "--size"):
        del options[name]
    options |= {"--teacher": teacher, "--num-layers": "2", "--output": student}
    result = run("distill", "pretrain", folder / "texts", *flat(options))
    rate, *steps = [line.split(":")[0] for line in result.stderr.splitlines()[2:]]
    assert_names(rate, "learning rate", "0.0001", "teacher")
    assert steps == ["step 2 of 3", "step 3 of 3"]
    assert "masked_lm_accuracy\t" in result.stdout
    assert "next_sentence" not in result.stdout  # as DistilBERT, it learns no pairs
    assert "| num_layers | 2 |" in (student / "report.md").read_text()
    assert json.loads((student / "config.json").read_text())["num_hidden_layers"] == 2
    first, last = (BertMaskedLM.from_preset(each).encoder.blocks for each in (teacher, student))
    for mine, its in ((0, 0), (1, 3)):  # the first and the last; three steps change little
        np.testing.assert_allclose(last[mine].attention.qkv.kernel, first[its].attention.qkv.kernel, atol=1e-3)
    options |= {"--output": folder / "pairs", "--objective": "next_sentence"}
    pairs = run("distill", "pretrain", folder / "texts", *flat(options))
    assert "next_sentence_accuracy\t" in pairs.stdout


def test_who_is_no_teacher(fails, untrained, table, corpus, tmp_path):
    folder, _ = corpus
    rest = ("--num-layers", "1", "--output", tmp_path / "new")
    assert "is not a fine-tuned classifier, tagger or question answerer" in fails(
        "distill", "classify", "--teacher", untrained, *columns(table), *rest
    )
    encoder = BertEncoder(BertConfig(len(small.VOCABULARY), **SIZES))
    BertTokenClassifier(encoder, small.preprocessor(), ["x", "y"]).save_preset(tmp_path / "tagger")
    message = fails("distill", "classify", "--teacher", tmp_path / "tagger", *columns(table), *rest)
    assert message == f"teacher: {tmp_path / 'tagger'} is a BertTokenClassifier; expected a classifier of texts"
    for kind in (BertReranker, BertNextSentence):  # which read files as classifiers do
        path = tmp_path / kind.__name__
        kind(encoder, small.preprocessor()).save_preset(path)
        message = fails("distill", "classify", "--teacher", path, *columns(table), *rest)
        assert message == f"teacher: {path} is a {kind.__name__}; expected a classifier of texts"
    BertClassifier(encoder, small.preprocessor(), ["blame", "praise"]).save_preset(tmp_path / "export")
    (tmp_path / "export/onnx").mkdir()
    (tmp_path / "export/model.safetensors").rename(tmp_path / "export/onnx/model.onnx")
    message = fails("distill", "classify", "--teacher", tmp_path / "export", *columns(table), *rest)
    assert message.startswith(f"teacher: {tmp_path / 'export'} is an export, ")
    command = ("distill", "pretrain", folder / "texts", "--teacher", untrained, *rest, "--steps", "2")
    assert fails(*command) == f"teacher: {untrained} has no masked language modeling head to learn from"
    BertClassifier(encoder, small.preprocessor(), ["blame", "shape"]).save_preset(tmp_path / "other")
    teaching = ("--teacher", tmp_path / "other")
    assert "'praise' is not one of the labels" in fails("distill", "classify", *teaching, *columns(table), *rest)
    BertClassifier(encoder, small.preprocessor(), ["blame", "praise"]).save_preset(tmp_path / "small")
    rest = ("--teacher", tmp_path / "small", "--num-layers", "2", "--output", tmp_path / "new")
    assert "--num-layers is 2; expected 1 to 1, the teacher's" in fails("distill", "classify", *columns(table), *rest)
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_static_vectors(run, tmp_path):
    result = run("distill", "static", "--teacher", "bert-books", "--output", tmp_path / "out",
                 "--size", 32)  # fmt: skip
    assert result.stdout.endswith(f" vectors of 32 values in {tmp_path / 'out'}\n")
    assert BertSentenceEncoder.from_preset(tmp_path / "out").encode("a cat").shape == (32,)
    again = run("distill", "static", "--teacher", "bert-books", "--output", tmp_path / "out", exit_code=2)
    assert "overwrite" in again.stderr
    own = run("distill", "static", "--teacher", tmp_path / "out", "--output", tmp_path / "out", "--overwrite",
              exit_code=2)  # fmt: skip
    assert "another output" in own.stderr
