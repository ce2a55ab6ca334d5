"""What imports and loading cost, and the first call, beside others: fresh processes, interleaved.

python benchmarks/loading.py calls [--rounds 5] [--preset all-MiniLM-L6-v2]
python benchmarks/loading.py imports [--rounds 5]
python benchmarks/loading.py large [--rounds 5] [--size bert-base]

`calls`: a preset, beside transformers, which loads its tokenizer, too, where we do. Imports are over before the clock
starts. "First" is the first time in a process, "again" the fastest of the next three. `imports`: of this package and of
TensorFlow. `large`: a file of weights, beside transformers and KerasHub. Each process makes a small model first, then
loads the same directory and runs the model on eight tokens: what a library maps into memory it has not read before.
Memory is how much the process grew at its highest in all of this, in multiples of the file.
"""

import argparse
import importlib.util
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from _measure import MINILM, heading, in_new_process, need_library, options, parse, ratios, run, table

from keras_bert import presets

AGAIN = 3
IMPORTS = {
    "nothing": "pass",
    "import keras_bert": "import keras_bert",
    "import tensorflow": "import tensorflow",
    "import tensorflow, keras_bert": "import tensorflow, keras_bert",
    "import keras_bert.text": "import keras_bert.text",
    "from keras_bert import BertSentenceEncoder": "from keras_bert import BertSentenceEncoder",
}
LARGE = {
    "keras_bert": "from keras_bert import BertConfig, BertEncoder\n"
    "BertEncoder(BertConfig.tiny())\n"
    "load = BertEncoder.from_preset\n"
    "run = lambda model: model({'input_word_ids': np.ones((1, 8), 'int32')})",
    "transformers": "import torch, transformers\n"
    "transformers.BertModel(transformers.BertConfig(num_hidden_layers=1))\n"
    "load = transformers.BertModel.from_pretrained\n"
    "run = torch.inference_mode()(lambda model: model(torch.ones((1, 8), dtype=torch.long)))",
    "keras-hub": "import keras_hub\n"
    "keras_hub.models.BertBackbone(100, 1, 1, 8, 8)\n"
    "load = keras_hub.models.BertBackbone.from_preset\n"
    "ids = np.ones((1, 8), 'int32')\n"
    "run = lambda model: model({'token_ids': ids, 'segment_ids': ids * 0, 'padding_mask': ids})",
}
MEASURE = """
import json, sys, time
import numpy as np
from _measure import growth
{load}

def work():
    start = time.perf_counter()
    model = load(sys.argv[1])
    seconds["load"] = time.perf_counter() - start
    run(model)
    seconds["load and run"] = time.perf_counter() - start

seconds = {{}}
size = growth(work)
print(json.dumps({{"bytes": size, **seconds}}))
"""
MAKE = """
import sys
from keras_bert import BertConfig, BertEncoder, BertPreprocessor
BertEncoder(BertConfig.named(sys.argv[2])).save_preset(sys.argv[1])
BertPreprocessor.from_preset(sys.argv[3]).save_preset(sys.argv[1])
"""


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
    """For each job: the milliseconds of the first time, and of the fastest of the next ones."""
    found = {}
    for name, job in {"ours": ours, "theirs": theirs}[side](preset):
        times = []
        for _ in range(1 + AGAIN):
            start = time.perf_counter()
            job()
            times.append(1000 * (time.perf_counter() - start))
        found[name] = times[0], min(times[1:])
    print(json.dumps(found))


def spread(seconds: list[float]) -> list[str]:
    return [f"{value:.2f}" for value in (statistics.median(seconds), min(seconds), max(seconds))]


def calls(arguments: argparse.Namespace) -> None:
    for library in ("torch", "transformers"):
        need_library(library)
    print(arguments.preset)
    found: dict[str, list[list[float]]] = defaultdict(list)  # job -> each round's four numbers
    for _ in range(arguments.rounds):
        code = f"import sys, loading; loading.print_times(sys.argv[1], {arguments.preset!r})"
        both = [json.loads(in_new_process(code, side)) for side in ("ours", "theirs")]
        for name in both[0]:
            found[name].append([*both[0][name], *both[1][name]])
    rows = (
        [name, *(f"{statistics.median(column):.0f}" for column in zip(*found[name], strict=True))] for name in found
    )
    table(("milliseconds, medians", "keras_bert, first", "again", "transformers, first", "again"), rows)


def imports(arguments: argparse.Namespace) -> None:
    seconds: dict[str, list[float]] = defaultdict(list)
    for _ in range(arguments.rounds + 1):
        for name, statement in IMPORTS.items():
            start = time.perf_counter()
            in_new_process(statement)
            seconds[name].append(time.perf_counter() - start)
    rows = ([name, *spread(values[1:])] for name, values in seconds.items())  # the first warms the disk cache
    table(("what a process does", "median s", "min", "max"), rows)


def large(arguments: argparse.Namespace) -> None:
    installed = {name: code for name, code in LARGE.items() if importlib.util.find_spec(name.replace("-", "_"))}
    found = defaultdict(list)
    with tempfile.TemporaryDirectory() as directory:
        in_new_process(MAKE, directory, arguments.size, MINILM)
        size = (Path(directory) / "model.safetensors").stat().st_size
        for number in range(arguments.rounds + 1):
            print(f"round {number} of {arguments.rounds}", file=sys.stderr, flush=True)
            for name, load in installed.items():
                found[name].append(json.loads(in_new_process(MEASURE.format(load=load), directory)))
    print(f"{arguments.size}, {size / 1e6:.0f} MB")

    def rows() -> Iterator[list[str]]:
        for kind in ("load", "load and run"):
            taken = {name: [each[kind] for each in found[name][1:]] for name in found}  # the first warms the disk cache
            for name, seconds in taken.items():
                memory = statistics.median(each["bytes"] / size for each in found[name][1:])
                yield [kind, name, *spread(seconds), ratios(seconds, taken["keras_bert"]), f"{memory:.2f}"]

    table(("", "library", "median s", "min", "max", "beside keras_bert", "memory / file"), rows())


def main() -> None:
    parser = options(__doc__, rounds=5, preset=MINILM, size="bert-base")
    works = {"calls": calls, "imports": imports, "large": large}
    parser.add_argument("what", nargs="?", choices=works, default="calls")
    arguments = parse(parser, rounds=1, size="bert-tiny")
    heading(["tensorflow", "keras", "torch", "transformers", "keras-hub"])
    works[arguments.what](arguments)


if __name__ == "__main__":
    run(main)
