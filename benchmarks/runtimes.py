"""One model in every runtime: size, speed and vectors of all-MiniLM-L6-v2 in ONNX Runtime, OpenVINO and LiteRT.

python benchmarks/runtimes.py [--preset all-MiniLM-L6-v2] [--rounds 5] [--only LiteRT] [--precision float32 int8]

From packed ids to vectors, in batches of 16 sentences of similar length, of the development set of STS-B, beside the
same model in TensorFlow; and the Spearman correlation of the cosines with the scores.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _measure import MINILM, heading, need_library, options, parse, race, rate, run, stsb_rows, table

from keras_bert import BertSentenceEncoder
from keras_bert.answers.metrics import correlation
from keras_bert.runtimes import RUNTIMES

BATCH = 16
NEEDS = {"ONNX Runtime": ("tf2onnx", "onnxruntime"), "OpenVINO": ("openvino", "nncf"), "LiteRT": ("ai_edge_litert",)}
PACKAGES = ("tensorflow", "keras", "onnxruntime", "tf2onnx", "openvino", "nncf", "ai-edge-litert")
FORMS = {"ONNX Runtime": "onnx", "OpenVINO": "openvino", "LiteRT": "litert"}

Run = Callable[[dict[str, np.ndarray]], np.ndarray]  # packed ids -> vectors


def keras_model(model: BertSentenceEncoder) -> Run:
    import tensorflow as tf

    graph = tf.function(lambda packed: model.serve_packed(packed)["embedding"], reduce_retracing=True)
    return lambda packed: graph({name: tf.constant(each) for name, each in packed.items()}).numpy()


def exported(preset: str, name: str, precision: str, directory: Path) -> tuple[Run, float]:
    """The export in its runtime, and its size in MB. Another process makes it, and takes its memory with it."""
    form, runtime = FORMS[name], RUNTIMES[FORMS[name]]
    command = [sys.executable, "-m", "keras_bert.cli", "export", form, "--preset", preset, "--precision", precision]
    subprocess.run([*command, "--output", str(directory)], check=True, stdout=sys.stderr)
    run = runtime.open(directory / runtime.file)
    folder = (directory / runtime.file).parent
    files = [directory / runtime.file] if folder == directory else list(folder.iterdir())
    names = runtime.names
    size = sum(path.stat().st_size for path in files) / 1e6
    return lambda packed: run({names[ours]: each for ours, each in packed.items()})["embedding"], size


def main() -> None:
    precisions = ["float32", "float16", "int8"]
    parser = options(__doc__, preset=MINILM, rounds=5, precision=precisions, only=list(FORMS))
    arguments = parse(parser, rounds=1, precision=["float32"], only=["ONNX Runtime"])
    for name in arguments.only:
        for library in NEEDS[name]:
            need_library(library)
    heading(PACKAGES)
    rows = stsb_rows("dev")[: 16 if arguments.small else None]
    model = BertSentenceEncoder.from_preset(arguments.preset)
    texts = sorted({text for row in rows for text in row[:2]}, key=len)
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
        works = {label: lambda run=run: [run(batch) for batch in timed] for label, (run, _) in runs.items()}
        jobs = {label: lambda work=work: rate(work, amount) for label, work in works.items()}
        speeds = list(race(jobs, arguments.rounds, "TensorFlow, float32"))
        vectors = {label: np.concatenate([run(batch) for batch in batches]) for label, (run, _) in runs.items()}
    exact = vectors["TensorFlow, float32"]
    place = {text: index for index, text in enumerate(texts)}
    print(f"{len(texts)} different sentences")
    table_rows = []
    for label, *speed in speeds:
        cosines = (vectors[label] * exact).sum(axis=1)
        one, other = (vectors[label][[place[row[column]] for row in rows]] for column in (0, 1))
        scores = np.array([float(row[2]) for row in rows])
        spearman = f"{100 * correlation(scores, (one * other).sum(axis=1))['spearman']:.2f}"
        same = [f"{cosines.mean():.5f}", f"{cosines.min():.5f}", spearman]
        table_rows.append([label, f"{runs[label][1]:.1f}", *speed, *same])
    columns = ("", "MB", "sentences/s", "to TensorFlow", "cosine, mean", "cosine, worst", "Spearman")
    table(columns, table_rows)


if __name__ == "__main__":
    run(main)
