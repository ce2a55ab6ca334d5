"""UltraBERT: EuroBERT's layers with ModernBERT's windows, the first layers local, and a larger masked-word head."""

from typing import Any

from keras_bert import files
from keras_bert.formats.families import bert, eurobert
from keras_bert.formats.families.modernbert import (
    GLOBAL,
    HEAD_POOLINGS,
    LAYER_TYPES,
    LAYERS,
    LOCAL,
    layer_types,
    period_of,
)
from keras_bert.formats.families.row import Check, Dialect, Family, defaults_of

_WINDOW = "sliding_window"  # of one side
_EVERY, _FIRST = 3, 2
_SIZE = {
    **eurobert.LLAMA_BLOCK,
    "layer_norm_epsilon": 1e-6,
    "max_positions": 32768,
    "rope_theta": 2_560_000.0,
    "local_rope_theta": 10_000.0,
    "global_every": _EVERY,
    "first_global": _FIRST,
    "local_window": 256,
}
_HEADS = {
    "masked_lm_activation": "gelu_tanh",
    "sequence_pooler": False,
    "own_decoder": True,
    "decoder_bias": False,
    "decoder_width": 768,
}


def _by_type(types: list[str], values: Any, kind: type, key: str) -> dict[str, Any]:
    """Finds the value of each type of layers in a list of all layers' values."""
    files.check_json(values, [(kind, None)], key)
    found = dict(zip(types, values, strict=False))
    if len(types) != len(values) or any(found[each] != value for each, value in zip(types, values, strict=True)):
        raise ValueError(f"{key} is {values}; only one value for all layers of {', '.join(found)} each is supported")
    return found


def _read(values: dict[str, Any], check: Check) -> dict[str, Any]:
    """Reads lists of all layers' types, or of their windows and thetas, which files of the models' own code have."""
    values, every, first = dict(values), _EVERY, _FIRST
    windows, thetas, types = (values.pop(key, None) for key in ("attention_windows", "rope_theta", LAYER_TYPES))
    if windows is not None:
        files.check_json(windows, [(int, None)], "attention_windows")
        types = [LOCAL if window else GLOBAL for window in windows] if types is None else types
    if types is not None:
        every, first = period_of(types, values.get(LAYERS), every, first, check)
        values[LAYER_TYPES] = {"every": every, "first": first}
    if windows is not None and types is not None:
        values[_WINDOW] = _by_type(types, windows, int, "attention_windows").get(LOCAL) or values.get(_WINDOW)
    if thetas is not None and values.get("rope_parameters") is None:
        types = layer_types(values[LAYERS], every, first)
        by_type = _by_type(types, thetas, float, "rope_theta").items()
        values["rope_parameters"] = {each: {"rope_theta": theta} for each, theta in by_type}
    if (window := values.get(_WINDOW)) is not None:
        check("local_window", window, _WINDOW)
        values[_WINDOW] = 2 * window
    return values


def _write(entries: dict[str, Any]) -> dict[str, Any]:
    types = layer_types(entries[LAYERS], **entries[LAYER_TYPES])
    return {**entries, LAYER_TYPES: types, _WINDOW: entries[_WINDOW] // 2}


ULTRABERT = Family(
    "ultrabert",
    hugging_face=eurobert.ROW._replace(
        classes="Ultrabert",
        prefix="ultrabert.",
        config={
            **eurobert.ROW.config,
            "rope_theta": "rope_parameters.full_attention.rope_theta",
            "local_rope_theta": "rope_parameters.sliding_attention.rope_theta",
            "global_every": f"{LAYER_TYPES}.every",
            "first_global": f"{LAYER_TYPES}.first",
            "local_window": _WINDOW,
            "decoder_width": "prediction_head_size",
        },
        values={**defaults_of(_SIZE), **_HEADS},  # `decoder_width` has a key
        choices={**eurobert.ROW.choices, "pooling": HEAD_POOLINGS},
        dialect=Dialect(_read, _write),
        fixed_values={
            **eurobert.ROW.fixed_values,
            "rope_parameters.full_attention.rope_type": "default",
            "rope_parameters.sliding_attention.rope_type": "default",
        },
        heads={
            "masked_lm": {"transform": "head.linear1", "projection": "head.linear2", "decoder": "cls"},
            **bert.CLASSIFIERS,
            "spans": {"logits": "qa_outputs"},
        },
    ),
    heads=_HEADS,
    size=_SIZE,
)
