"""DistilBERT: no segments, no pooler (Sanh et al. 2019)."""

from keras_bert.formats.families import bert
from keras_bert.formats.families.row import EVERYWHERE, Dialect, Family, newer_keys, size

_CLASSIFIER = {"transform": "pre_classifier", "logits": "classifier"}
_LAYER = "transformer.layer.{i}"

DISTILBERT = Family(
    "distilbert",
    hugging_face=bert.ROW._replace(
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
        dialect=Dialect(
            read=newer_keys({"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"})
        ),
        values={"type_vocab_size": 0, "layer_norm_epsilon": 1e-12},
        without_effect=EVERYWHERE | {"sinusoidal_pos_embds"},  # initial values of weights
        block={
            "attention/qkv": [f"{_LAYER}.attention.{x}_lin" for x in "qkv"],
            "attention/output": f"{_LAYER}.attention.out_lin",
            "attention_norm": f"{_LAYER}.sa_layer_norm",
            "intermediate": f"{_LAYER}.ffn.lin1",
            "output": f"{_LAYER}.ffn.lin2",
            "output_norm": f"{_LAYER}.output_layer_norm",
        },
        pooler={},
        heads={
            "masked_lm": {"transform": "vocab_transform", "norm": "vocab_layer_norm", "bias": "vocab_projector.bias"},
            **bert.ONE_LAYER,
            "sequence": _CLASSIFIER,
            "choices": _CLASSIFIER,
        },
    ),
    in_tensorflow="distilbert",
    heads={"sequence_activation": "relu"},
    size={"type_vocab_size": 0, "pooler": False},
    sizes={"distilbert-base": size(6, 768)},
    tokenizer_class="BertTokenizer",
)
