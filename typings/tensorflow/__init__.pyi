"""Types of TensorFlow are not checked: it has none of its own, and others are incomplete (no ragged tensors)."""

from typing import Any

def __getattr__(name: str) -> Any: ...
