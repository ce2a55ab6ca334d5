"""The state of a run, in one file that is written whole or not at all, with a checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from keras_bert import atomic

ADVICE = "choose another directory, or delete this one to begin anew"  # what to do if a state is of no use


def save_state(path: Path, values: Sequence[np.ndarray], notes: dict[str, Any]) -> None:
    """Writes the values of variables, and notes beside them.

    Args:
        path: a safetensors file, replaced when the new one is complete.
        values: of variables, in the order in which `load_state` returns them.
        notes: for `read_notes`; JSON must be able to hold them.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The keys are numbers: Keras counts up the names of layers in a process, so they differ in the next one.
    numbered = {str(i): np.asarray(value, order="C") for i, value in enumerate(values)}
    told = json.dumps(notes)
    with atomic.written_whole(path) as unfinished:
        save_file(numbered, unfinished, metadata={"notes": told, "sha256": _checksum(told, numbered)})


def read_notes(path: Path) -> dict[str, Any]:
    """The notes that were saved beside the variables.

    Raises:
        ValueError: the file is damaged.
    """
    return load_state(path)[1]


def load_state(path: Path) -> tuple[list[np.ndarray], dict[str, Any]]:
    """The values and the notes that `save_state` wrote.

    Raises:
        ValueError: the file is damaged: a single bit is enough.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            numbered = {name: file.get_tensor(name) for name in sorted(file.keys(), key=int)}
    except (SafetensorError, ValueError, TypeError, AttributeError, KeyError) as error:  # of types that NumPy lacks
        raise ValueError(f"{path} is damaged ({error}); {ADVICE}") from None
    if _checksum(metadata.get("notes", ""), numbered) != metadata.get("sha256"):
        raise ValueError(f"{path} is damaged: it has another checksum than it was written with; {ADVICE}")
    return list(numbered.values()), json.loads(metadata["notes"])


def assign(variables: Sequence[keras.Variable], values: Sequence[np.ndarray], path: Path) -> None:
    """Assigns values from a file to variables. Raises ValueError if they are of others."""
    if len(values) != len(variables):
        raise ValueError(f"{path} holds {len(values)} variables, but the model has {len(variables)}; {ADVICE}")
    for variable, value in zip(variables, values, strict=True):
        if value.shape != tuple(variable.shape):
            shapes = f"{variable.path} has shape {tuple(variable.shape)}, there {value.shape}"
            raise ValueError(f"{path} is of another model: {shapes}; {ADVICE}")
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def _checksum(notes: str, values: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(notes.encode())
    for name, value in values.items():
        digest.update(f"{name} {value.dtype.str} {value.shape}".encode())
        digest.update(value.reshape(-1).view(np.uint8))
    return digest.hexdigest()
