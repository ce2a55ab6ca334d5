"""Types of ONNX Script are not checked: it is not installed where types are."""

from typing import Any

def __getattr__(name: str) -> Any: ...
