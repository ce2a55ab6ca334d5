"""Training on several replicas comes to what one replica comes to with the same batches."""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack

import numpy as np
import pytest

from keras_bert.loss_table import losses_of
from keras_bert.pretraining import write_records
from keras_bert.tasks import losses
from keras_bert.tasks.losses import sentence_losses
from keras_bert.tasks.losses.sentence_losses import MatryoshkaLoss, VectorMSELoss
from keras_bert.training import strategy

from ..support.data import ROOT
from . import on_replicas
from .on_replicas import ROWS, WORDS

DEVICES = {
    "mirrored": "{0} devices of this machine",
    "multi_worker": "{0} devices of {0} processes",
}
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
    settings = {"layout": "sentences", "predictions": 3, "progress": False}
    counts = write_records([directory / "text.txt"], directory / "records", preprocessor, **settings)
    assert counts["examples"] % 16 % 3  # the last batch is uneven too
    return directory


def start(kind, replicas, folder):
    """Starts the program, in several processes if need be. Returns these, and the files that they write."""
    processes = replicas if kind == "multi_worker" else 1
    results = [folder / f"{kind}{replicas}_{i}.npz" for i in range(processes)]
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
        command = [sys.executable, "-m", on_replicas.__name__, kind, str(replicas), str(folder), str(result)]
        started.append(subprocess.Popen(command, **settings))
    return started, results


def ended(kind, replicas, started, results):
    """What each process says, and the arrays that it wrote."""
    outputs = [process.communicate() for process in started]
    for process, (_, errors) in zip(started, outputs, strict=True):
        assert process.returncode == 0, errors[-3000:]
        assert f"training on {DEVICES[kind].format(replicas)}\n" in errors
    return [json.loads(output) for output, _ in outputs], [dict(np.load(result)) for result in results]


@pytest.mark.timing
@pytest.mark.slow
def test_the_same_as_one_replica(folder, untraced):
    """This process trains on one device, beside those of this machine's replicas."""
    mirrored, multi_worker = ([each for each in on_replicas.JOBS if each[0] == kind] for kind in DEVICES)
    processes = {each: start(*each, folder) for each in mirrored}
    names = sorted({name for names in on_replicas.JOBS.values() for name in names})
    alone, notes = on_replicas.train(strategy("one"), names, folder)
    assert notes == {"replicas": 1, "chief": True, "rows": list(range(ROWS))}
    # The jobs change what they train, or replicas would agree on nothing.
    assert len(set(alone["mixed numbers"])) == 4
    assert alone["any_model any/kernel"] > 1.1  # it was 1
    assert alone["any_model numbers"][-1] == 2  # updates of four batches
    processes |= {each: start(*each, folder) for each in multi_worker}
    for (kind, replicas), (started, files) in processes.items():
        notes, results = ended(kind, replicas, started, files)
        assert [each["replicas"] for each in notes] == [replicas] * len(results)
        assert [each["chief"] for each in notes] == [True] + [False] * (len(results) - 1)
        assert sorted(row for each in notes for row in each["rows"]) == list(range(ROWS))
        for arrays in results:
            assert {name.split()[0] for name in arrays} == set(on_replicas.JOBS[kind, replicas])
            same = [name for name in arrays if name.startswith("answered") and name.endswith(SAME_EVERYWHERE)]
            assert len(same) == (2 if "answered" in on_replicas.JOBS[kind, replicas] else 0)
            for name in arrays.keys() - same:
                job, what = name.split()
                tolerance = 1e-5 if what == "numbers" or job in on_replicas.COMPARING else 1e-4
                tolerance = 5e-3 if job == "mixed" else tolerance  # as near as bfloat16's eight bits of precision say
                message = f"{name} of {replicas} {kind}"
                np.testing.assert_allclose(arrays[name], alone[name], atol=tolerance, err_msg=message)


def test_every_loss_that_compares_rows_is_tried_on_replicas():
    """A loss compares rows if that of a batch is not the mean of its rows' losses."""
    random, comparing = np.random.default_rng(0), set()
    ranking, sentences = ([losses.maker(name) for name in losses_of(each)] for each in ("rankings", "vectors"))
    for kind in {*sentences, *ranking, VectorMSELoss, sentence_losses.GISTEmbedLoss}:
        loss, is_list = kind(), kind in ranking and kind is not sentence_losses.MarginMSELoss
        of_three = ("TripletLoss", "MarginMSELoss", "DistillKLDivLoss")
        columns = 3 if kind.__name__ in of_three else 2
        y_pred = random.normal(size=(6, 3) if is_list else (6, columns, 8)).astype("float32")
        y_true = np.float32([[1, 0, 0], [0, 1, 1], [2, 1, 0]] * 2) if is_list else np.linspace(0, 1, 6, dtype="float32")
        y_true = y_pred[::-1] if kind in (VectorMSELoss, sentence_losses.GISTEmbedLoss) else y_true
        y_true = np.stack([y_true, 1 - y_true], 1) if kind is sentence_losses.DistillKLDivLoss else y_true
        rows = [float(loss(y_true[i : i + 1], y_pred[i : i + 1])) for i in range(6)]
        if not np.isclose(float(loss(y_true, y_pred)), np.mean(rows)):
            comparing.add(type(loss))
    assert comparing == {type(loss) for loss in on_replicas.COMPARING.values() if loss} - {MatryoshkaLoss}
