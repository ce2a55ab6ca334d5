"""What TensorFlow traces of an encoder goes with it, weights included."""

import gc
import weakref

import pytest
import tensorflow as tf

from ..support import small
from ..support.encoders import MODERN

NAMES = ("input_word_ids", "input_mask", "input_type_ids")


def traced(**changes):
    encoder = small.encoder(num_layers=1, **changes)
    function = tf.function(lambda inputs: encoder(inputs)["pooled_output"])
    inputs = {name: tf.TensorSpec([None, None], tf.int32) for name in NAMES}
    return weakref.ref(function.get_concrete_function(inputs).graph)


@pytest.mark.parametrize("changes", [{}, MODERN, {"activation": "silu"}], ids=["BERT", "ModernBERT", "SiLU"])
def test_nothing_keeps_a_graph(changes):
    graph = traced(**changes)
    gc.collect()
    assert graph() is None
