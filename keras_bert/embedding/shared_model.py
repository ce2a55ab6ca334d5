"""The model of a process, shared by its threads and identified by its digest."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path
from typing import Any

from keras import ops

from keras_bert.tasks import BertSentenceEncoder

_loaded: dict[str, BertSentenceEncoder] = {}
_loading = threading.Lock()


def load(preset: str | Path, to_compare: bool = False, **settings: Any) -> str:
    """Loads a preset, replacing any other, and returns its digest.

    Args:
        preset, **settings: see `BertSentenceEncoder.from_preset`.
        to_compare: whether the dot product of two vectors is to be the model's similarity.
    """
    make = BertSentenceEncoder.to_compare if to_compare else BertSentenceEncoder.from_preset
    model = make(preset, **settings)
    digest = _digest(model)
    _loaded.clear()
    _loaded[digest] = model
    return digest


def model_of(preset: str | Path, digest: str, **settings: Any) -> BertSentenceEncoder:
    """The model with this digest, loaded if necessary. Raises ValueError if the preset holds another model."""
    with _loading:
        if digest not in _loaded and load(preset, **settings) != digest:
            raise ValueError(f"{preset} no longer holds the model of the earlier vectors")
        return _loaded[digest]


def _digest(model: BertSentenceEncoder) -> str:
    """A digest of everything that the vectors depend on."""
    preprocessor, encoder = model.preprocessor, model.encoder
    of_vectors = {name: value for name, value in model.settings().items() if name != "similarity"}
    settings = [repr(encoder.config), encoder.dtype_policy.name, model.precision, of_vectors]
    settings += [preprocessor.max_sequence_length, preprocessor.tokenizer.get_config()]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=repr).encode())
    for weight in model.weights:
        digest.update(ops.convert_to_numpy(weight).tobytes())
    return digest.hexdigest()
