"""Imports modules that may be missing: optional extras, and TensorFlow Text, which has no wheels for Windows."""

import contextlib
import importlib
from collections.abc import Iterator
from types import ModuleType


def import_extra(module: str, distribution: str, extra: str = "train") -> ModuleType:
    """Imports a module of an extra. If it is missing, the ImportError has the command that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"this needs {distribution}: pip install 'keras-bert-models[{extra}]' ({error})") from error


@contextlib.contextmanager
def needing_tensorflow_text(what: str) -> Iterator[None]:
    """Makes an ImportError in a block say what works without TensorFlow or TensorFlow Text, if that is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("tensorflow", "tensorflow_text"):
            raise
        raise ImportError(
            f"{what} needs {package.replace('_', '-')}, which is not installed (tensorflow-text has wheels "
            "for Linux and for Macs with Apple silicon); without it, BertEncoder and BertPreprocessor work under "
            "KERAS_BACKEND=jax or torch"
        ) from error
