"""Named entities with and without a CRF: F1, forbidden transitions, and the cost of training and of answers.

python benchmarks/crf.py [--sets wnut17,names] [--seeds 3] [--epochs 3] [--sentences 2000] [--test 400]

A row for each data set: the mean F1 over the seeds, by seqeval, the number of transitions in the answers that BIO
forbids, and the ratio of processor times with and without a CRF. `wnut17`: rare entities of social media, tested on the
test set. `names`: proper names in the Brown corpus, from its tags of parts of speech; its test sentences are from other
texts. The data lie in ../shared/data beside the repository, or in --data. It needs the extra `train`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import statistics
import sys
import time
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import keras
from _measure import DATA, heading, need, parse, run, table

from keras_bert import BertTokenClassifier
from keras_bert.data import read_conll
from keras_bert.training import fine_tune

Sentences = tuple[list[list[str]], list[list[str]]]


def wnut17(data: Path) -> tuple[Sentences, Sentences]:
    names = ("wnut17train.conll", "emerging.test.annotated")
    train, test = (read_conll(next((data / "wnut17").glob(f"*{name}*"))) for name in names)
    return train.xy, test.xy


def names(data: Path) -> tuple[Sentences, Sentences]:
    texts: list[list[list[tuple[str, str]]]] = []
    with zipfile.ZipFile(data / "brown/brown.zip") as archive:
        for name in sorted(archive.namelist()):
            if re.fullmatch(r"brown/c[ab]\d\d", name):  # the press
                lines = archive.read(name).decode("latin1").splitlines()
                sentences = [[word.rpartition("/")[::2] for word in line.split()] for line in lines if line.strip()]
                texts.append([each for each in sentences if len(each) <= 50])
    random.Random(0).shuffle(texts)
    split = len(texts) // 4
    return label_names(texts[split:]), label_names(texts[:split])


def label_names(texts: list[list[list[tuple[str, str]]]]) -> Sentences:
    words, labels = [], []
    for sentence in (each for text in texts for each in text):
        is_name = [tag.startswith("np") for _, tag in sentence]
        words.append([word for word, _ in sentence])
        pairs = zip([False, *is_name], is_name, strict=False)
        labels.append(["O" if not now else "I-NAME" if before else "B-NAME" for before, now in pairs])
    return words, labels


SETS = {"wnut17": wnut17, "names": names}


def count_forbidden(answers: list[list[dict]]) -> int:
    """How many I- follow neither a B- nor an I- of their kind."""
    rows = [["O", *(word["label"] for word in sentence)] for sentence in answers]
    pairs = (pair for row in rows for pair in itertools.pairwise(row))
    return sum(after.startswith("I-") and before[2:] != after[2:] for before, after in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--test", type=int, help="sentences to measure with; by default all")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    arguments = parse(parser, sets="wnut17", seeds=1, epochs=1, sentences=64, test=100)
    need(arguments.data)
    warnings.simplefilter("ignore")
    heading(["tensorflow", "keras", "seqeval"])
    columns = "set, F1 without, F1 with a CRF, forbidden without, forbidden with, training, answers"
    table(columns.split(", "), rows_of(arguments))


def rows_of(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yields the rows of the table."""
    for name in arguments.sets.split(","):
        (x, y), test = SETS[name](arguments.data)
        x, y = x[: arguments.sentences], y[: arguments.sentences]
        test = tuple(column[: arguments.test] for column in test)
        labels = sorted({label for row in (*y, *test[1]) for label in row})
        results: dict[bool, list[tuple[float, int, float, float]]] = {False: [], True: []}
        for seed in range(arguments.seeds):
            for crf in (False, True):
                keras.utils.set_random_seed(seed)
                model = BertTokenClassifier.from_preset("all-MiniLM-L6-v2", labels=labels, crf=crf)
                begin = time.process_time()
                settings = {"epochs": arguments.epochs, "learning_rate": arguments.learning_rate, "seed": seed}
                fine_tune(model, (x, y), progress=False, **settings)
                trained = time.process_time()
                answers = model.answers(test[0])
                answered = time.process_time()
                f1 = model.kind.score(answers, test[1]).measures["f1"]
                results[crf].append((100 * f1, count_forbidden(answers), trained - begin, answered - trained))
                print(f"{name}, seed {seed}, crf {crf}: {results[crf][-1]}", file=sys.stderr, flush=True)
        f1s, forbidden = ([[each[i] for each in results[crf]] for crf in (False, True)] for i in (0, 1))
        ratios = [statistics.median(b[i] / a[i] for a, b in zip(*results.values(), strict=True)) for i in (2, 3)]
        counts = (f"{sum(each)}" for each in forbidden)
        yield [name, *(f"{statistics.mean(each):.1f}" for each in f1s), *counts, *(f"{each:.2f}" for each in ratios)]


if __name__ == "__main__":
    run(main)
