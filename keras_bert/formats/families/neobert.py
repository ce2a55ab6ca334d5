"""NeoBERT: EuroBERT's layers, with the two matrices of a gate in one, and query, key and value interleaved by head.

See Le Breton et al. 2025. These models come with their own Python code.
"""

from typing import TYPE_CHECKING, Any

from keras_bert.formats.families import bert, eurobert
from keras_bert.formats.families.row import EVERYWHERE, NO_DECODER, Check, Dialect, Family, defaults_of, size

if TYPE_CHECKING:
    from keras_bert.config import BertConfig

_INTERMEDIATE = "intermediate_size"
_SIZE = {**eurobert.LLAMA_BLOCK, "max_positions": 4096, "rope_theta": 10_000.0}
_LAYER = "transformer_encoder.{i}"


def _read_two_thirds(values: dict[str, Any], check: Check) -> dict[str, Any]:
    """Replaces the width w of the feed-forward layer by 2w / 3, rounded up to a multiple of 8."""
    check(_INTERMEDIATE, values.get(_INTERMEDIATE), _INTERMEDIATE)
    return {**values, _INTERMEDIATE: -(-(values[_INTERMEDIATE] * 2 // 3) // 8) * 8}


def by_head(config: "BertConfig") -> list[int]:
    """Computes the order of Q, K and V for files that store them head by head, with interleaved rotary coordinates.

        file           for each head: Q, K, V; Q and K are [x0, y0, x1, y1, ...]
        this package   Q of all heads, K of all heads, V of all heads; Q and K are [x0, x1, ..., y0, y1, ...]

    QK^T does not change if the coordinates of Q and K are permuted in the same way. V keeps its order.
    """
    size = config.head_size
    deinterleaved = [*range(0, size, 2), *range(1, size, 2)]
    return [
        (3 * head + part) * size + coordinate
        for part, coordinates in enumerate((deinterleaved, deinterleaved, range(size)))
        for head in range(config.num_heads)
        for coordinate in coordinates
    ]


NEOBERT = Family(
    "neobert",
    hugging_face=eurobert.ROW._replace(
        classes="NeoBERT",
        config={
            "vocab_size": "vocab_size",
            "hidden_size": "hidden_size",
            "num_layers": "num_hidden_layers",
            "num_heads": "num_attention_heads",
            "intermediate_size": _INTERMEDIATE,
            "hidden_dropout": "hidden_dropout",
            "max_positions": "max_length",
            "initializer_range": "embedding_init_range",
            "layer_norm_epsilon": "norm_eps",
            "pad_token_id": "pad_token_id",
        },
        written_if_changed={},
        choices={},
        dialect=Dialect(_read_two_thirds, lambda entries: {**entries, _INTERMEDIATE: entries[_INTERMEDIATE] * 3 // 2}),
        values={**defaults_of(_SIZE), "layer_norm_epsilon": 1e-6, "max_positions": 1024},
        implied={"dim_head": lambda config: config.head_size},
        without_effect=EVERYWHERE - {"max_length"}
        | {
            "base_scale",  # needs ngpt, which is not supported
            "classifier_init_range",
            "decoder_init_range",
            "dropout",
            "flash_attention",
        },
        fixed_values={**NO_DECODER, "hidden_act": "SwiGLU", "ngpt": False, "rms_norm": True, "rope": True},
        storage=bert.ROW.storage._replace(orders={"attention/qkv": by_head}),
        embeddings={"embeddings/word": "encoder"},
        block={
            "attention_norm": f"{_LAYER}.attention_norm",
            "attention/qkv": f"{_LAYER}.qkv",
            "attention/output": f"{_LAYER}.wo",
            "output_norm": f"{_LAYER}.ffn_norm",
            "intermediate": f"{_LAYER}.ffn.w12",
            "output": f"{_LAYER}.ffn.w3",
        },
        last={"final_norm": "layer_norm"},
        heads={"masked_lm": {"decoder": "decoder"}, "sequence": {"transform": "dense", "logits": "classifier"}},
    ),
    heads={"sequence_activation": "tanh", "own_decoder": True},
    size=_SIZE,
    sizes={"neobert": size(28, 768, intermediate_size=2048)},
)
