"""ELECTRA: the discriminator predicts whether each token was replaced; no pooler (Clark et al. 2020)."""

from keras_bert.formats.families import bert
from keras_bert.formats.families.roberta import TWO_LAYERS
from keras_bert.formats.families.row import Dialect, Family, size, without_equal_sizes

# Of the layer that ELECTRA's head for multiple choice reads.
_SUMMARY = {"summary_type": "first", "summary_activation": "gelu", "summary_use_proj": True}
_ROW = bert.ROW._replace(
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

ELECTRA = Family(
    "electra",
    hugging_face=_ROW,
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
