"""An export for ONNX Runtime or OpenVINO, which is served without TensorFlow."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert.engines.loading import Reading, load
from keras_bert.engines.runtime import Spec
from keras_bert.server.errors import invalid_argument, without_directories
from keras_bert.server.model import Arrays, Model, Signature, stopwatch

# TF Serving's names of types that are not those of NumPy in capitals.
_TYPES = {"string": "STRING", "float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}
# A short text, and a batch with a longer one: what is imported, allocated and started at the first use, is by then.
_WARM_UP = ([b"Hello, world!"], [b"word " * 100, b"Hello, world!"])


class Export(Model):
    """An export in memory. If it is damaged, `load` raises ValueError or OSError."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self._model = load(directory)
        preprocessor: Any = self._model.preprocessor
        for each in ("tokenize", "tokenize_words", "tokenize_with_offsets"):
            setattr(preprocessor, each, _timed(getattr(preprocessor, each)))
        self.signatures = {
            each: Signature(_sorted(signature.inputs), _sorted(signature.outputs), each)
            for each, signature in self._model.signatures.items()
        }

    def run(self, signature: Signature, inputs: Arrays, seconds: float | None = None) -> Arrays:
        try:
            outputs = self._model.serve(signature.name, inputs)
        except ValueError as error:
            raise invalid_argument(without_directories(str(error))) from None
        return {name: outputs[name] for name in signature.outputs}

    @functools.cached_property
    def reading(self) -> Reading:
        return Reading(self._model.settings, self._model.labels, self._model.preprocessor)

    def metadata(self) -> dict[str, Any]:
        return {"signature_def": {name: _definition(each) for name, each in self.signatures.items()}}

    def warm_up(self) -> int:
        signature = self.signature("")  # any other one runs the same graph
        if any(spec != Spec(np.dtype(object), (None,)) for spec in signature.inputs.values()):
            return 0
        for texts in _WARM_UP:
            self.run(signature, dict.fromkeys(signature.inputs, np.array(texts, object)))
        return len(_WARM_UP)


def _timed(tokenize: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the time of calls to the stopwatch."""

    def timed(*arguments: Any) -> Any:
        start = time.monotonic()
        tokens = tokenize(*arguments)
        stopwatch.tokenized = getattr(stopwatch, "tokenized", 0.0) + time.monotonic() - start
        return tokens

    return timed


def _sorted(specs: dict[str, Spec]) -> dict[str, Spec]:
    return {name: specs[name] for name in sorted(specs)}


def _definition(signature: Signature) -> dict[str, Any]:
    """Builds the JSON of TF Serving's message SignatureDef."""
    inputs, outputs = (
        {name: _info(name, spec) for name, spec in each.items()} for each in (signature.inputs, signature.outputs)
    )
    return {"inputs": inputs, "outputs": outputs, "method_name": "tensorflow/serving/predict", "defaults": {}}


def _info(name: str, spec: Spec) -> dict[str, Any]:
    """Builds the JSON of TF Serving's message TensorInfo."""
    dims = [{"size": "-1" if size is None else str(size), "name": ""} for size in spec.shape or ()]
    dtype = f"DT_{_TYPES.get(spec.type_name, spec.type_name.upper())}"
    return {"name": name, "dtype": dtype, "tensor_shape": {"dim": dims, "unknown_rank": spec.shape is None}}
