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
    "BertSentenceEncoder",
    "fine_tune into a directory",  # with LoRA
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


# Arguments: the folder of benchmarks/many_models.py, and kinds of models. Each of these is made twice. A line for each
# has the number of graphs and variables of TensorFlow that the second leaves, when it is gone; the last is of Adam.
LOOPS = """
import gc, sys
from collections import Counter

import keras
import numpy as np

folder, *kinds = sys.argv[1:]
sys.path.insert(0, folder)
import many_models

def kept():
    gc.collect()
    alive = Counter(type(each).__name__ for each in gc.get_objects())
    return alive["FuncGraph"] + alive["ResourceVariable"]

def adam():
    model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(np.ones((4, 3)), np.ones(4), verbose=0)

many_models.OTHERS["adam"] = adam
many_models.SETTINGS["lora_rank"] = 4
for kind in [*kinds, "adam"]:
    first, second = (kept() for _ in many_models.sizes(kind, 2, None))
    print("kept of", kind, second - first, sep=";")
"""


@pytest.mark.slow
def test_a_loop_over_models_does_not_grow():
    """benchmarks/many_models.py has the megabytes."""
    output = run_python(LOOPS, ROOT / "benchmarks", *KINDS)
    rows = [line.split(";")[1:] for line in output.splitlines() if line.startswith("kept of;")]
    kept = {kind: int(number) for kind, number in rows}
    assert kept.pop("adam") > 0  # the measurement sees what Keras keeps
    assert [*kept] == KINDS
    assert all(number <= 0 for number in kept.values()), kept
