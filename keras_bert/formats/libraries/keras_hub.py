"""KerasHub's presets: `config.json` beside `model.weights.h5`, and `task.weights.h5` if there is a head.

The tokenizer is in `tokenizer.json` (a serialized layer) and `assets/tokenizer`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.choices import POOLINGS, check_choice
from keras_bert.config import BertConfig
from keras_bert.formats.checkpoint import Checkpoint, JoinedFile
from keras_bert.formats.families.row import QKV, Dialect, Storage, without_equal_sizes
from keras_bert.formats.row_translator import FamilyTable, check_fixed_values
from keras_bert.formats.weight_files import H5File
from keras_bert.presets import PresetFiles

CONFIG = "config.json"
WEIGHTS = "model.weights.h5"
TASK_WEIGHTS = "task.weights.h5"
TASK = "task.json"
ASSETS = Path("assets", "tokenizer")

# Class of a tokenizer -> its type in Hugging Face's tokenizer.json.
_TOKENIZERS = {
    **dict.fromkeys(("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"), "WordPiece"),
    "RobertaTokenizer": "BPE",
    "XLMRobertaTokenizer": "Unigram",
}
# Type of a tokenizer -> the settings that are read, with the types of their values.
_SHAPES = {
    "WordPiece": {
        **dict.fromkeys(("lowercase", "strip_accents", "split_on_cjk", "special_tokens_in_strings"), (bool, None)),
        "oov_token": (str, None),
    },
    "BPE": {"add_prefix_space": (bool, None), "unsplittable_tokens": ([str], None)},
    "Unigram": {},
}
# Type of a tokenizer -> settings that change ids, with their only supported values.
_FIXED_VALUES = {
    "WordPiece": {"split": True, "suffix_indicator": "##", "sequence_length": None, "special_tokens": None},
    "BPE": {"sequence_length": None},
    "Unigram": {"sequence_length": None, "add_bos": False, "add_eos": False},
}
_ROBERTA_TOKENS = {"<s>", "</s>", "<pad>", "<mask>"}

# Names of other arrays: the state of dropout's seeds and of the optimizer.
_EXTRAS = r".*seed_generator.*|task/optimizer/.*"
_TASK = "task/"  # begins the table's names of weights in the task's file
# KerasHub's ELECTRA has an untrained pooler; ELECTRA has none.
_EXTRAS_OF_ELECTRA = rf"{_EXTRAS}|layers/dense(_1)?/vars/[01]"

# -- The names of each family.

_LAYER = "layers/transformer_encoder_{i}"
_POSITIONS = "layers/token_and_position_embedding"
_HEAD = "task/layers/masked_lm_head"
_MASKED_LM = {
    "transform": f"{_HEAD}/_intermediate_dense",
    "norm": f"{_HEAD}/_intermediate_layer_norm",
    "bias": f"{_HEAD}/vars/0",
}
_BERT = FamilyTable(
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
        "embeddings/norm": "layers/layer_normalization",
    },
    block={
        "attention/qkv": [f"{_LAYER}/_self_attention_layer/{name}_dense" for name in QKV],
        "attention/output": f"{_LAYER}/_self_attention_layer/output_dense",
        "attention_norm": f"{_LAYER}/_self_attention_layer_norm",
        "intermediate": f"{_LAYER}/_feedforward_intermediate_dense",
        "output": f"{_LAYER}/_feedforward_output_dense",
        "output_norm": f"{_LAYER}/_feedforward_layer_norm",
    },
    pooler={"pooler": "layers/dense"},
    heads={"masked_lm": _MASKED_LM, "sequence": {"logits": "task/layers/dense"}},
)
_DISTILBERT = _BERT._replace(
    classes="DistilBert",
    values={"type_vocab_size": 0},
    embeddings={
        "embeddings/word": f"{_POSITIONS}/token_embedding",
        "embeddings/position": f"{_POSITIONS}/position_embedding",
        "embeddings/norm": "layers/layer_normalization",
    },
    pooler={},
    heads={
        "masked_lm": _MASKED_LM,
        "sequence": {"transform": "task/layers/dense", "logits": "task/layers/dense_1"},
    },
)
_ROBERTA = _DISTILBERT._replace(
    classes="Roberta",
    values={"positions_after_padding": True, "pad_token_id": 1, "layer_norm_epsilon": 1e-5, "type_vocab_size": 1},
    # KerasHub counts positions from 0: its table has no rows for padding.
    storage=Storage(splits_heads=True, lacks_padding_positions=True),
    # RoBERTa has one segment embedding, for all tokens. KerasHub has none, so it is read as zeros.
    embeddings={**_DISTILBERT.embeddings, "embeddings/type": []},
)
TABLES = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA._replace(classes="XLMRoberta"),
    "distilbert": _DISTILBERT,
    "albert": _BERT._replace(
        classes="Albert",
        dialect=Dialect(),  # there is always a projection
        embeddings={**_BERT.embeddings, "embeddings/projection": "layers/dense"},
        pooler={"pooler": "layers/dense_1"},
    ),
    "electra": _BERT._replace(
        classes="Electra",
        config={**_BERT.config, "vocab_size": "vocab_size"},
        embeddings={**_BERT.embeddings, "embeddings/projection": "layers/dense"},
        pooler={},
        heads={},
    ),
}


def recognizes(preset: PresetFiles) -> bool:
    return (preset.directory / WEIGHTS).is_file()


def open_checkpoint(preset: PresetFiles) -> Checkpoint:
    """Opens a preset. The gelu of a head is approximated here, unlike KerasHub's: logits differ by about 1e-3."""
    directory = preset.directory
    files.find(directory, CONFIG)
    preset.json(CONFIG, {"class_name": str})  # raises ValueError if another program wrote the file
    config = preset.parsed(CONFIG, config_of)
    open_files = {"": H5File(directory / WEIGHTS)}
    if (directory / TASK_WEIGHTS).is_file():
        open_files[_TASK] = H5File(directory / TASK_WEIGHTS)
    places = {f"{prefix}{name}": (file, name) for prefix, file in open_files.items() for name in file.names}
    file = JoinedFile(directory / WEIGHTS, places)
    # Keras numbers the layers of a class from the second one on: transformer_encoder, transformer_encoder_1, ...
    spellings = {
        name.replace("transformer_encoder/", "transformer_encoder_0/"): name
        for name in file.names
        if "/transformer_encoder/" in name
    }
    extras = _EXTRAS_OF_ELECTRA if config.family == "electra" else _EXTRAS
    return Checkpoint("keras_hub", config, file, TABLES[config.family], spellings, extras=extras)


def embedder_settings(preset: PresetFiles) -> dict[str, Any]:
    """Reads the settings of a `TextEmbedder`, as the fields of `sentence_transformers.Settings`; empty for others."""
    task = preset.json_if_there(TASK, {"class_name": str, "config": dict}) if recognizes(preset) else {}
    if not task.get("class_name", "").endswith("TextEmbedder"):
        return {}
    shape = {"pooling_mode": str, "normalize": bool, "preprocessor": ({"config": {"sequence_length": int}}, None)}
    path, values = preset.directory / TASK, task["config"]
    files.check_json(values, shape, path)
    pooling, normalize, texts = values["pooling_mode"], values["normalize"], values.get("preprocessor")
    check_choice(f"{path}: pooling_mode", pooling, POOLINGS)
    length = {"max_length": texts["config"]["sequence_length"]} if texts else {}
    return {"pooling": pooling, "normalize": normalize, "similarity": "cosine" if normalize else "dot", **length}


def config_of(values: dict[str, Any], source: Path) -> BertConfig:
    """Makes the configuration from the content of a preset's `config.json`, a serialized backbone."""
    files.check_json(values, {"class_name": str}, source)
    families = {f"{table.classes}Backbone": family for family, table in TABLES.items()}
    if values["class_name"] not in families:
        raise ValueError(f"{source}: class_name is {values['class_name']!r}; supported are {', '.join(families)}")
    family = families[values["class_name"]]
    values = files.with_whole_numbers(values, {"config": TABLES[family].shape})
    files.check_json(values, {"config": TABLES[family].shape}, source)
    return TABLES[family].config_of(family, values["config"], source)


def tokenizer_type(path: Path, content: dict[str, Any]) -> str | None:
    """Finds "WordPiece", "BPE" or "Unigram" in a `tokenizer.json`; None if KerasHub did not write it."""
    if "class_name" not in content or "model" in content:
        return None
    name = content["class_name"]
    if name == "AlbertTokenizer":
        raise ValueError(
            f"{path} holds KerasHub's AlbertTokenizer, which is not supported: it does not normalize text as ALBERT "
            f"does; to read it as ALBERT was trained, copy {ASSETS / 'vocabulary.spm'} to spiece.model beside that file"
        )
    if str(name) not in _TOKENIZERS:
        raise ValueError(f"{path} holds KerasHub's {name}; supported are {', '.join(_TOKENIZERS)}")
    return _TOKENIZERS[name]


def tokenizer_arguments(path: Path, content: dict[str, Any]) -> dict[str, Any] | None:
    """Reads the arguments of a tokenizer; None if KerasHub did not write the file."""
    kind = tokenizer_type(path, content)
    if kind is None:
        return None
    files.check_json(content, {"config": _SHAPES[kind]}, path)
    config = {key: value for key, value in content["config"].items() if value is not None}
    check_fixed_values(config, _FIXED_VALUES[kind], path)
    assets = path.parent / ASSETS
    if kind == "Unigram":
        return {"model_file": assets / "vocabulary.spm", "family": "xlm-roberta"}
    if kind == "BPE":
        others = sorted(set(config.get("unsplittable_tokens", ())) - _ROBERTA_TOKENS)
        if others:
            raise ValueError(f"{path} has unsplittable_tokens that are not RoBERTa's: {', '.join(others)}")
        return {
            "vocabulary": assets / "vocabulary.json",
            "merges": assets / "merges.txt",
            "add_prefix_space": config.get("add_prefix_space", False),
        }
    return {
        "vocabulary": assets / "vocabulary.txt",
        "lowercase": config.get("lowercase", False),
        "strip_accents": config.get("strip_accents", False),
        "split_on_cjk": config.get("split_on_cjk", True),
        "max_chars_per_word": 100,
        "special_tokens_in_text": config.get("special_tokens_in_strings", False),
        "unk_token": config.get("oov_token", "[UNK]"),
    }
