"""Training on several replicas comes to what one replica comes to with the same batches."""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from keras_bert.pretraining import write_records

from . import on_replicas
from .on_replicas import ROWS, WORDS

ROOT = Path(__file__).parents[2]
# Of a question answerer: they add the same to the scores of all places, so that their gradients are but rounding.
SAME_EVERYWHERE = ("spans_head/logits/bias", f"block_{on_replicas.CONFIG.num_layers - 1}/output_norm/beta")


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
    """Runs the program in so many processes: what each of them told, and the arrays that it wrote."""
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "processes"), [("mirrored", 1), ("multi_worker", 2), ("multi_worker", 3)], ids=["mirrored", "two", "three"]
)
def test_the_same_as_one_replica(folder, alone, kind, processes):
    told, results = train(kind, folder, processes)
    assert [each["replicas"] for each in told] == [max(2, processes)] * processes
    assert [each["chief"] for each in told] == [True] + [False] * (processes - 1)
    assert sorted(row for each in told for row in each["rows"]) == list(range(ROWS))
    for arrays in results:
        assert set(arrays) == set(alone)
        assert sum(name.startswith("answered") and name.endswith(SAME_EVERYWHERE) for name in alone) == 2
        for name, expected in alone.items():
            if name.startswith("answered") and name.endswith(SAME_EVERYWHERE):
                continue
            is_weight = not name.endswith((" numbers", " predictions"))
            np.testing.assert_allclose(arrays[name], expected, atol=1e-4 if is_weight else 1e-5, err_msg=name)


# In batches of all rows, which are shuffled. Arguments: "plain", a model of Keras's own, or "replicated".
FIT = """
import sys
import numpy as np
from keras_bert.training import Replicated, strategy
with strategy().scope():
    import keras
    class Model(*([Replicated] if sys.argv[1] == "replicated" else []), keras.Model):
        pass
    inputs = keras.Input([1])
    model = Model(inputs, keras.layers.Dense(1, kernel_initializer="zeros")(inputs))
    model.compile("sgd", "mse")
rows = np.arange(7.0)[:, None]
loss = model.fit(rows, 2 * rows, batch_size=7, shuffle=True, verbose=0).history["loss"]
print(loss[0])
"""


@pytest.mark.slow
def test_any_keras_model():
    finished = in_cluster([["-c", FIT, "replicated"]] * 2)
    for process in finished:
        assert process.returncode == 0, process.stderr[-3000:]
        assert float(process.stdout) == pytest.approx(4 * (0 + 1 + 4 + 9 + 16 + 25 + 36) / 7)


@pytest.mark.slow
def test_keras_alone_still_fails():
    """When this fails, Keras has been mended: see whether `Replicated` is still needed."""
    finished = in_cluster([["-c", FIT, "plain"]] * 2)
    assert all(process.returncode for process in finished)


MIXED = """
import keras, tensorflow as tf
two = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
from keras_bert import BertClassifier, BertConfig, BertEncoder, BertPreprocessor
from keras_bert.training import fine_tune, strategy

examples = ["I love pizza", "it rains", "rice and beans", "a cold wind"] * 4, ["food", "weather"] * 8
config = BertConfig.named("bert-tiny", hidden_dropout=0.0, attention_dropout=0.0)
preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=8)
for kind in ("one", "mirrored"):
    keras.utils.set_random_seed(0)
    with strategy(kind).scope():
        encoder = BertEncoder(config, dtype="mixed_bfloat16")
        model = BertClassifier(encoder, preprocessor, ["food", "weather"], dropout=0.0)
    settings = {"epochs": 4, "batch_size": 8, "learning_rate": 1e-3, "progress": False}
    print(*[epoch["loss"] for epoch in fine_tune(model, examples, **settings)])
"""


@pytest.mark.slow
def test_mixed_precision():
    """In bfloat16, one replica and two come to the same losses, as near as its eight bits of precision say."""
    done = subprocess.run([sys.executable, "-c", MIXED], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    one, two = ([float(loss) for loss in line.split()] for line in done.stdout.strip().splitlines()[-2:])
    assert two == pytest.approx(one, abs=5e-3)
    assert len(set(one)) == 4
