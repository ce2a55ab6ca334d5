"""What a newcomer types: the README's blocks of code, and the demo."""

import re
import subprocess

import pytest

from keras_bert.cli import main

from .support import forking
from .support.data import ROOT
from .support.pages import blocks, run

README = ROOT / "README.md"
BLOCKS = blocks(README)
LONG = re.compile(r"fine_tune\(|pretrain\(|export_")  # those that train or export take half a minute each


def _block(number):
    return pytest.param(number, marks=[pytest.mark.slow] if LONG.search(BLOCKS[number].code) else [])


@pytest.mark.parametrize("number", [_block(number) for number in range(len(BLOCKS))])
def test_block(number, reader):
    if not LONG.search(BLOCKS[number].code):
        (reader / "all-MiniLM-L6-v2").unlink()  # some show numbers of the whole model
    run(BLOCKS[number], {}, reader)


@pytest.mark.parametrize(
    ("shell", "words", "place", "completed"),
    [
        ("bash", "keras-bert fin", "1", "plain,finetune\n"),
        ("bash", "keras-bert finetune classify --learn", "3", "plain,--learning-rate\n"),
        ("zsh", "keras-bert fin", "1", "plain\nfinetune\n"),
        ("fish", "keras-bert fin", "fin", "plain,finetune\t"),
    ],
)
def test_the_shell_completes_commands(shell, words, place, completed, monkeypatch, capsys):
    for name, value in {
        "_KERAS_BERT_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": place,
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        main(prog_name="keras-bert")
    assert capsys.readouterr().out.startswith(completed)


@pytest.mark.slow
def test_demo():
    command = [forking.commands() / "python", ROOT / "examples" / "demo.py"]
    output = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    assert "'I love pizza': [CLS] i love pizza [SEP] [PAD]" in output
    for line in ("input_word_ids  int32 (3, 8)", "input_mask  int32 (3, 8)", "input_type_ids  int32 (3, 8)"):
        assert line in output
    assert "encoder_outputs[-1] equals sequence_output: True" in output
    *words, mean = re.findall(r"^(\w+) +(\d\.\d\d) +(\d\.\d\d) +(\d\.\d\d)$", output, re.MULTILINE)
    assert len(words) == 4
    for _, same, other, static in words:
        assert float(other) + 0.08 < float(same) < float(static) == 1
    assert [mean[0], mean[3]] == ["mean", "1.00"]
    assert re.search(r"^She opened the \[MASK\] and went in\. +door 0\.\d\d, ", output, re.MULTILINE)
    pairs = re.findall(r"^  (0\.\d\d)  .*\n  (0\.\d\d)  ", output, re.MULTILINE)
    assert len(pairs) == 2
    assert all(float(random) + 0.2 < float(follows) for follows, random in pairs)
    assert "hub.KerasLayer on the strings: default, encoder_outputs, pooled_output, sequence_output" in output
    (difference,) = re.findall(r"pooled_output differs from the encoder's by at most (.*)$", output, re.MULTILINE)
    assert float(difference) < 1e-5
