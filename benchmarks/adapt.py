"""A published model, trained further on a domain: how well it predicts masks, and a classifier that starts from it.

python benchmarks/adapt.py [--preset ../shared/data/bert-tiny-mlm] [--steps 3000] [--per-class 200] [--seeds 3]

The domain is novels, the .txt files of ../shared/data/gutenberg beside the repository, or of --data. The last tenth of
each is held out. The classifier says which novel a sentence is from; it learns from sentences of the first nine tenths,
and is measured on held-out ones. docs/guides/pre-training.md has what came out. It needs the extra `train`.
"""

import argparse
import os
import random
import statistics
import tempfile
import warnings
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
from _measure import DATA, heading, need, parse, run, table

from keras_bert import BertClassifier
from keras_bert.pretraining import BertPretrainer, documents, parts_of
from keras_bert.training import evaluate, evaluate_text, fine_tune, pretrain_files

SENTENCE = range(8, 40)  # words


def split(books: list[Path], folder: Path) -> dict[str, list[Path]]:
    """Writes the first nine tenths of each book, and the last, into two folders. Returns their files."""
    parts = {"train": slice(0, 9), "held out": slice(9, 10)}
    for name, tenths in parts.items():
        (folder / name).mkdir()
        for book in books:
            paragraphs = book.read_text(encoding="utf-8-sig").split("\n\n")
            start, stop = (len(paragraphs) * tenth // 10 for tenth in (tenths.start, tenths.stop))
            (folder / name / book.name).write_text("\n\n".join(paragraphs[start:stop]), encoding="utf-8")
    return {name: sorted((folder / name).iterdir()) for name in parts}


def sentences(books: list[Path], per_class: int) -> tuple[list[str], list[str]]:
    """Draws sentences of each book. Returns them with the names of the books."""
    texts, names = [], []
    for book in books:
        lines = [line for part in parts_of([book]) for document in documents(part) for line in document]
        lines = [line for line in dict.fromkeys(lines) if len(line.split()) in SENTENCE]
        drawn = random.Random(0).sample(lines, min(per_class, len(lines)))
        texts, names = texts + drawn, names + [book.stem] * len(drawn)
    return texts, names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default=str(DATA / "bert-tiny-mlm"), help="a masked language model")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--sequence-length", type=int, default=64)
    parser.add_argument("--per-class", type=int, default=200, help="sentences of each novel, to train on")
    parser.add_argument("--test", type=int, default=100, help="sentences of each novel, to measure with")
    parser.add_argument("--seeds", type=int, default=3, help="of the classifiers")
    parser.add_argument("--data", type=Path, default=DATA / "gutenberg", help="a folder of .txt files")
    parser.add_argument("--books", type=int, help="how many of them; by default all")
    arguments = parse(parser, steps=2, per_class=4, test=4, seeds=1, books=2)
    need(arguments.data, Path(arguments.preset))
    heading(["tensorflow", "keras"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        books = sorted(arguments.data.glob("*.txt"), key=os.path.getsize)[: arguments.books]
        parts = split(books, folder)
        length = {"sequence_length": arguments.sequence_length}
        settings = {"preset": arguments.preset, "objective": "sentences", "steps": arguments.steps, **length}
        pretrain_files(parts["train"], folder / "adapted", **settings)
        train, test = (
            sentences(parts[part], count)
            for part, count in (("train", arguments.per_class), ("held out", arguments.test))
        )
        rows = []
        for title, preset in {"as published": arguments.preset, "adapted": folder / "adapted"}.items():
            masked = BertPretrainer.from_preset(preset, pairs=False, **length)
            measures = evaluate_text(masked, parts["held out"])
            accuracies = []
            for seed in range(arguments.seeds):
                keras.utils.set_random_seed(seed)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # few sentences with --small
                    classifier = BertClassifier.from_preset(preset, labels=sorted(set(train[1])))
                    fine_tune(classifier, train, seed=seed, progress=False)
                accuracies.append(evaluate(classifier, *test)["accuracy"])
            accuracy = (
                f"{100 * statistics.mean(accuracies):.1f}% ({100 * min(accuracies):.1f} to {100 * max(accuracies):.1f})"
            )
            masks = f"{100 * measures['masked_lm_accuracy']:.1f}%"
            rows.append([title, masks, f"{measures['masked_lm_perplexity']:.0f}", accuracy])
        baselines = [
            f"{100 * measures['masked_lm_accuracy_baseline']:.1f}%",
            f"{measures['masked_lm_perplexity_baseline']:.0f}",
        ]
        table(
            ["", "masks", "perplexity", "novel of a sentence"],
            [*rows, ["baseline", *baselines, f"{100 / len(books):.1f}%"]],
        )


if __name__ == "__main__":
    run(main)
