"""Imports modules that may be missing: optional extras, and TensorFlow Text, which has no wheels for Windows."""

import contextlib
import importlib
import inspect
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


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


class ImportedIn:
    """Finds a module as Python does, and executes it in a context: for `sys.meta_path`."""

    def __init__(self, name: str, context: Callable[[], contextlib.AbstractContextManager]) -> None:
        self._name, self._context = name, context

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec: Any = PathFinder.find_spec(name, path, target) if name == self._name else None
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_in_context(module: ModuleType) -> None:
                del spec.loader.exec_module  # nobody sees that it was another one
                with self._context():
                    execute(module)

            spec.loader.exec_module = execute_in_context
        return spec


class LighterImports:
    """Finds no such library for Keras and TensorFlow: in `sys.meta_path` of a process that runs nothing but ours."""

    # They import these where they are installed, for functions that no command uses: half of their imports' time, and
    # 340 MB.

    libraries = frozenset({"jax", "matplotlib", "pandas", "sklearn"})

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> None:
        if name in cls.libraries:
            frame = inspect.currentframe()
            while frame and (frame.f_globals is globals() or "importlib" in frame.f_code.co_filename):
                frame = frame.f_back
            if frame and frame.f_globals.get("__name__", "").partition(".")[0] in ("keras", "tensorflow"):
                raise ModuleNotFoundError(f"No module named {name!r}, as no command needs it there", name=name)
