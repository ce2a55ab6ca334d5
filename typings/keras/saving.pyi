from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T", bound=type)

# A decorator of type Any would hide the class behind it.
def register_keras_serializable(package: str = "Custom", name: str | None = None) -> Callable[[T], T]: ...
def __getattr__(name: str) -> Any: ...
