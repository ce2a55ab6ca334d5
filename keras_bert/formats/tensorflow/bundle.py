"""The files of a TensorFlow checkpoint, `NAME.index` and `NAME.data-00000-of-00001`, in TF 1, TF 2 and SavedModels."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from keras_bert import files
from keras_bert.formats.checkpoint import JoinedFile
from keras_bert.formats.tensorflow import messages
from keras_bert.formats.tensorflow.index import TensorFlowIndex
from keras_bert.shapes import Shape

T = TypeVar("T")

_MAX_BUFFERED = 1 << 26  # a writer saves a part of a checkpoint when it holds more numbers than this in memory
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


class TensorFlowFile:
    """An open checkpoint. The index, at `path`, is read when it is opened; values on demand, by TensorFlow."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader: Any = None
        if path.exists():
            files.check_file(path, files.MOST_BYTES)
        problem = f"{path} is not the index of a TensorFlow checkpoint, or is damaged"
        with files.as_value_error(path, problem, ValueError, FileNotFoundError):
            self._index = TensorFlowIndex(path)
        self.names = set(self._index.shapes)
        self._data = [*path.parent.glob(f"{path.stem}.data-*")]
        self.size = sum(each.stat().st_size for each in self._data) if self._data else None

    def shape(self, name: str) -> Shape:
        return self._index.shapes[name]

    def read(self, name: str) -> np.ndarray:
        import tensorflow as tf

        self._check_values()
        with files.as_value_error(self.path, f"{self.path}: cannot read {name}; fetch the files again"):
            self._reader = self._reader or tf.train.load_checkpoint(str(self.path).removesuffix(".index"))
            return self._reader.get_tensor(name)

    def read_string(self, name: str) -> bytes:
        """Reads a tensor of one string, without TensorFlow. Raises as `read`."""
        return self._read_alone(self._index.read_string, name)

    def _read_alone(self, read: Callable[[str], T], name: str) -> T:
        self._check_values()
        try:
            return read(name)
        except (KeyError, OSError) as error:
            files.raise_if_not_of_content(self.path, error)
            raise ValueError(f"{self.path}: cannot read {name}; fetch the files again ({error})") from None

    def read_bool(self, name: str) -> bool | None:
        """Reads a truth value by the last attribute of its object path, without TensorFlow; None without one."""
        key = next((each for each in self.names if f"/{each}".endswith(f"/{name}/.ATTRIBUTES/VARIABLE_VALUE")), None)
        return None if key is None else self._read_alone(self._index.read_bool, key)

    def _check_values(self) -> None:
        if self.size is None:
            raise FileNotFoundError(f"{self.path} has no values: there is no {self.path.stem}.data-…-of-… beside it")
        while self._data:  # checked once
            files.check_file(self._data.pop())

    def close(self) -> None:
        self._reader = None


def write_tensorflow(prefix: Path, tensors: Iterable[tuple[str, np.ndarray]]) -> None:
    """Writes tensors by name as a TensorFlow 1 checkpoint of two files. The files appear when they are complete."""
    import tensorflow as tf

    with _written_whole(prefix) as unfinished:
        parts: list[str] = []
        buffered: dict[str, tf.Tensor] = {}

        def flush() -> None:
            parts.append(f"{unfinished}.part-{len(parts)}")
            names, values = [*buffered], [*buffered.values()]
            tf.raw_ops.SaveV2(prefix=parts[-1], tensor_names=names, shape_and_slices=[""] * len(names), tensors=values)
            buffered.clear()

        for name, value in tensors:
            buffered[name] = tf.constant(value)
            if sum(tensor.shape.num_elements() for tensor in buffered.values()) > _MAX_BUFFERED:
                flush()
        if buffered or not parts:
            flush()
        tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=parts, destination_prefix=unfinished, delete_old_dirs=False, allow_missing_files=False
        )


def write_object_graph(
    prefix: Path, tensors: Iterable[tuple[str, np.ndarray]], path_of: Callable[[str], str], aliases: Mapping[str, str]
) -> None:
    """Writes a checkpoint of variables keyed by object paths, as `tf.train.Checkpoint` does."""
    # `path_of` maps a variable's name to its path from the root: attribute names, joined by /. Inside a name, a slash
    # is written as .S and a dot as two dots. `aliases` maps another path to that under which it is written.
    import tensorflow as tf

    root = tf.Module()

    def attribute_name(escaped: str) -> str:
        return escaped.replace(".S", "/").replace("..", ".")

    def module_at(path: str) -> tf.Module:
        node = root
        for name in map(attribute_name, path.split("/") if path else ()):
            if not hasattr(node, name):
                setattr(node, name, tf.Module())
            node = getattr(node, name)
        return node

    for name, value in tensors:
        parent, _, attribute = path_of(name).rpartition("/")
        setattr(module_at(parent), attribute_name(attribute), tf.Variable(value, name=name))
    for alias, path in aliases.items():
        parent, _, attribute = alias.rpartition("/")
        setattr(module_at(parent), attribute_name(attribute), module_at(path))
    items = {name: getattr(root, name) for name in vars(root) if not name.startswith("_")}
    with _written_whole(prefix) as unfinished:
        tf.train.Checkpoint(**items).write(unfinished)


@contextmanager
def _written_whole(prefix: Path) -> Iterator[str]:
    """Yields a temporary prefix for a checkpoint. Its files then move to `prefix`; after an error they are deleted."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    unfinished = prefix.with_name(f".{prefix.name}.{os.getpid()}.tmp")
    _remove_all(unfinished)  # such as a link that whoever made the directory left there
    try:
        yield str(unfinished)
        data_endings = [
            path.name.removeprefix(unfinished.name)
            for path in prefix.parent.glob(f"{glob.escape(unfinished.name)}.data-*")
        ]
        for ending in (*data_endings, ".index"):  # the index last: without it, there is no checkpoint
            os.replace(f"{unfinished}{ending}", f"{prefix}{ending}")
        for data in prefix.parent.glob(f"{glob.escape(prefix.name)}.data-*"):
            if data.name.removeprefix(prefix.name) not in data_endings:
                data.unlink()  # from an earlier checkpoint with another number of files
    finally:
        _remove_all(unfinished)


def _remove_all(prefix: Path) -> None:
    for path in prefix.parent.glob(f"{glob.escape(prefix.name)}*"):
        files.remove(path)


# -- TensorFlow 2 checkpoints by the names of variables. The keys in the files are object paths.

_OUTSIDE_THE_MODEL = {"keras_api", "optimizer", "save_counter"}  # keras_api: metrics, and all layers once more


def is_saved_model(directory: Path) -> bool:
    """Checks whether a directory is a SavedModel that this package has not written: its own have `assets.extra`."""
    return (directory / "saved_model.pb").is_file() and not (directory / "assets.extra").exists()


def by_version(directory: Path) -> tuple[int, str]:
    """Sorts the directories of versions: 10 is after 9."""
    return len(directory.name), directory.name


def open_variables(directory: Path) -> JoinedFile:
    """Opens the variables of a SavedModel by their names."""
    return open_by_variable(TensorFlowFile(directory / "variables" / "variables.index"))


def open_by_variable(file: TensorFlowFile) -> JoinedFile:
    """Opens a checkpoint by the variables' names: keys in the file depend on the object that was saved."""
    content = file.read_string(OBJECT_GRAPH)
    with files.as_value_error(file.path, f"{file.path}: the object graph in it is damaged", ValueError, IndexError):
        keys = _keys_by_name(messages.parse("TrackableObjects", content))
    without_value = sorted(name for name, key in keys.items() if key not in file.names)
    if without_value:
        raise ValueError(f"{file.path}: the object graph has {without_value[0]}, but its value is not in the file")
    return JoinedFile(file.path, {name: (file, key) for name, key in keys.items()})


def spellings(canonical: set[str], present: set[str]) -> dict[str, str]:
    """Maps names in a table to the shortest names in a file that end with them, after those of enclosing models."""
    result = {}
    for name in sorted(present, key=len, reverse=True):
        parts = name.split("/")
        for i in range(len(parts)):
            ending = "/".join(parts[i:])
            if ending in canonical:
                result[ending] = name  # the shortest name comes last and overwrites longer ones
                break
    return result


def _keys_by_name(graph: Any) -> dict[str, str]:
    """Maps the name of each variable to the key of its value, breadth first over the object graph."""
    optimizer = {slot.slot_variable_node_id for node in graph.nodes for slot in node.slot_variables}
    seen, queue, keys = set(), [0], {}
    while queue:
        i = queue.pop(0)
        if i in seen or i in optimizer:
            continue
        seen.add(i)
        node = graph.nodes[i]
        for attribute in node.attributes:
            name = attribute.full_name or attribute.checkpoint_key
            while name in keys:  # two variables have one name: the checkpoint reports the second as unexpected
                name += "'"
            if attribute.name == "VARIABLE_VALUE":
                keys[name] = attribute.checkpoint_key
        queue += [child.node_id for child in node.children if child.local_name not in _OUTSIDE_THE_MODEL]
    return keys
