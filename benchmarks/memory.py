"""Memory of fresh processes: loading and training beside transformers, one step, converting, and a server.

python benchmarks/memory.py [models] [activations] [convert] [serve] [--versions 3] [--requests 400]

`models`: the peak of a process that only imports, that also embeds a text by all-MiniLM-L6-v2, and that also trains a
classifier for three steps. `activations`: what a row of a step takes, beside what `summary` says. `convert`: the peak
of a conversion, in sizes of the file. `serve`: what `keras-bert serve` holds of all-MiniLM-L6-v2 (90 MB) when it has
started, after requests from 16 clients, and after swaps of versions. Without names, all of them.
"""

import argparse
import concurrent.futures
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
from _measure import heading, parse, run, table

from keras_bert import BertClassifier, BertConfig, BertEncoder, presets
from keras_bert.encoder.summary import summarize
from keras_bert.saved_model import export_serving

MINILM = "all-MiniLM-L6-v2"
LIBRARIES = ["tensorflow", "keras", "torch", "transformers"]
ROWS = (1, 1, 1, 4, 16)  # texts of a request
WORDS = [
    "the",
    "a",
    "film",
    "good",
    "bad",
    "music",
    "plot",
    "loved",
    "hated",
    "watching",
    "it",
    "was",
    "is",
    "and",
    "very",
    "she",
    "he",
    "wonderful",
    "dull",
    "hours",
]
# VmHWM is the process's own peak in KiB. What getrusage tells begins at the size of the process that started it.
PEAK = """
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(1024 * int(peak.split()[1]))
"""
# Of each library: what imports it, what also embeds a text, and what trains a classifier for three steps.
PROGRAMS = {
    "keras_bert": (
        "import sys, keras_bert, tensorflow\nfrom keras_bert import BertClassifier, BertSentenceEncoder",
        """
BertSentenceEncoder.from_preset(sys.argv[1]).encode("a film")
""",
        """
model = BertClassifier.from_preset(sys.argv[1], labels=["bad", "good"], sequence_length=128)
model.compile("adamw", model.training_loss())
model.fit(["a film " * 80] * 48, ["bad", "good"] * 24, batch_size=16, verbose=0)
""",
    ),
    "transformers": (
        "import sys, torch\nfrom transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer",
        """
model, tokenizer = AutoModel.from_pretrained(sys.argv[1]), AutoTokenizer.from_pretrained(sys.argv[1])
with torch.inference_mode():
    model(**tokenizer(["a film"], return_tensors="pt"))
""",
        """
model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1], num_labels=2)
tokenizer, optimizer = AutoTokenizer.from_pretrained(sys.argv[1]), torch.optim.AdamW(model.parameters())
batch = tokenizer(["a film " * 80] * 16, truncation=True, max_length=128, return_tensors="pt")
for _ in range(3):
    model(**batch, labels=torch.tensor([0, 1] * 8)).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    ),
}
STEP = """
import json, sys
import keras, tensorflow as tf
from keras_bert import BertConfig, BertEncoder

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
config, batch, length = json.loads(sys.argv[1])
encoder = BertEncoder(BertConfig(**config))
optimizer = keras.optimizers.AdamW()
optimizer.build(encoder.trainable_variables)

@tf.function(reduce_retracing=True)
def step(ids):
    with tf.GradientTape() as tape:
        outputs = encoder({"input_word_ids": ids, "input_mask": tf.ones_like(ids)}, training=True)
        loss = tf.reduce_mean(outputs["pooled_output"] ** 2)
    optimizer.apply(tape.gradient(loss, encoder.trainable_variables), encoder.trainable_variables)

step(tf.ones((batch, length), tf.int32))
"""
CONVERT = """
import sys
from keras_bert.cli import main
main(["convert", *sys.argv[1:]], standalone_mode=False)
"""


def peak(code: str, *arguments: object) -> int:
    """Bytes that a process with this code has at most, the libraries included."""
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-c", code + PEAK, *map(str, arguments)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.split()[-1])


def models() -> Iterator[list[str]]:
    """The peaks of loading and of training, and what they are above the peak of importing."""
    for name, (imports, loads, trains) in PROGRAMS.items():
        sizes = [
            peak(program, presets.resolve(MINILM)) / 1e6 for program in (imports, imports + loads, imports + trains)
        ]
        above = [f"{size - sizes[0]:.0f}" for size in sizes[1:]]
        yield [name, f"{sizes[0]:.0f}", *above]


def activations(batch: int = 10, length: int = 512) -> Iterator[list[str]]:
    """Of one row of a training step: what `summary` counts, and what a process has more for each further row."""
    config = {"vocab_size": 1000, "hidden_size": 256, "num_layers": 4, "num_heads": 4, "intermediate_size": 1024}
    small, large = max(batch // 8, 1), batch
    peaks = [peak(STEP, json.dumps([config, rows, length])) for rows in (small, large)]
    measured = (peaks[1] - peaks[0]) / (large - small)
    counted = summarize(BertConfig(**config), batch_size=1, sequence_length=length).activation_bytes
    yield [str(length), f"{counted / 1e6:.1f}", f"{measured / 1e6:.1f}", f"{counted / measured:.2f}"]


def convert(hidden_size: int = 1024) -> Iterator[list[str]]:
    """In sizes of the file. TensorFlow's writers keep what they are given until the end; ours, the largest weight."""
    large = {"hidden_size": hidden_size, "num_heads": 16, "intermediate_size": 4 * hidden_size, "num_layers": 6}
    with tempfile.TemporaryDirectory() as folder:
        directories = {name: Path(folder) / name for name in ("tiny", "large")}
        BertEncoder(BertConfig.tiny(vocab_size=100)).save_preset(directories["tiny"])
        BertEncoder(BertConfig(**large)).save_preset(directories["large"])
        size = (directories["large"] / "model.safetensors").stat().st_size
        for format in ("hugging_face", "tf1", "garden"):
            base, most = (
                peak(CONVERT, preset, Path(folder) / f"{name}-{format}", "--to", format)
                for name, preset in directories.items()
            )
            yield [format, f"{(most - base) / size:.2f}", f"{base / 1e6:.0f}"]


def serve(versions: int, requests: int) -> Iterator[list[str]]:
    """What a server holds, and what that is above the import of TensorFlow and TensorFlow Text."""
    base = peak("import tensorflow, tensorflow_text") / 1e6
    yield ["import of TensorFlow and TensorFlow Text", f"{base:.0f}", "0"]
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "model"
        model = BertClassifier.from_preset(MINILM, labels=["bad", "good"])
        export_serving(model, directory)
        command = [sys.executable, "-m", "keras_bert.cli", "serve", str(directory), "--port", "0", "--rest-port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        lines: list[str] = []
        threading.Thread(target=lambda: lines.extend(iter(server.stderr.readline, "")), daemon=True).start()

        def held(what: str) -> list[str]:
            size = psutil.Process(server.pid).memory_info().rss / 1e6
            return [what, f"{size:.0f}", f"{size - base:.0f}"]

        try:
            words = server.stdout.readline().split()  # Serving NAME version 1 at ... REST port PORT
            url = f"http://127.0.0.1:{words[-1]}/v1/models/{words[1]}:predict"
            yield held("started")
            send(url, requests)
            yield held(f"{requests} requests")
            for version in range(2, versions + 1):
                shutil.copytree(directory / "1", Path(folder) / "copy")
                (Path(folder) / "copy").rename(directory / str(version))
                while not any(f"version {version - 1}: unloaded" in line for line in lines):
                    time.sleep(0.1)
                yield held(f"version {version} in place of {version - 1}")
                send(url, requests)
                yield held(f"{requests} more requests")
        finally:
            server.terminate()
            server.wait()


def send(url: str, count: int) -> None:
    """Sends requests of 1 to 16 texts of 5 to 60 words, from 16 clients at a time."""
    generator = random.Random(0)

    def texts() -> list[str]:
        return [" ".join(generator.choices(WORDS, k=generator.randint(5, 60))) for _ in range(generator.choice(ROWS))]

    def ask(instances: list[str]) -> None:
        body = json.dumps({"instances": instances}).encode()
        urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"})).read()

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, [texts() for _ in range(count)]))


TABLES = {
    "models": (models, ["", "import, MB", "load and embed, MB more", "train, MB more"]),
    "activations": (activations, ["tokens", "counted, MB a row", "measured, MB a row", "ratio"]),
    "convert": (convert, ["written", "times the file", "beside, MB"]),
    "serve": (serve, ["server", "MB", "above the import"]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)}; by default all")
    parser.add_argument("--versions", type=int, default=3, help="of the served model")
    parser.add_argument("--requests", type=int, default=400, help="to each version")
    arguments = parse(parser, tables=["serve"], versions=2, requests=40)
    if unknown := set(arguments.tables) - TABLES.keys():
        parser.error(f"there is no table {', '.join(unknown)}")
    heading(LIBRARIES)
    for name in arguments.tables or TABLES:
        rows, columns = TABLES[name]
        table(columns, rows(arguments.versions, arguments.requests) if name == "serve" else rows())


if __name__ == "__main__":
    run(main)
