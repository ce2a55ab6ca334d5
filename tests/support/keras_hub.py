"""KerasHub's preset directories, written as KerasHub writes them (tests/contract compares with KerasHub)."""

import json

import h5py
import numpy as np

from keras_bert.formats.libraries import keras_hub
from keras_bert.text.vocabulary import byte_symbols

from .checkpoints import CONFIGS, random_weights

LAYER = "layers/transformer_encoder"
CLASSES = {family: f"{table.classes}Backbone" for family, table in keras_hub.TABLES.items()}
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "cafe", "caf", "##é", "b", "中", "文"]
BYTE_PAIRS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *byte_symbols(), "Ġl", "ov", "Ġlov", "Ġlove", "19", "90"]
MERGES = ["Ġ l", "o v", "Ġl ov", "Ġlov e", "1 9", "9 0"]
ROBERTA_TOKENS = ["<s>", "</s>", "<pad>", "<mask>"]


def config_file(config):
    values = {
        ("vocab_size" if config.family == "electra" else "vocabulary_size"): config.vocab_size,
        "num_layers": config.num_layers,
        "num_heads": config.num_heads,
        "hidden_dim": config.hidden_size,
        "intermediate_dim": config.intermediate_size,
        "dropout": config.hidden_dropout,
        "max_sequence_length": config.max_positions,
        "num_segments": config.type_vocab_size,
        "embedding_dim": config.embedding_size,
        "num_groups": config.num_groups,
    }
    kept = {key: value for key, value in values.items() if value is not None}
    return {
        "module": "keras_hub.src.models",
        "class_name": CLASSES[config.family],
        "config": {"name": "backbone", "trainable": True, **kept},
        "registered_name": f"keras_hub>{CLASSES[config.family]}",
    }


def write_weights(directory, family, heads=()):
    """Writes a random model. Returns its weights."""
    config = CONFIGS[family]
    weights = random_weights(config, *heads)
    parts = keras_hub.TABLES[family].parts(config)
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config_file(config)))
    for kind in ("model", "task"):
        with h5py.File(directory / f"{kind}.weights.h5", "w") as file:
            for part in weights:
                for ours, theirs in parts[part].items():
                    value = weights[part][ours]
                    for name, token in zip(theirs, np.split(value, len(theirs) or 1, axis=-1), strict=bool(theirs)):
                        if name.startswith("task/") == (kind == "task"):
                            shape = shape_of(ours, token, config)
                            plain = name.removeprefix("task/").replace(f"{LAYER}_0/", f"{LAYER}/")
                            file[plain] = token[rows(ours, config) :].reshape(shape)
            if kind == "task":
                file["optimizer/vars/0"] = np.array(3)
    return weights


def rows(ours, config):
    """The number of first rows to leave out: RoBERTa's positions for padding."""
    return 2 if ours.startswith("embeddings/position") and config.positions_after_padding else 0


def shape_of(ours, token, config):
    if "attention/qkv/kernel" in ours:
        return (12, 3, 4)
    if "attention/qkv/bias" in ours:
        return (3, 4)
    if "attention/output/kernel" in ours:
        return (3, 4, 12)
    return (token.shape[0] - rows(ours, config), *token.shape[1:])


def write_tokenizer(directory, class_name, assets, **config):
    """Writes the files of a tokenizer's `save_to_preset`."""
    layer = {
        "module": "keras_hub.src.models.some_tokenizer",
        "class_name": class_name,
        "config": {"name": "tokenizer", "trainable": True, "config_file": "tokenizer.json", **config},
        "registered_name": f"keras_hub>{class_name}",
    }
    (directory / "assets/tokenizer").mkdir(parents=True)
    (directory / "tokenizer.json").write_text(json.dumps(layer))
    for name, content in assets.items():
        (directory / "assets/tokenizer" / name).write_bytes(content)


def write_wordpiece(directory, class_name="BertTokenizer", tokens=TOKENS, **config):
    assets = {"vocabulary.txt": "".join(f"{token}\n" for token in tokens).encode()}
    plain = {"sequence_length": None, "lowercase": False, "strip_accents": False, "split": True}
    plain |= {"suffix_indicator": "##", "oov_token": "[UNK]"}
    plain |= {"special_tokens": None, "special_tokens_in_strings": False}
    write_tokenizer(directory, class_name, assets, **plain | config)


def write_byte_pairs(directory, **config):
    vocabulary = json.dumps({token: i for i, token in enumerate(BYTE_PAIRS)})
    assets = {"vocabulary.json": vocabulary.encode(), "merges.txt": "".join(f"{m}\n" for m in MERGES).encode()}
    plain = {"sequence_length": None, "add_prefix_space": False, "unsplittable_tokens": ROBERTA_TOKENS}
    write_tokenizer(directory, "RobertaTokenizer", assets, **plain | config)
