"""Small models for tests: one vocabulary, one configuration, one tokenizer per process.

A tokenizer is traced once for each kind of call, which takes longer than most tests: `tokenizer()` and
`preprocessor()` return the same object for the same settings. Encoders and tasks are made anew.

Files conftest.py import this module, which therefore imports Keras and TensorFlow only where it needs them.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import shutil
import string
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import load_file, save_file

import keras_bert
import keras_bert.text
from keras_bert import BertConfig, presets
from keras_bert.formats import write_config

from .data import ROOT
from .reference import bytepair

if TYPE_CHECKING:
    from keras_bert import BertEncoder, BertPreprocessor
    from keras_bert.text import BytePairTokenizer, WordPieceTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz", *"0123456789"]
WORDS = "the an and or of to in on is was it that this she he they we you not very good bad film movie plot time music "
WORDS += "actor story great dull warm cold like love hate see watch bank river money"
ENDINGS = "ing ed er est ly ful less ness ment able ion al ive"
VOCABULARY = [
    *SPECIAL,
    *"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    *LETTERS,
    *"日本語中文",
    *WORDS.split(),
    *(f"##{token}" for token in (*LETTERS, *ENDINGS.split())),
]
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY), hidden_size=32, num_layers=2, num_heads=4, intermediate_size=64, max_positions=48
)
TEXTS = [
    "The film was very good!",
    "",
    "Naïve plots, dull music & a cold river-bank (1987).",
    "日本語の映画は good 🙂",
    "She loved watching it\u200b; he hated the acting, the story, the music and not least the bad endings, 42 times.",
]


@functools.cache
def tokenizer(**settings: Any) -> WordPieceTokenizer:
    """The tokenizer of `VOCABULARY`."""
    return keras_bert.text.WordPieceTokenizer(VOCABULARY, **settings)


@functools.cache
def preprocessor(**settings: Any) -> BertPreprocessor:
    """By default with `tokenizer()`, and rows of up to 24 tokens, padded to the longest."""
    defaults = {"tokenizer": tokenizer(), "sequence_length": None, "max_sequence_length": 24}
    return keras_bert.BertPreprocessor(**{**defaults, **settings})


def encoder(seed: int = 0, scale: float = 0.3, **changes: Any) -> BertEncoder:
    """An encoder of `CONFIG` with `changes`, by default without dropout; no weight is zero or one.

    Args:
        seed: the seed of the weights.
        scale: standard deviation of the noise added to each weight.
        **changes: fields of `BertConfig`.
    """
    import keras

    keras.utils.set_random_seed(seed)
    made = keras_bert.BertEncoder(dataclasses.replace(CONFIG, hidden_dropout=0.0, attention_dropout=0.0, **changes))
    return shaken(made, seed, scale)


def task(kind: type, *arguments: Any, seed: int = 0, scale: float = 0.3, **settings: Any) -> Any:
    """A model of a task on the small encoder, without dropout.

    Args:
        kind: the class, `BertClassifier` for instance.
        *arguments: its arguments after encoder and preprocessor, labels for instance.
        seed: the seed of the weights.
        scale: standard deviation of the noise added to each weight.
        **settings: arguments of the class; `text`, settings of `preprocessor()`; `config`, fields of `BertConfig`.
    """
    import keras

    text, config = settings.pop("text", {}), settings.pop("config", {})
    keras.utils.set_random_seed(seed)
    ours = preprocessor(**text)
    config = {"vocab_size": ours.tokenizer.vocabulary_size, "hidden_dropout": 0.0, "attention_dropout": 0.0, **config}
    encoder = keras_bert.BertEncoder(dataclasses.replace(CONFIG, **config))
    model = kind(encoder, ours, *arguments, **{"dropout": 0.0, **settings})
    return shaken(model, seed, scale)


def shaken(model: Any, seed: int = 0, scale: float = 0.3) -> Any:
    """The model, with normal noise on each weight, so that a missing weight shows."""
    generator = np.random.default_rng(seed)
    model.set_weights([weight + generator.normal(0, scale, weight.shape) for weight in model.get_weights()])
    return model


def same(one: Any, other: Any) -> bool:
    """Whether two models compute the same from the same texts: their configurations and weights are equal."""
    return _without_names(one.get_config()) == _without_names(other.get_config()) and all(
        np.array_equal(*pair) for pair in zip(one.get_weights(), other.get_weights(), strict=True)
    )


def _without_names(config: Any) -> Any:
    """The configuration without a model's history: names, which Keras numbers, and the shapes of its first call."""
    if isinstance(config, dict):
        return {key: _without_names(each) for key, each in config.items() if key not in ("name", "build_config")}
    return config


def byte_pairs(merges: list[tuple[str, str]], **settings: Any) -> BytePairTokenizer:
    """RoBERTa's kind of tokenizer, with the tokens that `merges` (from `reference.bytepair.train`) make."""
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokens += [*bytepair.SYMBOLS.values(), *dict.fromkeys(a + b for a, b in merges)]
    return keras_bert.text.BytePairTokenizer(tokens, merges, **settings)


ADDED_TOKENS = ["   ", "  ", "[unused0]", "[unused01]", "|||", "né"]


def modern_byte_pairs(merges: list[tuple[str, str]], **settings: Any) -> BytePairTokenizer:
    """ModernBERT's kind of tokenizer, with `ADDED_TOKENS` at the end."""
    tokens = [*bytepair.SYMBOLS.values(), *dict.fromkeys(a + b for a, b in merges), "<|end|>", *SPECIAL, *ADDED_TOKENS]
    for byte in (0xC0, 0xFF):  # never in UTF-8: such vocabularies lack them
        tokens.remove(bytepair.SYMBOLS[byte])
    arguments = {f"{token[1:-1].lower()}_token": token for token in SPECIAL}
    arguments |= {"more_special_tokens": ["<|end|>"], "added_tokens": ADDED_TOKENS, "normalization": "NFC"}
    return keras_bert.text.BytePairTokenizer(
        tokens, merges, **arguments | {"separators": 1, "second_type_id": 0} | settings
    )


def weights() -> dict[str, np.ndarray]:
    """Hugging Face's names -> float32 arrays; no weight is zero or one, so that a missing weight shows."""
    generator = np.random.default_rng(0)
    size, inner = CONFIG.hidden_size, CONFIG.intermediate_size
    values = {}

    def draw(name, *shape, around=0.0):
        values[name] = generator.normal(around, 0.3, shape).astype(np.float32)

    def dense(name, inputs, outputs):
        draw(f"{name}.weight", outputs, inputs)
        draw(f"{name}.bias", outputs)

    def norm(name):
        draw(f"{name}.weight", size, around=1.0)
        draw(f"{name}.bias", size)

    for table, rows in (("word", CONFIG.vocab_size), ("position", CONFIG.max_positions), ("token_type", 2)):
        draw(f"embeddings.{table}_embeddings.weight", rows, size)
    norm("embeddings.LayerNorm")
    for i in range(CONFIG.num_layers):
        layer = f"encoder.layer.{i}"
        for part in ("query", "key", "value"):
            dense(f"{layer}.attention.self.{part}", size, size)
        dense(f"{layer}.attention.output.dense", size, size)
        norm(f"{layer}.attention.output.LayerNorm")
        dense(f"{layer}.intermediate.dense", size, inner)
        dense(f"{layer}.output.dense", inner, size)
        norm(f"{layer}.output.LayerNorm")
    dense("pooler.dense", size, size)
    dense("cls.predictions.transform.dense", size, size)
    norm("cls.predictions.transform.LayerNorm")
    draw("cls.predictions.bias", CONFIG.vocab_size)
    return values


def _written(path: Path) -> str:
    """The text of a file; of a notebook only what was written, not its outputs."""
    text = path.read_text("utf-8", errors="ignore")
    if path.suffix != ".ipynb":
        return text
    return " ".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def write_minilm_of_pages(directory: Path, layers: Sequence[int] = (0, 5)) -> Path:
    """Writes all-MiniLM-L6-v2 with only some layers, and the tokens that pages and examples use.

    It still learns their tasks; a fifth of the weights makes training, exports and files of runs cheap. With all six
    layers, half of the weights, it gives the numbers of the whole model.

    Returns:
        The directory.
    """
    real = presets.resolve("all-MiniLM-L6-v2")
    directory.mkdir(exist_ok=True)
    paths = [path for place in ("*.md", "docs/**/*.md", "examples/**/*.*") for path in ROOT.glob(place)]
    text = " ".join(map(_written, paths)).lower() + string.printable
    vocabulary = (real / "vocab.txt").read_text("utf-8").split("\n")[:-1]
    longest = max(map(len, vocabulary))
    parts = {
        word[start : start + length]
        for word in set(re.findall(r"\w+|[^\w\s]", text))
        for start in range(len(word))
        for length in range(1, longest + 1)
    }
    rows = [row for row, token in enumerate(vocabulary) if token in SPECIAL or token.removeprefix("##") in parts]
    config = json.loads((real / "config.json").read_text())
    config |= {"num_hidden_layers": len(layers), "vocab_size": len(rows)}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "vocab.txt").write_text("".join(f"{vocabulary[row]}\n" for row in rows), "utf-8")
    tensors = {}
    for name, value in load_file(real / "model.safetensors").items():
        layer = re.match(r"encoder\.layer\.(\d)\.", name)
        if layer is None:
            tensors[name] = value[rows] if "word_embeddings" in name else value
        elif int(layer[1]) in layers:
            tensors[f"encoder.layer.{layers.index(int(layer[1]))}.{name[layer.end() :]}"] = value
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    others = ("tokenizer.json", "special_tokens_map.json", "README.md")  # of the whole vocabulary, or not needed
    left = {*others, *(path.name for path in directory.iterdir())}
    shutil.copytree(real, directory, ignore=lambda folder, _: left if Path(folder) == real else (), dirs_exist_ok=True)
    assert json.loads((directory / "config.json").read_text()) == config  # nothing of the whole model lies over it
    return directory


def write_preset(directory: Path) -> Path:
    """Writes the model in Hugging Face's format. Returns the directory."""
    save_file(weights(), directory / "model.safetensors", metadata={"format": "pt"})
    write_config(directory / "config.json", CONFIG)
    (directory / "vocab.txt").write_text("".join(token + "\n" for token in VOCABULARY), encoding="utf-8")
    return directory
