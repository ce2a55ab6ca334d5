"""One model in every runtime: size, speed and vectors of all-MiniLM-L6-v2 in ONNX Runtime, OpenVINO and LiteRT.

python benchmarks/runtimes.py [--preset all-MiniLM-L6-v2] [--rounds 5] [--pairs stsb-en-dev.csv]

From packed ids to vectors, in batches of 16 sentences of similar length, beside the same model in TensorFlow. With
`--pairs`, a CSV file of two sentences and a score, also the Spearman correlation of the cosines with the scores.
"""

import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from _measure import heading, interleave, need_library, parse, rate, ratios, run, table

from keras_bert import BertSentenceEncoder
from keras_bert.inference import SAMPLE_TEXTS
from keras_bert.runtimes import RUNTIMES
from keras_bert.tasks.metrics import correlation

BATCH = 16
NEEDS = {"ONNX Runtime": ("tf2onnx", "onnxruntime"), "OpenVINO": ("openvino", "nncf"), "LiteRT": ("ai_edge_litert",)}
PACKAGES = ("tensorflow", "keras", "onnxruntime", "tf2onnx", "openvino", "nncf", "ai-edge-litert")
EXPORTS = {
    name: (key, RUNTIMES[key])
    for name, key in {"ONNX Runtime": "onnx", "OpenVINO": "openvino", "LiteRT": "litert"}.items()
}

Run = Callable[[dict[str, np.ndarray]], np.ndarray]  # packed ids -> vectors


def keras_model(model: BertSentenceEncoder) -> Run:
    graph = tf.function(lambda packed: model.serve_packed(packed)["embedding"], reduce_retracing=True)
    return lambda packed: graph({name: tf.constant(each) for name, each in packed.items()}).numpy()


def exported(preset: str, name: str, precision: str, directory: Path) -> tuple[Run, float]:
    """The export in its runtime, and its size in MB. Another process makes it, and takes its memory with it."""
    form, runtime = EXPORTS[name]
    command = [sys.executable, "-m", "keras_bert.cli", "export", form, "--preset", preset, "--precision", precision]
    subprocess.run([*command, "--output", str(directory)], check=True, stdout=sys.stderr)
    run = runtime.open(directory / runtime.file)
    folder = (directory / runtime.file).parent
    files = [directory / runtime.file] if folder == directory else list(folder.iterdir())
    names = runtime.names
    size = sum(path.stat().st_size for path in files) / 1e6
    return lambda packed: run({names[ours]: each for ours, each in packed.items()})["embedding"], size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="all-MiniLM-L6-v2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", help="a CSV file: sentence, sentence, score")
    parser.add_argument("--precision", nargs="+", default=["float32", "float16", "int8"])
    parser.add_argument("--only", nargs="+", choices=EXPORTS, default=list(EXPORTS))
    arguments = parse(parser, rounds=1, precision=["float32"], only=["ONNX Runtime"])
    for name in arguments.only:
        for library in NEEDS[name]:
            need_library(library)
    heading(PACKAGES)
    rows = list(csv.reader(Path(arguments.pairs).read_text("utf-8").splitlines())) if arguments.pairs else []
    model = BertSentenceEncoder.from_preset(arguments.preset)
    texts = sorted({text for row in rows for text in row[:2]} or set(SAMPLE_TEXTS), key=len)
    tokens = model.preprocessor.tokenizer.tokenize(texts)
    batches = [
        {name: each.numpy() for name, each in model.preprocessor.pack(tokens[start : start + BATCH]).items()}
        for start in range(0, len(texts), BATCH)
    ]
    with tempfile.TemporaryDirectory() as folder:
        runs: dict[str, tuple[Run, float]] = {"TensorFlow, float32": (keras_model(model), model.count_params() * 4e-6)}
        for name in arguments.only:
            for precision in arguments.precision:
                label = f"{name}, {precision}"
                runs[label] = exported(arguments.preset, name, precision, Path(folder, label))
        timed = batches[:: max(1, len(batches) // 20)]  # of all lengths
        amount = sum(len(batch["input_mask"]) for batch in timed)
        jobs = {}
        for label, (run, _) in runs.items():
            jobs[label] = lambda run=run: rate(lambda: [run(batch) for batch in timed], amount)
            jobs[label]()  # for shapes that are new
        rates = interleave(jobs, arguments.rounds)
        vectors = {label: np.concatenate([run(batch) for batch in batches]) for label, (run, _) in runs.items()}
    exact = vectors["TensorFlow, float32"]
    place = {text: index for index, text in enumerate(texts)}
    print(f"{len(texts)} different sentences")
    table_rows = []
    for label, (_, size) in runs.items():
        cosines = (vectors[label] * exact).sum(axis=1)
        spearman = ""
        if rows:
            one, other = (vectors[label][[place[row[column]] for row in rows]] for column in (0, 1))
            scores = np.array([float(row[2]) for row in rows])
            spearman = f"{100 * correlation(scores, (one * other).sum(axis=1))['spearman']:.2f}"
        speed = [f"{statistics.median(rates[label]):.0f}", ratios(rates[label], rates["TensorFlow, float32"])]
        table_rows.append([label, f"{size:.1f}", *speed, f"{cosines.mean():.5f}", f"{cosines.min():.5f}", spearman])
    columns = ("", "MB", "sentences/s", "to TensorFlow", "cosine, mean", "cosine, worst", "Spearman")
    table(columns, table_rows)


if __name__ == "__main__":
    run(main)
