"""BERT and the families with BERT's layers: keys of Hugging Face's `config.json` and names of weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from keras_bert.choices import POOLINGS
from keras_bert.config import check_field
from keras_bert.formats.families import without_effect
from keras_bert.formats.families.table import Dialect, FamilyTable, newer_keys
from keras_bert.formats.storage import Storage
from keras_bert.sizes import HEADS

# "gelu" is x * Phi(x), with the error function. "gelu_tanh" is Google's approximation. After 12 layers, the outputs of
# the two differ by 1.6e-3.
ACTIVATIONS = {
    **dict.fromkeys(("gelu", "gelu_python"), "gelu"),
    **dict.fromkeys(("gelu_new", "gelu_pytorch_tanh", "gelu_fast"), "gelu_tanh"),
    "relu": "relu",
    **dict.fromkeys(("silu", "swish"), "silu"),
}
CLASSIFIER_POOLINGS = {POOLINGS["encoder"][name]: name for name in ("first", "mean", "unit_mean")}
# Options of every model in transformers, with the values of a plain encoder.
NO_DECODER = {
    **dict.fromkeys(("is_decoder", "is_encoder_decoder", "add_cross_attention"), False),
    "pruned_heads": {},
    "quantization_config": None,
}
FIXED_VALUES = {
    **NO_DECODER,
    "position_embedding_type": "absolute",
    "directionality": "bidi",
    "pooler_type": "first_token_transform",
    "use_task_id": False,  # task embeddings, in some ERNIE models
    "inner_group_num": 1,  # layers in a group, in ALBERT
}

_LAYER = "encoder.layer.{i}"
_OTHER_HEADS = {
    "tokens": {"logits": "classifier"},
    "spans": {"logits": "qa_outputs"},
    "choices": {"logits": "classifier"},
}
_TWO_LAYERS = {"transform": "classifier.dense", "logits": "classifier.out_proj"}

BERT = FamilyTable(
    classes="Bert",
    prefix="bert.",
    config={
        "vocab_size": "vocab_size",
        "hidden_size": "hidden_size",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
        "intermediate_size": "intermediate_size",
        "activation": "hidden_act",
        "hidden_dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
        "max_positions": "max_position_embeddings",
        "type_vocab_size": "type_vocab_size",
        "initializer_range": "initializer_range",
        "layer_norm_epsilon": "layer_norm_eps",
        "pad_token_id": "pad_token_id",
    },
    # A key of ModernBERT; in BERT's files, only this package reads it.
    written_if_changed={"pooling": "classifier_pooling"},
    choices={"activation": ACTIVATIONS, "pooling": CLASSIFIER_POOLINGS},
    fixed_values=FIXED_VALUES,
    without_effect=without_effect.BERT,
    endings={"kernel": ".weight", "bias": ".bias", "gamma": ".weight", "beta": ".bias", "embeddings": ".weight"},
    storage=Storage(transposed=("kernel",)),
    embeddings={
        "embeddings/word": "embeddings.word_embeddings",
        "embeddings/position": "embeddings.position_embeddings",
        "embeddings/type": "embeddings.token_type_embeddings",
        "embeddings/norm": "embeddings.LayerNorm",
    },
    block={
        "attention/qkv": [f"{_LAYER}.attention.self.{name}" for name in ("query", "key", "value")],
        "attention/output": f"{_LAYER}.attention.output.dense",
        "attention_norm": f"{_LAYER}.attention.output.LayerNorm",
        "intermediate": f"{_LAYER}.intermediate.dense",
        "output": f"{_LAYER}.output.dense",
        "output_norm": f"{_LAYER}.output.LayerNorm",
    },
    pooler={"pooler": "pooler.dense"},
    heads={
        "masked_lm": {
            "transform": "cls.predictions.transform.dense",
            "norm": "cls.predictions.transform.LayerNorm",
            "bias": "cls.predictions.bias",
        },
        "next_sentence": {"logits": "cls.seq_relationship"},
        "sequence": {"logits": "classifier"},
        **_OTHER_HEADS,
    },
)
WITHOUT_POSITIONS = {path: name for path, name in BERT.embeddings.items() if path != "embeddings/position"}
KEYS_WITHOUT_TYPES = {field: key for field, key in BERT.config.items() if field != "type_vocab_size"}
# RoBERTa: positions count from pad_token_id + 1 and skip padding.
ROBERTA = replace(
    BERT,
    classes="Roberta",
    prefix="roberta.",
    values={"positions_after_padding": True, "pad_token_id": 1, **HEADS["roberta"]},
    heads={
        "masked_lm": {"transform": "lm_head.dense", "norm": "lm_head.layer_norm", "bias": "lm_head.bias"},
        "sequence": _TWO_LAYERS,
        **_OTHER_HEADS,
    },
)
_DISTILBERT_CLASSIFIER = {"transform": "pre_classifier", "logits": "classifier"}
_DISTILBERT_LAYER = "transformer.layer.{i}"
# DistilBERT: no segments, no pooler.
DISTILBERT = replace(
    BERT,
    classes="DistilBert",
    prefix="distilbert.",
    config={
        "vocab_size": "vocab_size",
        "hidden_size": "dim",
        "num_layers": "n_layers",
        "num_heads": "n_heads",
        "intermediate_size": "hidden_dim",
        "activation": "activation",
        "hidden_dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "max_positions": "max_position_embeddings",
        "initializer_range": "initializer_range",
        "pad_token_id": "pad_token_id",
    },
    dialect=Dialect(
        read=newer_keys({"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"})
    ),
    values={"type_vocab_size": 0, "layer_norm_epsilon": 1e-12, **HEADS["distilbert"]},
    without_effect=without_effect.DISTILBERT,
    block={
        "attention/qkv": [f"{_DISTILBERT_LAYER}.attention.{x}_lin" for x in "qkv"],
        "attention/output": f"{_DISTILBERT_LAYER}.attention.out_lin",
        "attention_norm": f"{_DISTILBERT_LAYER}.sa_layer_norm",
        "intermediate": f"{_DISTILBERT_LAYER}.ffn.lin1",
        "output": f"{_DISTILBERT_LAYER}.ffn.lin2",
        "output_norm": f"{_DISTILBERT_LAYER}.output_layer_norm",
    },
    pooler={},
    heads={
        "masked_lm": {"transform": "vocab_transform", "norm": "vocab_layer_norm", "bias": "vocab_projector.bias"},
        "sequence": _DISTILBERT_CLASSIFIER,
        **_OTHER_HEADS,
        "choices": _DISTILBERT_CLASSIFIER,
    },
)
_ALBERT_LAYER = "encoder.albert_layer_groups.{i}.albert_layers.0"
# ALBERT: embeddings that are narrower than the hidden size and are projected to it; layers that share weights.
ALBERT = replace(
    BERT,
    classes="Albert",
    prefix="albert.",
    config={**BERT.config, "embedding_size": "embedding_size", "num_groups": "num_hidden_groups"},
    values={
        "embedding_size": 128,
        "num_groups": 1,
        "activation": "gelu_tanh",
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
    },
    # Google's own files have these options, but Google's code does not use them.
    fixed_values={
        **FIXED_VALUES,
        **dict.fromkeys(("gap_size", "net_structure_type", "num_memory_blocks"), 0),
        "down_scale_factor": 1,
        "layers_to_keep": [],
    },
    embeddings={**BERT.embeddings, "embeddings/projection": "encoder.embedding_hidden_mapping_in"},
    block={
        "attention/qkv": [f"{_ALBERT_LAYER}.attention.{name}" for name in ("query", "key", "value")],
        "attention/output": f"{_ALBERT_LAYER}.attention.dense",
        "attention_norm": f"{_ALBERT_LAYER}.attention.LayerNorm",
        "intermediate": f"{_ALBERT_LAYER}.ffn",
        "output": f"{_ALBERT_LAYER}.ffn_output",
        "output_norm": f"{_ALBERT_LAYER}.full_layer_layer_norm",
    },
    pooler={"pooler": "pooler"},
    heads={
        "masked_lm": {"transform": "predictions.dense", "norm": "predictions.LayerNorm", "bias": "predictions.bias"},
        "next_sentence": {"logits": "sop_classifier.classifier"},
        "sequence": {"logits": "classifier"},
        **_OTHER_HEADS,
    },
)


def without_equal_sizes(embedding: str, hidden: str, default: int | None = None) -> Callable[[dict], dict]:
    """Makes a `Dialect.read` that sets the embeddings' width (or `default`) to None if it is the hidden size."""

    def read(values: dict[str, object]) -> dict[str, object]:
        size = default if values.get(embedding) is None else values[embedding]
        return {**values, embedding: None if size == values.get(hidden) else size}

    return read


# Of the layer that ELECTRA's head for multiple choice reads.
_SUMMARY = {"summary_type": "first", "summary_activation": "gelu", "summary_use_proj": True}
# ELECTRA: narrow embeddings in some sizes; no pooler. The discriminator predicts whether each token was replaced.
ELECTRA = replace(
    BERT,
    classes="Electra",
    prefix="electra.",
    config={**BERT.config, "embedding_size": "embedding_size"},
    values=HEADS["electra"],
    fixed_values={**FIXED_VALUES, **_SUMMARY},
    without_effect=BERT.without_effect - _SUMMARY.keys(),
    dialect=Dialect(read=without_equal_sizes("embedding_size", "hidden_size", default=128)),
    embeddings={**BERT.embeddings, "embeddings/projection": "embeddings_project"},
    pooler={},
    heads={
        "masked_lm": {
            "transform": "generator_predictions.dense",
            "norm": "generator_predictions.LayerNorm",
            "bias": "generator_lm_head.bias",
        },
        "replaced_tokens": {
            "transform": "discriminator_predictions.dense",
            "logits": "discriminator_predictions.dense_prediction",
        },
        "sequence": _TWO_LAYERS,
        **_OTHER_HEADS,
        "choices": {"transform": "sequence_summary.summary", "logits": "classifier"},
    },
)
_BUCKETS = "relative_attention_num_buckets"


def _read_buckets(values: dict[str, Any]) -> dict[str, Any]:
    """Replaces the number of buckets by 32: transformers has a row for each, but uses the first 32 rows."""
    check_field("relative_buckets", buckets := values.get(_BUCKETS), _BUCKETS)
    if buckets is not None and buckets < 32:
        raise ValueError(
            f"{_BUCKETS} is {buckets}; supported are 32 and more, as transformers uses 32 whatever it says"
        )
    return values if buckets is None else {**values, _BUCKETS: 32}


# MPNet: RoBERTa with a relative position bias and without segments (Song et al. 2020).
MPNET = replace(
    ROBERTA,
    classes="MPNet",
    prefix="mpnet.",
    config={**KEYS_WITHOUT_TYPES, "relative_buckets": _BUCKETS},
    values={**ROBERTA.values, "type_vocab_size": 0, "relative_buckets": 32},
    fixed_values={**FIXED_VALUES, _BUCKETS: 32},
    dialect=Dialect(_read_buckets),
    storage=replace(BERT.storage, cut_tables=("embeddings/relative/embeddings",)),
    embeddings={
        **{path: file_name for path, file_name in BERT.embeddings.items() if path != "embeddings/type"},
        "embeddings/relative": "encoder.relative_attention_bias",
    },
    block={
        **BERT.block,
        "attention/qkv": [f"{_LAYER}.attention.attn.{name}" for name in "qkv"],
        "attention/output": f"{_LAYER}.attention.attn.o",
        "attention_norm": f"{_LAYER}.attention.LayerNorm",
    },
)


def _deberta_name(name: str) -> str:
    """Renames the weights of the masked language modeling head from Microsoft's own files."""
    layer = name.removeprefix("lm_predictions.lm_head.")
    if layer == name:
        return name
    return f"cls.predictions.{'' if layer == 'bias' else 'transform.'}{layer}"


_DEBERTA_CLASSIFIER = {"transform": "pooler.dense", "logits": "classifier"}
# DeBERTa: disentangled attention; no segments, no position embeddings. The pooler belongs to the classifier (He et al.
# 2020 and 2021).
DEBERTA = replace(
    BERT,
    classes="DebertaV2",
    prefix="deberta.",
    config={**BERT.config, "disentangled_buckets": "position_buckets"},
    values={"type_vocab_size": 0, "layer_norm_epsilon": 1e-7, **HEADS["deberta-v2"]},
    fixed_values={
        **FIXED_VALUES,
        "max_relative_positions": -1,
        "conv_kernel_size": 0,
        "pooler_hidden_act": "gelu",
        "legacy": True,
    },
    implied={
        "attention_head_size": lambda config: config.head_size,
        "embedding_size": lambda config: config.hidden_size,
        "pooler_hidden_size": lambda config: config.hidden_size,
    },
    without_effect=without_effect.DEBERTA,
    required_options={
        "relative_attention": (True,),
        "position_biased_input": (False,),
        "pos_att_type": (["p2c", "c2p"], ["c2p", "p2c"], "p2c|c2p", "c2p|p2c"),
        "share_att_key": (True,),
        "norm_rel_ebd": ("layer_norm",),
    },
    dialect=Dialect(name=_deberta_name),
    embeddings={
        **WITHOUT_POSITIONS,
        "embeddings/distances": "encoder.rel_embeddings",
        "embeddings/distances_norm": "encoder.LayerNorm",
    },
    block={
        **BERT.block,
        "attention/qkv": [f"{_LAYER}.attention.self.{name}_proj" for name in ("query", "key", "value")],
    },
    pooler={},
    heads={
        "masked_lm": BERT.heads["masked_lm"],
        "sequence": _DEBERTA_CLASSIFIER,
        **_OTHER_HEADS,
        "choices": _DEBERTA_CLASSIFIER,
    },
)
