"""What all served models are: named functions of arrays, with checks of what a request gives them."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from keras_bert.engines import runtime
from keras_bert.engines.loading import Reading
from keras_bert.engines.runtime import Spec
from keras_bert.server.errors import MAX_ROWS, ServingError, failed_precondition, invalid_argument

DEFAULT = "serving_default"
TOKEN_COUNT = "with_token_count"  # of export_serving, for vector clients
_LONG_TEXT = b"a " * 2**16  # longer than any model reads

# The number of parallel runs. In a single run, some cores wait for others; with many, requests do not form batches.
RUNS_AT_A_TIME = 2

stopwatch = threading.local()  # `tokenized`: the seconds that a thread's run has spent on it outside of a graph

Arrays = dict[str, np.ndarray]  # strings are arrays of bytes objects


class ModelSpec(NamedTuple):
    """What a request says of the model that it asks."""

    name: str
    version: int | None = None
    label: str | None = None  # of a version


@dataclass(frozen=True, eq=False)
class Signature(runtime.Signature):
    """A signature that requests can call. The inputs and the outputs are in alphabetical order."""

    name: str  # in requests
    defaults: Arrays = field(default_factory=dict)  # values of inputs that a request may leave out

    @functools.cached_property
    def batchable(self) -> bool:
        """Whether rows of different requests can share a run."""
        inputs, outputs = ([spec.shape or () for spec in each.values()] for each in (self.inputs, self.outputs))
        # An output as long as the batch's longest text would depend on the texts of other clients.
        return all(shape[:1] == (None,) for shape in inputs + outputs) and all(None not in each[1:] for each in outputs)

    def input(self, name: str) -> Spec:
        """Finds an input by its name. Raises ServingError if there is none."""
        if name not in self.inputs:
            raise invalid_argument(f"the signature {self.name} has no input {name}; it has {', '.join(self.inputs)}")
        return self.inputs[name]

    def complete(self, inputs: Arrays) -> Arrays:
        """Adds defaults for missing inputs. Raises ServingError for a missing input or a wrong shape."""
        inputs = self.defaults | inputs
        if missing := [name for name in self.inputs if name not in inputs]:
            raise invalid_argument(f"the signature {self.name} also needs the input {', '.join(missing)}")
        for name, spec in self.inputs.items():
            shape = inputs[name].shape
            if not spec.accepts(shape):
                raise invalid_argument(f"the input {name} has the shape {shape}; the signature needs {spec.shape}")
            if self.batchable:
                check_rows(shape[0])
        return {name: inputs[name] for name in self.inputs}

    def chosen_outputs(self, names: list[str]) -> list[str]:
        """Checks the requested outputs, by default all. Raises ServingError for an unknown or repeated name."""
        for position, name in enumerate(names):
            if name not in self.outputs:
                outputs = ", ".join(self.outputs)
                raise invalid_argument(f"the signature {self.name} has no output {name}; it has {outputs}")
            if name in names[:position]:
                raise invalid_argument(f"output_filter has {name} twice")
        return names or list(self.outputs)


def check_rows(rows: int) -> None:
    """Raises ServingError if a request has too many rows."""
    if rows > MAX_ROWS:
        raise invalid_argument(f"the request has {rows} rows, more than {MAX_ROWS}; send several requests")


class Model:
    """A version of a model, in memory: a SavedModel or an export."""

    name: str  # in requests
    signatures: Mapping[str, Signature]
    most_tokens: int | None = None  # what `measure` has found

    def signature(self, name: str) -> Signature:
        """Finds a signature by its name (empty: the default). Raises ServingError if there is none."""
        signature = self.signatures.get(name or DEFAULT)
        if signature is None:
            raise failed_precondition(f"no signature {name or DEFAULT}; the model has {', '.join(self.signatures)}")
        return signature

    def metadata(self) -> dict[str, Any]:
        """Describes the signatures, as the JSON of TF Serving's message SignatureDefMap."""
        raise NotImplementedError

    def run(self, signature: Signature, inputs: Arrays, seconds: float | None = None) -> Arrays:
        """Computes a signature, in RUNS_AT_A_TIME threads. Raises ServingError if refused, or after `seconds`."""
        raise NotImplementedError

    @functools.cached_property
    def reading(self) -> Reading:
        """How it reads texts. Raises ServingError if its files do not say it, or `tokenizers` is not installed."""
        raise NotImplementedError

    def warm_up(self) -> int:
        """Runs requests, because the first ones take long, and returns their number."""
        raise NotImplementedError

    def measure(self) -> None:
        """Counts the most tokens that a reranker reads of a pair: one that has fewer was not truncated."""
        signature = self.signatures.get(TOKEN_COUNT)
        if signature is not None and "text_pair" in signature.inputs:
            inputs = {name: np.array([_LONG_TEXT], object) for name in signature.inputs}
            with contextlib.suppress(ServingError):  # another program's signature
                self.most_tokens = int(self.run(signature, inputs)["token_count"][0])

    def close(self) -> None:
        """Frees the memory."""
