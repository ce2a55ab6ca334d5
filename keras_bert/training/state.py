"""The state of a run, in one file that is written whole or not at all."""

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
    """Writes the values of variables, and notes beside them.

    Args:
        path: a safetensors file, replaced when the new one is complete.
        values: of variables, in the order in which `load_state` gets them.
        notes: for `read_notes`; JSON must be able to hold them.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The keys are numbers: Keras counts up the names of layers in a process, so they differ in the next one.
    numbered = {str(i): np.asarray(value, order="C") for i, value in enumerate(values)}
    with files.written_whole(path) as unfinished:
        save_file(numbered, unfinished, metadata={"notes": json.dumps(notes)})


def read_notes(path: Path) -> dict[str, Any]:
    """The notes that were saved beside the variables.

    Raises:
        ValueError: the file is damaged.
    """
    with _opened(path) as file:
        return json.loads((file.metadata() or {}).get("notes", "{}"))


def load_state(path: Path, variables: Sequence[keras.Variable]) -> None:
    """Assigns the values that `save_state` wrote to variables.

    Raises:
        ValueError: the file is damaged, or belongs to other variables.
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
