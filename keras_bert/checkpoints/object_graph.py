"""Checkpoints of TensorFlow 2, which store weights by the objects that hold them: here by their variables' names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.checkpoints.shapes import Shape
from keras_bert.checkpoints.tensorflow_file import OBJECT_GRAPH, TensorFlowFile


class ObjectGraphFile:
    """An open checkpoint of `tf.train.Checkpoint`, or the variables of a SavedModel.

    The key of a value is some path to its variable from the object that was saved: it depends on what that object was.
    The name of the variable does not, so weights are known by that. Variables of an optimizer are left out.

    Args:
        path: of the index.

    Raises:
        ValueError: a file is damaged.
    """

    def __init__(self, path: Path) -> None:
        from google.protobuf.message import DecodeError
        from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

        self.path = path
        self._file = TensorFlowFile(path)
        graph = TrackableObjectGraph()
        try:
            graph.ParseFromString(self._file.raw(OBJECT_GRAPH))
            self._keys = _keys_by_name(graph)
        except (DecodeError, TypeError, IndexError) as error:
            raise ValueError(f"{path}: the object graph in it is damaged: {error}") from None
        lost = sorted(name for name, key in self._keys.items() if key not in self._file.names)
        if lost:
            raise ValueError(f"{path}: the object graph speaks of {lost[0]}, whose value is not in the file")
        self.names = set(self._keys)

    def shape(self, name: str) -> Shape:
        return self._file.shape(self._keys[name])

    def read(self, name: str) -> np.ndarray:
        """The tensor as float32, whatever float type it was stored in."""
        return self._file.read(self._keys[name])

    def close(self) -> None:
        self._file.close()


def spellings(canonical: set[str], present: set[str]) -> dict[str, str]:
    """For names in a table, those in a file, which may have the names of enclosing models in front of them."""
    result = {}
    for name in sorted(present, key=len, reverse=True):
        parts = name.split("/")
        for i in range(len(parts)):
            ending = "/".join(parts[i:])
            if ending in canonical:
                result[ending] = name  # the shortest comes last, and stays
                break
    return result


def _keys_by_name(graph: Any) -> dict[str, str]:
    """Name of each variable -> key of its value, in the order in which walking the graph finds them."""
    optimizer = {slot.slot_variable_node_id for node in graph.nodes for slot in node.slot_variables}
    seen, waiting, keys = set(), [0], {}
    while waiting:
        i = waiting.pop(0)
        if i in seen or i in optimizer:
            continue
        seen.add(i)
        node = graph.nodes[i]
        for attribute in node.attributes:
            name = attribute.full_name or attribute.checkpoint_key
            while name in keys:  # two variables of one name: both are shown, one of them as unexpected
                name += "'"
            if attribute.name == "VARIABLE_VALUE":
                keys[name] = attribute.checkpoint_key
        waiting += [child.node_id for child in node.children if child.local_name not in _NOT_OF_THE_MODEL]
    return keys


_NOT_OF_THE_MODEL = {"optimizer", "save_counter"}
