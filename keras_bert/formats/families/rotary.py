"""Families with rotary embeddings: keys of Hugging Face's `config.json` and names of weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from keras_bert import files, sizes
from keras_bert.config import check_field
from keras_bert.counted import counted
from keras_bert.formats.families import without_effect
from keras_bert.formats.families.bert import (
    ACTIVATIONS,
    BERT,
    CLASSIFIER_POOLINGS,
    KEYS_WITHOUT_TYPES,
    NO_DECODER,
    ROBERTA,
    WITHOUT_POSITIONS,
)
from keras_bert.formats.families.table import Dialect, FamilyTable, newer_keys
from keras_bert.formats.storage import by_head, gate_last
from keras_bert.sizes import HEADS


def defaults_of(size: dict[str, object]) -> dict[str, object]:
    """Selects the options of a published size that are defaults for a file that leaves them out."""
    return {name: value for name, value in size.items() if name not in ("family", "vocab_size", "pooler")}


# Some files have the width of a head. In some of these families, it must be `hidden_size / num_heads`.
_HEAD_DIM = {"head_dim": "head_dim"}
_HEAD_SIZE = {"head_dim": lambda config: config.head_size}
_LAYER_TYPES, _LAYERS, _GLOBAL_EVERY = "layer_types", "num_hidden_layers", "global_attn_every_n_layers"
_GLOBAL, _LOCAL = "full_attention", "sliding_attention"


def _layer_types(layers: int, every: int, first: int = 0) -> list[str]:
    return [_GLOBAL if every and i % every == first else _LOCAL for i in range(layers)]


def _period_of(types: Any, layers: Any, every: int, first: int) -> tuple[int, int]:
    """Finds `global_every` and `first_global` of all layers' types: `every` and `first`, if these fit."""
    files.check_json(types, [str], _LAYER_TYPES)
    check_field("num_layers", layers, _LAYERS)
    begin = types.index(_GLOBAL) if _GLOBAL in types else 0
    for period in ((every, first), *((n, begin) for n in range(begin + 1, len(types) + 1)), (0, 0)):
        if len(types) == layers and types == _layer_types(layers, *period):
            return period
    raise ValueError(
        f"{_LAYER_TYPES} is {', '.join(types)}; only full_attention in every n-th of "
        f"{counted(layers, 'layer')}, or in none, is supported"
    )


def _read_layer_types(values: dict[str, Any]) -> dict[str, Any]:
    """Replaces a list of all layers' types by `global_attn_every_n_layers` and the index of the first of these."""
    types, every = values.get(_LAYER_TYPES), values.get(_GLOBAL_EVERY)
    if every == 0 and (types is None or {*types} != {_LOCAL}):
        raise ValueError(f"{_GLOBAL_EVERY} must be a whole number of at least 1, not 0")
    if types is None:
        return values
    every = 1 if every is None else every
    check_field("global_every", every, _GLOBAL_EVERY)
    every, first = _period_of(types, values.get(_LAYERS), every, 0)
    return {**values, _GLOBAL_EVERY: every, _LAYER_TYPES: {"first": first}}


def _write_layer_types(entries: dict[str, Any]) -> dict[str, Any]:
    types = _layer_types(entries[_LAYERS], entries[_GLOBAL_EVERY], entries[_LAYER_TYPES]["first"])
    return {**entries, _LAYER_TYPES: types}


_MODERNBERT_LAYER = "layers.{i}"
_DENSE_AND_NORM = {"transform": "head.dense", "norm": "head.norm"}
_MODERNBERT_CLASSIFIER = {**_DENSE_AND_NORM, "logits": "classifier"}
# ModernBERT: rotary embeddings, local attention, pre-normalization, gates, almost no biases (Warner et al. 2024).
MODERNBERT = FamilyTable(
    classes="ModernBert",
    prefix="model.",
    config={
        **KEYS_WITHOUT_TYPES,
        "activation": "hidden_activation",
        "hidden_dropout": ("mlp_dropout", "embedding_dropout"),
        "attention_dropout": "attention_dropout",
        "layer_norm_epsilon": "norm_eps",
        "rope_theta": ("rope_parameters.full_attention.rope_theta", "global_rope_theta"),
        "local_rope_theta": ("rope_parameters.sliding_attention.rope_theta", "local_rope_theta"),
        "global_every": _GLOBAL_EVERY,
        "first_global": f"{_LAYER_TYPES}.first",
        "local_window": "local_attention",
        "norm_bias": "norm_bias",
        "attention_bias": "attention_bias",
        "feed_forward_bias": "mlp_bias",
        "pooling": "classifier_pooling",
        "head_activation": "classifier_activation",
    },
    choices={
        "activation": ACTIVATIONS,
        "head_activation": ACTIVATIONS,
        "pooling": {"cls": "first", "mean": "mean"},
    },
    dialect=Dialect(_read_layer_types, _write_layer_types),
    values={**defaults_of(sizes.MODERNBERT), **HEADS["modernbert"]},
    implied={**_HEAD_SIZE, "sliding_window": lambda config: config.local_window // 2},
    without_effect=without_effect.MODERNBERT,
    fixed_values={
        **NO_DECODER,
        "rope_parameters.full_attention.rope_type": "default",
        "rope_parameters.sliding_attention.rope_type": "default",
        "rope_scaling": None,
        "classifier_bias": False,
        "decoder_bias": True,
    },
    endings=BERT.endings,
    storage=BERT.storage,
    embeddings={"embeddings/word": "embeddings.tok_embeddings", "embeddings/norm": "embeddings.norm"},
    block={
        "attention_norm": f"{_MODERNBERT_LAYER}.attn_norm",
        "attention/qkv": f"{_MODERNBERT_LAYER}.attn.Wqkv",
        "attention/output": f"{_MODERNBERT_LAYER}.attn.Wo",
        "output_norm": f"{_MODERNBERT_LAYER}.mlp_norm",
        "intermediate": f"{_MODERNBERT_LAYER}.mlp.Wi",
        "output": f"{_MODERNBERT_LAYER}.mlp.Wo",
    },
    last={"final_norm": "final_norm"},
    heads={
        "masked_lm": {**_DENSE_AND_NORM, "bias": "decoder.bias"},
        **dict.fromkeys(("sequence", "tokens", "spans", "choices"), _MODERNBERT_CLASSIFIER),
    },
)
_CLASSIFIERS = {"sequence": {"logits": "classifier"}, "tokens": {"logits": "classifier"}}
_GPT2_KEYS = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
    "activation_function": "hidden_act",
    "resid_pdrop": "hidden_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob",
    "layer_norm_epsilon": "layer_norm_eps",
    "rotary_emb_base": "rope_parameters.rope_theta",
}
_NOMIC_LAYER = "encoder.layers.{i}"
# NomicBERT: rotary embeddings, gates, no biases in the layers (Nussbaum et al. 2024). Files have the keys of
# transformers 5, or those of the family's own code, which follow GPT-2.
NOMIC_BERT = replace(
    BERT,
    classes="NomicBert",
    prefix="nomic_bert.",
    config={**BERT.config, "rope_theta": "rope_parameters.rope_theta"},
    dialect=Dialect(read=newer_keys(_GPT2_KEYS), name=lambda name: name.removeprefix("bert.")),
    values=defaults_of(sizes.NOMIC_BERT),
    choices={
        "activation": {"silu": "silu", "swiglu": "silu", "swish": "silu", **ACTIVATIONS, "geglu": "gelu"},
        "pooling": CLASSIFIER_POOLINGS,
    },
    written_if_changed={**BERT.written_if_changed, **_HEAD_DIM},
    without_effect=without_effect.NOMIC_BERT,
    fixed_values={
        **NO_DECODER,
        "rope_parameters.rope_type": "default",
        **dict.fromkeys(("moe_every_n_layers", "num_experts"), 0),
        **dict.fromkeys(("prenorm", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "use_rms_norm", "causal"), False),
        **dict.fromkeys(("parallel_block", "rotary_emb_interleaved", "scale_attn_by_inverse_layer_idx"), False),
        **dict.fromkeys(("rotary_emb_scale_base", "rotary_scaling_factor")),
        "rotary_emb_fraction": 1.0,
        "scale_attn_weights": True,
    },
    embeddings={
        "embeddings/word": "embeddings.word_embeddings",
        "embeddings/type": "embeddings.token_type_embeddings",
        "embeddings/norm": "emb_ln",
    },
    block={
        "attention/qkv": f"{_NOMIC_LAYER}.attn.Wqkv",
        "attention/output": f"{_NOMIC_LAYER}.attn.out_proj",
        "attention_norm": f"{_NOMIC_LAYER}.norm1",
        "intermediate": [f"{_NOMIC_LAYER}.mlp.fc12", f"{_NOMIC_LAYER}.mlp.fc11"],
        "output": f"{_NOMIC_LAYER}.mlp.fc2",
        "output_norm": f"{_NOMIC_LAYER}.norm2",
    },
    heads={
        "masked_lm": {**BERT.heads["masked_lm"], "norm": "cls.predictions.transform.layer_norm"},
        **_CLASSIFIERS,
    },
)
# GTE: rotary embeddings, and gates with the activation on the second half (Zhang et al. 2024, mGTE).
GTE = replace(
    BERT,
    classes="Gte",
    prefix="gte.",
    dialect=Dialect(name=lambda name: name.removeprefix("new.")),
    config={**BERT.config, "rope_theta": ("rope_parameters.rope_theta", "rope_theta")},
    values={**defaults_of(sizes.GTE), "rope_factor": 1.0, **HEADS["gte"]},
    written_if_changed={**BERT.written_if_changed, **_HEAD_DIM},
    without_effect=without_effect.EVERYWHERE,
    fixed_values={**NO_DECODER, "rope_parameters.rope_type": "default", "rope_scaling": None},
    storage=replace(BERT.storage, orders={"intermediate": gate_last}),
    embeddings=WITHOUT_POSITIONS,
    block={
        "attention/qkv": "encoder.layer.{i}.attention.qkv_proj",
        "attention/output": "encoder.layer.{i}.attention.o_proj",
        "attention_norm": "encoder.layer.{i}.attn_ln",
        "intermediate": "encoder.layer.{i}.mlp.up_gate_proj",
        "output": "encoder.layer.{i}.mlp.down_proj",
        "output_norm": "encoder.layer.{i}.mlp_ln",
    },
    heads={
        "masked_lm": {"transform": "lm_head.dense", "norm": "lm_head.norm", "bias": "lm_head.decoder.bias"},
        **_CLASSIFIERS,
    },
)


def _write_new(entries: dict[str, Any]) -> dict[str, Any]:
    """Adds options that the file must not leave out: the defaults of the models' own code are other values."""
    scaling = {"type": "ntk", **entries["rope_scaling"]}
    options = {"position_embedding_type": "rope", "rope_scaling": scaling, "pack_qkv": True}
    return {**options, **entries, "rope_scaling": scaling}


# GTE again, in files for the models' own Python code, which has more options.
NEW = replace(
    GTE,
    classes="New",
    prefix="new.",
    dialect=Dialect(write=_write_new),
    config={**BERT.config, "rope_theta": "rope_theta", "rope_factor": "rope_scaling.factor"},
    values={**defaults_of(sizes.GTE), "rope_theta": 10_000.0, "rope_factor": 1.0},
    written_if_changed=BERT.written_if_changed,
    implied=_HEAD_SIZE,
    without_effect=without_effect.NEW,
    fixed_values={
        **NO_DECODER,
        "position_embedding_type": "rope",
        "rope_scaling.type": "ntk",
        "rope_scaling.mixed_b": None,
        "pack_qkv": True,
        "layer_norm_type": "layer_norm",
        "logn_attention_scale": False,
    },
    heads={**GTE.heads, "spans": {"logits": "qa_outputs"}},
)
_EUROBERT_LAYER = "layers.{i}"
# EuroBERT: Llama's layers with bidirectional attention (Boizard et al. 2025).
EUROBERT = FamilyTable(
    classes="EuroBert",
    prefix="model.",
    config={
        "vocab_size": "vocab_size",
        "hidden_size": "hidden_size",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
        "num_key_value_heads": "num_key_value_heads",
        "intermediate_size": "intermediate_size",
        "activation": "hidden_act",
        "hidden_dropout": "hidden_dropout",
        "attention_dropout": "attention_dropout",
        "max_positions": "max_position_embeddings",
        "initializer_range": "initializer_range",
        "layer_norm_epsilon": "rms_norm_eps",
        "pad_token_id": "pad_token_id",
        "rope_theta": ("rope_parameters.rope_theta", "rope_theta"),
        "attention_bias": "attention_bias",
        "pooling": "classifier_pooling",
    },
    values={**defaults_of(sizes.EUROBERT), "rope_theta": 10_000.0, "pooling": "late", **HEADS["eurobert"]},
    choices={
        "activation": {"silu": "silu", "swish": "silu", **ACTIVATIONS},
        "pooling": {"bos": "first", "mean": "mean", "late": "late"},
    },
    dialect=Dialect(read=newer_keys({"clf_pooling": "classifier_pooling"})),  # a key of the models' own code
    written_if_changed=_HEAD_DIM,
    without_effect=without_effect.EUROBERT,
    fixed_values={
        **NO_DECODER,
        "rope_parameters.rope_type": "default",
        "rope_scaling": None,
        "mlp_bias": False,
        "tie_word_embeddings": False,
    },
    endings=BERT.endings,
    storage=BERT.storage,
    embeddings={"embeddings/word": "embed_tokens"},
    block={
        "attention_norm": f"{_EUROBERT_LAYER}.input_layernorm",
        "attention/qkv": [f"{_EUROBERT_LAYER}.self_attn.{name}_proj" for name in "qkv"],
        "attention/output": f"{_EUROBERT_LAYER}.self_attn.o_proj",
        "output_norm": f"{_EUROBERT_LAYER}.post_attention_layernorm",
        "intermediate": [f"{_EUROBERT_LAYER}.mlp.gate_proj", f"{_EUROBERT_LAYER}.mlp.up_proj"],
        "output": f"{_EUROBERT_LAYER}.mlp.down_proj",
    },
    last={"final_norm": "norm"},
    heads={
        "masked_lm": {"decoder": "lm_head"},
        "sequence": {"transform": "dense", "logits": "classifier"},
        "tokens": {"logits": "classifier"},
    },
)
_WINDOW = "sliding_window"  # of one side


def _by_type(types: list[str], values: Any, kind: type, key: str) -> dict[str, Any]:
    """Finds the value of each type of layers in a list of all layers' values."""
    files.check_json(values, [(kind, None)], key)
    found = dict(zip(types, values, strict=False))
    if len(types) != len(values) or any(found[each] != value for each, value in zip(types, values, strict=True)):
        raise ValueError(f"{key} is {values}; only one value for all layers of {', '.join(found)} each is supported")
    return found


def _read_ultrabert(values: dict[str, Any]) -> dict[str, Any]:
    """Reads lists of all layers' types, or of their windows and thetas, which files of the models' own code have."""
    values, every, first = dict(values), sizes.ULTRABERT["global_every"], sizes.ULTRABERT["first_global"]
    windows, thetas, types = (values.pop(key, None) for key in ("attention_windows", "rope_theta", _LAYER_TYPES))
    if windows is not None:
        files.check_json(windows, [(int, None)], "attention_windows")
        types = [_LOCAL if window else _GLOBAL for window in windows] if types is None else types
    if types is not None:
        every, first = _period_of(types, values.get(_LAYERS), every, first)
        values[_LAYER_TYPES] = {"every": every, "first": first}
    if windows is not None and types is not None:
        values[_WINDOW] = _by_type(types, windows, int, "attention_windows").get(_LOCAL) or values.get(_WINDOW)
    if thetas is not None and values.get("rope_parameters") is None:
        types = _layer_types(values[_LAYERS], every, first)
        by_type = _by_type(types, thetas, float, "rope_theta").items()
        values["rope_parameters"] = {each: {"rope_theta": theta} for each, theta in by_type}
    if (window := values.get(_WINDOW)) is not None:
        check_field("local_window", window, _WINDOW)
        values[_WINDOW] = 2 * window
    return values


def _write_ultrabert(entries: dict[str, Any]) -> dict[str, Any]:
    types = _layer_types(entries[_LAYERS], **entries[_LAYER_TYPES])
    return {**entries, _LAYER_TYPES: types, _WINDOW: entries[_WINDOW] // 2}


# UltraBERT: EuroBERT's layers with ModernBERT's windows, the first layers local, and a larger head for masked words.
ULTRABERT = replace(
    EUROBERT,
    classes="Ultrabert",
    prefix="ultrabert.",
    config={
        **EUROBERT.config,
        "rope_theta": "rope_parameters.full_attention.rope_theta",
        "local_rope_theta": "rope_parameters.sliding_attention.rope_theta",
        "global_every": f"{_LAYER_TYPES}.every",
        "first_global": f"{_LAYER_TYPES}.first",
        "local_window": _WINDOW,
        "decoder_width": "prediction_head_size",
    },
    values={**defaults_of(sizes.ULTRABERT), **HEADS["ultrabert"]},
    choices={**EUROBERT.choices, "pooling": MODERNBERT.choices["pooling"]},
    dialect=Dialect(_read_ultrabert, _write_ultrabert),
    fixed_values={
        **EUROBERT.fixed_values,
        "rope_parameters.full_attention.rope_type": "default",
        "rope_parameters.sliding_attention.rope_type": "default",
    },
    heads={
        "masked_lm": {"transform": "head.linear1", "projection": "head.linear2", "decoder": "cls"},
        **_CLASSIFIERS,
        "spans": {"logits": "qa_outputs"},
    },
)
_SIZE = "intermediate_size"


def _read_two_thirds(values: dict[str, Any]) -> dict[str, Any]:
    """Replaces the width w of the feed-forward layer by 2w / 3, rounded up to a multiple of 8."""
    check_field("intermediate_size", values.get(_SIZE), _SIZE)
    return {**values, _SIZE: -(-(values[_SIZE] * 2 // 3) // 8) * 8}


_NEOBERT_LAYER = "transformer_encoder.{i}"
# NeoBERT: EuroBERT's layers, with the two matrices of a gate in one, and query, key and value interleaved by head (Le
# Breton et al. 2025). These models come with their own Python code.
NEOBERT = replace(
    EUROBERT,
    classes="NeoBERT",
    config={
        "vocab_size": "vocab_size",
        "hidden_size": "hidden_size",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
        "intermediate_size": "intermediate_size",
        "hidden_dropout": "hidden_dropout",
        "max_positions": "max_length",
        "initializer_range": "embedding_init_range",
        "layer_norm_epsilon": "norm_eps",
        "pad_token_id": "pad_token_id",
    },
    written_if_changed={},
    choices={},
    dialect=Dialect(_read_two_thirds, lambda entries: {**entries, _SIZE: entries[_SIZE] * 3 // 2}),
    values={**defaults_of(sizes.NEOBERT), "layer_norm_epsilon": 1e-6, "max_positions": 1024, **HEADS["neobert"]},
    implied={"dim_head": lambda config: config.head_size},
    without_effect=without_effect.NEOBERT,
    fixed_values={**NO_DECODER, "hidden_act": "SwiGLU", "ngpt": False, "rms_norm": True, "rope": True},
    storage=replace(BERT.storage, orders={"attention/qkv": by_head}),
    embeddings={"embeddings/word": "encoder"},
    block={
        "attention_norm": f"{_NEOBERT_LAYER}.attention_norm",
        "attention/qkv": f"{_NEOBERT_LAYER}.qkv",
        "attention/output": f"{_NEOBERT_LAYER}.wo",
        "output_norm": f"{_NEOBERT_LAYER}.ffn_norm",
        "intermediate": f"{_NEOBERT_LAYER}.ffn.w12",
        "output": f"{_NEOBERT_LAYER}.ffn.w3",
    },
    last={"final_norm": "layer_norm"},
    heads={"masked_lm": {"decoder": "decoder"}, "sequence": {"transform": "dense", "logits": "classifier"}},
)
_JINA_LAYER = "encoder.layers.{i}"
# Jina: XLM-RoBERTa with rotary embeddings (Sturua et al. 2024).
JINA = replace(
    ROBERTA,
    classes="JinaEmbeddingsV3",
    config={**BERT.config, "rope_theta": "rope_parameters.rope_theta"},
    values={**defaults_of(sizes.JINA), **HEADS["jina_embeddings_v3"]},
    written_if_changed={**BERT.written_if_changed, **_HEAD_DIM},
    fixed_values={**NO_DECODER, "rope_parameters.rope_type": "default", "rope_scaling": None},
    embeddings=NOMIC_BERT.embeddings,
    block={
        "attention/qkv": f"{_JINA_LAYER}.mixer.Wqkv",
        "attention/output": f"{_JINA_LAYER}.mixer.out_proj",
        "attention_norm": f"{_JINA_LAYER}.norm1",
        "intermediate": f"{_JINA_LAYER}.mlp.fc1",
        "output": f"{_JINA_LAYER}.mlp.fc2",
        "output_norm": f"{_JINA_LAYER}.norm2",
    },
)
