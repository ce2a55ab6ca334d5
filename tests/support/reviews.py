"""For tests of training: short reviews, good or bad, and a classifier that learns them in a few steps."""

from typing import Any

import numpy as np

from keras_bert import BertClassifier

from . import small

LABELS = ["good", "bad"]
WORDS = {"good": ["good", "great", "love", "like", "warm"], "bad": ["bad", "dull", "hate", "cold", "not"]}
# For tests in which any training will do: only the pooler and the head learn, and tracing takes half the time.
SETTINGS = {"epochs": 2, "batch_size": 4, "learning_rate": 1e-2, "frozen_layers": 1, "progress": False}


def classifier(*, num_layers: int = 1, dropout: float = 0.0, **settings: Any) -> BertClassifier:
    """A classifier with always the same weights; `settings` are those of `small.task`, with `config`."""
    config = {"num_layers": num_layers, "hidden_dropout": dropout, "attention_dropout": dropout}
    config |= settings.pop("config", {})
    labels = settings.pop("labels", LABELS)
    return small.task(BertClassifier, labels, config=config, **{"scale": 0.1, "dropout": dropout, **settings})


def examples(count: int = 24) -> tuple[list[str], list[str]]:
    """Texts of one to eight words, and their alternating labels."""
    generator = np.random.default_rng(0)
    labels = [LABELS[i % 2] for i in range(count)]
    return [" ".join(generator.choice(WORDS[label], generator.integers(1, 9))) for label in labels], labels
