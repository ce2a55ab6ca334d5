"""Replicas share the rows of a batch: their gradients are those of one device with the whole batch."""

import subprocess
import sys

import pytest

from ..support.data import ROOT

PROGRAM = """
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
def test_two_replicas():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line.split() for line in done.stdout.strip().splitlines()]
    assert len(lines) == 7
    for name, loss, weights in lines:
        assert float(loss) < 1e-5, name
        assert float(weights) < 1e-5, name
