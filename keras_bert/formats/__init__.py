"""Formats of checkpoints: configurations, weights by name, tokenizers.

The package handles names and arrays; it builds no Keras layers.

Each format is a module: hugging_face, and those in libraries/ and tensorflow/. `families/` has what is special about
each family, `tokenizers/` their files. weight_files and tensorflow/bundle read and write the arrays.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_bert.formats.checkpoint import Checkpoint
    from keras_bert.formats.preset import FORMATS, Preset, open_checkpoint, read_config, write, write_config
    from keras_bert.formats.row_translator import TABLES as FAMILIES
    from keras_bert.formats.row_translator import check_storable

__all__ = [
    "FAMILIES",
    "FORMATS",
    "Checkpoint",
    "Preset",
    "check_storable",
    "open_checkpoint",
    "read_config",
    "write",
    "write_config",
]


def __getattr__(name: str) -> object:
    """Imports a public name at its first use: `BertConfig` reads `families/`, and needs none of the formats."""
    if name not in __all__:
        raise AttributeError(f"module 'keras_bert.formats' has no attribute {name!r}")
    if name in ("FAMILIES", "check_storable"):
        table = importlib.import_module("keras_bert.formats.row_translator")
        return table.TABLES if name == "FAMILIES" else table.check_storable
    return getattr(importlib.import_module("keras_bert.formats.preset"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
