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


def load(preset: str | Path, **settings: Any) -> str:
    """Loads a preset, replacing any other, and returns its digest. See `BertSentenceEncoder.from_preset`."""
    model = BertSentenceEncoder.from_preset(preset, **settings)
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
    settings = [repr(encoder.config), encoder.dtype_policy.name, model.precision, model.settings()]
    settings += [preprocessor.max_sequence_length, preprocessor.tokenizer.get_config()]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=repr).encode())
    for weight in model.weights:
        digest.update(ops.convert_to_numpy(weight).tobytes())
    return digest.hexdigest()
