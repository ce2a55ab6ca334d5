"""MPNet: RoBERTa with a relative position bias and without segments (Song et al. 2020)."""

from typing import Any

from keras_bert.formats.families import bert, roberta
from keras_bert.formats.families.row import Check, Dialect, Family, size

_BUCKETS = "relative_attention_num_buckets"
_SIZE = {**roberta.SIZE, "vocab_size": 30527, "type_vocab_size": 0, "relative_buckets": 32}


def _read_buckets(values: dict[str, Any], check: Check) -> dict[str, Any]:
    """Replaces the number of buckets by 32: transformers has a row for each, but uses the first 32 rows."""
    check("relative_buckets", buckets := values.get(_BUCKETS), _BUCKETS)
    if buckets is not None and buckets < 32:
        raise ValueError(
            f"{_BUCKETS} is {buckets}; supported are 32 and more, as transformers uses 32 whatever it says"
        )
    return values if buckets is None else {**values, _BUCKETS: 32}


MPNET = Family(
    "mpnet",
    hugging_face=roberta.ROW._replace(
        classes="MPNet",
        prefix="mpnet.",
        config={**bert.KEYS_WITHOUT_TYPES, "relative_buckets": _BUCKETS},
        values={**roberta.ROW.values, "type_vocab_size": 0, "relative_buckets": 32},
        fixed_values={**bert.FIXED_VALUES, _BUCKETS: 32},
        dialect=Dialect(_read_buckets),
        storage=bert.ROW.storage._replace(cut_tables=("embeddings/relative/embeddings",)),
        embeddings={
            **{path: file_name for path, file_name in bert.ROW.embeddings.items() if path != "embeddings/type"},
            "embeddings/relative": "encoder.relative_attention_bias",
        },
        block={
            **bert.ROW.block,
            "attention/qkv": [f"{bert.LAYER}.attention.attn.{name}" for name in "qkv"],
            "attention/output": f"{bert.LAYER}.attention.attn.o",
            "attention_norm": f"{bert.LAYER}.attention.LayerNorm",
        },
    ),
    in_tensorflow="mpnet",
    heads=roberta.HEADS,
    size=_SIZE,
    sizes={"mpnet-base": size(12, 768)},
    tokenizer_class="MPNetTokenizer",
    wordpiece={"separators": 2, "second_type_id": 0, "max_chars_per_word": 100},
)
