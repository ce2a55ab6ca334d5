"""How the families of BERT differ, and what their files call things: data, no code a family.

Weights are named by their path inside our encoder or head. A table gives for each the name in a Hugging Face file, or
several where ours is them side by side (Q, K and V). `{i}` is the number of a layer, or of a group of layers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Names = dict[str, list[str]]


def _weight_and_bias(ours: str, *theirs: str) -> Names:
    return {
        f"{ours}/kernel": [f"{name}.weight" for name in theirs],
        f"{ours}/bias": [f"{name}.bias" for name in theirs],
    }


def _gamma_and_beta(ours: str, theirs: str) -> Names:
    return {f"{ours}/gamma": [f"{theirs}.weight"], f"{ours}/beta": [f"{theirs}.bias"]}


@dataclass(frozen=True)
class Family:
    """What one family's `config.json` and weight files look like. The defaults are BERT's own.

    Attributes:
        model_type: what `config.json` calls the family.
        classes: what its classes in `transformers` are called: BertModel, BertForMaskedLM, ...
        prefix: of the encoder's weights in a file that has a head on top of it.
        config: field of BertConfig -> key of `config.json`.
        values: fields that `config.json` does not state or may leave out, because they are so in this family.
        projects_equal_sizes: whether embeddings are projected even if they are as wide as the hidden states.
        embeddings, block, pooler: names of the encoder's weights.
        heads: names of the weights of each head that the family knows.
        masked_lm_activation: of the masked-language head; None: the encoder's.
        sequence_activation: of the dense layer in front of the classifier of sequences; None: there is no such layer,
            because the pooler is one.
    """

    model_type: str
    classes: str
    prefix: str
    config: dict[str, str] = field(default_factory=lambda: _CONFIG)
    values: dict[str, Any] = field(default_factory=dict)
    projects_equal_sizes: bool = False
    embeddings: Names = field(default_factory=lambda: _EMBEDDINGS)
    block: Names = field(default_factory=lambda: _BLOCK)
    pooler: Names = field(default_factory=lambda: _POOLER)
    heads: dict[str, Names] = field(default_factory=lambda: _HEADS)
    masked_lm_activation: str | None = None
    sequence_activation: str | None = None


_CONFIG = {
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
}
_EMBEDDINGS = {
    "embeddings/word/embeddings": ["embeddings.word_embeddings.weight"],
    "embeddings/position/embeddings": ["embeddings.position_embeddings.weight"],
    "embeddings/type/embeddings": ["embeddings.token_type_embeddings.weight"],
    **_gamma_and_beta("embeddings/norm", "embeddings.LayerNorm"),
}
_BLOCK = {
    **_weight_and_bias(
        "attention/qkv", *(f"encoder.layer.{{i}}.attention.self.{x}" for x in ("query", "key", "value"))
    ),
    **_weight_and_bias("attention/output", "encoder.layer.{i}.attention.output.dense"),
    **_gamma_and_beta("attention_norm", "encoder.layer.{i}.attention.output.LayerNorm"),
    **_weight_and_bias("intermediate", "encoder.layer.{i}.intermediate.dense"),
    **_weight_and_bias("output", "encoder.layer.{i}.output.dense"),
    **_gamma_and_beta("output_norm", "encoder.layer.{i}.output.LayerNorm"),
}
_POOLER = _weight_and_bias("pooler", "pooler.dense")
_TAGS_AND_SPANS = {
    "tokens": _weight_and_bias("logits", "classifier"),
    "spans": _weight_and_bias("logits", "qa_outputs"),
}
_HEADS = {
    "masked_lm": {
        **_weight_and_bias("transform", "cls.predictions.transform.dense"),
        **_gamma_and_beta("norm", "cls.predictions.transform.LayerNorm"),
        "bias": ["cls.predictions.bias"],
    },
    "next_sentence": _weight_and_bias("logits", "cls.seq_relationship"),
    "sequence": _weight_and_bias("logits", "classifier"),
    **_TAGS_AND_SPANS,
}
_ROBERTA_HEADS = {
    "masked_lm": {
        **_weight_and_bias("transform", "lm_head.dense"),
        **_gamma_and_beta("norm", "lm_head.layer_norm"),
        "bias": ["lm_head.bias"],
    },
    "sequence": {
        **_weight_and_bias("transform", "classifier.dense"),
        **_weight_and_bias("logits", "classifier.out_proj"),
    },
    **_TAGS_AND_SPANS,
}
_DISTILBERT_LAYER = "transformer.layer.{i}"
_ALBERT_LAYER = "encoder.albert_layer_groups.{i}.albert_layers.0"


def _roberta(model_type: str, classes: str) -> Family:
    """RoBERTa and its relatives: positions are counted from the padding piece's id + 1, and padding is skipped."""
    return Family(
        model_type,
        classes,
        "roberta.",
        values={"positions_after_padding": True, "pad_token_id": 1},
        heads=_ROBERTA_HEADS,
        masked_lm_activation="gelu",
        sequence_activation="tanh",
    )


_FAMILIES = [
    Family("bert", "Bert", "bert."),
    Family("ernie", "Ernie", "ernie."),
    _roberta("roberta", "Roberta"),
    _roberta("xlm-roberta", "XLMRoberta"),
    # Neither segments nor a pooler.
    Family(
        "distilbert",
        "DistilBert",
        "distilbert.",
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
        values={"type_vocab_size": 0, "layer_norm_epsilon": 1e-12},
        block={
            **_weight_and_bias("attention/qkv", *(f"{_DISTILBERT_LAYER}.attention.{x}_lin" for x in "qkv")),
            **_weight_and_bias("attention/output", f"{_DISTILBERT_LAYER}.attention.out_lin"),
            **_gamma_and_beta("attention_norm", f"{_DISTILBERT_LAYER}.sa_layer_norm"),
            **_weight_and_bias("intermediate", f"{_DISTILBERT_LAYER}.ffn.lin1"),
            **_weight_and_bias("output", f"{_DISTILBERT_LAYER}.ffn.lin2"),
            **_gamma_and_beta("output_norm", f"{_DISTILBERT_LAYER}.output_layer_norm"),
        },
        pooler={},
        heads={
            "masked_lm": {
                **_weight_and_bias("transform", "vocab_transform"),
                **_gamma_and_beta("norm", "vocab_layer_norm"),
                "bias": ["vocab_projector.bias"],
            },
            "sequence": {
                **_weight_and_bias("transform", "pre_classifier"),
                **_weight_and_bias("logits", "classifier"),
            },
            **_TAGS_AND_SPANS,
        },
        sequence_activation="relu",
    ),
    # Narrow embeddings, projected to the hidden states' width; layers that share their weights.
    Family(
        "albert",
        "Albert",
        "albert.",
        config={**_CONFIG, "embedding_size": "embedding_size", "num_groups": "num_hidden_groups"},
        values={
            "embedding_size": 128,
            "num_groups": 1,
            "activation": "gelu_new",
            "hidden_dropout": 0.0,
            "attention_dropout": 0.0,
        },
        projects_equal_sizes=True,
        embeddings={**_EMBEDDINGS, **_weight_and_bias("embeddings/projection", "encoder.embedding_hidden_mapping_in")},
        block={
            **_weight_and_bias("attention/qkv", *(f"{_ALBERT_LAYER}.attention.{x}" for x in ("query", "key", "value"))),
            **_weight_and_bias("attention/output", f"{_ALBERT_LAYER}.attention.dense"),
            **_gamma_and_beta("attention_norm", f"{_ALBERT_LAYER}.attention.LayerNorm"),
            **_weight_and_bias("intermediate", f"{_ALBERT_LAYER}.ffn"),
            **_weight_and_bias("output", f"{_ALBERT_LAYER}.ffn_output"),
            **_gamma_and_beta("output_norm", f"{_ALBERT_LAYER}.full_layer_layer_norm"),
        },
        pooler=_weight_and_bias("pooler", "pooler"),
        heads={
            "masked_lm": {
                **_weight_and_bias("transform", "predictions.dense"),
                **_gamma_and_beta("norm", "predictions.LayerNorm"),
                "bias": ["predictions.bias"],
            },
            "next_sentence": _weight_and_bias("logits", "sop_classifier.classifier"),
            "sequence": _weight_and_bias("logits", "classifier"),
            **_TAGS_AND_SPANS,
        },
    ),
    # Narrow embeddings too, if need be; no pooler. The discriminator says of each piece whether it was replaced.
    Family(
        "electra",
        "Electra",
        "electra.",
        config={**_CONFIG, "embedding_size": "embedding_size"},
        values={"embedding_size": 128},
        embeddings={**_EMBEDDINGS, **_weight_and_bias("embeddings/projection", "embeddings_project")},
        pooler={},
        heads={
            "masked_lm": {
                **_weight_and_bias("transform", "generator_predictions.dense"),
                **_gamma_and_beta("norm", "generator_predictions.LayerNorm"),
                "bias": ["generator_lm_head.bias"],
            },
            "replaced_tokens": {
                **_weight_and_bias("transform", "discriminator_predictions.dense"),
                **_weight_and_bias("logits", "discriminator_predictions.dense_prediction"),
            },
            "sequence": {
                **_weight_and_bias("transform", "classifier.dense"),
                **_weight_and_bias("logits", "classifier.out_proj"),
            },
            **_TAGS_AND_SPANS,
        },
        masked_lm_activation="gelu",
        sequence_activation="gelu",
    ),
]
FAMILIES = {family.model_type: family for family in _FAMILIES}


def _size(layers: int, hidden: int, heads: int | None = None, **others: Any) -> dict[str, Any]:
    # In most published sizes a head is 64 wide, and the feed-forward layer four times as wide as the hidden state.
    sizes = {"num_layers": layers, "hidden_size": hidden, "num_heads": heads or hidden // 64}
    return {**sizes, "intermediate_size": 4 * hidden, **others}


_ROBERTA = {
    "family": "roberta",
    "vocab_size": 50265,
    "type_vocab_size": 1,
    "pad_token_id": 1,
    "layer_norm_epsilon": 1e-5,
    "positions_after_padding": True,
}
_XLM_ROBERTA = {**_ROBERTA, "family": "xlm-roberta", "vocab_size": 250002}
_ALBERT = {
    "family": "albert",
    "vocab_size": 30000,
    "embedding_size": 128,
    "num_groups": 1,
    "activation": "gelu_tanh",
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
}
_ELECTRA = {"family": "electra", "pooler": False}

# Name -> what differs from the defaults of BertConfig.
SIZES: dict[str, dict[str, Any]] = {
    "bert-tiny": _size(2, 128),
    "bert-mini": _size(4, 256),
    "bert-small": _size(4, 512),
    "bert-medium": _size(8, 512),
    "bert-base": _size(12, 768),
    "bert-large": _size(24, 1024),
    "bert-base-cased": _size(12, 768, vocab_size=28996),
    "bert-base-chinese": _size(12, 768, vocab_size=21128),
    "bert-base-multilingual-cased": _size(12, 768, vocab_size=119547),
    "minilm-l6": _size(6, 384, 12),
    "minilm-l12": _size(12, 384, 12),
    "roberta-base": _size(12, 768, **_ROBERTA),
    "roberta-large": _size(24, 1024, **_ROBERTA),
    "xlm-roberta-base": _size(12, 768, **_XLM_ROBERTA),
    "xlm-roberta-large": _size(24, 1024, **_XLM_ROBERTA),
    "distilbert-base": _size(6, 768, family="distilbert", type_vocab_size=0, pooler=False),
    "albert-base": _size(12, 768, **_ALBERT),
    "albert-large": _size(24, 1024, **_ALBERT),
    "albert-xlarge": _size(24, 2048, 16, **_ALBERT),
    "albert-xxlarge": _size(12, 4096, **_ALBERT),
    "electra-small": _size(12, 256, **_ELECTRA, embedding_size=128),
    "electra-small-generator": _size(12, 256, **_ELECTRA, embedding_size=128),
    "electra-base": _size(12, 768, **_ELECTRA),
    "electra-base-generator": _size(12, 256, **_ELECTRA, embedding_size=768),
    "electra-large": _size(24, 1024, **_ELECTRA),
    "electra-large-generator": _size(24, 256, **_ELECTRA, embedding_size=1024),
}

# A class of KerasHub's -> the family, and what its code takes for granted.
_TANH = {"activation": "gelu_tanh"}
_KERAS_HUB_ROBERTA = {
    "positions_after_padding": True,
    "pad_token_id": 1,
    "layer_norm_epsilon": 1e-5,
    "type_vocab_size": 1,
    "pooler": False,
}
KERAS_HUB: dict[str, tuple[str, dict[str, Any]]] = {
    "BertBackbone": ("bert", _TANH),
    "RobertaBackbone": ("roberta", _KERAS_HUB_ROBERTA),
    "XLMRobertaBackbone": ("xlm-roberta", _KERAS_HUB_ROBERTA),
    "DistilBertBackbone": ("distilbert", {"type_vocab_size": 0, "pooler": False}),
    "AlbertBackbone": ("albert", _TANH),
    "ElectraBackbone": ("electra", {**_TANH, "pooler": False}),
}
# Key of the class's arguments -> field of BertConfig.
KERAS_HUB_CONFIG = {
    "vocabulary_size": "vocab_size",
    "vocab_size": "vocab_size",
    "num_layers": "num_layers",
    "num_heads": "num_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "dropout": "hidden_dropout",
    "max_sequence_length": "max_positions",
    "num_segments": "type_vocab_size",
    "embedding_dim": "embedding_size",
    "num_groups": "num_groups",
}
