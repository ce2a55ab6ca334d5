"""Modules of optional extras, imported where they are used."""

import importlib
from types import ModuleType


def needed(module: str, distribution: str, extra: str = "train") -> ModuleType:
    """Imports a module of an extra. Raises ImportError, with the command to install it, if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"this needs {distribution}: pip install 'keras-bert-models[{extra}]' ({error})") from error
