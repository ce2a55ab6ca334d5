"""Writes any SavedModel: a new directory, callable objects, and the README of one in low precision."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert import files
from keras_bert.formats.saved_model import MODEL

FILE = "README.md"

_BOTH = """\
It needs oneDNN's operations, which TensorFlow has in its builds for x86 on Linux. Elsewhere, such as on ARM, loading it
ends with "Op type not registered": use an export in float32 there. It has no float weights to train further.
"""
_CARDS = {
    "bfloat16": f"""\
# A model in bfloat16

{_BOTH}
The processor must have AVX-512: without it, oneDNN ends the process. It is fast with AVX512_BF16 or AMX.
""",
    "int8": f"""\
# A model in int8

{_BOTH}
It is fast on processors with AVX512_VNNI or AMX. If it was exported on a processor with AVX-512, all but its products
is in bfloat16, and it must be served on a processor with AVX-512, too: without it, oneDNN ends the process.
""",
}


def write(directory: Path, precision: str) -> None:
    """Writes `README.md`.

    Args:
        directory: the SavedModel's directory.
        precision: "bfloat16" or "int8".
    """
    (directory / FILE).write_text(_CARDS[precision], encoding="utf-8")


def callable_object(function: Callable[..., Any], **attributes: Any) -> tf.train.Checkpoint:
    """An object that can be called after loading, with other attributes: the building block of TF Hub's interface.

    `function` is a tf.function that has been traced for every kind of input.
    """
    return tf.train.Checkpoint(**attributes, __call__=function)


def new_directory(directory: str | Path, overwrite: bool) -> AbstractContextManager[Path]:
    """A directory for a SavedModel. It moves to `directory` when the block ends without an exception.

    Raises FileExistsError if `directory` exists, and it is not a SavedModel or `overwrite` is False.
    """
    return files.directory_written_whole(Path(directory), MODEL, overwrite)
