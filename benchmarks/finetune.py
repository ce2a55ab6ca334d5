"""Fine-tuning MiniLM: examples a second of training beside transformers, and the scores of both on the same data.

python benchmarks/finetune.py speed [--examples 512] [--rounds 5]
python benchmarks/finetune.py scores [--task sst2 mrpc stsb] [--seeds 3] [--epochs 2] [--examples N]

`speed`: one pass over the same sentences of SST-2, batches of 32, AdamW; as `fine_tune` does it, as Keras's own `fit`
does it on strings, and as transformers' Trainer does it: batches padded to their longest row, in random order and
grouped by length. `scores`: the recipe of `fine_tune`, on both sides, from the
same weights and the same data, several seeds. The data lies in ../shared/data beside the repository, or in --data.
"""

import argparse
import functools
import itertools
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from _measure import cores, interleave, rate, ratios, versions

from keras_bert import BertClassifier, data, presets
from keras_bert.training import AdamW, WarmupThenDecay, fine_tune
from keras_bert.training.batching import batches_of_epoch
from keras_bert.training.fine_tune import dataset_of
from keras_bert.training.metrics import accuracy, correlation, f1

MINILM = "all-MiniLM-L6-v2"
DATA = Path(__file__).parents[2] / "shared/data"
PEERS = ["tensorflow", "keras", "torch", "transformers"]
CLASSES, NUMBERS = "single_label_classification", "regression"


def sst2(folder: Path, part: str) -> data.TextExamples:
    return data.read_table(folder / f"sst2/{part}.tsv", text=2, label=1)


def mrpc(folder: Path, part: str) -> data.TextExamples:
    """Every eighth pair is for measuring: the real development set is not at hand."""
    whole = data.read_table(
        folder / "mrpc/msr_paraphrase_train.txt", text="#1 String", text_pair="#2 String", label="Quality",
        table_format="tsv",
    )  # fmt: skip
    rows = [i for i in range(len(whole)) if (i % 8 == 0) == (part == "dev")]
    return data.TextExamples(*([column[i] for i in rows] for column in (whole.texts, whole.pairs, whole.labels)))


def stsb(folder: Path, part: str) -> data.TextExamples:
    columns = {"text": 1, "text_pair": 2, "label": 3, "label_kind": "number", "header": False}
    return data.read_table(folder / f"stsb/stsb-en-{part}.csv", **columns)


# Name -> reader, problem, measure.
TASKS = {
    "sst2": (sst2, CLASSES, lambda labels, given: accuracy(labels, given)["accuracy"]),
    "mrpc": (mrpc, CLASSES, lambda labels, given: f1(labels, given, positive="1")["f1"]),
    "stsb": (stsb, NUMBERS, lambda labels, given: correlation(labels, given)["spearman"]),
}


def first(examples: data.TextExamples, count: int | None) -> data.TextExamples:
    """`count` examples from all over the file, in its order."""
    if count is None or count >= len(examples):
        return examples
    rows = np.sort(np.random.default_rng(0).choice(len(examples), count, replace=False))
    columns = (examples.texts, examples.pairs, examples.labels)
    return data.TextExamples(*(column and [column[i] for i in rows] for column in columns))


def rows_of(examples: data.TextExamples) -> list:
    return examples.texts if examples.pairs is None else list(zip(examples.texts, examples.pairs, strict=True))


def labels_of(examples: data.TextExamples, problem: str) -> list[str]:
    return sorted(set(examples.labels)) if problem == CLASSES else ["value"]


# -- keras_bert


def our_model(examples: data.TextExamples, problem: str) -> BertClassifier:
    pairs = examples.pairs is not None
    return BertClassifier.from_preset(MINILM, labels_of(examples, problem), problem_type=problem, pairs=pairs)


def our_score(task: str, train: data.TextExamples, dev: data.TextExamples, seed: int, epochs: int) -> float:
    _, problem, measure = TASKS[task]
    keras.utils.set_random_seed(seed)
    model = our_model(train, problem)
    x = train.texts if train.pairs is None else (train.texts, train.pairs)
    fine_tune(model, (x, train.labels), epochs=epochs, seed=seed, progress=False)
    answers = model.classify(rows_of(dev), progress=False)
    return measure(dev.labels, [answer["label"] if problem == CLASSES else answer["value"] for answer in answers])


# -- transformers


class Theirs:
    """transformers' model and tokenizer, trained by its recipe, as its Trainer has it.

    Args:
        labels: how many.
        is_grouped: whether rows of similar length come together, as its `group_by_length` arranges it.
    """

    def __init__(self, labels: int, is_regression: bool, seed: int, is_grouped: bool) -> None:
        import torch
        import transformers

        transformers.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        transformers.set_seed(seed)
        directory = str(presets.resolve(MINILM))
        self.torch, self.transformers = torch, transformers
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
        problem = NUMBERS if is_regression else CLASSES
        self.model = transformers.AutoModelForSequenceClassification.from_pretrained(
            directory, num_labels=labels, problem_type=problem
        )
        self.is_grouped = is_grouped
        self.is_regression = is_regression

    def encoded(self, examples: data.TextExamples) -> list[dict]:
        encoding = self.tokenizer(examples.texts, examples.pairs, truncation=True, max_length=512)
        return [{name: encoding[name][i] for name in encoding} for i in range(len(examples))]

    def train(self, rows: list[dict], labels: list, epochs: int, seed: int) -> None:
        torch = self.torch
        lengths = np.array([len(row["input_ids"]) for row in rows])
        steps = epochs * -(-len(rows) // 32)
        no_decay = ("bias", "LayerNorm.weight")
        named = list(self.model.named_parameters())
        groups = [
            {"params": [p for n, p in named if not n.endswith(no_decay)], "weight_decay": 0.01},
            {"params": [p for n, p in named if n.endswith(no_decay)], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, lr=5e-5, eps=1e-8)
        schedule = self.transformers.get_linear_schedule_with_warmup(optimizer, round(0.1 * steps), steps)
        self.model.train()
        kind = torch.float32 if self.is_regression else torch.long
        for epoch in range(epochs):
            for batch in self._batches(lengths, seed, epoch):
                inputs = self.tokenizer.pad([rows[i] for i in batch], return_tensors="pt")
                output = self.model(**inputs, labels=torch.tensor([labels[i] for i in batch], dtype=kind))
                output.loss.backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()

    def _batches(self, lengths: np.ndarray, seed: int, epoch: int) -> list[np.ndarray]:
        if self.is_grouped:  # what its LengthGroupedSampler does: sorted within 50 batches at a time
            return batches_of_epoch(lengths, seed, epoch, batch_size=32)
        order = np.random.default_rng([seed, epoch]).permutation(len(lengths))
        return [order[i : i + 32] for i in range(0, len(order), 32)]

    def logits(self, rows: list[dict]) -> np.ndarray:
        self.model.eval()
        found = []
        with self.torch.no_grad():
            for i in range(0, len(rows), 64):
                found.append(self.model(**self.tokenizer.pad(rows[i : i + 64], return_tensors="pt")).logits.numpy())
        return np.concatenate(found)


def their_score(task: str, train: data.TextExamples, dev: data.TextExamples, seed: int, epochs: int) -> float:
    _, problem, measure = TASKS[task]
    names = labels_of(train, problem)
    theirs = Theirs(len(names), problem == NUMBERS, seed, is_grouped=True)
    labels = train.labels if problem == NUMBERS else [names.index(label) for label in train.labels]
    theirs.train(theirs.encoded(train), labels, epochs, seed)
    logits = theirs.logits(theirs.encoded(dev))
    return measure(dev.labels, logits[:, 0] if problem == NUMBERS else [names[i] for i in logits.argmax(-1)])


def scores(arguments: argparse.Namespace) -> None:
    print(versions(PEERS))
    print(f"| task | examples | keras_bert, {arguments.seeds} seeds | transformers | difference, points |")
    print("|---|---|---|---|---|")
    for task in arguments.task:
        reader = TASKS[task][0]
        train = first(reader(arguments.data, "train"), arguments.examples)
        dev = reader(arguments.data, "dev")
        ours, theirs = (
            [100 * score(task, train, dev, seed, arguments.epochs) for seed in range(arguments.seeds)]
            for score in (our_score, their_score)
        )
        means = statistics.mean(ours), statistics.mean(theirs)
        spread = " ({:.1f} to {:.1f})"
        told = [
            f"{mean:.1f}" + spread.format(min(each), max(each))
            for mean, each in zip(means, (ours, theirs), strict=True)
        ]
        print(f"| {task} | {len(train):,} | {told[0]} | {told[1]} | {means[0] - means[1]:+.1f} |", flush=True)


# -- speed


def contestants(examples: data.TextExamples) -> dict[str, Callable[[], None]]:
    """Each trains once on all examples when it is called. They have been called once, so all graphs are there."""
    model = our_model(examples, CLASSES)
    tokenized = model.examples(examples.texts, examples.labels)
    y = model.targets(examples.labels)
    optimizer = AdamW(WarmupThenDecay(5e-5, 10, 1000), global_clipnorm=1.0)
    model.compile(optimizer, model.training_loss(), jit_compile=False)
    epochs = itertools.count()

    def ours() -> None:
        batches = batches_of_epoch(tokenized.lengths, 0, next(epochs), batch_size=32)
        keras.Model.fit(model, dataset_of(model, tokenized, batches), verbose=0, shuffle=False)

    def as_keras_does() -> None:
        keras.Model.fit(model, tf.constant(examples.texts), y, batch_size=32, verbose=0)

    found = {"keras_bert, fine_tune": ours, "keras_bert, fit on strings": as_keras_does}
    labels = [sorted(set(examples.labels)).index(label) for label in examples.labels]
    for name, is_grouped in (("transformers, random order", False), ("transformers, grouped by length", True)):
        theirs = Theirs(2, False, 0, is_grouped)
        rows = theirs.encoded(examples)

        def run(theirs=theirs, rows=rows) -> None:
            theirs.train(rows, labels, 1, 0)

        found[name] = run
    return found


def speed(arguments: argparse.Namespace) -> None:
    examples = first(sst2(arguments.data, "train"), arguments.examples or 512)
    found = contestants(examples)
    for run in found.values():
        run()
    print(versions(PEERS), f"{cores()} cores, {len(examples)} sentences of SST-2, batches of 32")
    jobs = {name: functools.partial(rate, run, len(examples)) for name, run in found.items()}
    rates = interleave(jobs, arguments.rounds)
    print("| | examples/s | beside transformers grouped |")
    print("|---|---|---|")
    for name in found:
        ratio = ratios(rates[name], rates["transformers, grouped by length"])
        print(f"| {name} | {statistics.median(rates[name]):.0f} | {ratio} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "scores"])
    parser.add_argument("--task", nargs="+", choices=list(TASKS), default=list(TASKS), help="for scores")
    parser.add_argument("--examples", type=int, help="how many to train on")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=DATA)
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        sys.exit(f"there is no {arguments.data}: say where the data is, --data DIR")
    {"speed": speed, "scores": scores}[arguments.what](arguments)


if __name__ == "__main__":
    main()
