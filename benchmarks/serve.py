"""Requests a second and latencies of `keras-bert serve`: all-MiniLM-L6-v2, a sentence a request.

python benchmarks/serve.py [--rounds 5] [--seconds 2] [--clients 1 8 64] [--max-batch 16] [--precision int8]
    [--engines onnx openvino]

Of the model's SavedModel, and of its exports for --engines. Beside them, if it is installed, ONNX Runtime with Hugging
Face's tokenizer in a bare handler of aiohttp. The clients are one process beside the servers', on the same cores; each
sends its next request when it has its answer. "In process" is the limit: the signature called from as many threads,
without a server, and in batches of --max-batch sentences of similar length.
"""

import base64
import functools
import importlib.util
import itertools
import json
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

import numpy as np
import psutil
from _measure import MINILM, heading, interleave, options, parse, ratios, run, sentences, table
from _minilm_onnx import onnx_fused, onnx_int8

from keras_bert import BertSentenceEncoder, runtimes
from keras_bert.inference import PRECISIONS
from keras_bert.runtime_table import RUNTIMES
from keras_bert.saved_model import export_serving

PACKAGES = ["tensorflow", "grpcio", "aiohttp", "protobuf", "onnxruntime", "tokenizers"]
ONNX = "ONNX Runtime"
FOLDER = tempfile.TemporaryDirectory()  # removed when the process ends


class Process:
    """A server in a process, on free ports."""

    protocols = ("REST",)

    def __init__(self, *command: object, **pipes: int) -> None:
        command = [sys.executable, *map(str, command)]
        start = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **pipes)
        line = self.process.stdout.readline()
        self.seconds, self.ready_megabytes = time.perf_counter() - start, self.megabytes()
        self.ports = re.findall(r"port (\d+)", line)
        self.name = line.split()[1]  # "Serving NAME version 1 at ...", of ours

    def megabytes(self) -> float:
        return psutil.Process(self.process.pid).memory_info().rss / 1e6

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


class OnnxServer(Process):
    def __init__(self, precision: str) -> None:
        model = onnx_int8() if precision == "int8" else onnx_fused()
        super().__init__(Path(__file__).with_name("_onnx_server.py"), model)

    def target(self, protocol: str) -> str:
        return f"http://127.0.0.1:{self.ports[0]}/"


class ExportServer(Process):
    """`keras-bert serve`, of an export."""

    def __init__(self, directory: Path, *options: str, **pipes: int) -> None:
        super().__init__("-m", "keras_bert.cli", "serve", directory, "--rest-port", "0", *options, **pipes)

    def target(self, protocol: str) -> str:
        rest = f"http://127.0.0.1:{self.ports[-1]}/v1/models/{self.name}:predict"
        return {"gRPC": f"127.0.0.1:{self.ports[0]}", "REST": rest}[protocol]


class Server(ExportServer):
    """`keras-bert serve`, of a SavedModel."""

    protocols = ("gRPC", "REST")

    def __init__(self, directory: Path, *options: str, **pipes: int) -> None:
        super().__init__(directory, "--port", "0", *options, **pipes)


def bodies(protocol: str, texts: list[str]) -> list[str]:
    """The requests, a text each, in base64."""
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    def request(text: str) -> bytes:
        if protocol == "REST":
            return json.dumps({"instances": [text]}).encode()
        inputs = {"text": tf.make_tensor_proto([text])}
        return predict_pb2.PredictRequest(model_spec={"name": "minilm"}, inputs=inputs).SerializeToString()

    return [base64.b64encode(request(text)).decode() for text in texts]


def in_process(signature: Callable, batches: list[list[str]], threads: int, seconds: float) -> tuple[list, float]:
    """The seconds that every call took, and all of them together."""
    import tensorflow as tf

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
    parser = options(__doc__, rounds=5, seconds=2.0, clients=[1, 8, 64], max_batch=16)
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    can_load = [name for name, each in RUNTIMES.items() if each.can_load]
    parser.add_argument("--engines", nargs="*", choices=can_load, default=can_load[:1])
    arguments = parse(parser, rounds=1, seconds=0.2, clients=[8])
    import tensorflow as tf

    texts = [str(text) for text in np.random.default_rng(0).permutation(sentences(512, "dev"))]
    heading(PACKAGES)
    directory = Path(FOLDER.name, "minilm")
    model = BertSentenceEncoder.from_preset(MINILM, precision=arguments.precision)
    signature = tf.saved_model.load(export_serving(model, directory)).signatures["serving_default"]
    by_length = sorted(texts, key=len)
    batches = [by_length[i : i + arguments.max_batch] for i in range(0, len(texts), arguments.max_batch)]
    max_batch = ["--max-batch", str(arguments.max_batch)]
    servers = {"batching": Server(directory, *max_batch), "no batching": Server(directory, *max_batch, "--no-batching")}
    for name in arguments.engines:
        export = getattr(runtimes, f"export_{name}")
        exported = BertSentenceEncoder.from_preset(MINILM)
        export(exported, directory.with_name(name), precision=arguments.precision)
        servers[f"export, {RUNTIMES[name].title}"] = ExportServer(directory.with_name(name), *max_batch)
    if importlib.util.find_spec("onnxruntime"):
        servers[ONNX] = OnnxServer(arguments.precision)
    command = [sys.executable, Path(__file__).with_name("_serve_clients.py")]
    clients = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    all_bodies = {protocol: bodies(protocol, texts) for protocol in ("gRPC", "REST")}
    latencies: dict[str, list[float]] = defaultdict(list)

    def measured(name: str, protocol: str, mode: str, count: int) -> float:
        job = {"protocol": protocol, "target": servers[mode].target(protocol), "bodies": all_bodies[protocol]}
        job |= {"clients": count, "seconds": arguments.seconds}
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
            if protocol not in servers[mode].protocols:
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
    table(
        ["", "until ready, s", "memory then, MB", "at the end, MB"],
        [
            [name, f"{each.seconds:.1f}", f"{each.ready_megabytes:.0f}", f"{each.megabytes():.0f}"]
            for name, each in servers.items()
        ],
    )
    clients.stdin.close()
    for server in servers.values():
        server.stop()


if __name__ == "__main__":
    run(main)
