"""What all SavedModels written here have in common."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert import files

MARK = "saved_model.pb"  # the file that makes a directory a SavedModel


def callable_object(function: Callable[..., Any], **attributes: Any) -> tf.train.Checkpoint:
    """An object that a SavedModel can hold and that can be called once it is loaded again: TF Hub's building block.

    Args:
        function: a tf.function, traced already for every kind of input that it is to take.
        **attributes: what else can be read from the object: variables, functions, further such objects.
    """
    return tf.train.Checkpoint(**attributes, __call__=function)


def new_directory(directory: str | Path, overwrite: bool) -> AbstractContextManager[Path]:
    """A directory to write a SavedModel in, which gets its name when the block ends without an exception.

    Raises:
        FileExistsError: there is something under the name, and it is no SavedModel or `overwrite` is False.
    """
    return files.directory_written_whole(Path(directory), MARK, overwrite)
