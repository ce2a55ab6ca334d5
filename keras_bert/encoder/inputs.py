"""An encoder's inputs, and checks of their shapes and values."""

from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig

NAMES = ("input_word_ids", "input_mask", "input_type_ids")  # TF Hub's
ALL_NAMES = (*NAMES, "input_document_ids")


def checked(inputs: dict[str, Any], config: BertConfig) -> tuple[Any, ...]:
    """The inputs in the order of `ALL_NAMES`, each int32 or int64 `[batch, seq_length]`, or None if it is missing.

    Raises:
        ValueError: an input is missing, unknown, not integer, or of a wrong shape; or, outside of traced functions, an
            id is not in the vocabulary, or a mask holds something else than 0 and 1.
    """
    check_tensors(inputs)
    for name, value in inputs.items():
        _check_shape(name, value, inputs[NAMES[0]])
    seq_length = inputs[NAMES[0]].shape[1]
    if seq_length == 0:
        raise ValueError(f"{NAMES[0]} has shape {tuple(inputs[NAMES[0]].shape)}: the sequences have no tokens")
    if isinstance(seq_length, int) and seq_length > config.max_positions:
        raise ValueError(
            f"the sequence is {seq_length} tokens long, but this model has {config.max_positions} positions; "
            "truncate the text, or split it"
        )
    check_range(NAMES[0], inputs[NAMES[0]], config.vocab_size, "the model knows the ids")
    if NAMES[1] in inputs:
        check_range(NAMES[1], inputs[NAMES[1]], 2, "a mask holds")
    if NAMES[2] in inputs and config.type_vocab_size:
        check_range(NAMES[2], inputs[NAMES[2]], config.type_vocab_size, "the model knows the ids")
    return tuple(_wide(inputs[name]) if name in inputs else None for name in ALL_NAMES)


def check_tensors(inputs: Any) -> None:
    """Raises ValueError if these are not tensors by the names of the inputs."""
    if not isinstance(inputs, dict) or NAMES[0] not in inputs:
        given = f"the keys {list(inputs)}" if isinstance(inputs, dict) else f"a {type(inputs).__name__}"
        raise ValueError(f"the encoder takes a dict with {NAMES[0]} (and {', '.join(ALL_NAMES[1:])}), not {given}")
    unknown = sorted(map(str, set(inputs) - set(ALL_NAMES)))
    if unknown:
        raise ValueError(f"the encoder has no input {', '.join(unknown)}; it takes {', '.join(ALL_NAMES)}")
    for name, value in inputs.items():
        if not hasattr(value, "shape") or hasattr(value, "row_splits"):  # a tf.RaggedTensor has both
            kind = type(value).__name__
            raise ValueError(f"{name} is a {kind}, but it must be an integer array or tensor [batch, seq_length]")


def _wide(value: Any) -> Any:
    """int32 or int64: no backend takes all of the others as indices."""
    return value if keras.backend.standardize_dtype(value.dtype) in ("int32", "int64") else ops.cast(value, "int32")


def _check_shape(name: str, value: Any, word_ids: Any) -> None:
    if len(value.shape) != 2:
        raise ValueError(f"{name} has shape {tuple(value.shape)}, but it must be [batch, seq_length]")
    if "int" not in keras.backend.standardize_dtype(value.dtype):
        raise ValueError(f"{name} is {value.dtype}, but it must be an integer tensor")
    for given, expected in zip(value.shape, word_ids.shape, strict=True):
        # In traced functions, a dimension may be unknown.
        if isinstance(given, int) and isinstance(expected, int) and given != expected:
            raise ValueError(f"{name} has shape {tuple(value.shape)}, but {NAMES[0]} has {tuple(word_ids.shape)}")


def check_range(name: str, ids: Any, limit: int, what: str) -> None:
    """Raises ValueError if a value is not from 0 to `limit - 1`. Traced tensors pass."""
    try:
        values = ops.convert_to_numpy(ids)
    except (NotImplementedError, TypeError, ValueError, AttributeError, RuntimeError):  # RuntimeError: OpenVINO
        return  # traced tensors have no values
    if values.size and not 0 <= values.min() <= values.max() < limit:
        wrong = values.min() if values.min() < 0 else values.max()
        raise ValueError(f"{name} holds {wrong}, but {what} 0 to {limit - 1}")
