"""Milliseconds for one text, from a string to a vector: all-MiniLM-L6-v2, beside ONNX Runtime.

python benchmarks/latency.py [--rounds 15] [--calls 20] [--precision float32 bfloat16 int8] [--threads 1]

A short text, then a long one: `model([text])`, `encode(text)`, the serving signature of a SavedModel, the exports for
ONNX Runtime and OpenVINO as `runtimes.load` opens them, and ONNX Runtime's own optimized file with Hugging Face's
tokenizer, in float32 and in int8. Medians and 99th percentiles over all calls.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from _measure import heading, parse, run, table
from _minilm_onnx import MINILM, onnx_fused, onnx_int8

from keras_bert import BertSentenceEncoder, presets
from keras_bert.inference import PRECISIONS
from keras_bert.runtimes import export_onnx, export_openvino, load
from keras_bert.saved_model import export_serving

LIBRARIES = ["tensorflow", "keras", "onnxruntime", "openvino", "tokenizers"]
TEXTS = {
    "short": "a man is playing a guitar",
    "long": " ".join(["the quick brown fox jumps over the lazy dog and"] * 7),
}

Embed = Callable[[str], np.ndarray]  # a text -> float32 [hidden]


def keras_bert(precision: str) -> dict[str, Embed]:
    model = BertSentenceEncoder.from_preset(MINILM, precision=precision)
    with tempfile.TemporaryDirectory() as folder:
        loaded = tf.saved_model.load(export_serving(model, Path(folder) / precision))
    signature = loaded.signatures["serving_default"]
    return {
        f"model([text]), {precision}": lambda text: model([text])[0].numpy(),
        f"encode(text), {precision}": lambda text: model.encode(text, progress=False),
        f"serving signature, {precision}": lambda text, _=loaded: signature(text=tf.constant([text]))["embedding"][0],
    }


def exports() -> dict[str, Embed]:
    model, embedders = BertSentenceEncoder.from_preset(MINILM), {}
    for name, export in (("ONNX Runtime", export_onnx), ("OpenVINO", export_openvino)):
        with tempfile.TemporaryDirectory() as folder:
            export(model, Path(folder) / "export")
            embedders[f"runtimes.load, {name}, float32"] = load(Path(folder) / "export").encode
    return embedders


def onnx_runtime(threads: int) -> dict[str, Embed]:
    import onnxruntime
    import tokenizers

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    tokenizer = tokenizers.Tokenizer.from_file(str(presets.resolve(MINILM) / "tokenizer.json"))
    tokenizer.no_padding()

    def embed(path: Path) -> Embed:
        run = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run

        def one(text: str) -> np.ndarray:
            ids = np.array([tokenizer.encode(text).ids])
            inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            vector = run(None, inputs)[0][0].mean(axis=0)
            return vector / np.linalg.norm(vector)

        return one

    paths = {"float32": onnx_fused(), "int8": onnx_int8()}
    return {f"ONNX Runtime, {name}": embed(path) for name, path in paths.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=20, help="in a round, for each")
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--threads", type=int, default=0, help="of one operation in TensorFlow and ONNX Runtime")
    arguments = parse(parser, rounds=3, calls=5, precision=["float32"])
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    heading(LIBRARIES)
    jobs = {}
    for precision in arguments.precision:
        jobs |= keras_bert(precision)
    for others, *options in ((exports,), (onnx_runtime, arguments.threads)):
        try:
            jobs |= others(*options)
        except ImportError as error:
            print(f"left out: {others.__name__} ({error})")
    for length, text in TEXTS.items():
        exact = jobs["encode(text), float32"](text) if "encode(text), float32" in jobs else None
        seconds: dict[str, list[float]] = {name: [] for name in jobs}
        for job in jobs.values():
            for _ in range(3):
                job(text)
        for _ in range(arguments.rounds):
            for name, job in jobs.items():
                for _ in range(arguments.calls):
                    begin = time.perf_counter()
                    job(text)
                    seconds[name].append(time.perf_counter() - begin)
        rows = []
        for name, job in jobs.items():
            median, last = 1e3 * np.percentile(seconds[name], [50, 99])
            cosine = "" if exact is None else f"{float(np.asarray(job(text)) @ exact):.4f}"
            rows.append([name, f"{median:.2f}", f"{last:.2f}", cosine])
        table([f"{length} text", "median, ms", "99%, ms", "cosine to float32"], rows)


if __name__ == "__main__":
    run(main)
