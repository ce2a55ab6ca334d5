"""What loading a preset costs, and the first call after it, beside transformers: fresh processes, interleaved.

python benchmarks/loading.py [--rounds 5] [--preset all-MiniLM-L6-v2]

Imports are over before the clock starts. "First" is the first time in a process, "again" the fastest of the next three.
transformers loads its tokenizer, too, where we do.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from _measure import heading, need_library, parse, run, table

from keras_bert import presets

SIDES = ("keras_bert", "transformers")
AGAIN = 3


def ours(preset: str):
    from keras_bert import BertClassifier, BertEncoder, BertSentenceEncoder

    yield "encoder", lambda: BertEncoder.from_preset(preset)
    yield "sentence encoder and tokenizer", lambda: BertSentenceEncoder.from_preset(preset)
    yield "classifier and tokenizer", lambda: BertClassifier.from_preset(preset, labels=["no", "yes"])
    model = BertSentenceEncoder.from_preset(preset)
    yield "encode, the first call", lambda: model.encode("A man is dancing.")


def theirs(preset: str):
    import torch
    from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    directory = presets.resolve(preset)

    def both(kind):
        return AutoTokenizer.from_pretrained(directory), kind.from_pretrained(directory)

    yield "encoder", lambda: AutoModel.from_pretrained(directory)
    yield "sentence encoder and tokenizer", lambda: both(AutoModel)
    yield "classifier and tokenizer", lambda: both(AutoModelForSequenceClassification)
    tokenizer, model = both(AutoModel)
    with torch.inference_mode():
        yield "encode, the first call", lambda: model(**tokenizer("A man is dancing.", return_tensors="pt"))


def print_times(side: str, preset: str) -> None:
    """A line a job: its name, the milliseconds of the first time, and of the fastest of the next ones."""
    for name, job in {"keras_bert": ours, "transformers": theirs}[side](preset):
        times = []
        for _ in range(1 + AGAIN):
            start = time.perf_counter()
            job()
            times.append(1000 * (time.perf_counter() - start))
        print(f"{name}\t{times[0]}\t{min(times[1:])}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--preset", default="all-MiniLM-L6-v2")
    parser.add_argument("--of", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parse(parser, rounds=1)
    if arguments.of:
        print_times(arguments.of, arguments.preset)
        return
    heading(["tensorflow", "keras", "torch", "transformers"])
    print(arguments.preset)
    for library in ("torch", "transformers"):
        need_library(library)
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for _ in range(arguments.rounds):
        for side in SIDES:
            command = [sys.executable, __file__, "--of", side, "--preset", arguments.preset]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            for line in output.splitlines():
                name, first, again = line.split("\t")
                found[name, side].append((float(first), float(again)))
    rows = []
    for name in dict.fromkeys(name for name, _ in found):
        cells = [statistics.median(column) for side in SIDES for column in zip(*found[name, side], strict=True)]
        rows.append([name, *(f"{cell:.0f}" for cell in cells)])
    table(("milliseconds, medians", "keras_bert, first", "again", "transformers, first", "again"), rows)


if __name__ == "__main__":
    run(main)
