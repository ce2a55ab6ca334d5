"""What TensorFlow traces of an encoder goes with it, weights included."""

import gc
import weakref

import tensorflow as tf

from ..support import small

NAMES = ("input_word_ids", "input_mask", "input_type_ids")


def traced():
    encoder = small.encoder(num_layers=1)
    function = tf.function(lambda inputs: encoder(inputs)["pooled_output"])
    inputs = {name: tf.TensorSpec([None, None], tf.int32) for name in NAMES}
    return weakref.ref(function.get_concrete_function(inputs).graph)


def test_nothing_keeps_a_graph():
    graph = traced()
    gc.collect()
    assert graph() is None
