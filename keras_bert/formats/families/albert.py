"""ALBERT: narrow embeddings, projected to the hidden size; layers that share weights (Lan et al. 2019)."""

from keras_bert.formats.families import bert
from keras_bert.formats.families.roberta import UNK_AND_PAD
from keras_bert.formats.families.row import QKV, Family, SentencePieceFamily, defaults_of, size

_LAYER = "encoder.albert_layer_groups.{i}.albert_layers.0"
_SIZE = {
    "vocab_size": 30000,
    "embedding_size": 128,
    "num_groups": 1,
    "activation": "gelu_tanh",
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
}
_ROW = bert.ROW._replace(
    classes="Albert",
    prefix="albert.",
    config={**bert.ROW.config, "embedding_size": "embedding_size", "num_groups": "num_hidden_groups"},
    values=defaults_of(_SIZE),
    # Google's own files have these options, but Google's code does not use them.
    fixed_values={
        **bert.FIXED_VALUES,
        **dict.fromkeys(("gap_size", "net_structure_type", "num_memory_blocks"), 0),
        "down_scale_factor": 1,
        "layers_to_keep": [],
    },
    embeddings={**bert.ROW.embeddings, "embeddings/projection": "encoder.embedding_hidden_mapping_in"},
    block={
        "attention/qkv": [f"{_LAYER}.attention.{name}" for name in QKV],
        "attention/output": f"{_LAYER}.attention.dense",
        "attention_norm": f"{_LAYER}.attention.LayerNorm",
        "intermediate": f"{_LAYER}.ffn",
        "output": f"{_LAYER}.ffn_output",
        "output_norm": f"{_LAYER}.full_layer_layer_norm",
    },
    pooler={"pooler": "pooler"},
    heads={
        "masked_lm": {"transform": "predictions.dense", "norm": "predictions.LayerNorm", "bias": "predictions.bias"},
        "next_sentence": {"logits": "sop_classifier.classifier"},
        **bert.ONE_LAYER,
    },
)
_PIECES = SentencePieceFamily(
    "spiece.model",
    "AlbertTokenizer",
    ("input_ids", "token_type_ids", "attention_mask"),
    {**UNK_AND_PAD, "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"},
    *(1, 1),
    lowercase=True,
    strip_accents=True,
)

ALBERT = Family(
    "albert",
    hugging_face=_ROW,
    in_tensorflow="albert",
    size=_SIZE,
    sizes={
        "albert-base": size(12, 768),
        "albert-large": size(24, 1024),
        "albert-xlarge": size(24, 2048, 16),
        "albert-xxlarge": size(12, 4096),
    },
    sentencepiece={
        "albert": _PIECES._replace(splits_commas=True),
        "albert-transformers": _PIECES._replace(model=None, as_transformers=True, is_alone=True),
    },
)
