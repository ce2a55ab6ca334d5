"""Data for commands that train, and options for quick runs."""

from pathlib import Path

import numpy as np

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


def columns(path: str) -> tuple[str, ...]:
    """Options that read the table of the fixture `table`."""
    return ("--train", path, "--eval", path, "--text-column", "sentence", "--label-column", "kind")


def flat(options: dict[str, str]) -> list[str]:
    return [each for pair in options.items() for each in pair]


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
