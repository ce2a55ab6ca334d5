"""What a runtime is: names, types and functions. It needs no TensorFlow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from keras_bert import files

if TYPE_CHECKING:
    import numpy as np

    from keras_bert.runtimes.export import PackedModel

Inputs: TypeAlias = "dict[str, np.ndarray]"  # int32 `[batch, seq_length]`
Run: TypeAlias = "Callable[[Inputs], dict[str, np.ndarray]]"  # inputs under the runtime's names -> outputs by name


@dataclass(frozen=True)
class Runtime:
    """A runtime to export to, and to load from."""

    file: str  # the model's path in the directory
    package: str  # what runs it, on PyPI
    users: str  # programs that run it, as the command's help says
    names: Mapping[str, str]  # TF Hub's name of an input -> the runtime's
    ids_dtype: str  # of the inputs: "int32" or "int64"
    no_bfloat16: str  # why an export in bfloat16 is refused
    convert: Callable[[PackedModel, Path, str], None]  # writes a model to a path in a precision
    # Opens a file on the CPU, and returns a function from inputs to outputs, both by the runtime's names. Raises
    # ImportError if the runtime is not installed, ValueError if the file is damaged.
    open: Callable[[Path], Run]
    # Python for the README, whose first line imports the runtime. It reads `inputs`, a dict of lists by name, and sets
    # `outputs`, a dict of arrays by name.
    program: str
    only_answers: bool = False  # whether to leave out outputs that others are computed from
    can_load: bool = True  # whether `load` opens its exports
    has_fixed_length: bool = False  # whether its function takes `sequence_length`


@contextlib.contextmanager
def opening(path: Path, program: str) -> Iterator[None]:
    """Makes a ValueError in one line of any error of a runtime, each of which has classes of its own."""
    try:
        yield
    except Exception as error:
        files.raise_if_not_of_content(path, error)
        reason = [line.strip() for line in str(error).splitlines() if line.strip()][-1:]
        raise ValueError(f"{path} is damaged, or {program} cannot run it: {''.join(reason)}") from None
