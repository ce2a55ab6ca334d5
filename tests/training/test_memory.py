"""What a model held is free again when the model is gone, weights and moments included."""

import keras
import numpy as np
import pytest

from keras_bert.optimizers import LAMB, AdamW
from keras_bert.training import Replicated

from ..support.data import ROOT
from ..support.memory import graphs_kept
from ..support.processes import run_python

KINDS = [  # one of each way to train or load: the other tasks share these
    "a Keras model",  # first: its first time is also for what a process makes only once
    "BertClassifier",
    "BertSentenceEncoder",
    "fine_tune into a directory",
    "fine_tune with LoRA",
    "pretrain",
    "from_preset in int8",
    "load_model",
    "HubLayer, trained",
]


class OnReplicas(Replicated, keras.Model):
    pass


def train(kind, optimizer):
    inputs = keras.Input([3])
    model = kind(inputs, keras.layers.Dense(1)(inputs))
    model.compile(optimizer, "mse", jit_compile=False)
    model.fit(np.ones((4, 3)), np.ones(4), batch_size=2, verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "optimizer", [LAMB, lambda rate: keras.optimizers.LossScaleOptimizer(AdamW(rate, global_clipnorm=1.0))]
)
def test_our_optimizers_keep_no_model(optimizer):
    assert graphs_kept(lambda: train(keras.Model, optimizer(1e-3))) == 0


def test_in_models_of_ours_no_optimizer_does():
    assert graphs_kept(lambda: train(OnReplicas, "adam")) == 0


@pytest.mark.slow
def test_keras_still_needs_this():
    """If this fails, TensorFlow or Keras has mended it, and what this package does about it can go."""
    assert graphs_kept(lambda: train(keras.Model, "adam")) > 0


# Arguments: the folder of benchmarks/many_models.py, and kinds of models. Each of these is made three times. A line for
# each has the MB of the process after each model.
LOOPS = """
import sys
from keras_bert import BertConfig, BertEncoder

folder, *kinds = sys.argv[1:]
sys.path.insert(0, folder)
import many_models

sizes = {"vocab_size": 30522, "hidden_size": 512, "num_layers": 1, "num_heads": 2, "intermediate_size": 128}
many_models.encoder = lambda: BertEncoder(BertConfig(**sizes, max_positions=64))
for kind in kinds:
    print("sizes of", kind, *many_models.sizes(kind, 3, None), sep=";")
print("sizes of", "adam", *many_models.sizes("a Keras model", 3, "adam"), sep=";")
"""
WEIGHTS = 64  # MB, of each of its models


@pytest.fixture(scope="module")
def growth():
    """The MB by which a process grows with two more models, by their kind."""
    environment = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}  # what is freed goes back
    output = run_python(LOOPS, ROOT / "benchmarks", *KINDS, **environment)
    rows = [line.split(";")[1:] for line in output.splitlines() if line.startswith("sizes of;")]
    return {kind: int(last) - int(first) for kind, first, _, last in rows}


@pytest.mark.timing  # when garbage is freed varies: 100 MB in one run, 6 in the next
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_over_models_does_not_grow(growth, kind):
    # What is freed last varies. The weights alone would be twice these, and with the moments six times.
    assert growth[kind] < 1.75 * WEIGHTS, growth


@pytest.mark.slow
def test_the_measurement_sees_what_keras_keeps(growth):
    assert growth["adam"] > 2 * WEIGHTS, growth
