"""BERT, and ERNIE, which has BERT's layers under another name."""

from dataclasses import replace

from keras_bert.formats.families import row
from keras_bert.formats.families.row import Dialect, Family, Layers, Row, Storage, size, without_equal_sizes
from keras_bert.task_table import HEADS

FIXED_VALUES = {
    **row.NO_DECODER,
    "position_embedding_type": "absolute",
    "directionality": "bidi",
    "pooler_type": "first_token_transform",
    "use_task_id": False,  # task embeddings, in some ERNIE models
    "inner_group_num": 1,  # layers in a group, in ALBERT
}
LAYER = "encoder.layer.{i}"
ONE_LAYER = {name: {"logits": head.layer} for name, head in HEADS.items() if head.layer}
ROW = Row(
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
    # A key of ModernBERT; in BERT's files, only this package reads it.
    written_if_changed={"pooling": "classifier_pooling"},
    choices={"activation": row.ACTIVATIONS, "pooling": row.CLASSIFIER_POOLINGS},
    fixed_values=FIXED_VALUES,
    # Google's multilingual and Chinese models have sizes of poolers that Google's code does not build.
    without_effect=row.EVERYWHERE
    | {
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "task_type_vocab_size",  # needs use_task_id, which is not supported
    },
    endings={"kernel": ".weight", "bias": ".bias", "gamma": ".weight", "beta": ".bias", "embeddings": ".weight"},
    storage=Storage(transposed=("kernel",)),
    embeddings={
        "embeddings/word": "embeddings.word_embeddings",
        "embeddings/position": "embeddings.position_embeddings",
        "embeddings/type": "embeddings.token_type_embeddings",
        "embeddings/norm": "embeddings.LayerNorm",
    },
    block={
        "attention/qkv": [f"{LAYER}.attention.self.{name}" for name in row.QKV],
        "attention/output": f"{LAYER}.attention.output.dense",
        "attention_norm": f"{LAYER}.attention.output.LayerNorm",
        "intermediate": f"{LAYER}.intermediate.dense",
        "output": f"{LAYER}.output.dense",
        "output_norm": f"{LAYER}.output.LayerNorm",
    },
    pooler={"pooler": "pooler.dense"},
    heads={
        "masked_lm": {
            "transform": "cls.predictions.transform.dense",
            "norm": "cls.predictions.transform.LayerNorm",
            "bias": "cls.predictions.bias",
        },
        "next_sentence": {"logits": "cls.seq_relationship"},
        **ONE_LAYER,
    },
)
WITHOUT_POSITIONS = {path: name for path, name in ROW.embeddings.items() if path != "embeddings/position"}
KEYS_WITHOUT_TYPES = {field: key for field, key in ROW.config.items() if field != "type_vocab_size"}

# -- Google's checkpoints of TensorFlow 1.

# "gelu" means the tanh approximation in the code of BERT and ALBERT, and the exact function in ELECTRA's.
WITH_TANH = {"activation": {**row.ACTIVATIONS, "gelu": "gelu_tanh"}}


def tf1_embeddings(scope: str) -> Layers:
    return {
        "embeddings/word": f"{scope}/word_embeddings",
        "embeddings/position": f"{scope}/position_embeddings",
        "embeddings/type": f"{scope}/token_type_embeddings",
        "embeddings/norm": f"{scope}/LayerNorm",
    }


def tf1_block(scope: str) -> Layers:
    layer = f"{scope}/encoder/layer_{{i}}"
    return {
        "attention/qkv": [f"{layer}/attention/self/{name}" for name in row.QKV],
        "attention/output": f"{layer}/attention/output/dense",
        "attention_norm": f"{layer}/attention/output/LayerNorm",
        "intermediate": f"{layer}/intermediate/dense",
        "output": f"{layer}/output/dense",
        "output_norm": f"{layer}/output/LayerNorm",
    }


def _output_layer(scope: str) -> Layers:
    return {"logits/kernel": [f"{scope}output_weights"], "logits/bias": [f"{scope}output_bias"]}


TF1 = replace(
    ROW,
    written_if_changed={},
    values={"activation": "gelu_tanh"},
    choices=WITH_TANH,
    endings={"kernel": "/kernel", "bias": "/bias", "gamma": "/gamma", "beta": "/beta", "embeddings": ""},
    storage=Storage(transposed=("logits/kernel",)),
    embeddings=tf1_embeddings("bert/embeddings"),
    block=tf1_block("bert"),
    pooler={"pooler": "bert/pooler/dense"},
    heads={
        "masked_lm": {
            "transform": "cls/predictions/transform/dense",
            "norm": "cls/predictions/transform/LayerNorm",
            "bias": "cls/predictions/output_bias",
        },
        "next_sentence": _output_layer("cls/seq_relationship/"),
        "sequence": _output_layer(""),
        "spans": _output_layer("cls/squad/"),
    },
)

# -- TF Model Garden's.


def garden_block(scope: str) -> Layers:
    return {
        "attention/qkv": [f"{scope}/self_attention/{name}" for name in row.QKV],
        "attention/output": f"{scope}/self_attention/attention_output",
        "attention_norm": f"{scope}/self_attention_layer_norm",
        "intermediate": f"{scope}/intermediate",
        "output": f"{scope}/output",
        "output_norm": f"{scope}/output_layer_norm",
    }


GARDEN = replace(
    TF1,
    endings={kind: f"/{kind}" for kind in ("kernel", "bias", "gamma", "beta", "embeddings")},
    storage=Storage(splits_heads=True),
    embeddings={
        "embeddings/word": "word_embeddings",
        "embeddings/position": "position_embedding",
        "embeddings/type": "type_embeddings",
        "embeddings/norm": "embeddings/layer_norm",
    },
    block=garden_block("transformer/layer_{i}"),
    pooler={"pooler": "pooler_transform"},
    heads={
        "masked_lm": {
            "transform": "cls/predictions/transform/dense",
            "norm": "cls/predictions/transform/LayerNorm",
            "bias": "cls/predictions/output_bias/bias",
        },
        "next_sentence": {"logits": "next_sentence/logits"},
        "sequence": {"logits": "sentence_prediction/logits"},
    },
)

# -- KerasHub's presets. Names of weights in the task's file begin with "task/".

_HUB_LAYER = "layers/transformer_encoder_{i}"
_HUB_POSITIONS = "layers/token_and_position_embedding"
_HUB_HEAD = "task/layers/masked_lm_head"
_HUB_NORM = {"embeddings/norm": "layers/layer_normalization"}
_HUB_MASKED_LM = {
    "transform": f"{_HUB_HEAD}/_intermediate_dense",
    "norm": f"{_HUB_HEAD}/_intermediate_layer_norm",
    "bias": f"{_HUB_HEAD}/vars/0",
}
HUB_WITHOUT_TYPES = {
    "embeddings/word": f"{_HUB_POSITIONS}/token_embedding",
    "embeddings/position": f"{_HUB_POSITIONS}/position_embedding",
    **_HUB_NORM,
}
HUB_HEADS = {
    "masked_lm": _HUB_MASKED_LM,
    "sequence": {"transform": "task/layers/dense", "logits": "task/layers/dense_1"},
}
HUB = Row(
    classes="Bert",
    config={
        "vocab_size": "vocabulary_size",
        "num_layers": "num_layers",
        "num_heads": "num_heads",
        "hidden_size": "hidden_dim",
        "intermediate_size": "intermediate_dim",
        "hidden_dropout": "dropout",
        "attention_dropout": "dropout",
        "max_positions": "max_sequence_length",
        "type_vocab_size": "num_segments",
        "embedding_size": "embedding_dim",
        "num_groups": "num_groups",
    },
    values={"activation": "gelu_tanh"},
    fixed_values={"num_inner_repetitions": 1},
    without_effect=frozenset({"dtype", "name", "trainable"}),  # of any object of Keras
    # Keras numbers the weights of a layer instead of naming them.
    endings={"kernel": "/vars/0", "bias": "/vars/1", "gamma": "/vars/0", "beta": "/vars/1", "embeddings": "/vars/0"},
    storage=Storage(splits_heads=True),
    dialect=Dialect(read=without_equal_sizes("embedding_dim", "hidden_dim")),
    embeddings={
        "embeddings/word": "layers/reversible_embedding",
        "embeddings/position": "layers/position_embedding",
        "embeddings/type": "layers/embedding",
        **_HUB_NORM,
    },
    block={
        "attention/qkv": [f"{_HUB_LAYER}/_self_attention_layer/{name}_dense" for name in row.QKV],
        "attention/output": f"{_HUB_LAYER}/_self_attention_layer/output_dense",
        "attention_norm": f"{_HUB_LAYER}/_self_attention_layer_norm",
        "intermediate": f"{_HUB_LAYER}/_feedforward_intermediate_dense",
        "output": f"{_HUB_LAYER}/_feedforward_output_dense",
        "output_norm": f"{_HUB_LAYER}/_feedforward_layer_norm",
    },
    pooler={"pooler": "layers/dense"},
    heads={"masked_lm": _HUB_MASKED_LM, "sequence": {"logits": "task/layers/dense"}},
)

BERT = Family(
    hugging_face=ROW,
    formats={"tf1": TF1, "garden": GARDEN, "keras_hub": HUB},
    in_tensorflow="bert",
    tokenizer_class="BertTokenizer",
    sizes={
        "bert-tiny": size(2, 128),
        "bert-mini": size(4, 256),
        "bert-small": size(4, 512),
        "bert-medium": size(8, 512),
        "bert-base": size(12, 768),
        "bert-large": size(24, 1024),
        "bert-base-cased": size(12, 768, vocab_size=28996),
        "bert-base-chinese": size(12, 768, vocab_size=21128),
        "bert-base-multilingual-cased": size(12, 768, vocab_size=119547),
        "minilm-l6": size(6, 384, 12),
        "minilm-l12": size(12, 384, 12),
    },
)
ERNIE = Family(replace(ROW, classes="Ernie", prefix="ernie."))
