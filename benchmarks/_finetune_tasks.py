"""What fine-tuning is measured on: real data, and how answers to it are measured: the same for all who answer."""

import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_bert import data
from keras_bert.data import Examples
from keras_bert.tasks.metrics import accuracy, correlation, entity_f1, f1, squad_v1

CLASSES, NUMBERS, WORDS, QUESTIONS = "single_label_classification", "regression", "words", "questions"


class Task(NamedTuple):
    """A job with its data.

    Attributes:
        kind: what is answered: the class of a text or pair, a number, a label a word, or a part of a context.
        read: the folder of all data and "train" or "dev" -> examples.
        measure: the right answers and those given -> percent, by name.
    """

    kind: str
    read: Callable[[Path, str], Examples]
    measure: Callable[[list, list], dict[str, float]]


def sst2(folder: Path, part: str) -> Examples:
    return data.read_table(folder / f"sst2/{part}.tsv", text_column=2, label_column=1)


def mrpc(folder: Path, part: str) -> Examples:
    """Every eighth pair is for measuring: the real development set is not at hand."""
    columns = {"text_column": "#1 String", "text_pair_column": "#2 String", "label_column": "Quality", "format": "tsv"}
    whole = data.read_table(folder / "mrpc/msr_paraphrase_train.txt", **columns)
    return chosen(whole, [i for i in range(len(whole)) if (i % 8 == 0) == (part == "dev")])


def stsb(folder: Path, part: str) -> Examples:
    columns = {"text_column": 1, "text_pair_column": 2, "label_column": 3, "label_kind": "number", "header": False}
    return data.read_table(folder / f"stsb/stsb-en-{part}.csv", **columns)


def wnut17(folder: Path, part: str) -> Examples:
    """Measured on the test set: its entities are such as the training set does not have."""
    names = {"train": "wnut17train.conll", "dev": "emerging.test.annotated"}
    return data.read_conll(folder / "wnut17" / names[part])


def squad(folder: Path, part: str) -> Examples:
    return data.read_squad(folder / f"squad/{part}-v1.1.json")


def long_reviews(folder: Path, part: str) -> Examples:
    """2,000 film reviews, half of them good; of every four, sorted by name, the last is for measuring."""
    with tempfile.TemporaryDirectory() as unpacked:
        with zipfile.ZipFile(folder / "long_reviews/movie_reviews.zip") as archive:
            archive.extractall(unpacked)
        whole = data.read_folders(Path(unpacked) / "movie_reviews")
    return chosen(whole, [i for i in range(len(whole)) if (i % 4 == 3) == (part == "dev")])


def _percent(measure: Callable[..., dict[str, float]], name: str, **options: Any) -> Callable[[list, list], dict]:
    return lambda labels, given: {name: 100 * measure(labels, given, **options)[name]}


def _squad_percent(answers: list, given: list) -> dict[str, float]:
    measured = squad_v1([[text for text, _ in each] for each in answers], given)
    return {"F1": measured["f1"], "exact match": measured["exact_match"]}


TASKS = {
    "sst2": Task(CLASSES, sst2, _percent(accuracy, "accuracy")),
    "mrpc": Task(CLASSES, mrpc, _percent(f1, "f1", positive="1")),
    "stsb": Task(NUMBERS, stsb, _percent(correlation, "spearman")),
    "wnut17": Task(WORDS, wnut17, _percent(entity_f1, "f1")),
    "squad": Task(QUESTIONS, squad, _squad_percent),
}
LONG = Task(CLASSES, long_reviews, _percent(accuracy, "accuracy"))


def chosen(examples: Examples, rows: Any) -> Examples:
    """Those with these numbers."""
    texts = {name: [column[i] for i in rows] for name, column in examples.texts.items()}
    return Examples(texts, examples.labels and [examples.labels[i] for i in rows])


def some(examples: Examples, count: int | None) -> Examples:
    """`count` examples from all over the file, in its order."""
    if count is None or count >= len(examples):
        return examples
    return chosen(examples, np.sort(np.random.default_rng(0).choice(len(examples), count, replace=False)))


def label_names(examples: Examples, kind: str) -> list[str]:
    """Of the logits."""
    if kind == WORDS:
        return sorted({tag for tags in examples.labels for tag in tags})
    return sorted(set(examples.labels)) if kind == CLASSES else {NUMBERS: ["value"], QUESTIONS: ["start", "end"]}[kind]
