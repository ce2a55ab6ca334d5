"""What fine-tuning is measured on: real data, and how answers to it are measured: the same for all who answer."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_bert import data
from keras_bert.answers.metrics import accuracy, entity_f1, squad_v1
from keras_bert.data import Examples

CLASSES, WORDS, QUESTIONS = "classes", "words", "questions"


class Task(NamedTuple):
    """A job with its data.

    Attributes:
        kind: what is answered: the class of a text, a label a word, or a part of a context.
        read: the folder of all data and "train" or "dev" -> examples.
        measure: the right answers and those given -> percent, by name.
    """

    kind: str
    read: Callable[[Path, str], Examples]
    measure: Callable[[list, list], dict[str, float]]


def sst2(folder: Path, part: str) -> Examples:
    return data.read_table(folder / f"sst2/{part}.tsv", text_column=2, label_column=1)


def wnut17(folder: Path, part: str) -> Examples:
    """Measured on the test set: its entities are such as the training set does not have."""
    names = {"train": "wnut17train.conll", "dev": "emerging.test.annotated"}
    return data.read_conll(folder / "wnut17" / names[part])


def squad(folder: Path, part: str) -> Examples:
    return data.read_squad(folder / f"squad/{part}-v1.1.json")


def _percent(measure: Callable[..., dict[str, float]], name: str) -> Callable[[list, list], dict]:
    return lambda labels, given: {name: 100 * measure(labels, given)[name]}


def _squad_percent(answers: list, given: list) -> dict[str, float]:
    measured = squad_v1([[text for text, _ in each] for each in answers], given)
    return {"F1": measured["f1"], "exact match": measured["exact_match"]}


TASKS = {
    "sst2": Task(CLASSES, sst2, _percent(accuracy, "accuracy")),
    "wnut17": Task(WORDS, wnut17, _percent(entity_f1, "f1")),
    "squad": Task(QUESTIONS, squad, _squad_percent),
}


def some(examples: Examples, count: int | None) -> Examples:
    """`count` examples from all over the file, in its order."""
    if count is None or count >= len(examples):
        return examples
    rows = np.sort(np.random.default_rng(0).choice(len(examples), count, replace=False))
    texts = {name: [column[i] for i in rows] for name, column in examples.texts.items()}
    return Examples(texts, examples.labels and [examples.labels[i] for i in rows])
