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
    """Runs the program in several processes. Returns the output of each, and the arrays that it wrote."""
    results = [folder / f"{kind}{processes}_{i}.npz" for i in range(processes)]
    arguments = [["-m", "tests.training.on_replicas", kind, str(folder), str(result)] for result in results]
    finished = in_cluster(arguments)
    for process in finished:
        assert process.returncode == 0, process.stderr[-3000:]
    return [json.loads(process.stdout) for process in finished], [dict(np.load(result)) for result in results]


def in_cluster(arguments):
    """Runs Python with each of these arguments, as the workers of one cluster if there are several."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in arguments]
        for each in sockets:
            each.bind(("localhost", 0))
        workers = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    started = []
    for i, command in enumerate(arguments):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
        if len(workers) > 1:
            cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": i}}
            environment["TF_CONFIG"] = json.dumps(cluster)
        settings = {"env": environment, "cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen([sys.executable, *command], **settings))
    outputs = [process.communicate() for process in started]
    return [
        subprocess.CompletedProcess(process.args, process.returncode, *output)
        for process, output in zip(started, outputs, strict=True)
    ]


@pytest.fixture(scope="module")
def alone(folder):
    told, [arrays] = train("one", folder)
    assert told == [{"replicas": 1, "chief": True, "rows": list(range(ROWS))}]
    return arrays


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "processes"), [("mirrored", 1), ("multi_worker", 3)], ids=["mirrored", "three"])
def test_the_same_as_one_replica(folder, alone, kind, processes):
    told, results = train(kind, folder, processes)
    assert [each["replicas"] for each in told] == [max(2, processes)] * processes
    assert [each["chief"] for each in told] == [True] + [False] * (processes - 1)
    assert sorted(row for each in told for row in each["rows"]) == list(range(ROWS))
    for arrays in results:
        assert {name.split()[0] for name in arrays} == set(on_replicas.JOBS[kind])
        same = [name for name in arrays if name.startswith("answered") and name.endswith(SAME_EVERYWHERE)]
        assert len(same) == (2 if kind == "mirrored" else 0)
        for name, found in arrays.items():
            if name in same:
                continue
            is_weight = not name.endswith((" numbers", " predictions"))
            np.testing.assert_allclose(found, alone[name], atol=1e-4 if is_weight else 1e-5, err_msg=name)


# In batches of all rows, which are shuffled.
FIT = """
import numpy as np
from keras_bert.training import Replicated, strategy
with strategy().scope():
    import keras
    class Model(Replicated, keras.Model):
        pass
    inputs = keras.Input([1])
    model = Model(inputs, keras.layers.Dense(1, kernel_initializer="zeros")(inputs))
    model.compile("sgd", "mse")
rows = np.arange(7.0)[:, None]
loss = model.fit(rows, 2 * rows, batch_size=7, shuffle=True, verbose=0).history["loss"]
print(loss[0])
"""


@pytest.mark.timing
@pytest.mark.slow
def test_any_keras_model():
    finished = in_cluster([["-c", FIT]] * 2)
    for process in finished:
        assert process.returncode == 0, process.stderr[-3000:]
        assert float(process.stdout) == pytest.approx(4 * (0 + 1 + 4 + 9 + 16 + 25 + 36) / 7)


MIXED = """
import keras, tensorflow as tf
two = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
from keras_bert import BertClassifier, BertEncoder
from keras_bert.training import fine_tune, strategy
from tests.support import reviews

plain = reviews.classifier()
for kind in ("one", "mirrored"):
    keras.utils.set_random_seed(0)
    with strategy(kind).scope():
        encoder = BertEncoder(plain.encoder.config, dtype="mixed_bfloat16")
        model = BertClassifier(encoder, plain.preprocessor, reviews.LABELS, dropout=0.0)
    settings = {"epochs": 4, "batch_size": 8, "learning_rate": 1e-3, "progress": False}
    print(*[epoch["loss"] for epoch in fine_tune(model, reviews.examples(16), **settings)])
"""


@pytest.mark.slow
def test_mixed_precision():
    """In bfloat16, one replica and two come to the same losses, as near as its eight bits of precision say."""
    done = subprocess.run([sys.executable, "-c", MIXED], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    one, two = ([float(loss) for loss in line.split()] for line in done.stdout.strip().splitlines()[-2:])
    assert two == pytest.approx(one, abs=5e-3)
    assert len(set(one)) == 4
