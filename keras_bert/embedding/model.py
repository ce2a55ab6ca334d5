"""The one model that a process computes with, whichever threads ask for it; known by its digest."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path

from keras import ops

from keras_bert.tasks import BertSentenceEncoder

_loaded: dict[str, BertSentenceEncoder] = {}
_loading = threading.Lock()


def load(preset: str | Path) -> str:
    """Reads a preset, in place of the one before: its digest. Raises as `BertSentenceEncoder.from_preset` does."""
    model = BertSentenceEncoder.from_preset(preset)
    digest = _digest(model)
    _loaded.clear()
    _loaded[digest] = model
    return digest


def model_of(preset: str | Path, digest: str) -> BertSentenceEncoder:
    """The model, read if it is not there. ValueError where the preset now holds another one."""
    with _loading:
        if digest not in _loaded and load(preset) != digest:
            raise ValueError(f"{preset} does not hold the model that the vectors before were computed with")
        return _loaded[digest]


def _digest(model: BertSentenceEncoder) -> str:
    """Of all that its vectors depend on, wherever its files are."""
    preprocessor, encoder = model.preprocessor, model.encoder
    settings = [repr(encoder.config), encoder.dtype_policy.name, model.pooling]
    settings += [preprocessor.max_sequence_length, preprocessor.tokenizer.get_config()]
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=repr).encode())
    for weight in encoder.weights:
        digest.update(ops.convert_to_numpy(weight).tobytes())
    return digest.hexdigest()
