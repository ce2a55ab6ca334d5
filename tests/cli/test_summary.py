"""keras-bert summary: a table of a checkpoint's parts, heads included, or of a published size."""

import math
import re

import pytest

from keras_bert import BertConfig, BertEncoder, BertMaskedLM
from keras_bert.encoder.summary import summarize
from keras_bert.formats import read_config

from ..support.data import ROOT

TINY = ROOT / "tests/golden/tiny-bert"


def rows(result) -> dict[str, list[str]]:
    """By the name of a part, what its row says: shapes (not of the total), parameters, and how often it is there."""
    assert result.stderr == ""
    split = [re.split(r"\s{2,}", line) for line in result.stdout.splitlines()[1:-4]]
    return {name: columns for name, *columns in split}


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_a_checkpoint_and_its_heads(run, tmp_path):
    config = BertConfig(vocab_size=60, hidden_size=8, num_layers=3, num_heads=2, intermediate_size=16, max_positions=9)
    model = BertMaskedLM(BertEncoder(config))
    model.save_preset(tmp_path)
    found = rows(run("summary", tmp_path))
    assert found["masked_lm/transform"] == ["8 x 8 + 8", "72"]
    assert found["layer/intermediate"] == ["8 x 16 + 16", "432", "sum of 3"]
    assert found["total"] == [f"{model.count_params():,}"]


def test_nothing_is_counted_twice(run):
    found = rows(run("summary", "albert-base"))
    assert found["layer/intermediate"][2] == "used 12 times"
    (total,) = found.pop("total")
    assert sum(number(columns[1]) for columns in found.values()) == number(total)
    assert number(total) == summarize(BertConfig.named("albert-base")).parameters


@pytest.mark.parametrize(("arguments", "batch", "length"), [([], 32, 128), (["--batch-size", "1"], 1, 128)])
def test_memory_and_operations(run, arguments, batch, length):
    lines = run("summary", "bert-base", *arguments).stdout.splitlines()[-4:]
    found = summarize(BertConfig.base(), batch_size=batch, sequence_length=length)
    weights, training, activations = (float(line.split(" MiB")[0].split()[-1].replace(",", "")) for line in lines[:3])
    expected = [found.weight_bytes, found.training_bytes, found.activation_bytes]
    for shown, count in zip((weights, training, activations), expected, strict=True):
        assert math.isclose(shown, count / 2**20, abs_tol=0.06)
    assert f"{found.flops_per_token / 1e6:,.1f} million" in lines[3]


def test_a_model_of_few_positions(run, fails):
    positions = read_config(TINY / "config.json").max_positions
    assert positions < 128
    assert f"of {positions} tokens" in run("summary", TINY).stdout
    message = f"--sequence-length is 128; this model has {positions} positions"
    assert fails("summary", TINY, "--sequence-length", "128") == message


def test_a_directory_comes_before_a_size(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = BertConfig(vocab_size=60, hidden_size=8, num_layers=1, num_heads=2, intermediate_size=16)
    BertEncoder(config).save_preset(tmp_path / "bert-base")
    assert number(*rows(run("summary", "bert-base"))["total"]) == summarize(config).parameters
