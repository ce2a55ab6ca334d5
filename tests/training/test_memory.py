"""What a model held is free again when the model is gone, weights and moments included."""

import re
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_bert.optimizers import LAMB, AdamW
from keras_bert.training import Replicated

from ..support.data import ROOT
from ..support.memory import graphs_kept

BENCHMARK = ROOT / "benchmarks" / "many_models.py"
WEIGHTS = 16  # MB, of each of its models
KINDS = [
    "BertClassifier",
    "BertTokenClassifier",
    "BertQuestionAnswerer",
    "BertReranker",
    "BertSentenceEncoder",
    "BertSparseEncoder",
    "BertMaskedLM",
    "BertNextSentence",
    "a Keras model",
    "fine_tune into a directory",
    "fine_tune with LoRA",
    "pretrain",
    "from_preset in int8",
    "load_model",
    "HubLayer",
    "HubLayer, trained",
]


class OnReplicas(Replicated, keras.Model):
    pass


def train(kind, optimizer):
    inputs = keras.Input([3])
    model = kind(inputs, keras.layers.Dense(1)(inputs))
    model.compile(optimizer, "mse", jit_compile=False)
    model.fit(np.ones((4, 3)), np.ones(4), batch_size=2, verbose=0)


@pytest.mark.parametrize(
    "optimizer", [AdamW, LAMB, lambda rate: keras.optimizers.LossScaleOptimizer(AdamW(rate, global_clipnorm=1.0))]
)
def test_our_optimizers_keep_no_model(optimizer):
    assert graphs_kept(lambda: train(keras.Model, optimizer(1e-3))) == 0


def test_in_models_of_ours_no_optimizer_does():
    assert graphs_kept(lambda: train(OnReplicas, "adam")) == 0


def test_keras_still_needs_this():
    """If this fails, TensorFlow or Keras has mended it, and what this package does about it can go."""
    assert graphs_kept(lambda: train(keras.Model, "adam")) > 0


def sizes_in(output: str, kind: str) -> list[int]:
    """The numbers in the row of a kind."""
    (row,) = (line for line in output.splitlines() if line.startswith(f"| {kind} |"))
    return [int(size) for size in re.findall(r"\d+", row.removeprefix(f"| {kind} |"))]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_over_models_does_not_grow(kind):
    command = [sys.executable, str(BENCHMARK), kind, "--models", "6"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    sizes = sizes_in(output, kind)
    assert len(sizes) == 6
    # What is freed last varies. The weights alone would be four times these.
    assert sizes[5] - sizes[1] < 3.5 * WEIGHTS, output


@pytest.mark.slow
def test_the_measurement_sees_what_keras_keeps():
    command = [sys.executable, str(BENCHMARK), "a Keras model", "--models", "6", "--optimizer", "adam"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    sizes = sizes_in(output, "a Keras model")
    assert sizes[5] - sizes[1] > 4 * WEIGHTS, output
