"""An encoder's inputs, and checks of their shapes and values."""

from typing import Any

import keras
from keras import ops

from keras_bert.config import BertConfig

NAMES = ("input_word_ids", "input_mask", "input_type_ids")  # TF Hub's
ALL_NAMES = (*NAMES, "input_document_ids")


def checked(inputs: dict[str, Any], config: BertConfig) -> tuple[Any, ...]:
    """The inputs in the order of `ALL_NAMES`, each int `[batch, seq_length]`, or None if it is missing.

    Raises:
        ValueError: an input is missing, unknown, not integer, or of a wrong shape; or, outside of traced functions, an
            id is not in the vocabulary.
    """
    if not isinstance(inputs, dict) or NAMES[0] not in inputs:
        given = f"the keys {sorted(inputs)}" if isinstance(inputs, dict) else f"a {type(inputs).__name__}"
        raise ValueError(f"the encoder takes a dict with {NAMES[0]} (and {', '.join(ALL_NAMES[1:])}), not {given}")
    unknown = sorted(set(inputs) - set(ALL_NAMES))
    if unknown:
        raise ValueError(f"the encoder has no input {', '.join(unknown)}; it takes {', '.join(ALL_NAMES)}")
    for name, value in inputs.items():
        _check_shape(name, value, inputs[NAMES[0]])
    seq_length = inputs[NAMES[0]].shape[1]
    if isinstance(seq_length, int) and seq_length > config.max_positions:
        raise ValueError(
            f"the sequence is {seq_length} tokens long, but this model has {config.max_positions} positions; "
            "truncate the text, or split it"
        )
    _check_range(NAMES[0], inputs[NAMES[0]], config.vocab_size)
    if NAMES[2] in inputs and config.type_vocab_size:
        _check_range(NAMES[2], inputs[NAMES[2]], config.type_vocab_size)
    return tuple(inputs.get(name) for name in ALL_NAMES)


def _check_shape(name: str, value: Any, word_ids: Any) -> None:
    if len(value.shape) != 2:
        raise ValueError(f"{name} has shape {tuple(value.shape)}, but it must be [batch, seq_length]")
    if "int" not in keras.backend.standardize_dtype(value.dtype):
        raise ValueError(f"{name} is {value.dtype}, but it must be an integer tensor")
    for given, expected in zip(value.shape, word_ids.shape, strict=True):
        # In traced functions, a dimension may be unknown.
        if isinstance(given, int) and isinstance(expected, int) and given != expected:
            raise ValueError(f"{name} has shape {tuple(value.shape)}, but {NAMES[0]} has {tuple(word_ids.shape)}")


def _check_range(name: str, ids: Any, limit: int) -> None:
    try:
        values = ops.convert_to_numpy(ids)
    except (NotImplementedError, TypeError, ValueError, AttributeError, RuntimeError):  # RuntimeError: OpenVINO
        return  # traced tensors have no values
    if values.size and not 0 <= values.min() <= values.max() < limit:
        wrong = values.min() if values.min() < 0 else values.max()
        raise ValueError(f"{name} holds {wrong}, but the model knows the ids 0 to {limit - 1}")
