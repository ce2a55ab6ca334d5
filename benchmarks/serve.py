"""Requests a second and latencies of `keras-bert serve`: all-MiniLM-L6-v2, a sentence a request.

python benchmarks/serve.py [--rounds 5] [--seconds 2] [--clients 1 8 64] [--max-batch 16] [--precision int8]

Beside it, if it is installed, ONNX Runtime with Hugging Face's tokenizer behind Python's own http.server. The clients
are one process beside the servers', on the same cores; each sends its next request when it has its answer. "In process"
is the limit: the signature called from as many threads, without a server, and in batches of --max-batch sentences of
similar length.
"""

import argparse
import base64
import csv
import functools
import importlib.util
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from _measure import heading, interleave, parse, ratios, run, table
from _minilm_onnx import MINILM, onnx_fused, onnx_int8
from tensorflow_serving.apis import predict_pb2

from keras_bert import BertSentenceEncoder, presets
from keras_bert.inference import PRECISIONS
from keras_bert.saved_model import export_serving

STSB = Path(__file__).parents[2] / "shared/data/stsb/stsb-en-dev.csv"
SENTENCES = [
    "A man with a hard hat is dancing.",
    "The weather in Lisbon is lovely today.",
    "Could you send me the report before Friday?",
    "Prices rose by two percent in March.",
    "She is playing the guitar on a small stage in front of friends.",
    "The committee has not yet decided whether the bridge will be repaired this year or the next.",
]
PACKAGES = ["tensorflow", "grpcio", "aiohttp", "protobuf", "onnxruntime", "tokenizers"]
ONNX = "ONNX Runtime"


class OnnxServer:
    """ONNX Runtime in a process, on a free port."""

    def __init__(self, precision: str) -> None:
        model = onnx_int8() if precision == "int8" else onnx_fused()
        script = Path(__file__).with_name("_onnx_server.py")
        command = [sys.executable, script, model, presets.resolve(MINILM) / "tokenizer.json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])

    def target(self, protocol: str) -> str:
        return f"http://127.0.0.1:{self.port}/"


class Server:
    """`keras-bert serve` in a process, on free ports."""

    def __init__(self, directory: Path, *options: str) -> None:
        command = [sys.executable, "-m", "keras_bert.cli", "serve", directory, "--port", "0", "--rest-port", "0"]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
        self.port, self.rest_port = map(int, re.findall(r"port (\d+)", self.process.stdout.readline()))

    def target(self, protocol: str) -> str:
        rest = f"http://127.0.0.1:{self.rest_port}/v1/models/minilm:predict"
        return {"gRPC": f"127.0.0.1:{self.port}", "REST": rest}[protocol]


def sentences() -> list[str]:
    if not STSB.is_file():
        return SENTENCES
    return [text for row in csv.reader(STSB.open(encoding="utf-8")) for text in row[:2]]


def bodies(protocol: str, texts: list[str]) -> list[str]:
    """The requests, a text each, in base64."""
    if protocol == "REST":
        requests = [json.dumps({"instances": [text]}).encode() for text in texts]
    else:
        requests = []
        for text in texts:
            request = predict_pb2.PredictRequest(model_spec={"name": "minilm"})
            request.inputs["text"].CopyFrom(tf.make_tensor_proto([text]))
            requests.append(request.SerializeToString())
    return [base64.b64encode(request).decode() for request in requests]


def in_process(
    signature: Callable, batches: list[list[str]], threads: int, seconds: float
) -> tuple[list[float], float]:
    """The seconds that every call took, and all of them together."""
    latencies: list[float] = []
    inputs = itertools.cycle([tf.constant(batch) for batch in batches])
    start = time.perf_counter()

    def call() -> None:
        while (begin := time.perf_counter()) < start + seconds:
            signature(text=next(inputs))["embedding"].numpy()
            latencies.append(time.perf_counter() - begin)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: call(), range(threads)))
    return latencies, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="for each figure of a round")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--max-batch", type=int, default=16)
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    arguments = parse(parser, rounds=1, seconds=0.5, clients=[1, 8])
    heading(PACKAGES)

    everything = sentences()
    texts = [everything[i * len(everything) // 512] for i in range(512)] if len(everything) > 512 else everything
    texts = [str(text) for text in np.random.default_rng(0).permutation(texts)]
    model = BertSentenceEncoder.from_preset(MINILM, precision=arguments.precision)
    signature = tf.saved_model.load(export_serving(model, FOLDER)).signatures["serving_default"]
    by_length = sorted(texts, key=len)
    batches = [by_length[i : i + arguments.max_batch] for i in range(0, len(texts), arguments.max_batch)]
    max_batch = ["--max-batch", str(arguments.max_batch)]
    servers = {
        "batching": Server(FOLDER, *max_batch),
        "no batching": Server(FOLDER, *max_batch, "--no-batching"),
    }
    if importlib.util.find_spec("onnxruntime"):
        servers[ONNX] = OnnxServer(arguments.precision)
    clients = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("_serve_clients.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    all_bodies = {protocol: bodies(protocol, texts) for protocol in ("gRPC", "REST")}
    latencies: dict[str, list[float]] = defaultdict(list)

    def measured(name: str, protocol: str, mode: str, count: int) -> float:
        job = {
            "protocol": protocol, "target": servers[mode].target(protocol), "bodies": all_bodies[protocol],
            "clients": count, "seconds": arguments.seconds,
        }  # fmt: skip
        print(json.dumps(job), file=clients.stdin, flush=True)
        result = json.loads(clients.stdout.readline())
        latencies[name] += result["latencies"]
        return len(result["latencies"]) / result["seconds"]

    def limit(name: str, groups: list[list[str]], threads: int) -> float:
        seconds, total = in_process(signature, groups, threads, arguments.seconds)
        latencies[name] += seconds
        return len(seconds) * len(groups[0]) / total

    jobs: dict[str, Callable[[], float]] = {}
    for count in arguments.clients:
        name = f"in process, {count}"
        jobs[name] = functools.partial(limit, name, [[text] for text in texts], count)
        for protocol, mode in itertools.product(all_bodies, servers):
            if (protocol, mode) == ("gRPC", ONNX):
                continue
            name = f"{protocol}, {mode}, {count}"
            jobs[name] = functools.partial(measured, name, protocol, mode, count)
    name = f"in process, batches of {arguments.max_batch}"
    jobs[name] = functools.partial(limit, name, batches, 2)
    for job in jobs.values():  # once, so that everything is warm
        job()
    latencies.clear()
    rates = interleave(jobs, arguments.rounds)

    words = np.mean([len(text.split()) for text in texts])
    print(f"{len(texts)} sentences of {words:.1f} words, {arguments.precision}; median of {arguments.rounds} rounds")
    rows = []
    for name in jobs:
        label, _, count = name.rpartition(", ")
        p50, p99 = np.percentile(latencies[name], [50, 99]) * 1000
        base = rates.get(name.replace(", batching", ", no batching"))
        ratio = ratios(rates[name], base) if ", batching" in name else ""
        if name.startswith("in process, batches"):
            label, count = name, "-"
        rows.append([label, count, f"{statistics.median(rates[name]):.0f}", f"{p50:.1f}", f"{p99:.1f}", ratio])
    table(["", "clients", "requests/s", "p50, ms", "p99, ms", "to no batching (min..max)"], rows)
    clients.stdin.close()
    for server in servers.values():
        server.process.terminate()
        server.process.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        FOLDER = Path(folder) / "minilm"
        run(main)
