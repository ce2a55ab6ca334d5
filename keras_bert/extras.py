"""Modules that may be missing: those of optional extras, and TensorFlow Text, which has wheels for Linux only."""

import contextlib
import importlib
from collections.abc import Iterator
from types import ModuleType


def needed(module: str, distribution: str, extra: str = "train") -> ModuleType:
    """Imports a module of an extra. Raises ImportError, with the command to install it, if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"this needs {distribution}: pip install 'keras-bert-models[{extra}]' ({error})") from error


@contextlib.contextmanager
def needing_tensorflow_text(what: str) -> Iterator[None]:
    """A block of imports. If TensorFlow or TensorFlow Text is missing, the ImportError says what works without it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("tensorflow", "tensorflow_text"):
            raise
        raise ImportError(
            f"{what} needs {package.replace('_', '-')}, which is not installed (tensorflow-text has wheels for Linux); "
            "without it, BertEncoder and BertPreprocessor work under KERAS_BACKEND=jax or torch"
        ) from error
