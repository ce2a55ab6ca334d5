"""All that a run needs to go on where it was, in one file that is whole or not there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from keras_bert import files


def save_state(path: Path, values: Sequence[np.ndarray], notes: dict[str, Any]) -> None:
    """Writes the values of variables, and notes (what JSON can hold) beside them.

    Args:
        path: a safetensors file, replaced when the new one is complete.
        values: of variables, in an order that is the same when they are read.
        notes: for `load_state` to return.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # By number: names of layers count up in a process, so they differ in the next one.
    numbered = {str(i): np.asarray(value, order="C") for i, value in enumerate(values)}
    with files.written_whole(path) as unfinished:
        save_file(numbered, unfinished, metadata={"notes": json.dumps(notes)})


def read_notes(path: Path) -> dict[str, Any]:
    """What was noted beside the variables.

    Raises:
        ValueError: the file is damaged.
    """
    with _opened(path) as file:
        return json.loads((file.metadata() or {}).get("notes", "{}"))


def load_state(path: Path, variables: Sequence[keras.Variable]) -> None:
    """Gives variables the values that they had when `save_state` wrote them.

    Raises:
        ValueError: the file is damaged, or is of other variables.
    """
    with _opened(path) as file:
        if len(file.keys()) != len(variables):
            raise ValueError(f"{path} holds {len(file.keys())} variables, but the model has {len(variables)}")
        for i, variable in enumerate(variables):
            value = file.get_tensor(str(i))
            if value.shape != tuple(variable.shape):
                raise ValueError(f"{path}: {variable.path} has shape {tuple(variable.shape)}, there {value.shape}")
            variable.assign(value)


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="numpy")
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged ({error}); delete it to begin again") from None
