import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_bert.visualize.senses import Occurrence, Senses, find_senses
    from keras_bert.visualize.view import AttentionView, attention

__all__ = ["AttentionView", "Occurrence", "Senses", "attention", "find_senses"]


def __getattr__(name: str) -> object:
    """Imports what needs Keras at its first use; the page of measures does not."""
    if name not in __all__:
        raise AttributeError(f"module 'keras_bert.visualize' has no attribute {name!r}")
    module = "view" if "ttention" in name else "senses"
    return getattr(importlib.import_module(f"keras_bert.visualize.{module}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
