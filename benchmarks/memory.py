"""Memory of fresh processes: loading and training beside transformers, and a server.

python benchmarks/memory.py [models] [serve] [--versions 3] [--requests 400]

`models`: the peak of a process that only imports, that also embeds a text by all-MiniLM-L6-v2, and that also trains a
classifier for three steps. `serve`: what `keras-bert serve` holds of all-MiniLM-L6-v2 (90 MB) when it has started,
after requests from 16 clients, and after swaps of versions. Without names, both.
"""

import concurrent.futures
import json
import random
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
from _measure import MINILM, heading, in_new_process, one_of, options, parse, run, table
from serve import Server

from keras_bert import BertClassifier, presets
from keras_bert.saved_model import export_serving

ROWS = (1, 1, 1, 4, 16)  # texts of a request
WORDS = "the a film good bad music plot loved hated watching it was is and very she he wonderful dull hours"
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


def peak(code: str, *arguments: object) -> float:
    """MB that a process with this code has at most, the libraries included."""
    return int(in_new_process(code + PEAK, *arguments, MALLOC_ARENA_MAX="1")) / 1e6


def models() -> Iterator[list[str]]:
    """The peaks of loading and of training, and what they are above the peak of importing."""
    for name, (imports, loads, trains) in PROGRAMS.items():
        sizes = [peak(program, presets.resolve(MINILM)) for program in (imports, imports + loads, imports + trains)]
        above = [f"{size - sizes[0]:.0f}" for size in sizes[1:]]
        yield [name, f"{sizes[0]:.0f}", *above]


def serve(versions: int, requests: int) -> Iterator[list[str]]:
    """What a server holds, and what that is above the import of TensorFlow and TensorFlow Text."""
    base = peak("import tensorflow, tensorflow_text")
    yield ["import of TensorFlow and TensorFlow Text", f"{base:.0f}", "0"]
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "model"
        model = BertClassifier.from_preset(MINILM, labels=["bad", "good"])
        export_serving(model, directory)
        server = Server(directory, stderr=subprocess.PIPE)
        lines: list[str] = []
        said = iter(server.process.stderr.readline, "")
        threading.Thread(target=lambda: lines.extend(said), daemon=True).start()

        def held(what: str) -> list[str]:
            size = psutil.Process(server.process.pid).memory_info().rss / 1e6
            return [what, f"{size:.0f}", f"{size - base:.0f}"]

        try:
            url = server.target("REST")
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
            server.stop()


def send(url: str, count: int) -> None:
    """Sends requests of 1 to 16 texts of 5 to 60 words, from 16 clients at a time."""
    generator = random.Random(0)

    def texts() -> list[str]:
        return [
            " ".join(generator.choices(WORDS.split(), k=generator.randint(5, 60)))
            for _ in range(generator.choice(ROWS))
        ]

    def ask(instances: list[str]) -> None:
        body = json.dumps({"instances": instances}).encode()
        urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"})).read()

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, [texts() for _ in range(count)]))


def main() -> None:
    works = {
        "models": (models, ["", "import, MB", "load and embed, MB more", "train, MB more"]),
        "serve": (lambda: serve(arguments.versions, arguments.requests), ["server", "MB", "above the import"]),
    }
    parser = options(__doc__, versions=3, requests=400)
    parser.add_argument("tables", nargs="*", type=one_of(works), default=list(works), help=", ".join(works))
    arguments = parse(parser, tables=["serve"], versions=2, requests=20)
    heading(["tensorflow", "keras", "torch", "transformers"])
    for name in arguments.tables:
        rows, columns = works[name]
        table(columns, rows())


if __name__ == "__main__":
    run(main)
