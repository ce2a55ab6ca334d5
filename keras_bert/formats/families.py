"""The families of models in Hugging Face's layout: keys of `config.json` and names of weights."""

from __future__ import annotations

from dataclasses import replace

from keras_bert.config import BertConfig
from keras_bert.formats.layout_table import Table
from keras_bert.formats.storage import Storage

# "gelu" is x * Phi(x), with the error function; "gelu_tanh" is Google's approximation (1.6e-3 apart after 12 layers).
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
_PLAIN = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "use_task_id": False,  # embeddings of tasks, in some ERNIE models
    "inner_group_num": 1,  # layers in a group, in ALBERT
}

_LAYER = "encoder.layer.{i}"
_TAGS_AND_SPANS = {"tokens": {"logits": "classifier"}, "spans": {"logits": "qa_outputs"}}
_TWO_LAYERS = {"transform": "classifier.dense", "logits": "classifier.out_proj"}

_BERT = Table(
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
    activations=_ACTIVATIONS,
    plain=_PLAIN,
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
        **_TAGS_AND_SPANS,
    },
)
# Positions count from the padding token's id + 1, and skip padding.
_ROBERTA = replace(
    _BERT,
    classes="Roberta",
    prefix="roberta.",
    values={"positions_after_padding": True, "pad_token_id": 1},
    heads={
        "masked_lm": {"transform": "lm_head.dense", "norm": "lm_head.layer_norm", "bias": "lm_head.bias"},
        "sequence": _TWO_LAYERS,
        **_TAGS_AND_SPANS,
    },
    masked_lm_activation="gelu",
    sequence_activation="tanh",
)
_DISTILBERT_LAYER = "transformer.layer.{i}"
# No segments, no pooler.
_DISTILBERT = replace(
    _BERT,
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
    values={"type_vocab_size": 0, "layer_norm_epsilon": 1e-12},
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
        "sequence": {"transform": "pre_classifier", "logits": "classifier"},
        **_TAGS_AND_SPANS,
    },
    sequence_activation="relu",
)
_ALBERT_LAYER = "encoder.albert_layer_groups.{i}.albert_layers.0"
# Narrow embeddings, projected to the hidden size; layers that share weights.
_ALBERT = replace(
    _BERT,
    classes="Albert",
    prefix="albert.",
    config={**_BERT.config, "embedding_size": "embedding_size", "num_groups": "num_hidden_groups"},
    values={
        "embedding_size": 128,
        "num_groups": 1,
        "activation": "gelu_tanh",
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
    },
    projects_equal_sizes=True,
    embeddings={**_BERT.embeddings, "embeddings/projection": "encoder.embedding_hidden_mapping_in"},
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
        **_TAGS_AND_SPANS,
    },
)
# Narrow embeddings in some sizes; no pooler. The discriminator predicts for each token whether it was replaced.
_ELECTRA = replace(
    _BERT,
    classes="Electra",
    prefix="electra.",
    config={**_BERT.config, "embedding_size": "embedding_size"},
    values={"embedding_size": 128},
    embeddings={**_BERT.embeddings, "embeddings/projection": "embeddings_project"},
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
        **_TAGS_AND_SPANS,
    },
    masked_lm_activation="gelu",
    sequence_activation="gelu",
)
_MODERNBERT_LAYER = "layers.{i}"
_DENSE_AND_NORM = {"transform/kernel": "head.dense.weight", "norm": "head.norm"}
_MODERNBERT_CLASSIFIER = {**_DENSE_AND_NORM, "logits": "classifier"}
# Rotary positions, local attention, normalization first, gates, and hardly a bias (Warner et al. 2024).
_MODERNBERT = Table(
    classes="ModernBert",
    prefix="model.",
    config={
        "vocab_size": "vocab_size",
        "hidden_size": "hidden_size",
        "num_layers": "num_hidden_layers",
        "num_heads": "num_attention_heads",
        "intermediate_size": "intermediate_size",
        "activation": "hidden_activation",
        "hidden_dropout": ("mlp_dropout", "embedding_dropout"),
        "attention_dropout": "attention_dropout",
        "max_positions": "max_position_embeddings",
        "initializer_range": "initializer_range",
        "layer_norm_epsilon": "norm_eps",
        "pad_token_id": "pad_token_id",
        "rope_theta": ("rope_parameters.full_attention.rope_theta", "global_rope_theta"),
        "local_rope_theta": ("rope_parameters.sliding_attention.rope_theta", "local_rope_theta"),
        "global_every": "global_attn_every_n_layers",
        "local_window": "local_attention",
        "norm_bias": "norm_bias",
        "attention_bias": "attention_bias",
        "feed_forward_bias": "mlp_bias",
        "pooling": "classifier_pooling",
        "head_activation": "classifier_activation",
    },
    layer_kinds="layer_types",
    values={
        "type_vocab_size": 0,
        "max_positions": 8192,
        "pad_token_id": 50283,
        "layer_norm_epsilon": 1e-5,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
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
    },
    activations=_ACTIVATIONS,
    plain={
        "rope_parameters.full_attention.rope_type": "default",
        "rope_parameters.sliding_attention.rope_type": "default",
        "rope_scaling": None,
        "classifier_bias": False,
        "decoder_bias": True,
    },
    endings=_BERT.endings,
    storage=_BERT.storage,
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
        **dict.fromkeys(("sequence", "tokens", "spans"), _MODERNBERT_CLASSIFIER),
    },
)
_NOMIC_LAYER = "encoder.layers.{i}"
# Rotary positions, gates, no biases in the layers (Nussbaum et al. 2024). Files have the keys of transformers 5, or of
# the family's own code, which follows GPT-2.
_NOMIC_BERT = replace(
    _BERT,
    classes="NomicBert",
    prefix="nomic_bert.",
    older_prefix="bert.",
    config={**_BERT.config, "rope_theta": "rope_parameters.rope_theta"},
    renamed={
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
    },
    values={
        "vocab_size": 30528,
        "activation": "silu",
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "max_positions": 2048,
        "rope_theta": 1000.0,
        "attention_bias": False,
        "feed_forward_bias": False,
        "gated": True,
    },
    activations={"silu": "silu", "swiglu": "silu", "swish": "silu", **_ACTIVATIONS, "geglu": "gelu"},
    plain={
        "rope_parameters.rope_type": "default",
        "prenorm": False,
        "qkv_proj_bias": False,
        "mlp_fc1_bias": False,
        "mlp_fc2_bias": False,
        "rotary_emb_fraction": 1.0,
        "rotary_emb_interleaved": False,
        "rotary_emb_scale_base": None,
        "rotary_scaling_factor": None,
        "use_rms_norm": False,
        "parallel_block": False,
        "causal": False,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
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
        "masked_lm": {
            "transform": "cls.predictions.transform.dense",
            "norm": "cls.predictions.transform.layer_norm",
            "bias": "cls.predictions.bias",
        },
        "sequence": {"logits": "classifier"},
        "tokens": {"logits": "classifier"},
    },
)
# RoBERTa with a bias of attention for distances, and without segments (Song et al. 2020).
_MPNET = replace(
    _ROBERTA,
    classes="MPNet",
    prefix="mpnet.",
    config={
        **{ours: theirs for ours, theirs in _BERT.config.items() if ours != "type_vocab_size"},
        "relative_buckets": "relative_attention_num_buckets",
    },
    values={**_ROBERTA.values, "type_vocab_size": 0, "relative_buckets": 32},
    plain={**_PLAIN, "relative_attention_num_buckets": 32},
    embeddings={
        **{ours: theirs for ours, theirs in _BERT.embeddings.items() if ours != "embeddings/type"},
        "embeddings/relative": "encoder.relative_attention_bias",
    },
    block={
        **_BERT.block,
        "attention/qkv": [f"{_LAYER}.attention.attn.{name}" for name in "qkv"],
        "attention/output": f"{_LAYER}.attention.attn.o",
        "attention_norm": f"{_LAYER}.attention.LayerNorm",
    },
)
# By the `model_type` in config.json.
FAMILIES = {
    "bert": _BERT,
    "ernie": replace(_BERT, classes="Ernie", prefix="ernie."),
    "roberta": _ROBERTA,
    "xlm-roberta": replace(_ROBERTA, classes="XLMRoberta"),
    "distilbert": _DISTILBERT,
    "albert": _ALBERT,
    "electra": _ELECTRA,
    "modernbert": _MODERNBERT,
    "nomic_bert": _NOMIC_BERT,
    "mpnet": _MPNET,
}


def table_of(config: BertConfig) -> Table:
    """The table of a configuration's family. Raises ValueError if there is none."""
    if config.family not in FAMILIES:
        raise ValueError(f"family must be one of {', '.join(FAMILIES)}, not {config.family!r}")
    return FAMILIES[config.family]
