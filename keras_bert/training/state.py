"""The state of a run, in one file with a checksum, which is written whole or not at all."""

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

ADVICE = "choose another directory, or delete this one to start again"  # for a state that cannot be used


def save_state(path: Path, values: Sequence[np.ndarray], notes: dict[str, Any]) -> None:
    """Writes the values of variables, and notes beside them.

    Args:
        path: a safetensors file, replaced when the new one is complete.
        values: the values of variables; `load_state` returns them in this order.
        notes: JSON values, for `read_notes`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The keys are numbers, because Keras numbers the names of layers anew in each process.
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
        ValueError: the file is damaged, even by a single bit.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            numbered = {name: file.get_tensor(name) for name in sorted(file.keys(), key=int)}
    except (SafetensorError, ValueError, TypeError, AttributeError, KeyError) as error:  # or a type that NumPy lacks
        raise ValueError(f"{path} is damaged ({error}); {ADVICE}") from None
    if _checksum(metadata.get("notes", ""), numbered) != metadata.get("sha256"):
        raise ValueError(f"{path} is damaged: its checksum is wrong; {ADVICE}")
    return list(numbered.values()), json.loads(metadata["notes"])


def assign(variables: Sequence[keras.Variable], values: Sequence[np.ndarray], path: Path) -> None:
    """Assigns values from a file to variables. Raises ValueError if they belong to other variables."""
    if len(values) != len(variables):
        raise ValueError(f"{path} holds {len(values)} variables, but the model has {len(variables)}; {ADVICE}")
    for variable, value in zip(variables, values, strict=True):
        if value.shape != tuple(variable.shape):
            shapes = f"{variable.path} has shape {tuple(variable.shape)}, there {value.shape}"
            raise ValueError(f"{path} belongs to another model: {shapes}; {ADVICE}")
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def _checksum(notes: str, values: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(notes.encode())
    for name, value in values.items():
        digest.update(f"{name} {value.dtype.str} {value.shape}".encode())
        digest.update(value.reshape(-1).view(np.uint8))
    return digest.hexdigest()
