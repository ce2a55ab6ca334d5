"""Fine-tuning MiniLM: examples a second beside others, and scores of its models in bfloat16 and int8.

python benchmarks/finetune.py speed [--task sst2 squad] [--examples 512] [--rounds 5] [--bfloat16]
python benchmarks/finetune.py precision [--task sst2 wnut17 squad] [--examples 4000] [--dev 1000] [--epochs 2]

`speed`: one pass over the same sentences of SST-2, and the same questions of SQuAD, in batches of 32, AdamW: as
`fine_tune` does it, as Keras's own `fit` does it on strings, as KerasHub's does (padded to 128; its weights are random,
which changes no time), and as transformers' Trainer does it: batches padded to their longest row, in random order and
grouped by length; with --bfloat16 ours and the latter also in mixed precision. `precision`: models that were fine-tuned
in float32 answer in each precision; the ranges of int8 come once from the built-in sentences, and once from 300 of
their own examples. --examples says how many to train on, --dev how many to measure with. The data lies in
../shared/data beside the repository, or in --data. docs/benchmarks.md has what came out.
"""

import argparse
import functools
import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import tensorflow as tf
from _finetune_tasks import CLASSES, QUESTIONS, TASKS, WORDS, Examples, some
from _measure import DATA, MINILM, heading, need, one_of, options, parse, race, rate, run, table

from keras_bert import BertClassifier, BertQuestionAnswerer, BertTokenClassifier, presets
from keras_bert.tasks.base.task import BertTask
from keras_bert.training import AdamW, WarmupThenDecay, fine_tune
from keras_bert.training.batches import batches_of_epoch, dataset_of, make_pack

GROUPED = "transformers, grouped by length"


def our_model(preset: str, kind: str, examples: Examples, **options) -> BertTask:
    if kind == QUESTIONS:
        return BertQuestionAnswerer.from_preset(preset, **options)
    if kind == WORDS:
        labels = sorted({tag for tags in examples.labels for tag in tags})
        return BertTokenClassifier.from_preset(preset, labels=labels, **options)
    return BertClassifier.from_preset(preset, labels=sorted(set(examples.labels)), **options)


def our_answers(model: BertTask, examples: Examples) -> list:
    """In the form of the labels."""
    x = examples.x
    if isinstance(model, BertQuestionAnswerer):
        return [answer["answer"] for answer in model.answer(*x, progress=False)]
    if isinstance(model, BertTokenClassifier):
        return [[answer["label"] or "O" for answer in answers] for answers in model.tag(x, progress=False)]
    return [answer["label"] for answer in model.classify(x, progress=False)]


# -- precision


def in_each(model: BertTask, train: Examples) -> Iterator[str]:
    """Sets each precision, and yields its name."""
    own = some(train, 300)
    own = [" ".join(words) for words in own.x] if "words" in own.texts else own.x  # as `set_precision` takes them
    int8 = [("int8", "built-in sentences", None), ("int8", "its own examples", own)]
    for name, *calibration in (("float32",), ("bfloat16",), *int8):
        model.set_precision("float32")
        model.set_precision(name, *calibration[1:])
        ranges = getattr(model.encoder.inference, "ranges", None)
        skipped = f"without layers {ranges.float_blocks}" if ranges and ranges.float_blocks else ""
        yield ", ".join(filter(None, [name, *calibration[:1], skipped]))


def precision(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yields a row for each task, precision and measure."""
    counts = {"train": arguments.examples or 4000, "dev": arguments.dev}
    for name in arguments.task:
        task = TASKS[name]
        train, dev = (some(task.read(arguments.data, part), count) for part, count in counts.items())
        keras.utils.set_random_seed(0)
        model = our_model(arguments.preset, task.kind, train)
        recipe = {"epochs": arguments.epochs, "learning_rate": arguments.learning_rate}
        fine_tune(model, train.xy, seed=0, progress=False, **recipe)
        exact: dict[str, float] = {}
        for setting in in_each(model, train):
            start = time.perf_counter()
            measured = task.measure(dev.labels, our_answers(model, dev))
            seconds = f"{time.perf_counter() - start:.1f}"
            exact = exact or measured
            for measure, value in measured.items():
                yield [f"{name}, {measure}", setting, f"{value:.2f}", f"{value - exact[measure]:+.2f}", seconds]


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


def contestants(kind: str, examples: Examples, arguments: argparse.Namespace) -> dict[str, Callable[[], None]]:
    """Each trains once on all examples when it is called. A small run leaves out KerasHub, which takes a minute."""
    from _finetune_theirs import Theirs

    (x, y), preset, is_mixed = examples.xy, arguments.preset, arguments.bfloat16
    model = our_model(preset, kind, examples)
    found = {"keras_bert, fine_tune": ours(model, x, y)}
    if is_mixed:
        found["keras_bert, mixed_bfloat16"] = ours(our_model(preset, kind, examples, dtype="mixed_bfloat16"), x, y)
    if kind == CLASSES and not is_mixed:
        texts, classes = tf.constant(x), model.targets(y)
        found["keras_bert, fit on strings"] = lambda: model.fit(texts, classes, batch_size=32, verbose=0)
        if not arguments.small:
            found["KerasHub, fit on strings, padded to 128"] = keras_hub(presets.resolve(preset), texts, classes)
    peers = {"transformers, random order": {}, GROUPED: {"is_grouped": True}}
    if is_mixed:
        peers[f"{GROUPED}, bfloat16"] = {"is_grouped": True, "is_bfloat16": True}
    for name, settings in peers.items():
        found[name] = Theirs(presets.resolve(preset), kind, examples, **settings).train
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


def speed(arguments: argparse.Namespace) -> Iterator[list[object]]:
    """Yields a row for each task and contestant."""
    count = arguments.examples or 512
    for name, share in (("sst2", 1), ("squad", 4)):  # a question with its context takes much longer than a sentence
        if name not in arguments.task:
            continue
        examples = some(TASKS[name].read(arguments.data, "train"), count // share)
        found = contestants(TASKS[name].kind, examples, arguments)
        jobs = {each: functools.partial(rate, work, len(examples)) for each, work in found.items()}
        for each, *figures in race(jobs, arguments.rounds, GROUPED, digits=1, warm=not arguments.small):
            yield [name, each, len(examples), *figures]


def main() -> None:
    numbers = {"examples": 0, "dev": 1000, "epochs": 2, "learning_rate": 1e-4, "rounds": 5}
    parser = options(__doc__, task=list(TASKS), preset=MINILM, **numbers, bfloat16=False, data=DATA)
    works = {
        "speed": (speed, ("task", "contestant", "examples", "examples/s", f"beside {GROUPED}")),
        "precision": (precision, ("task", "precision", "score", "points to float32", "seconds")),
    }
    parser.add_argument("what", nargs="*", type=one_of(works), default=["speed"], help=", ".join(works))
    arguments = parse(parser, what=["speed", "precision"], task=["sst2"], examples=8, dev=8, epochs=1, rounds=1)
    need(arguments.data)
    heading(["tensorflow", "keras", "torch", "transformers", "keras-hub"])
    for what in arguments.what:
        rows, columns = works[what]
        table(columns, rows(arguments))


if __name__ == "__main__":
    run(main)
