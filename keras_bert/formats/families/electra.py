"""ELECTRA: the discriminator predicts whether each token was replaced; no pooler (Clark et al. 2020)."""

from dataclasses import replace

from keras_bert.formats.families import bert
from keras_bert.formats.families.roberta import TWO_LAYERS
from keras_bert.formats.families.row import Dialect, Family, Storage, size, without_equal_sizes

# Of the layer that ELECTRA's head for multiple choice reads.
_SUMMARY = {"summary_type": "first", "summary_activation": "gelu", "summary_use_proj": True}
_ROW = replace(
    bert.ROW,
    classes="Electra",
    prefix="electra.",
    config={**bert.ROW.config, "embedding_size": "embedding_size"},  # narrow in some sizes
    fixed_values={**bert.FIXED_VALUES, **_SUMMARY},
    without_effect={*bert.ROW.without_effect} - _SUMMARY.keys(),
    dialect=Dialect(read=without_equal_sizes("embedding_size", "hidden_size", default=128)),
    embeddings={**bert.ROW.embeddings, "embeddings/projection": "embeddings_project"},
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
        **bert.ONE_LAYER,
        "sequence": TWO_LAYERS,
        "choices": {"transform": "sequence_summary.summary", "logits": "classifier"},
    },
)
# The discriminator, which is the part to fine-tune.
_TF1 = replace(
    _ROW,
    written_if_changed={},
    endings=bert.TF1.endings,
    storage=Storage(),
    embeddings={**bert.tf1_embeddings("electra/embeddings"), "embeddings/projection": "electra/embeddings_project"},
    block=bert.tf1_block("electra"),
    heads={
        "replaced_tokens": {
            "transform": "discriminator_predictions/dense",
            "logits": "discriminator_predictions/dense_1",
        }
    },
)
# The generator is in the same file. It shares the discriminator's embeddings, or has its own, under "generator/".
TF1_GENERATOR = replace(
    _TF1,
    embeddings={**_TF1.embeddings, "embeddings/projection": "generator/embeddings_project"},
    block=bert.tf1_block("generator"),
    heads={
        "masked_lm": {
            "transform": "generator_predictions/dense",
            "norm": "generator_predictions/LayerNorm",
            "bias": "generator_predictions/output_bias",
        }
    },
)

ELECTRA = Family(
    hugging_face=_ROW,
    formats={
        "tf1": _TF1,
        "keras_hub": replace(
            bert.HUB,
            classes="Electra",
            config={**bert.HUB.config, "vocab_size": "vocab_size"},
            embeddings={**bert.HUB.embeddings, "embeddings/projection": "layers/dense"},
            pooler={},
            heads={},
        ),
    },
    in_tensorflow="electra",
    heads={"masked_lm_activation": "gelu", "sequence_activation": "gelu"},
    size={"pooler": False},
    sizes={
        "electra-small": size(12, 256, embedding_size=128),
        "electra-small-generator": size(12, 256, embedding_size=128),
        "electra-base": size(12, 768),
        "electra-base-generator": size(12, 256, embedding_size=768),
        "electra-large": size(24, 1024),
        "electra-large-generator": size(24, 256, embedding_size=1024),
    },
    tokenizer_class="BertTokenizer",
)
