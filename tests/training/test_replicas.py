"""Training on several replicas comes to what one replica comes to with the same batches."""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack

import numpy as np
import pytest

from keras_bert.pretraining import write_records

from ..support.data import ROOT
from . import on_replicas
from .on_replicas import ROWS, WORDS

DEVICES = {"one": "one device", "mirrored": "2 devices of this machine", "multi_worker": "3 devices of 3 processes"}
# Of a question answerer: they add the same to the scores of all places, so that their gradients are but rounding.
SAME_EVERYWHERE = ("spans_head/logits/bias", "block_0/output_norm/beta")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With `records`, of a corpus of those words."""
    directory = tmp_path_factory.mktemp("replicas")
    generator = np.random.default_rng(0)
    sentences = [" ".join(generator.choice(WORDS, generator.integers(2, 8))) for _ in range(160)]
    (directory / "text.txt").write_text("\n\n".join("\n".join(sentences[i : i + 4]) for i in range(0, 160, 4)))
    _, preprocessor = on_replicas.encoder_and_preprocessor(sequence_length=16)
    counts = write_records(
        [directory / "text.txt"], directory / "records", preprocessor, layout="sentences", predictions=3, progress=False
    )
    assert counts["examples"] % 16 % 3  # the last batch is uneven too
    return directory


def train(kind, folder, processes=1):
    """Runs the program in several processes. Returns what each says, and the arrays that it wrote."""
    results = [folder / f"{kind}{processes}_{i}.npz" for i in range(processes)]
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in results]
        for each in sockets:
            each.bind(("localhost", 0))
        workers = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    started = []
    for i, result in enumerate(results):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
        if processes > 1:
            cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": i}}
            environment["TF_CONFIG"] = json.dumps(cluster)
        settings = {"env": environment, "cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [sys.executable, "-m", on_replicas.__name__, kind, str(folder), str(result)]
        started.append(subprocess.Popen(command, **settings))
    outputs = [process.communicate() for process in started]
    for process, (_, errors) in zip(started, outputs, strict=True):
        assert process.returncode == 0, errors[-3000:]
        assert f"training on {DEVICES[kind]}\n" in errors
    return [json.loads(output) for output, _ in outputs], [dict(np.load(result)) for result in results]


@pytest.fixture(scope="module")
def alone(folder):
    notes, [arrays] = train("one", folder)
    assert notes == [{"replicas": 1, "chief": True, "rows": list(range(ROWS))}]
    return arrays


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "processes"), [("mirrored", 1), ("multi_worker", 3)], ids=["mirrored", "three"])
def test_the_same_as_one_replica(folder, alone, kind, processes):
    notes, results = train(kind, folder, processes)
    assert [each["replicas"] for each in notes] == [max(2, processes)] * processes
    assert [each["chief"] for each in notes] == [True] + [False] * (processes - 1)
    assert sorted(row for each in notes for row in each["rows"]) == list(range(ROWS))
    for arrays in results:
        assert {name.split()[0] for name in arrays} == set(on_replicas.JOBS[kind])
        same = [name for name in arrays if name.startswith("answered") and name.endswith(SAME_EVERYWHERE)]
        assert len(same) == (2 if kind == "mirrored" else 0)
        for name in arrays.keys() - same:
            job, what = name.split()
            tolerance = 1e-5 if what == "numbers" or job in on_replicas.COMPARING else 1e-4
            tolerance = 5e-3 if job == "mixed" else tolerance  # as near as bfloat16's eight bits of precision say
            np.testing.assert_allclose(arrays[name], alone[name], atol=tolerance, err_msg=name)


@pytest.mark.slow
def test_the_jobs_change_what_they_train(alone):
    """Or replicas would agree on nothing."""
    assert len(set(alone["mixed numbers"])) == 4
    assert alone["any_model any/kernel"] > 1.1  # it was 1
    assert alone["any_model numbers"][-1] == 2  # updates of four batches
