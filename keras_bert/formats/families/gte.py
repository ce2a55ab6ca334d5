"""GTE: rotary embeddings, and gates with the activation on the second half (Zhang et al. 2024, mGTE).

In files of transformers ("gte"), and in those for the models' own Python code ("new"), which has more options.
"""

from typing import TYPE_CHECKING, Any

from keras_bert.formats.families import bert, row
from keras_bert.formats.families.row import Dialect, Family, defaults_of, size

if TYPE_CHECKING:
    from keras_bert.config import BertConfig

_SIZE = {
    "vocab_size": 30528,
    "max_positions": 8192,
    "attention_dropout": 0.0,
    "pooler": False,
    "rope_theta": 160_000.0,
    "rope_factor": 2.0,
    "intermediate_bias": False,
    "gated": True,
}
_LAYER = "encoder.layer.{i}"


def _gate_last(config: "BertConfig") -> list[int]:
    """Computes the order for files in which a gate's activated half is the second. In this package it is the first."""
    return [*range(config.intermediate_size, 2 * config.intermediate_size), *range(config.intermediate_size)]


_ROW = bert.ROW._replace(
    classes="Gte",
    prefix="gte.",
    dialect=Dialect(name=lambda name: name.removeprefix("new.")),
    config={**bert.ROW.config, "rope_theta": ("rope_parameters.rope_theta", "rope_theta")},
    values={**defaults_of(_SIZE), "rope_factor": 1.0},
    written_if_changed={**bert.ROW.written_if_changed, **row.HEAD_DIM},
    without_effect=row.EVERYWHERE,
    fixed_values={**row.NO_DECODER, "rope_parameters.rope_type": "default", "rope_scaling": None},
    storage=bert.ROW.storage._replace(orders={"intermediate": _gate_last}),
    embeddings=bert.WITHOUT_POSITIONS,
    block={
        "attention/qkv": f"{_LAYER}.attention.qkv_proj",
        "attention/output": f"{_LAYER}.attention.o_proj",
        "attention_norm": f"{_LAYER}.attn_ln",
        "intermediate": f"{_LAYER}.mlp.up_gate_proj",
        "output": f"{_LAYER}.mlp.down_proj",
        "output_norm": f"{_LAYER}.mlp_ln",
    },
    heads={
        "masked_lm": {"transform": "lm_head.dense", "norm": "lm_head.norm", "bias": "lm_head.decoder.bias"},
        **bert.CLASSIFIERS,
    },
)


def _write_new(entries: dict[str, Any]) -> dict[str, Any]:
    """Adds options that the file must not leave out: the defaults of the models' own code are other values."""
    scaling = {"type": "ntk", **entries["rope_scaling"]}
    options = {"position_embedding_type": "rope", "rope_scaling": scaling, "pack_qkv": True}
    return {**options, **entries, "rope_scaling": scaling}


GTE = Family("gte", _ROW, heads={"masked_lm_activation": "gelu"})
NEW = Family(
    "new",
    hugging_face=_ROW._replace(
        classes="New",
        prefix="new.",
        dialect=Dialect(write=_write_new),
        config={**bert.ROW.config, "rope_theta": "rope_theta", "rope_factor": "rope_scaling.factor"},
        values={**defaults_of(_SIZE), "rope_theta": 10_000.0, "rope_factor": 1.0},
        written_if_changed=bert.ROW.written_if_changed,
        implied=row.HEAD_SIZE,
        without_effect=row.EVERYWHERE | {"logn_attention_clip1", "unpad_inputs", "use_memory_efficient_attention"},
        fixed_values={
            **row.NO_DECODER,
            "position_embedding_type": "rope",
            "rope_scaling.type": "ntk",
            "rope_scaling.mixed_b": None,
            "pack_qkv": True,
            "layer_norm_type": "layer_norm",
            "logn_attention_scale": False,
        },
        heads={**_ROW.heads, "spans": {"logits": "qa_outputs"}},
    ),
    size=_SIZE,
    sizes={"gte-base-en-v1.5": size(12, 768, type_vocab_size=0), "gte-large-en-v1.5": size(24, 1024)},
)
