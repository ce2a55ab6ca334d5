"""Checks, without TF Serving, that its standard binary can serve a SavedModel."""

import hashlib
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert import files
from keras_bert.counted import counted
from keras_bert.formats.tensorflow import saved_model as graphs
from keras_bert.formats.tensorflow.bundle import TensorFlowFile
from keras_bert.inference import onednn
from keras_bert.processors import check_graph
from keras_bert.saved_model.serving import versions


def check_serving(directory: str | Path) -> list[str]:
    """Checks an export of `export_serving` or `export_encoder`. Use it before you deploy the export.

    There are three checks: TF Serving has all operations; no variable is stored twice; and a fresh process, which does
    not import this package, answers the warm-up requests.

    Args:
        directory: a version directory, `.../<version>/`; the parent of versions, to check the highest one; or the
            directory of an encoder.

    Returns:
        One line for each check. If a variable is stored twice, or there are no requests, it begins with "note: ".

    Raises:
        FileNotFoundError: there is no SavedModel.
        ValueError: the SavedModel is damaged, or cannot be served, by TF Serving or on this processor; the message
            lists all problems.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertEncoder
        >>> from keras_bert.saved_model import export_encoder
        >>> directory = tempfile.mkdtemp()
        >>> export_encoder(BertEncoder.from_preset("all-MiniLM-L6-v2"), directory)
        >>> len(check_serving(directory))
        3
    """
    directory = Path(directory)
    if numbers := versions(directory):
        directory /= str(numbers[-1])
    if not directory.is_dir():
        raise FileNotFoundError(f"there is no directory {directory}")
    saved_model = graphs.read_graphs(files.find(directory, graphs.MODEL))
    check_graph(saved_model.meta_graphs[0].graph_def, str(directory))
    problems, lines = [], []
    for check in (_check_operations, _check_variables, _check_answers):
        try:
            lines.append(check(directory, saved_model))
        except (ValueError, FileNotFoundError) as error:
            problems.append(str(error))
    if problems:
        raise ValueError(f"{directory} cannot be served: {'; '.join(problems)}")
    return lines


def _check_operations(directory: Path, saved_model: Any) -> str:
    ops = graphs.operations(saved_model)
    in_python, known = sorted(ops & graphs.PYTHON_OPS), (*graphs.TEXT_OPS, *onednn.OPERATIONS)
    unknown = sorted(op for op in ops if not hasattr(tf.raw_ops, op) and op not in known)
    if in_python or unknown:
        reasons = [f"it calls back into Python ({', '.join(in_python)})"] if in_python else []
        reasons += [f"TF Serving does not have its operations {', '.join(unknown)}"] if unknown else []
        raise ValueError("; ".join(reasons))
    line = f"{counted(ops, 'kind')} of operations, {len(ops & graphs.TEXT_OPS)} of TensorFlow Text"
    if fused := len(ops & set(onednn.OPERATIONS)):
        line += f", {fused} of oneDNN: TF Serving has those of oneDNN in builds for x86 only; none needs Python"
    else:
        line += ": TF Serving has all of them, none needs Python"
    libraries = graphs.libraries_of(ops)
    return line + f"; programs in other languages load {', '.join(libraries)}" * bool(libraries)


def _check_variables(directory: Path, saved_model: Any) -> str:
    file = TensorFlowFile(directory / "variables" / "variables.index")
    names = [name for name in file.names if name.endswith("/.ATTRIBUTES/VARIABLE_VALUE")]
    tensors = {name: np.asarray(file.read(name)) for name in names}
    names_by_digest = defaultdict(list)
    for name, value in sorted(tensors.items()):
        # Variables with one repeated value, such as new biases, may be equal by chance. Random or learned ones are not.
        if value.size > 1 and np.any(value != value.flat[0]):
            names_by_digest[hashlib.sha256(value.tobytes() + repr(value.shape).encode()).digest()].append(name)
    if duplicates := ", ".join(" = ".join(names) for names in names_by_digest.values() if len(names) > 1):
        return f"note: these variables are on disk more than once, which takes time and memory: {duplicates}"
    size = sum(value.nbytes for value in tensors.values())
    return f"{size / 1e6:.1f} MB of variables, each on disk once"


def _check_answers(directory: Path, saved_model: Any) -> str:
    # An encoder takes ids, and has no warm-up requests.
    inputs = saved_model.meta_graphs[0].signature_def["serving_default"].inputs.values()
    takes_ids = bool(inputs) and all(each.dtype == tf.int32.as_datatype_enum for each in inputs)
    if not (directory / graphs.WARMUP).is_file() and not takes_ids:
        return f"note: there are no warm-up requests ({graphs.WARMUP}): nothing was run, and the first request is slow"
    # A fresh process loads the model as TF Serving does. It gets the script as text, because a script in a file
    # could import the modules beside it.
    script = Path(__file__).with_name("replay.py").read_text(encoding="utf-8")
    command = [sys.executable, "-c", script, str(directory.absolute())]
    result = subprocess.run(command, capture_output=True, text=True, cwd=directory)
    if result.returncode:
        last_line = (result.stderr.strip().splitlines() or ["no output"])[-1]
        raise ValueError(f"a fresh process could not answer the warm-up requests: {last_line}")
    return result.stdout.strip()
