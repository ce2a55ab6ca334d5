"""Reads checkpoints of TensorFlow 2 by variable names; their keys are object paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keras_bert.formats.joined_file import JoinedFile
from keras_bert.formats.tensorflow_file import OBJECT_GRAPH, TensorFlowFile

_NOT_OF_THE_MODEL = {"optimizer", "save_counter"}


def open_object_graph(path: Path) -> JoinedFile:
    """Opens a checkpoint of `tf.train.Checkpoint`, or the variables of a SavedModel, by the variables' names.

    The keys of values are paths from the saved object to its variables, so they depend on that object; the names of the
    variables do not. The optimizer's variables are left out. `path` is the index.

    Raises:
        ValueError: a file is damaged.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

    file = TensorFlowFile(path)
    graph = TrackableObjectGraph()
    try:
        graph.ParseFromString(file.read(OBJECT_GRAPH))
        keys = _keys_by_name(graph)
    except (DecodeError, TypeError, IndexError) as error:
        raise ValueError(f"{path}: the object graph in it is damaged: {error}") from None
    lost = sorted(name for name, key in keys.items() if key not in file.names)
    if lost:
        raise ValueError(f"{path}: the object graph has {lost[0]}, but its value is not in the file")
    return JoinedFile(path, {name: (file, key) for name, key in keys.items()})


def spellings(canonical: set[str], present: set[str]) -> dict[str, str]:
    """Name in a table -> name in a file, which may be prefixed by the names of enclosing models."""
    result = {}
    for name in sorted(present, key=len, reverse=True):
        parts = name.split("/")
        for i in range(len(parts)):
            ending = "/".join(parts[i:])
            if ending in canonical:
                result[ending] = name  # the shortest comes last and is kept
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
