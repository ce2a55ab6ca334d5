"""Helpers for writing any SavedModel."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert import atomic
from keras_bert.formats.saved_model import MODEL


def callable_object(function: Callable[..., Any], **attributes: Any) -> tf.train.Checkpoint:
    """An object that can be called after loading, with other attributes: the building block of TF Hub's interface.

    `function` is a tf.function that has been traced for every kind of input.
    """
    return tf.train.Checkpoint(**attributes, __call__=function)


def new_directory(directory: str | Path, overwrite: bool) -> AbstractContextManager[Path]:
    """A directory for a SavedModel. It moves to `directory` when the block ends without an exception.

    Raises FileExistsError if `directory` exists, and it is not a SavedModel or `overwrite` is False.
    """
    return atomic.directory_written_whole(Path(directory), MODEL, overwrite)
