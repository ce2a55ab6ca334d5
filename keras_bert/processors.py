"""Which types oneDNN, the library behind TensorFlow's products on CPUs, computes in on this processor.

It asks oneDNN, not the processor: its environment variable ONEDNN_MAX_CPU_ISA=AVX2 makes a new processor an old one.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import tensorflow as tf

from keras_bert.undocumented import add_private_operation

if TYPE_CHECKING:
    from tensorflow.core.framework.graph_pb2 import GraphDef


@functools.cache
def has_bfloat16() -> bool:
    """Tries whether oneDNN computes in bfloat16: if not, its products end the process, but its norm raises."""

    @tf.function(autograph=False)
    def normalize() -> tf.Tensor:
        x, ones = tf.zeros([1, 16], tf.bfloat16), tf.ones([16], tf.bfloat16)
        (y,) = add_private_operation("_MklLayerNorm", [x, ones, ones], [x.dtype], T=x.dtype, epsilon=1e-6)
        return y

    try:
        normalize()
    except (tf.errors.OpError, ValueError):
        return False
    return True


def check_graph(graph: GraphDef, title: str) -> None:
    """Raises ValueError if this processor cannot run a SavedModel's graph, before TensorFlow ends the process."""
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    fused = (node for node in nodes if node.op.startswith("_"))  # as all operations of `inference.onednn`
    types = {attribute.type for node in fused for attribute in node.attr.values()}
    if tf.bfloat16.as_datatype_enum in types and not has_bfloat16():
        raise ValueError(
            f"{title} computes in bfloat16, which needs a processor with AVX-512, and this one has none; export the "
            "model again in int8 or float32"
        )
