"""BERT, and ERNIE, which has BERT's layers under another name."""

from keras_bert.formats.families import row
from keras_bert.formats.families.row import Family, Row, size
from keras_bert.head_table import HEADS

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
CLASSIFIERS = {name: layers for name, layers in ONE_LAYER.items() if HEADS[name].has_labels}  # in every family
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

BERT = Family(
    "bert",
    hugging_face=ROW,
    in_tensorflow="bert",
    tokenizer_class="BertTokenizer",
    wordpiece={"separators": 1, "second_type_id": 1},
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
ERNIE = Family("ernie", ROW._replace(classes="Ernie", prefix="ernie."))
