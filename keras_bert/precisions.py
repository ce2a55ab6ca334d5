"""The table of precisions, a row each: what computes in it, and what stores numbers in it. It needs no TensorFlow."""

from typing import NamedTuple


class Precision(NamedTuple):
    """A type of numbers."""

    name: str
    policy: str | None  # Keras's dtype policy of training; None: nothing trains in it
    in_inference: bool  # whether `set_precision` takes it
    in_saved_models: bool  # whether a SavedModel stores weights in it
    in_indexes: bool  # whether an index stores vectors in it
    # The least of the outputs of an export in it and of Keras; None: there is none, or the numbers must be the same.
    cosine: float | None = None
    has_ranges: bool = False  # whether inference calibrates it with texts


PRECISIONS = {
    row.name: row
    for row in (
        Precision("float32", "float32", True, True, True),
        Precision("float16", "mixed_float16", False, True, False, cosine=0.9999),
        Precision("bfloat16", "mixed_bfloat16", True, True, False),  # no runtime takes it: see `Runtime.refused`
        Precision("int8", None, True, False, True, cosine=0.95, has_ranges=True),
        Precision("binary", None, False, False, True),  # signs, and beside them int8
    )
}
INFERENCE = tuple(name for name, row in PRECISIONS.items() if row.in_inference)
TRAINING = tuple(sorted(row.policy for row in PRECISIONS.values() if row.policy))
SAVED_MODELS = tuple(name for name, row in PRECISIONS.items() if row.in_saved_models)
INDEXES = tuple(name for name, row in PRECISIONS.items() if row.in_indexes)
EXPORTS = tuple(name for name, row in PRECISIONS.items() if row.in_inference or row.in_saved_models or row.cosine)
