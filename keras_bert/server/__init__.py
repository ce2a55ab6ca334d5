"""A small local server of SavedModels and exports, which speaks the protocols of TF Serving and of vector clients.

It answers Predict, GetModelMetadata, GetModelStatus and health checks. TF Serving itself also has Classify, Regress and
tf.Example. Only the files for gRPC and for SavedModels import TensorFlow and TF Serving's messages. The graph of a
SavedModel does not use the rest of the package; only requests about tokens read the tokenizer that lies beside it.
"""

import re
from pathlib import Path

from keras_bert.formats.recognition import recognize
from keras_bert.runtime_table import LOADABLE_TITLES, RUNTIMES


def complete_versions(directory: Path) -> dict[int, Path]:
    """Finds SavedModels and exports named by a positive int64; a directory that is an export is version 1."""
    if is_export(directory):
        return {1: directory}
    names = (path.name for path in directory.iterdir())
    numbers = {int(name): name for name in names if re.fullmatch(r"[0-9]{1,19}", name)}
    paths = {number: directory / name for number, name in numbers.items() if 0 < number < 2**63}
    return {number: path for number, path in paths.items() if is_saved_model(path) or is_export(path)}


def is_saved_model(directory: Path) -> bool:
    return any((directory / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt"))


def is_export(directory: Path) -> bool:
    """Checks whether a directory is an export that `keras_bert.runtimes.load` opens."""
    runtime = RUNTIMES.get(recognize(directory).name) if directory.is_dir() else None
    return runtime is not None and runtime.can_load


def check_versions(directory: Path) -> None:
    """Raises FileNotFoundError, with advice, if a directory holds no version to serve."""
    if complete_versions(directory):
        return
    if is_saved_model(directory):
        raise FileNotFoundError(
            f"{directory} is itself a SavedModel; move it to {directory / '1'}, or serve its parent directory if its "
            "name is a number"
        )
    raise FileNotFoundError(
        f"{directory} has no version; a version is a SavedModel in a directory whose name is a number, such as "
        f"{directory / '1' / 'saved_model.pb'}, or an export for {LOADABLE_TITLES} in such a directory"
    )
