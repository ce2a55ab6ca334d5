"""Types of Keras are not checked: it has none of its own that a checker understands."""

from typing import Any

from keras import saving as saving

def __getattr__(name: str) -> Any: ...
