"""Milliseconds for one text, from a string to a vector: all-MiniLM-L6-v2, beside ONNX Runtime.

python benchmarks/latency.py [--rounds 15] [--calls 20] [--precision float32 bfloat16 int8] [--threads 1]

A short text, then a long one: `model([text])`, `encode(text)`, the serving signature of a SavedModel, the exports for
ONNX Runtime and OpenVINO as `runtimes.load` opens them, and ONNX Runtime's own optimized file with Hugging Face's
tokenizer, in float32 and in int8. Medians and 99th percentiles over all calls, of which there are --calls in a round.
--threads is for one operation in TensorFlow and in ONNX Runtime.
"""

import functools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _measure import MINILM, heading, options, parse, present, run, table
from _minilm_onnx import onnx_fused, onnx_int8, session, tokenizer, vectors

from keras_bert import BertSentenceEncoder
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
    import tensorflow as tf

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
    encode = tokenizer().encode

    def embed(path: Path) -> Embed:
        run = session(path, threads)
        return lambda text: vectors(run, [encode(text).ids])[0]

    return {"ONNX Runtime, float32": embed(onnx_fused()), "ONNX Runtime, int8": embed(onnx_int8())}


def main() -> None:
    parser = options(__doc__, rounds=15, calls=20, precision=list(PRECISIONS), threads=0)
    arguments = parse(parser, rounds=2, calls=3, precision=["float32"])
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    heading(LIBRARIES)
    makers = {precision: functools.partial(keras_bert, precision) for precision in arguments.precision}
    makers |= {} if arguments.small else {"other runtimes": exports}  # a small run of runtimes.py has exports
    makers["ONNX Runtime's own"] = functools.partial(onnx_runtime, arguments.threads)
    jobs = {name: job for made in present(makers).values() for name, job in made.items()}
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
