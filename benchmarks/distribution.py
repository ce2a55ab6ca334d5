"""Training on replicas: what a step costs on one and on two, what is sent, and what that would take on GPUs.

python benchmarks/distribution.py [--rounds 5] [--only "two processes, a core each"]

MiniLM, AdamW, a global batch of --rows of 64 tokens, without dropout; each contestant is a group of processes, pinned
to cores; --only names some beside one process on both cores. Also prints what a ring of many GPUs would give on paper.
"""

import json
import os
import socket
import statistics
from contextlib import ExitStack

from _measure import MINILM, Elsewhere, heading, interleave, options, parse, rate, ratios, run, table

TOKENS, STEPS = 64, 4
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


def trainer(kind: str, rows: int):
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
        model = BertClassifier.from_preset(MINILM, labels=["a", "b"], sequence_length=TOKENS, dropout=0.0)
        model.compile(AdamW(1e-5, global_clipnorm=1.0), model.training_loss(), jit_compile=False)
    generator = np.random.default_rng(0)
    row = {
        "input_word_ids": generator.integers(1000, 20000, (rows, TOKENS)).astype("int32"),
        "input_mask": np.ones((rows, TOKENS), "int32"),
        "input_type_ids": np.zeros((rows, TOKENS), "int32"),
    }
    batch = tf.data.Dataset.from_tensors((row, generator.integers(0, 2, rows))).repeat(STEPS)
    batches = batch.with_options(distribution.DATA_OPTIONS)

    def work(what: str) -> float:
        if what == "bytes":
            return sum(4 * variable.value.shape.num_elements() for variable in model.trainable_variables)
        return rate(lambda: model.fit(batches, verbose=0), STEPS * rows)

    work("steps")  # which traces the graphs
    return work


class Group:
    """Processes that train one model: called, all take steps, and the slowest one's rate is returned."""

    def __init__(self, rows: int, kind: str, pinned: list[str]) -> None:
        with ExitStack() as held:
            sockets = [held.enter_context(socket.socket()) for _ in pinned]
            for each in sockets:
                each.bind(("localhost", 0))
            cluster = {"worker": [f"localhost:{each.getsockname()[1]}" for each in sockets]}
        self._processes = []
        for i, own in enumerate(pinned):
            config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": i}})
            setting = {"TF_CONFIG": config} if len(pinned) > 1 else {}
            work = ("distribution", "trainer", kind, rows)
            self._processes.append(Elsewhere(*work, before=["taskset", "-c", own], wait=False, **setting))
        for process in self._processes:
            process.wait()

    def __call__(self, what: str = "steps") -> float:
        for process in self._processes:
            process.ask(what)
        return min(process.answer() for process in self._processes)


def on_paper(sent: float, gpus: int) -> float:
    """Seconds in which rings of eight GPUs in a machine, and of the machines, add up the bytes of each."""
    machines = gpus // 8
    return 2 * (7 / 8) * sent / NEAR + 2 * (machines - 1) / machines * (sent / 8) / FAR


def main() -> None:
    parser = options(__doc__, rounds=5, rows=32, only=list(GROUPS))
    arguments = parse(parser, rounds=1, rows=2, only=["two processes, a core each"])
    heading(["tensorflow", "keras"])
    print(f"{arguments.rows} rows of {TOKENS} tokens a step")
    groups = {name: Group(arguments.rows, *how) for name, how in GROUPS.items() if name in (ALONE, *arguments.only)}
    sent = groups[ALONE]("bytes")
    rates = interleave(groups, arguments.rounds)
    took = {name: f"{arguments.rows / statistics.median(each):.3f}" for name, each in rates.items()}
    rows = ([name, took[name], ratios(each, rates[ALONE])] for name, each in rates.items())
    table(("", "seconds a step", f"beside {ALONE}"), rows)
    print(f"On paper, for steps of 100 ms. Then {sent / 1e6:.1f} MB of gradients are sent:")
    seconds = {count: on_paper(sent, count) for count in (8, 64, 512)}
    rows = ([count, f"{1000 * each:.2f}", f"{0.1 / (0.1 + each):.1%}"] for count, each in seconds.items())
    table(("GPUs", "ms to add up the gradients", "efficiency"), rows)


if __name__ == "__main__":
    run(main)
