"""EuroBERT: Llama's layers with bidirectional attention (Boizard et al. 2025)."""

from keras_bert.formats.families import bert, row
from keras_bert.formats.families.row import Dialect, Family, Row, defaults_of, newer_keys, size

LLAMA_BLOCK = {
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
_SIZE = {**LLAMA_BLOCK, "vocab_size": 128256, "max_positions": 8192, "pad_token_id": 128001, "rope_theta": 250_000.0}
_LAYER = "layers.{i}"
ROW = Row(
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
    values={**defaults_of(_SIZE), "rope_theta": 10_000.0, "pooling": "late"},
    choices={
        "activation": {"silu": "silu", "swish": "silu", **row.ACTIVATIONS},
        "pooling": {"bos": "first", "mean": "mean", "late": "late"},
    },
    dialect=Dialect(read=newer_keys({"clf_pooling": "classifier_pooling"})),  # a key of the models' own code
    written_if_changed=row.HEAD_DIM,
    without_effect=row.EVERYWHERE | {"pretraining_tp"},
    fixed_values={
        **row.NO_DECODER,
        "rope_parameters.rope_type": "default",
        "rope_scaling": None,
        "mlp_bias": False,
        "tie_word_embeddings": False,
    },
    embeddings={"embeddings/word": "embed_tokens"},
    block={
        "attention_norm": f"{_LAYER}.input_layernorm",
        "attention/qkv": [f"{_LAYER}.self_attn.{name}_proj" for name in "qkv"],
        "attention/output": f"{_LAYER}.self_attn.o_proj",
        "output_norm": f"{_LAYER}.post_attention_layernorm",
        "intermediate": [f"{_LAYER}.mlp.gate_proj", f"{_LAYER}.mlp.up_proj"],
        "output": f"{_LAYER}.mlp.down_proj",
    },
    last={"final_norm": "norm"},
    heads={
        "masked_lm": {"decoder": "lm_head"},
        **bert.CLASSIFIERS,
        "sequence": {"transform": "dense", "logits": "classifier"},
    },
)

EUROBERT = Family(
    "eurobert",
    hugging_face=ROW,
    heads={"sequence_activation": "gelu", "own_decoder": True, "decoder_bias": False},
    size=_SIZE,
    sizes={
        "eurobert-210m": size(12, 768),
        "eurobert-610m": size(26, 1152, 18, num_key_value_heads=6, intermediate_size=4096),
        "eurobert-2.1b": size(32, 2304, 18, num_key_value_heads=6, intermediate_size=6144),
    },
)
