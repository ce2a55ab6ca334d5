"""DeBERTa, versions 2 and 3: disentangled attention; no segments, no position embeddings (He et al. 2020 and 2021)."""

from keras_bert.formats.families import bert
from keras_bert.formats.families.row import QKV, Dialect, Family, SentencePieceFamily, size


def _name(name: str) -> str:
    """Renames the weights of the masked language modeling head from Microsoft's own files."""
    layer = name.removeprefix("lm_predictions.lm_head.")
    if layer == name:
        return name
    return f"cls.predictions.{'' if layer == 'bias' else 'transform.'}{layer}"


_CLASSIFIER = {"transform": "pooler.dense", "logits": "classifier"}  # the pooler belongs to the classifier

DEBERTA = Family(
    "deberta-v2",
    hugging_face=bert.ROW._replace(
        classes="DebertaV2",
        prefix="deberta.",
        config={**bert.ROW.config, "disentangled_buckets": "position_buckets"},
        values={"type_vocab_size": 0, "layer_norm_epsilon": 1e-7},
        fixed_values={
            **bert.FIXED_VALUES,
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
        # These need conv_kernel_size, which is not supported.
        without_effect={*bert.ROW.without_effect, "conv_act", "conv_groups"},
        required_options={
            "relative_attention": (True,),
            "position_biased_input": (False,),
            "pos_att_type": (["p2c", "c2p"], ["c2p", "p2c"], "p2c|c2p", "c2p|p2c"),
            "share_att_key": (True,),
            "norm_rel_ebd": ("layer_norm",),
        },
        dialect=Dialect(name=_name),
        embeddings={
            **bert.WITHOUT_POSITIONS,
            "embeddings/distances": "encoder.rel_embeddings",
            "embeddings/distances_norm": "encoder.LayerNorm",
        },
        block={**bert.ROW.block, "attention/qkv": [f"{bert.LAYER}.attention.self.{name}_proj" for name in QKV]},
        pooler={},
        heads={
            "masked_lm": bert.ROW.heads["masked_lm"],
            **bert.ONE_LAYER,
            "sequence": _CLASSIFIER,
            "choices": _CLASSIFIER,
        },
    ),
    in_tensorflow="deberta",
    heads={"sequence_activation": "gelu"},
    size={
        "vocab_size": 128100,
        "type_vocab_size": 0,
        "layer_norm_epsilon": 1e-7,
        "pooler": False,
        "disentangled_buckets": 256,
    },
    sizes={
        "deberta-v3-xsmall": size(12, 384),
        "deberta-v3-small": size(6, 768),
        "deberta-v3-base": size(12, 768),
        "deberta-v3-large": size(24, 1024),
    },
    sentencepiece={
        "deberta-v2": SentencePieceFamily(
            "spm.model",
            "DebertaV2Tokenizer",
            ("input_ids", "token_type_ids", "attention_mask"),
            {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "pad", "cls", "sep", "mask")},
            *(1, 1),
            last=("[MASK]",),
            as_any_class=True,
        )
    },
)
