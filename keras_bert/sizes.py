"""Tables of the published sizes of models, and of the heads of their families, as fields of `BertConfig`."""

from typing import Any

_BERT = "bert-"


def _size(layers: int, hidden: int, heads: int | None = None, **others: Any) -> dict[str, Any]:
    # In most published sizes, a head is 64 wide, and the feed-forward layer is four times as wide as the hidden state.
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
MODERNBERT = {
    "family": "modernbert",
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
NOMIC_BERT = {
    "family": "nomic_bert",
    "vocab_size": 30528,
    "activation": "silu",
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "max_positions": 2048,
    "pooler": False,
    "rope_theta": 1000.0,
    "attention_bias": False,
    "feed_forward_bias": False,
    "gated": True,
}
_MPNET = {**_ROBERTA, "family": "mpnet", "vocab_size": 30527, "type_vocab_size": 0, "relative_buckets": 32}
GTE = {
    "family": "new",
    "vocab_size": 30528,
    "max_positions": 8192,
    "attention_dropout": 0.0,
    "pooler": False,
    "rope_theta": 160_000.0,
    "rope_factor": 2.0,
    "intermediate_bias": False,
    "gated": True,
}
JINA = {
    "family": "jina_embeddings_v3",
    "vocab_size": 250002,
    "type_vocab_size": 1,
    "pad_token_id": 1,
    "layer_norm_epsilon": 1e-5,
    "max_positions": 8194,
    "rope_theta": 20_000.0,
}
_LLAMA_BLOCK = {
    "type_vocab_size": 0,
    "layer_norm_epsilon": 1e-5,
    "activation": "silu",
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "pooler": False,
    "embedding_norm": False,
    "pre_norm": True,
    "norm": "rms_norm",
    "attention_bias": False,
    "feed_forward_bias": False,
    "gated": True,
}
EUROBERT = {
    **_LLAMA_BLOCK,
    "family": "eurobert",
    "vocab_size": 128256,
    "max_positions": 8192,
    "pad_token_id": 128001,
    "rope_theta": 250_000.0,
}
NEOBERT = {**_LLAMA_BLOCK, "family": "neobert", "max_positions": 4096, "rope_theta": 10_000.0}
ULTRABERT = {
    **_LLAMA_BLOCK,
    "family": "ultrabert",
    "layer_norm_epsilon": 1e-6,
    "max_positions": 32768,
    "rope_theta": 2_560_000.0,
    "local_rope_theta": 10_000.0,
    "global_every": 3,
    "first_global": 2,
    "local_window": 256,
}
_DEBERTA = {
    "family": "deberta-v2",
    "vocab_size": 128100,
    "type_vocab_size": 0,
    "layer_norm_epsilon": 1e-7,
    "pooler": False,
    "disentangled_buckets": 256,
}

_ROBERTA_HEADS = {"masked_lm_activation": "gelu", "sequence_activation": "tanh"}
# Family -> the fields of its heads that differ from BERT's. Here, because `BertConfig` reads them and no folder
# imports from a later one; all else about a family's files is in `formats`.
HEADS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert", "mpnet", "jina_embeddings_v3"), _ROBERTA_HEADS),
    "distilbert": {"sequence_activation": "relu"},
    "electra": {"masked_lm_activation": "gelu", "sequence_activation": "gelu"},
    "deberta-v2": {"sequence_activation": "gelu"},
    "modernbert": {"head_norm": True},
    "gte": {"masked_lm_activation": "gelu"},
    "eurobert": {"sequence_activation": "gelu", "own_decoder": True, "decoder_bias": False},
    "neobert": {"sequence_activation": "tanh", "own_decoder": True},
    "ultrabert": {
        "masked_lm_activation": "gelu_tanh",
        "sequence_pooler": False,
        "own_decoder": True,
        "decoder_bias": False,
        "decoder_width": 768,
    },
}

# Name -> the fields that differ from the defaults of BertConfig.
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
    "modernbert-base": _size(22, 768, **MODERNBERT, pooling="mean") | {"intermediate_size": 1152},
    "modernbert-large": _size(28, 1024, **MODERNBERT, pooling="mean") | {"intermediate_size": 2624},
    "nomic-bert-2048": _size(12, 768, **NOMIC_BERT),
    "mpnet-base": _size(12, 768, **_MPNET),
    "deberta-v3-xsmall": _size(12, 384, **_DEBERTA),
    "deberta-v3-small": _size(6, 768, **_DEBERTA),
    "deberta-v3-base": _size(12, 768, **_DEBERTA),
    "deberta-v3-large": _size(24, 1024, **_DEBERTA),
    "gte-base-en-v1.5": _size(12, 768, **GTE, type_vocab_size=0),
    "gte-large-en-v1.5": _size(24, 1024, **GTE),
    "eurobert-210m": _size(12, 768, **EUROBERT),
    "eurobert-610m": _size(26, 1152, 18, **EUROBERT, num_key_value_heads=6) | {"intermediate_size": 4096},
    "eurobert-2.1b": _size(32, 2304, 18, **EUROBERT, num_key_value_heads=6) | {"intermediate_size": 6144},
    "jina-embeddings-v3": _size(24, 1024, **JINA),
    "neobert": _size(28, 768, **NEOBERT) | {"intermediate_size": 2048},
}


def published_size(size: str) -> str | None:
    """Finds the key of `SIZES` that a name such as "tiny" means. None: it is the path of a JSON file."""
    name = next((each for each in (size, f"{_BERT}{size}") if each in SIZES), None)
    if name is None and not size.endswith(".json"):
        names = ", ".join(each.removeprefix(_BERT) for each in SIZES)
        raise ValueError(f"there is no size {size!r}; the sizes are {names}; or give a config.json")
    return name
