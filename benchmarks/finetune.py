"""Fine-tuning MiniLM: examples a second of training beside others, and scores beside transformers' on the same data.

python benchmarks/finetune.py speed [--task sst2 squad] [--examples 512] [--rounds 5] [--bfloat16]
python benchmarks/finetune.py scores [--task sst2 mrpc stsb wnut17 squad] [--seeds 3] [--epochs 2] [--examples N]
python benchmarks/finetune.py long [--seeds 3] [--epochs 2] [--examples N]

`speed`: one pass over the same sentences of SST-2, and the same questions of SQuAD, in batches of 32, AdamW: as
`fine_tune` does it, as Keras's own `fit` does it on strings, as KerasHub's does (padded to 128; its weights are random,
which changes no time), and as transformers' Trainer does it: batches padded to their longest row, in random order and
grouped by length; with --bfloat16 ours and the latter also in mixed precision. `scores`: the recipe of `fine_tune`, on
both sides, from the same weights and the same data, several seeds. `long`: long film reviews, cut or read in windows.
The data lies in ../shared/data beside the repository, or in --data. docs/benchmarks.md has what came out.
"""

import argparse
import functools
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf
from _finetune_tasks import (
    CLASSES,
    LONG,
    NUMBERS,
    QUESTIONS,
    TASKS,
    WORDS,
    Examples,
    label_names,
    some,
)
from _measure import DATA, heading, interleave, need, parse, rate, ratios, run, table

from keras_bert import BertClassifier, BertQuestionAnswerer, BertTokenClassifier, presets
from keras_bert.tasks.task import BertTask
from keras_bert.training import AdamW, WarmupThenDecay, fine_tune
from keras_bert.training.batches import batches_of_epoch
from keras_bert.training.fine_tune import dataset_of, make_pack

PEERS = ["tensorflow", "keras", "torch", "transformers", "keras-hub"]
GROUPED = "transformers, grouped by length"


def our_model(preset: str, kind: str, examples: Examples, **options) -> BertTask:
    names = label_names(examples, kind)
    if kind == QUESTIONS:
        return BertQuestionAnswerer.from_preset(preset, **options)
    if kind == WORDS:
        return BertTokenClassifier.from_preset(preset, labels=names, **options)
    pairs = "text_pair" in examples.texts
    return BertClassifier.from_preset(preset, labels=names, problem_type=kind, pairs=pairs, **options)


def our_answers(model: BertTask, examples: Examples) -> list:
    """In the form of the labels."""
    x = examples.x
    if isinstance(model, BertQuestionAnswerer):
        return [answer["answer"] for answer in model.answer(*x, progress=False)]
    if isinstance(model, BertTokenClassifier):
        return [[answer["label"] or "O" for answer in answers] for answers in model.tag(x, progress=False)]
    answers = model.classify(*x, progress=False) if model.pairs else model.classify(x, progress=False)
    return [answer["value" if model.problem_type == NUMBERS else "label"] for answer in answers]


# -- scores


def our_scores(model: Callable[[], BertTask], task, train, dev, seed: int, arguments) -> dict[str, float]:
    keras.utils.set_random_seed(seed)
    made = model()
    recipe = {name: getattr(arguments, name) for name in ("epochs", "learning_rate", "batch_size")}
    fine_tune(made, train.xy, **recipe, seed=seed, progress=False)
    return _noted("keras_bert", seed, task.measure(dev.labels, our_answers(made, dev)))


def their_scores(task, train, dev, seed: int, arguments) -> dict[str, float]:
    from _finetune_theirs import Theirs

    theirs = Theirs(
        presets.resolve(arguments.preset), task.kind, label_names(train, task.kind), seed, arguments.batch_size
    )
    theirs.train(theirs.rows(train), arguments.epochs, arguments.learning_rate, seed)
    return _noted("transformers", seed, task.measure(dev.labels, theirs.answers(dev)))


def _noted(who: str, seed: int, measured: dict[str, float]) -> dict[str, float]:
    """Says on standard error how far the work is."""
    numbers = ", ".join(f"{name} {value:.2f}" for name, value in measured.items())
    print(f"{time.strftime('%H:%M:%S')} {who}, seed {seed}: {numbers}", file=sys.stderr, flush=True)
    return measured


def spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def scores(arguments: argparse.Namespace) -> None:
    heading(PEERS)
    columns = ("task", "examples", f"keras_bert, {arguments.seeds} seeds", "transformers", "difference, points")
    table(columns, scores_of(arguments))


def scores_of(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yields a row for each task and measure."""
    for name in arguments.task:
        task = TASKS[name]
        train, dev = some(task.read(arguments.data, "train"), arguments.examples), task.read(arguments.data, "dev")
        dev = some(dev, arguments.dev)
        model = functools.partial(our_model, arguments.preset, task.kind, train)
        seeds = range(arguments.seeds)
        ours = [our_scores(model, task, train, dev, seed, arguments) for seed in seeds]
        theirs = [their_scores(task, train, dev, seed, arguments) for seed in seeds]
        for measure in ours[0]:
            both = [[each[measure] for each in runs] for runs in (ours, theirs)]
            difference = statistics.mean(both[0]) - statistics.mean(both[1])
            yield [f"{name}, {measure}", f"{len(train):,}", *map(spread, both), f"{difference:+.1f}"]


# -- long

# What becomes of a text -> arguments of from_preset. [CLS] and [SEP] take two of a window's 128 places.
WINDOWS = {"sequence_length": 128, "long_text": "windows", "stride": 126, "window_pooling": "mean"}
LENGTHS = {
    "the first 128 tokens": {"sequence_length": 128},
    "the first 256": {"sequence_length": 256},
    "all, in windows of 128 side by side, their mean": WINDOWS,
}


def of_sentences(preset: str, folder: Path, directory: Path) -> None:
    """Writes a model that knows the sentiment of sentences (SST-2), from which to go on to whole reviews.

    From the preset itself, a few hundred updates teach nothing where labels are of 900 tokens.
    """
    keras.utils.set_random_seed(0)
    model = BertClassifier.from_preset(preset, labels=["neg", "pos"])
    sentences = some(TASKS["sst2"].read(folder, "train"), 10_000)
    fine_tune(model, (sentences.x, [("neg", "pos")[int(label)] for label in sentences.labels]), epochs=1)
    model.save_preset(directory)


def long(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as directory:
        of_sentences(arguments.preset, arguments.data, Path(directory))
        long_from(directory, arguments)


def long_from(preset: str, arguments: argparse.Namespace) -> None:
    train = some(LONG.read(arguments.data, "train"), arguments.examples)
    dev = some(LONG.read(arguments.data, "dev"), arguments.dev)
    heading(PEERS[:2])
    print(f"{len(train):,} reviews to train on, {len(dev):,} to measure with")

    def accuracy(options: dict[str, object]) -> str:
        model = functools.partial(BertClassifier.from_preset, preset, label_names(train, CLASSES), **options)
        runs = [our_scores(model, LONG, train, dev, seed, arguments) for seed in range(arguments.seeds)]
        return spread([each["accuracy"] for each in runs])

    columns = ("what is read of a review", f"accuracy, {arguments.seeds} seeds")
    table(columns, ([name, accuracy(options)] for name, options in LENGTHS.items()))


# -- speed


def ours(model: BertTask, x, y) -> Callable[[], None]:
    """As `fine_tune` trains."""
    tokenized = model.examples(x, y)
    optimizer = AdamW(WarmupThenDecay(5e-5, 10, 1000), global_clipnorm=1.0)
    model.compile(optimizer, model.training_loss(), jit_compile=False)
    epochs = itertools.count()

    def train() -> None:
        batches = batches_of_epoch(tokenized.lengths, 0, next(epochs), batch_size=32)
        keras.Model.fit(model, dataset_of(make_pack(model, tokenized), batches), verbose=0, shuffle=False)

    return train


def contestants(preset: str, kind: str, examples: Examples, is_mixed: bool) -> dict[str, Callable[[], None]]:
    """Each trains once on all examples when it is called."""
    from _finetune_theirs import Theirs

    x, y = examples.xy
    model = our_model(preset, kind, examples)
    found = {"keras_bert, fine_tune": ours(model, x, y)}
    if is_mixed:
        found["keras_bert, mixed_bfloat16"] = ours(our_model(preset, kind, examples, dtype="mixed_bfloat16"), x, y)
    if kind == CLASSES and not is_mixed:
        texts, classes = tf.constant(x), model.targets(y)
        found["keras_bert, fit on strings"] = lambda: model.fit(texts, classes, batch_size=32, verbose=0)
        found["KerasHub, fit on strings, padded to 128"] = keras_hub(presets.resolve(preset), texts, classes)
    peers = {"transformers, random order": {}, GROUPED: {"is_grouped": True}}
    if is_mixed:
        peers[f"{GROUPED}, bfloat16"] = {"is_grouped": True, "is_bfloat16": True}
    for name, options in peers.items():
        theirs = Theirs(presets.resolve(preset), kind, label_names(examples, kind), 0, **options)
        found[name] = functools.partial(theirs.train, theirs.rows(examples), 1, 5e-5, 0)
    return found


def keras_hub(directory: Path, texts: tf.Tensor, classes) -> Callable[[], None]:
    """The same architecture and optimizer, Keras's own; without XLA, as the others."""
    import keras_hub

    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=30522, num_layers=6, num_heads=12, hidden_dim=384, intermediate_dim=1536
    )
    tokenizer = keras_hub.models.BertTokenizer(str(directory / "vocab.txt"), lowercase=True)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(tokenizer, sequence_length=128)
    model = keras_hub.models.BertTextClassifier(backbone, num_classes=2, preprocessor=preprocessor)
    optimizer = keras.optimizers.AdamW(5e-5, weight_decay=0.01, global_clipnorm=1.0)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    return lambda: model.fit(texts, classes, batch_size=32, verbose=0)


def speed(arguments: argparse.Namespace) -> None:
    heading(PEERS)
    print("batches of 32")
    table(("task", "contestant", "examples", "examples/s", f"beside {GROUPED}"), speeds(arguments))


def speeds(arguments: argparse.Namespace) -> Iterator[list[object]]:
    """Yields a row for each task and contestant."""
    count = arguments.examples or 512
    for name, share in (("sst2", 1), ("squad", 4)):  # a question with its context takes much longer than a sentence
        if name not in arguments.task:
            continue
        examples = some(TASKS[name].read(arguments.data, "train"), count // share)
        found = contestants(arguments.preset, TASKS[name].kind, examples, arguments.bfloat16)
        for work in found.values():  # once, so that all graphs are there
            work()
        jobs = {each: functools.partial(rate, work, len(examples)) for each, work in found.items()}
        rates = interleave(jobs, arguments.rounds)
        for each in found:
            speed = f"{statistics.median(rates[each]):.1f}"
            yield [name, each, len(examples), speed, ratios(rates[each], rates[GROUPED])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["speed", "scores", "long"], default="speed")
    parser.add_argument("--task", nargs="+", choices=list(TASKS), default=list(TASKS), help="for scores and speed")
    parser.add_argument("--preset", default="all-MiniLM-L6-v2", help="the model to begin with")
    parser.add_argument("--examples", type=int, help="how many to train on")
    parser.add_argument("--dev", type=int, help="how many to measure with")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--batch-size", type=int, default=32, help="for scores and long; long takes 0.3 GB a review")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bfloat16", action="store_true", help="for speed: mixed precision beside float32")
    parser.add_argument("--data", type=Path, default=DATA)
    arguments = parse(parser, task=["sst2"], examples=32, dev=32, seeds=1, epochs=1, rounds=1)
    need(arguments.data)
    {"speed": speed, "scores": scores, "long": long}[arguments.what](arguments)


if __name__ == "__main__":
    run(main)
