"""Types of TensorFlow Text are not checked: they are those of TensorFlow's private modules."""

from typing import Any

def __getattr__(name: str) -> Any: ...
