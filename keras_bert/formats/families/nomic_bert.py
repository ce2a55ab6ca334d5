"""NomicBERT: rotary embeddings, gates, no biases in the layers (Nussbaum et al. 2024).

Files have the keys of transformers 5, or those of the family's own code, which follow GPT-2.
"""

from keras_bert.formats.families import bert, row
from keras_bert.formats.families.row import Dialect, Family, defaults_of, newer_keys, size

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
_LAYER = "encoder.layers.{i}"
EMBEDDINGS = {
    "embeddings/word": "embeddings.word_embeddings",
    "embeddings/type": "embeddings.token_type_embeddings",
    "embeddings/norm": "emb_ln",
}
_SIZE = {
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

NOMIC_BERT = Family(
    "nomic_bert",
    hugging_face=bert.ROW._replace(
        classes="NomicBert",
        prefix="nomic_bert.",
        config={**bert.ROW.config, "rope_theta": "rope_parameters.rope_theta"},
        dialect=Dialect(read=newer_keys(_GPT2_KEYS), name=lambda name: name.removeprefix("bert.")),
        values=defaults_of(_SIZE),
        choices={
            "activation": {"silu": "silu", "swiglu": "silu", "swish": "silu", **row.ACTIVATIONS, "geglu": "gelu"},
            "pooling": row.CLASSIFIER_POOLINGS,
        },
        written_if_changed={**bert.ROW.written_if_changed, **row.HEAD_DIM},
        without_effect=row.EVERYWHERE
        | {
            "dense_seq_output",  # computes the logits of masked tokens only
            "embd_pdrop",  # dropout
            "fused_bias_fc",
            "fused_dropout_add_ln",
            "max_trained_positions",  # needs rotary_scaling_factor, which is not supported
            "pad_vocab_size_multiple",  # vocab_size is rounded up already
            "parallel_block_tied_norm",  # needs parallel_block, which is not supported
            "reorder_and_upcast_attn",
            "use_flash_attn",
            "use_xentropy",
        },
        fixed_values={
            **row.NO_DECODER,
            "rope_parameters.rope_type": "default",
            **dict.fromkeys(("moe_every_n_layers", "num_experts"), 0),
            **dict.fromkeys(("prenorm", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"), False),
            **dict.fromkeys(("use_rms_norm", "causal"), False),
            **dict.fromkeys(("parallel_block", "rotary_emb_interleaved", "scale_attn_by_inverse_layer_idx"), False),
            **dict.fromkeys(("rotary_emb_scale_base", "rotary_scaling_factor")),
            "rotary_emb_fraction": 1.0,
            "scale_attn_weights": True,
        },
        embeddings=EMBEDDINGS,
        block={
            "attention/qkv": f"{_LAYER}.attn.Wqkv",
            "attention/output": f"{_LAYER}.attn.out_proj",
            "attention_norm": f"{_LAYER}.norm1",
            "intermediate": [f"{_LAYER}.mlp.fc12", f"{_LAYER}.mlp.fc11"],
            "output": f"{_LAYER}.mlp.fc2",
            "output_norm": f"{_LAYER}.norm2",
        },
        heads={
            "masked_lm": {**bert.ROW.heads["masked_lm"], "norm": "cls.predictions.transform.layer_norm"},
            **bert.CLASSIFIERS,
        },
    ),
    size=_SIZE,
    sizes={"nomic-bert-2048": size(12, 768)},
    tokenizer_class="BertTokenizer",
)
