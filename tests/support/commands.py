"""Commands in the process of a test; data for those that train, and options for quick runs."""

import gc
import json
import os
import random
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner, Result

from keras_bert.cli import main

from . import small

SIZES = {
    "hidden_size": 32, "num_layers": 1, "num_heads": 2, "intermediate_size": 48, "max_positions": 32,
    "hidden_dropout": 0.0, "attention_dropout": 0.0,
}  # fmt: skip
# Each word is one token of the small vocabulary.
KINDS = {"blame": ["bad", "dull", "cold", "hate"], "praise": ["good", "great", "warm", "love"]}
QUICK = ("--epochs", "4", "--batch-size", "8", "--learning-rate", "1e-2")
QUICK_PRETRAINING = {
    "--layout": "sentences",
    "--sequence-length": "24",
    "--batch-size": "8",
    "--steps": "3",
    "--measure-every": "2",
}


def invoke(*arguments: object, input: bytes = b"", exit_code: int = 0) -> Result:
    """Runs `keras-bert` in this process, and checks its exit code.

    What the end of a process would take with it is put back. Settings that a command itself must put back are checked.
    """
    states, environment = (random.getstate(), np.random.get_state(), gc.get_threshold()), dict(os.environ)
    before = _settings()
    try:
        with warnings.catch_warnings():
            result = CliRunner().invoke(main, [*map(str, arguments)], input=input, catch_exceptions=False)
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        gc.set_threshold(*states[2])
        os.environ.clear()
        os.environ.update(environment)
    assert _settings() == before
    assert result.exit_code == exit_code, result.output
    return result


def _settings() -> tuple:
    import keras  # not above: a conftest.py imports this module

    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    return keras.config.dtype_policy().name, os.getcwd(), handlers


def json_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.split("\n") if line]


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def columns(path: str) -> tuple[str, ...]:
    """Options that read the table of the fixture `table`."""
    return ("--train", path, "--eval", path, "--text-column", "sentence", "--label-column", "kind")


def flat(options: dict[str, object]) -> list[str]:
    return [str(each) for pair in options.items() for each in pair]


def write_documents(path: Path, count: int, seed: int, words: list[str] | None = None) -> None:
    """Writes documents of sentences of six words. A document repeats four words in a fixed order.

    Args:
        path: the file.
        count: the number of documents.
        seed: the same seed gives the same text.
        words: about 32 words; by default of the small vocabulary.
    """
    words = words or small.WORDS.split()[:32]
    generator = np.random.default_rng(seed)
    documents = []
    for _ in range(count):
        first = 4 * generator.integers(0, len(words) // 4)
        starts = generator.integers(0, 4, 8)
        documents.append("\n".join(" ".join(words[first + (s + i) % 4] for i in range(6)) + "." for s in starts))
    path.write_text("\n\n".join(documents))
