"""A classifier of half the layers: what it keeps of its teacher's accuracy, beside one that learned without a teacher.

python benchmarks/distill.py [--examples 10000] [--layers 3] [--seeds 3] [--epochs 3]

The teacher is MiniLM, fine-tuned on SST-2. The students begin with layers of it, and train with the same recipe on the
same sentences; they differ in whether the teacher's answers count, and in the seed. Texts a second are of `classify`,
interleaved. docs/benchmarks.md has what came out.
"""

import argparse
import functools
import os
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
from _finetune_tasks import CLASSES, TASKS, label_names, some
from _measure import DATA, heading, interleave, need, parse, rate, ratios, run, table

from keras_bert import BertClassifier
from keras_bert.training import evaluate, fine_tune, student_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=1e-4, help="of the students; the teacher's is 5e-5")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dev", type=int, help="how many to measure with; by default all")
    parser.add_argument("--data", type=Path, default=DATA)
    arguments = parse(parser, examples=64, seeds=1, epochs=1, rounds=1, dev=64)
    need(arguments.data)
    task = TASKS["sst2"]
    train = some(task.read(arguments.data, "train"), arguments.examples)
    x, y = train.xy
    dev = some(task.read(arguments.data, "dev"), arguments.dev).xy
    heading(["tensorflow", "keras"])
    print(f"{len(x):,} sentences, {len(dev[0])} to measure with")

    def trained(model: BertClassifier, seed: int, **options: object) -> float:
        start = time.perf_counter()
        fine_tune(model, (x, y), seed=seed, progress=False, **options)
        accuracy = 100 * evaluate(model, *dev)["accuracy"]
        print(f"seed {seed}: {accuracy:.2f} in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        return accuracy

    keras.utils.set_random_seed(0)
    teacher = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=label_names(train, CLASSES))
    best = trained(teacher, 0, epochs=2)
    found, models = {}, {"teacher": teacher}
    for name, options in {"a student without a teacher": {}, "a student": {"teacher": teacher}}.items():
        found[name] = []
        for seed in range(arguments.seeds):
            keras.utils.set_random_seed(seed)
            models[name] = student_of(teacher, arguments.layers)
            recipe = {"epochs": arguments.epochs, "learning_rate": arguments.learning_rate, **options}
            found[name].append(trained(models[name], seed, **recipe))
    jobs = {
        name: functools.partial(rate, lambda m=m: m.classify(dev[0], progress=False), len(dev[0]))
        for name, m in models.items()
    }
    for model in models.values():
        model.classify(dev[0], progress=False)  # once, so that all graphs are there
    rates = interleave(jobs, arguments.rounds)
    rows = []
    for name, model in models.items():
        values = found.get(name, [best])
        mean = statistics.mean(values)
        spread = f"{mean:.1f} ({min(values):.1f} to {max(values):.1f})" if len(values) > 1 else f"{mean:.1f}"
        size = [model.encoder.config.num_layers, f"{model.count_params() / 1e6:.1f} M"]
        speed = [f"{statistics.median(rates[name]):.0f}", ratios(rates[name], rates["teacher"])]
        rows.append([name, *size, spread, f"{100 * mean / best:.1f}%", *speed])
    columns = ("", "layers", "parameters", "accuracy", "of the teacher's", "texts/s", "beside the teacher")
    table(columns, rows)


if __name__ == "__main__":
    run(main)
