"""Digests of a run's model, examples and teacher. A run is resumed only if all of them are the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.pretraining.records import Records
from keras_bert.tasks.columns import columns_of, plain
from keras_bert.tasks.task import BertTask, TokenizedExamples

_RECORD_BYTES = 1 << 20  # of each file; a corpus may have a terabyte of records

# The names of the digests in the settings of a run. Messages show the names only, as the values mean nothing to people.
WEIGHTS = "weights of its preset"
CONFIGURATION = "configuration of the model"
EXAMPLES = "examples"
VALIDATION = "validation examples"
TEACHER = "teacher"
NAMES = (WEIGHTS, CONFIGURATION, EXAMPLES, VALIDATION, TEACHER)


def of_model(model: BertTask) -> dict[str, str | None]:
    """Digests of the model that a run starts with: of its preset's weights, if it has a preset, and of its settings.

    New weights, such as a head's, differ in each run of a program, so they do not count. Weights learned since loading
    do not count either, so that an interrupted notebook cell may run again.
    """
    encoder, ours = model.encoder, model.preprocessor
    text = ("truncation", "sequence_length", "max_sequence_length", "pad_to_multiple_of", "stride")
    told = [sorted(model.heads), encoder.config.to_dict(), model.settings()]
    told += [{name: getattr(ours, name) for name in text}, ours.tokenizer.get_config()]
    configuration = json.dumps(told, sort_keys=True, default=repr)
    digests = {WEIGHTS: encoder.origin, CONFIGURATION: _of([configuration.encode()])}
    return {**digests, "dtype": encoder.dtype_policy.name}


def of_weights(variables: Iterable[keras.Variable]) -> str:
    return _of(np.ascontiguousarray(variable.numpy()).tobytes() for variable in variables)


def of_tokens(examples: TokenizedExamples) -> str:
    parts = tf.nest.flatten([*examples.segments, examples.targets], expand_composites=True)
    return _of(np.ascontiguousarray(part).tobytes() for part in parts)


def of_examples(x: Any, y: Any) -> str:
    """A digest of examples and, if there are any, their labels."""
    y = () if y is None else y
    return _of(part for column in (*columns_of(x, None), plain(y)) for part in (*map(_bytes, column), b"\0"))


def of_records(records: Records) -> str:
    """A digest of names, sizes and first bytes of files."""
    paths = [Path(path) for path in records.files]
    return _of(part for path in paths for part in (_bytes((path.name, path.stat().st_size)), _beginning(path)))


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_RECORD_BYTES)


def _bytes(value: Any) -> bytes:
    if isinstance(value, np.ndarray) or tf.is_tensor(value):
        value = np.asarray(value).tolist()
    return repr(value).encode(errors="surrogatepass") + b"\n"


def _of(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
