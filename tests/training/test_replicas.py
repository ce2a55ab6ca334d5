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
from ..support.processes import run_python
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
    lines = run_python(MIXED).strip().splitlines()
    one, two = ([float(loss) for loss in line.split()] for line in lines[-2:])
    assert two == pytest.approx(one, abs=5e-3)
    assert len(set(one)) == 4


# Replicas share the rows of a batch: their gradients are those of one device with the whole batch.
SHARED_NEGATIVES = """
import keras, numpy as np, tensorflow as tf
cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
from keras_bert import BertReranker, BertSentenceEncoder
from keras_bert.tasks.gradient_cache import MiniBatches
from keras_bert.tasks.reranker import pack_lists
from keras_bert.tasks.ranking_losses import LambdaLoss
from keras_bert.tasks.sentence_losses import CoSENTLoss, MatryoshkaLoss, MultipleNegativesRankingLoss
from keras_bert.tasks.training_step import WHOLE_BATCH
from tests.support import small

words = small.WORDS.split()
columns = [[" ".join(words[i + 3 * j : i + 3 + i % 3 + 2 * j]) for i in range(7)] for j in range(2)]
columns[1][5] = columns[1][0]  # of one replica, and of the other
numbers, scores = np.arange(14).reshape(7, 2), np.linspace(0, 1, 7)
numbers[5, 1] = numbers[0, 1]

def encoder():
    model = BertSentenceEncoder(small.encoder(num_layers=1, scale=0.1), small.preprocessor())
    return model, tuple(model.preprocessor(column) for column in columns)

def reranker():
    model = small.task(BertReranker, config={"num_layers": 1}, scale=0.1)
    return model, pack_lists(model.preprocessor, [*columns, columns[0][::-1]])

def trained(strategy, make, loss, y, mini_batch_size):
    with strategy.scope():
        model, packed = make()
        model.compile(keras.optimizers.SGD(1.0), loss)
    dataset = tf.data.Dataset.from_tensors((packed, tf.constant(y)))
    with model.training_with(MiniBatches(mini_batch_size) if mini_batch_size else WHOLE_BATCH):
        found = model.fit(dataset, verbose=0).history["loss"][0]
    return found, [weight.numpy() for weight in model.trainable_variables]

two = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
ranking = MultipleNegativesRankingLoss(symmetric=True)
labels = np.array([[1, 0], [1, 1], [0, 2], [0, 0], [1, 0], [0, 0], [2, 2]])  # replicas have 3 pairs and 1
matryoshka = MatryoshkaLoss(ranking, [32, 8])
of_encoder = [(encoder, ranking, numbers), (encoder, matryoshka, numbers), (encoder, CoSENTLoss(), scores)]
for make, loss, y in (*of_encoder, (reranker, LambdaLoss(), labels)):
    expected, weights = trained(tf.distribute.get_strategy(), make, loss, y, None)
    for mini_batch_size in (None, 2)[: 2 if make is encoder else 1]:
        found, got = trained(two, make, loss, y, mini_batch_size)
        furthest = max(np.abs(one - other).max() for one, other in zip(got, weights))
        print(loss.name, abs(found - expected), furthest)
"""


@pytest.mark.slow
def test_negatives_of_another_replica_count():
    lines = [line.split() for line in run_python(SHARED_NEGATIVES).strip().splitlines()]
    assert len(lines) == 7
    for name, loss, weights in lines:
        assert float(loss) < 1e-5, name
        assert float(weights) < 1e-5, name
