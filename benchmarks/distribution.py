"""Training on replicas: what a step costs on one and on two, what is sent, and whether killed runs end the same.

python benchmarks/distribution.py steps [--rounds 5]
python benchmarks/distribution.py kill [--runs 10] [--data DIR]

`steps`: MiniLM, AdamW, a global batch of 32 rows of 64 tokens, without dropout; each contestant is a group of
processes, pinned to cores, and all are interleaved. Also prints what a ring of many GPUs would give on paper.
`kill`: a classifier trained by `keras-bert launch --workers 2`, a worker of which is killed at a random moment after
its first checkpoint, so many times; beside a run that is left alone. docs/benchmarks.md has what came out.
"""

import argparse
import functools
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from _measure import DATA, Elsewhere, answer_calls, heading, interleave, need, parse, ratios, run, table

from keras_bert.training.run import load_state

ROWS, TOKENS, STEPS = 32, 64, 4
ALONE = "one process, both cores"
# Name -> the strategy, and the cores of each process.
GROUPS = {
    "one process, one core": ("one", ["0"]),
    ALONE: ("one", ["0,1"]),
    "two replicas in one process": ("mirrored", ["0,1"]),
    "two processes, a core each": ("multi_worker", ["0", "1"]),
}
# On paper. Bytes a second that a GPU sends to the next one, in a machine of eight and between machines.
NEAR, FAR = 300e9, 25e9


def trainer(kind: str):
    """In a process of a group: takes steps, and returns how many rows a second."""
    import numpy as np
    import tensorflow as tf

    own = len(os.sched_getaffinity(0))
    if kind == "mirrored":
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
    tf.config.threading.set_intra_op_parallelism_threads(1 if kind == "mirrored" else own)
    from keras_bert import BertClassifier
    from keras_bert.training import AdamW, distribution, strategy

    with strategy(kind).scope():
        model = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["a", "b"], sequence_length=TOKENS, dropout=0.0)
        model.compile(AdamW(1e-5, global_clipnorm=1.0), model.training_loss(), jit_compile=False)
    generator = np.random.default_rng(0)
    row = {
        "input_word_ids": generator.integers(1000, 20000, (ROWS, TOKENS)).astype("int32"),
        "input_mask": np.ones((ROWS, TOKENS), "int32"),
        "input_type_ids": np.zeros((ROWS, TOKENS), "int32"),
    }
    batch = tf.data.Dataset.from_tensors((row, generator.integers(0, 2, ROWS))).repeat(STEPS)
    batches = batch.with_options(distribution.DATA_OPTIONS)

    def work(what: str) -> float:
        if what == "bytes":
            return sum(4 * variable.value.shape.num_elements() for variable in model.trainable_variables)
        start = time.perf_counter()
        model.fit(batches, verbose=0)
        return STEPS * ROWS / (time.perf_counter() - start)

    work("steps")  # which traces the graphs
    return work


class Group:
    """Processes that train one model: called, all take steps, and the slowest one's rate is returned."""

    def __init__(self, kind: str, pinned: list[str]) -> None:
        with ExitStack() as held:
            sockets = [held.enter_context(socket.socket()) for _ in pinned]
            for each in sockets:
                each.bind(("localhost", 0))
            cluster = {"worker": [f"localhost:{each.getsockname()[1]}" for each in sockets]}
        self._processes = []
        for i, own in enumerate(pinned):
            config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": i}})
            setting = [f"TF_CONFIG={config}"] if len(pinned) > 1 else []
            program = [sys.executable, __file__, "trainer", "--kind", kind]
            self._processes.append(Elsewhere(["taskset", "-c", own, "env", *setting, *program], wait=False))
        for process in self._processes:
            process.wait()

    def __call__(self, what: str = "steps") -> float:
        for process in self._processes:
            process.ask(what)
        return min(process.answer() for process in self._processes)


def steps(arguments: argparse.Namespace) -> None:
    heading(["tensorflow", "keras"])
    print(f"{ROWS} rows of {TOKENS} tokens a step")
    groups = {name: Group(*how) for name, how in GROUPS.items() if name in (ALONE, *arguments.only)}
    sent = groups[ALONE]("bytes")
    rates = interleave(groups, arguments.rounds)
    table(
        ("", "seconds a step", f"beside {ALONE}"),
        ([name, f"{ROWS / statistics.median(each):.3f}", ratios(each, rates[ALONE])] for name, each in rates.items()),
    )
    print(f"On paper, for steps of 100 ms. Then {sent / 1e6:.1f} MB of gradients are sent:")
    seconds = {count: on_paper(sent, count) for count in (8, 64, 512)}
    table(
        ("GPUs", "ms to add up the gradients", "efficiency"),
        ([count, f"{1000 * each:.2f}", f"{0.1 / (0.1 + each):.1%}"] for count, each in seconds.items()),
    )


def on_paper(sent: float, gpus: int) -> float:
    """Seconds in which rings of eight GPUs in a machine, and of the machines, add up the bytes of each."""
    machines = gpus // 8
    return 2 * (7 / 8) * sent / NEAR + 2 * (machines - 1) / machines * (sent / 8) / FAR


def kill(arguments: argparse.Namespace) -> None:
    import psutil  # noqa: F401 - `final_loss` needs it

    need(arguments.data)
    heading(["tensorflow", "keras"])
    table(("run", "what happened", "loss", "apart"), killed_runs(arguments))


def killed_runs(arguments: argparse.Namespace) -> Iterator[list[object]]:
    """Yields a row for the run that is left alone, and one for each of the others."""
    generator = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        happened, expected = final_loss(Path(folder) / "alone", arguments.data, None)
        yield ["undisturbed", happened, expected, ""]
        for i in range(arguments.runs):
            happened, found = final_loss(Path(folder) / str(i), arguments.data, generator)
            yield [i + 1, happened, found, f"{abs(found - expected):.1e}"]


def final_loss(output: Path, data: Path, generator: random.Random | None) -> tuple[str, float]:
    """Returns what happened in a run, and the loss of its last epoch. A generator draws the moment to kill a worker."""
    train = data / "sst2/dev.tsv"
    recipe = ["--epochs", "4", "--batch-size", "32", "--seed", "0", "--learning-rate", "3e-4"]
    columns = ["--text-column", "content", "--label-column", "label", "--train", str(train)]
    command = ["finetune", "classify", "--preset", str(data / "bert-tiny-mlm"), *columns, *recipe]
    program = [sys.executable, "-m", "keras_bert.cli", "launch", "--workers", "2", "--", *command]
    process = subprocess.Popen([*program, "--output", str(output)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if generator is not None:
        import psutil

        state = output / "training/state.safetensors"
        while not state.exists():
            if process.poll() is not None:
                sys.exit(process.communicate()[0].decode())
            time.sleep(0.05)
        time.sleep(generator.uniform(0, 4))
        workers = psutil.Process(process.pid).children()
        if workers:
            generator.choice(workers).kill()
    said = process.communicate()[0].decode()
    if process.returncode:
        sys.exit(said)
    happened = "" if generator is None else "restarted" if "begin again" in said else "killed after its end"
    return happened, load_state(output / "training/state.safetensors")[1]["history"][-1]["loss"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["steps", "kill", "trainer"], default="steps")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS), help=f"these beside {ALONE}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, default=DATA)
    arguments = parse(parser, rounds=1, runs=1, only=["two processes, a core each"])
    if arguments.what == "trainer":
        answer_calls(functools.partial(trainer, arguments.kind))
    else:
        {"steps": steps, "kill": kill}[arguments.what](arguments)


if __name__ == "__main__":
    run(main)
