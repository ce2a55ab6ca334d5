"""Small random weights of every family, for tests of files: no model is built."""

import dataclasses

import numpy as np

from keras_bert import BertConfig, formats
from keras_bert.formats import FAMILIES, families
from keras_bert.shapes import shapes

SIZES = {
    "vocab_size": 30,
    "hidden_size": 12,
    "num_layers": 2,
    "num_heads": 3,
    "intermediate_size": 20,
    "max_positions": 16,
}
CONFIGS = {
    "bert": BertConfig(**SIZES, activation="gelu_tanh"),
    "ernie": BertConfig(**SIZES, family="ernie", activation="relu"),
    "roberta": BertConfig.named("roberta-base", **SIZES),
    "xlm-roberta": BertConfig.named("xlm-roberta-base", **SIZES),
    "camembert": BertConfig.named("roberta-base", **SIZES, family="camembert"),
    "distilbert": BertConfig.named("distilbert-base", **SIZES),
    "albert": BertConfig.named("albert-base", **{**SIZES, "num_layers": 4, "embedding_size": 6, "num_groups": 2}),
    "electra": BertConfig.named("electra-small", **SIZES | {"embedding_size": 6}),
    "modernbert": BertConfig.named("modernbert-base", **SIZES, pad_token_id=2, local_window=6),
    "nomic_bert": BertConfig.named("nomic-bert-2048", **SIZES),
    "mpnet": BertConfig.named("mpnet-base", **SIZES),
    "deberta-v2": BertConfig.named("deberta-v3-base", **SIZES | {"disentangled_buckets": 4}),
    "gte": BertConfig.named("gte-base-en-v1.5", **SIZES, **{"family": "gte", "rope_factor": 1.0}),
    "new": BertConfig.named("gte-large-en-v1.5", **SIZES),
    "jina_embeddings_v3": BertConfig.named("jina-embeddings-v3", **SIZES),
    "eurobert": BertConfig.named("eurobert-210m", **SIZES, pad_token_id=1, num_key_value_heads=1),
    "ultrabert": BertConfig(
        family="ultrabert",
        decoder_width=10,
        **families.FAMILIES["ultrabert"].size | SIZES | {"num_layers": 3, "num_key_value_heads": 1, "local_window": 6},
    ),
    "neobert": BertConfig.named("neobert", **SIZES | {"intermediate_size": 24}),
    **{
        name: BertConfig(
            family=name, pooler=False, **SIZES | families.FAMILIES[name].hugging_face.values | {"hidden_dropout": 0.2}
        )
        for name in ("model2vec", "static_embedding")
    },
}
LABELS = {"next_sentence": 2, "spans": 2, "replaced_tokens": 1, "choices": 1}


def with_head(family, head):
    """The configuration of a family, with a pooler if the head reads it."""
    config = CONFIGS[family]
    return dataclasses.replace(config, pooler=config.pooler or config.reads_pooler(head))


def parts_of(config):
    """Hugging Face's names of the weights of the encoder, with its pooler, and of each head."""
    return FAMILIES[config.family].parts(config)


def random_weights(config, *heads, seed=0):
    """float32 arrays by part (the encoder and `heads`) and by our names."""
    generator = np.random.default_rng(seed)
    return {
        part: {
            name: generator.normal(size=shape).astype(np.float32)
            for name, shape in shapes(config, part, LABELS.get(part, 3)).items()
        }
        for part in ("encoder", *heads)
    }


def read_all(directory):
    """The content of a checkpoint: format, configuration, and weights by part."""
    with formats.open_checkpoint(directory) as checkpoint:
        assert (checkpoint.missing, checkpoint.unexpected) == ([], [])
        parts = ("encoder", *sorted(checkpoint.heads))
        return checkpoint.format, checkpoint.config, {part: checkpoint.read(part) for part in parts}


def same(first, second):
    """Whether the weights of two models are the same, bit by bit."""
    assert first.keys() == second.keys()
    for part in first:
        assert first[part].keys() == second[part].keys()
        for name, value in first[part].items():
            assert value.dtype == second[part][name].dtype == np.float32, name
            assert value.shape == second[part][name].shape, name
            assert value.tobytes() == second[part][name].tobytes(), (part, name)
    return True
