"""ModernBERT: rotary embeddings, local attention, pre-normalization, gates, almost no biases (Warner et al. 2024)."""

from typing import Any

from keras_bert import files
from keras_bert.counted import counted
from keras_bert.formats.families import bert, row
from keras_bert.formats.families.row import Check, Dialect, Family, Row, defaults_of, size

LAYER_TYPES, LAYERS, _GLOBAL_EVERY = "layer_types", "num_hidden_layers", "global_attn_every_n_layers"
GLOBAL, LOCAL = "full_attention", "sliding_attention"


def layer_types(layers: int, every: int, first: int = 0) -> list[str]:
    return [GLOBAL if every and i % every == first else LOCAL for i in range(layers)]


def period_of(types: Any, layers: Any, every: int, first: int, check: Check) -> tuple[int, int]:
    """Finds `global_every` and `first_global` of all layers' types: `every` and `first`, if these fit."""
    files.check_json(types, [str], LAYER_TYPES)
    check("num_layers", layers, LAYERS)
    begin = types.index(GLOBAL) if GLOBAL in types else 0
    for period in ((every, first), *((n, begin) for n in range(begin + 1, len(types) + 1)), (0, 0)):
        if len(types) == layers and types == layer_types(layers, *period):
            return period
    raise ValueError(
        f"{LAYER_TYPES} is {', '.join(types)}; only full_attention in every n-th of "
        f"{counted(layers, 'layer')}, or in none, is supported"
    )


def _read(values: dict[str, Any], check: Check) -> dict[str, Any]:
    """Replaces a list of all layers' types by `global_attn_every_n_layers` and the index of the first of these."""
    types, every = values.get(LAYER_TYPES), values.get(_GLOBAL_EVERY)
    if every == 0 and (types is None or {*types} != {LOCAL}):
        raise ValueError(f"{_GLOBAL_EVERY} must be a whole number of at least 1, not 0")
    if types is None:
        return values
    every = 1 if every is None else every
    check("global_every", every, _GLOBAL_EVERY)
    every, first = period_of(types, values.get(LAYERS), every, 0, check)
    return {**values, _GLOBAL_EVERY: every, LAYER_TYPES: {"first": first}}


def _write(entries: dict[str, Any]) -> dict[str, Any]:
    types = layer_types(entries[LAYERS], entries[_GLOBAL_EVERY], entries[LAYER_TYPES]["first"])
    return {**entries, LAYER_TYPES: types}


_LAYER = "layers.{i}"
_DENSE_AND_NORM = {"transform": "head.dense", "norm": "head.norm"}
_CLASSIFIER = {**_DENSE_AND_NORM, "logits": "classifier"}
HEAD_POOLINGS = {name: row.CLASSIFIER_POOLINGS[name] for name in ("cls", "mean")}
_SIZE = {
    "vocab_size": 50368,
    "max_positions": 8192,
    "type_vocab_size": 0,
    "pad_token_id": 50283,
    "layer_norm_epsilon": 1e-5,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "pooler": False,
    "rope_theta": 160_000.0,
    "local_rope_theta": 10_000.0,
    "global_every": 3,
    "local_window": 128,
    "pre_norm": True,
    "norm_bias": False,
    "attention_bias": False,
    "feed_forward_bias": False,
    "gated": True,
    "head_activation": "gelu",
}

MODERNBERT = Family(
    "modernbert",
    hugging_face=Row(
        classes="ModernBert",
        prefix="model.",
        config={
            **bert.KEYS_WITHOUT_TYPES,
            "activation": "hidden_activation",
            "hidden_dropout": ("mlp_dropout", "embedding_dropout"),
            "attention_dropout": "attention_dropout",
            "layer_norm_epsilon": "norm_eps",
            "rope_theta": ("rope_parameters.full_attention.rope_theta", "global_rope_theta"),
            "local_rope_theta": ("rope_parameters.sliding_attention.rope_theta", "local_rope_theta"),
            "global_every": _GLOBAL_EVERY,
            "first_global": f"{LAYER_TYPES}.first",
            "local_window": "local_attention",
            "norm_bias": "norm_bias",
            "attention_bias": "attention_bias",
            "feed_forward_bias": "mlp_bias",
            "pooling": "classifier_pooling",
            "head_activation": "classifier_activation",
        },
        choices={"activation": row.ACTIVATIONS, "head_activation": row.ACTIVATIONS, "pooling": HEAD_POOLINGS},
        dialect=Dialect(_read, _write),
        values=defaults_of(_SIZE),
        implied={**row.HEAD_SIZE, "sliding_window": lambda config: config.local_window // 2},
        # Some keys are left over from BERT; ModernBERT reads norm_eps, hidden_activation and so on in their place.
        without_effect=row.EVERYWHERE
        | {
            "attention_probs_dropout_prob",
            "deterministic_flash_attn",
            "hidden_act",
            "hidden_dropout_prob",
            "initializer_cutoff_factor",
            "layer_norm_eps",
            "position_embedding_type",
            "reference_compile",
            "repad_logits_with_grad",
            "sparse_pred_ignore_index",
            "sparse_prediction",  # computes the logits of masked tokens only
            "type_vocab_size",
        },
        fixed_values={
            **row.NO_DECODER,
            "rope_parameters.full_attention.rope_type": "default",
            "rope_parameters.sliding_attention.rope_type": "default",
            "rope_scaling": None,
            "classifier_bias": False,
            "decoder_bias": True,
        },
        embeddings={"embeddings/word": "embeddings.tok_embeddings", "embeddings/norm": "embeddings.norm"},
        block={
            "attention_norm": f"{_LAYER}.attn_norm",
            "attention/qkv": f"{_LAYER}.attn.Wqkv",
            "attention/output": f"{_LAYER}.attn.Wo",
            "output_norm": f"{_LAYER}.mlp_norm",
            "intermediate": f"{_LAYER}.mlp.Wi",
            "output": f"{_LAYER}.mlp.Wo",
        },
        last={"final_norm": "final_norm"},
        heads={
            "masked_lm": {**_DENSE_AND_NORM, "bias": "decoder.bias"},
            **dict.fromkeys(bert.ONE_LAYER, _CLASSIFIER),
        },
    ),
    heads={"head_norm": True},
    size=_SIZE,
    sizes={
        "modernbert-base": size(22, 768, pooling="mean", intermediate_size=1152),
        "modernbert-large": size(28, 1024, pooling="mean", intermediate_size=2624),
    },
    follows_tokenizer_json=True,
)
