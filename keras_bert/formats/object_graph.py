"""Checkpoints of TensorFlow 2: they key weights by object paths, and are read here by variable names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.formats.shapes import Shape
from keras_bert.formats.tensorflow_file import OBJECT_GRAPH, TensorFlowFile


class ObjectGraphFile:
    """An open checkpoint of `tf.train.Checkpoint`, or the variables of a SavedModel.

    The key of a value is a path from the saved object to its variable, so it depends on that object. The variable's
    name does not, so weights go by that name. An optimizer's variables are left out.

    Args:
        path: the index.

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
    """Names in a table -> names in a file, which may be prefixed by the names of enclosing models."""
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
    """Name of each variable -> key of its value, breadth first over the graph."""
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
            while name in keys:  # two variables of one name: the second is reported as unexpected
                name += "'"
            if attribute.name == "VARIABLE_VALUE":
                keys[name] = attribute.checkpoint_key
        waiting += [child.node_id for child in node.children if child.local_name not in _NOT_OF_THE_MODEL]
    return keys


_NOT_OF_THE_MODEL = {"optimizer", "save_counter"}
