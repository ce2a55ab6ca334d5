"""Time and memory to load a BERT from a safetensors file, beside transformers and KerasHub: fresh processes, in turns.

python benchmarks/load.py [--rounds 5] [--size bert-base]

Each process imports its library and makes a small model before the clock starts, then loads the same directory and
runs the model on eight tokens: what a library maps into memory it has not read before. Memory is how much the process
grew at its highest in all of this, in multiples of the file.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _measure import heading, parse, ratios, run, table

LOAD = {
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
{load}

def status(field):  # of /proc/self/status, in bytes
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))

with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the highest so far becomes the present
before = status("VmRSS")
start = time.perf_counter()
model = load(sys.argv[1])
loaded = time.perf_counter()
run(model)
ran = time.perf_counter()
print(json.dumps({{"load": loaded - start, "load and run": ran - start, "bytes": status("VmHWM") - before}}))
"""

ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
INSTALLED = [name for name in LOAD if importlib.util.find_spec(name.replace("-", "_"))]
KINDS = ("load", "load and run")


def measured(name: str, directory: str) -> dict[str, float]:
    """Returns the seconds of each kind, and the bytes, of a library in a new process."""
    command = [sys.executable, "-c", MEASURE.format(load=LOAD[name]), directory]
    result = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    if result.returncode:
        sys.exit(f"{name} failed: {result.stderr.strip().splitlines()[-1]}")
    return json.loads(result.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", default="bert-base", help="one of keras_bert.config.SIZES, of BERT's family")
    arguments = parse(parser, rounds=1, size="bert-tiny")
    heading(["tensorflow", "keras", "torch", *LOAD])
    with tempfile.TemporaryDirectory() as directory:
        make = (
            "from keras_bert import BertConfig, BertEncoder, BertPreprocessor\n"
            f"BertEncoder(BertConfig.named({arguments.size!r})).save_preset({directory!r})\n"
            f"BertPreprocessor.from_preset('all-MiniLM-L6-v2').save_preset({directory!r})"
        )
        subprocess.run([sys.executable, "-c", make], check=True, capture_output=True, env=ENVIRONMENT)
        size = (Path(directory) / "model.safetensors").stat().st_size
        found = {name: [] for name in INSTALLED}
        for number in range(arguments.rounds + 1):
            print(f"round {number} of {arguments.rounds}", file=sys.stderr, flush=True)
            for name in INSTALLED:
                found[name].append(measured(name, directory))
    print(f"{arguments.size}, {size / 1e6:.0f} MB")
    rows = []
    for kind in KINDS:
        taken = {name: [each[kind] for each in found[name][1:]] for name in found}  # the first warms the disk cache
        for name, seconds in taken.items():
            figures = (f"{value:.2f}" for value in (statistics.median(seconds), min(seconds), max(seconds)))
            memory = statistics.median(each["bytes"] / size for each in found[name][1:])
            rows.append([kind, name, *figures, ratios(seconds, taken["keras_bert"]), f"{memory:.2f}"])
    table(("", "library", "median s", "min", "max", "beside keras_bert", "memory / file"), rows)


if __name__ == "__main__":
    run(main)
