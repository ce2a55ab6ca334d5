"""What bfloat16 and int8 cost: scores of models that were fine-tuned in float32, in each precision.

python benchmarks/precision.py [--task sst2 wnut17 squad] [--examples 4000] [--dev 1000] [--epochs 2]

MiniLM is fine-tuned once a task. The ranges of int8 come once from the built-in sentences, and once from 300 examples
that it was trained on. The data lies in ../shared/data beside the repository, or in --data.
"""

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
from _finetune_tasks import TASKS, Examples, some
from _measure import DATA, heading, need, parse, run, table
from finetune import our_answers, our_model

from keras_bert.tasks.task import BertTask
from keras_bert.training import fine_tune

CALIBRATED_WITH = 300


def texts_of(examples: Examples):
    """As `set_precision` takes them."""
    if "words" in examples.texts:
        return [" ".join(words) for words in examples.x]
    return examples.x


def in_each(model: BertTask, train: Examples):
    """Sets each precision, and yields its name."""
    for name, arguments in {
        "float32": ("float32",),
        "bfloat16": ("bfloat16",),
        "int8, built-in sentences": ("int8",),
        "int8, its own examples": ("int8", texts_of(some(train, CALIBRATED_WITH))),
    }.items():
        model.set_precision("float32")
        model.set_precision(*arguments)
        ranges = getattr(model.encoder.inference, "ranges", None)
        yield name + (f", without layers {ranges.float_blocks}" if ranges and ranges.float_blocks else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", choices=list(TASKS), default=["sst2", "wnut17", "squad"])
    parser.add_argument("--preset", default="all-MiniLM-L6-v2", help="the model to begin with")
    parser.add_argument("--examples", type=int, default=4000, help="how many to train on")
    parser.add_argument("--dev", type=int, default=1000, help="how many to measure with")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--data", type=Path, default=DATA)
    arguments = parse(parser, task=["sst2"], examples=32, dev=32, epochs=1)
    need(arguments.data)
    heading(["tensorflow", "keras"])
    print(arguments.preset)
    table(("task", "precision", "score", "points to float32", "seconds"), rows_of(arguments))


def rows_of(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yields the rows of the table."""
    for name in arguments.task:
        task = TASKS[name]
        train = some(task.read(arguments.data, "train"), arguments.examples)
        dev = some(task.read(arguments.data, "dev"), arguments.dev)
        keras.utils.set_random_seed(0)
        model = our_model(arguments.preset, task.kind, train)
        recipe = {"epochs": arguments.epochs, "learning_rate": arguments.learning_rate}
        fine_tune(model, train.xy, seed=0, progress=False, **recipe)
        exact: dict[str, float] = {}
        for precision in in_each(model, train):
            start = time.perf_counter()
            measured = task.measure(dev.labels, our_answers(model, dev))
            seconds = time.perf_counter() - start
            exact = exact or measured
            for measure, value in measured.items():
                score = [f"{value:.2f}", f"{value - exact[measure]:+.2f}"]
                yield [f"{name}, {measure}", precision, *score, f"{seconds:.1f}"]


if __name__ == "__main__":
    run(main)
