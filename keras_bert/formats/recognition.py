"""Recognizes what a path is, ours or not, by the names of files and by first bytes. It opens no more than that."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from keras_bert import files
from keras_bert.checkpoint_table import CHECKPOINT_FORMATS, CONFIGS, SHARDS, WEIGHTS
from keras_bert.data import file_kinds
from keras_bert.data.file_kinds import ARCHIVE, NO_DATA, OTHER_RUNTIME, PART, UNPACK, Kind, begins
from keras_bert.data.table_formats import kind_of
from keras_bert.formats import model_files
from keras_bert.runtime_table import RUNTIMES


class Look(file_kinds.Look):
    """A directory, or a file with its first bytes."""

    def has(self, *patterns: str) -> bool:
        """Whether a directory has a file for each pattern."""
        return all(next(self.path.glob(pattern), None) is not None for pattern in patterns)

    @property
    def has_weights(self) -> bool:
        """Whether a directory has weights as transformers writes them."""
        return any(map(self.has, (*WEIGHTS, *SHARDS)))

    @cached_property
    def config(self) -> dict[str, object]:
        try:
            values = json.loads(files.read_whole(self.path / "config.json"))
        except (OSError, ValueError, RecursionError):
            return {}
        return values if isinstance(values, dict) else {}


def _has(*patterns: str) -> Callable[[Look], bool]:
    return lambda look: look.has(*patterns)


def _any_of(*patterns: str) -> Callable[[Look], bool]:
    return lambda look: any(map(look.has, patterns))


def _exported(file: str) -> Callable[[Look], bool]:
    """Recognizes an export of this package: it has a configuration, but no weights beside."""
    models = CHECKPOINT_FORMATS.values()
    return lambda look: look.has("config.json", file) and not any(each.recognizes(look) for each in models)


def _named(*patterns: str) -> Callable[[Look], bool]:
    return lambda look: any(map(look.path.match, patterns))


# Word -> what is recognized of a format of checkpoints. Of two that share a word, the weights' names tell more.
CHECKPOINTS = {
    word: Kind(word, title, each.recognizes)
    for name, each in CHECKPOINT_FORMATS.items()
    for word, title in [each.kind or (name, each.title)]
}
# The first that recognizes a path is what it is.
DIRECTORIES = (
    Kind(
        "run",
        "a training run",
        _has(f"{files.RUN}/state.safetensors"),
        "it is unfinished; resume it with the command that began it, and the same --output",
    ),
    Kind("index", "an index of texts", _any_of("index.db", "vectors-*.faiss")),
    Kind("records", "examples to pre-train on", _has("records.json")),
    Kind(
        "hub_module",
        "a TF1 Hub module",
        _has("tfhub_module.pb"),
        "its format ended with TensorFlow 1: take the version of the model that is a TF2 SavedModel, or Google's "
        "checkpoint",
    ),
    *(Kind(each.name, f"an export for {each.title}", _exported(each.file)) for each in RUNTIMES.values()),
    Kind(
        "adapter",
        "a PEFT adapter (LoRA or the like) without its base model",
        _has("adapter_config.json"),
        "merge it where peft is installed: AutoPeftModel....from_pretrained(...).merge_and_unload()"
        ".save_pretrained(...) writes a whole model",
    ),
    Kind("sentence_transformers", "a model of sentence-transformers", _has("modules.json")),
    Kind("part", "the variables of a SavedModel", _has("variables.index"), PART),
    *CHECKPOINTS.values(),
    Kind(
        "flax",
        "a model of transformers for JAX (Flax)",
        _has("flax_model*.msgpack"),
        "where transformers 4, flax and torch are installed, AutoModel.from_pretrained(directory, from_flax=True)"
        ".save_pretrained(new) writes model.safetensors",
    ),
    Kind(
        "versions",
        "versions of a SavedModel, as TF Serving loads them",
        _any_of("[0-9]*/saved_model.pb", "saved_model/[0-9]*/saved_model.pb"),
    ),
    Kind(
        "values",
        "a checkpoint of TensorFlow without its index",
        _has("*.data-[0-9]*-of-[0-9]*"),
        "copy the file that ends in .index there",
    ),
    Kind("other", "a model for llama.cpp (GGUF)", _has("*.gguf"), OTHER_RUNTIME),
    *(Kind("other", f"a model for {x.title}", _any_of(*x.in_directory), OTHER_RUNTIME) for x in RUNTIMES.values()),
    Kind(
        "configuration",
        "a configuration without weights",
        _any_of(*CONFIGS),
        "copy the model's weights there",
    ),
    Kind("tokenizer", "a tokenizer without a model", _any_of(*model_files.VOCABULARIES, "assets/tokenizer/*")),
    Kind(
        "directory",
        "texts, queries, and which answers which, as of BEIR",
        _has("corpus.jsonl", "queries.jsonl"),
        "measure a search with it: keras-bert evaluate MODEL DIRECTORY",
    ),
    Kind("empty", "an empty directory", lambda look: not any(look.path.iterdir()), "copy the files of a model there"),
    Kind("directory", "a directory that is no model", lambda look: True),
)
FILES = (
    Kind("part", "a Git LFS pointer, not the file", begins(files.POINTER), "run `git lfs pull` in the clone"),
    Kind("part", "a part of a TensorFlow checkpoint", _named("*.index", "*.data-[0-9]*"), PART),
    Kind("data", "a table", lambda look: (kind := kind_of(look.path)).has_magic and kind.is_table),
    *NO_DATA,
    *(Kind("other", f"a model for {each.title}", _named(*each.named), OTHER_RUNTIME) for each in RUNTIMES.values()),
    Kind("part", "the graph of a SavedModel", _named("*saved_model.pb"), PART),
    Kind("part", "weights of Flax", _named("*.msgpack"), PART),
    Kind("other", "a graph of TensorFlow, or another protocol buffer", _named("*.pb"), OTHER_RUNTIME),
    Kind("part", "a file of a tokenizer", _named(*model_files.TOKENIZER), PART),
    Kind("part", "a configuration", _named("*config.json"), PART),
    Kind("data", "texts, a table or examples", lambda look: kind_of(look.path).name != "unknown"),
    Kind("unknown", "an empty file", lambda look: not look.raw),
    Kind(*ARCHIVE, lambda look: look.raw != look.beginning, UNPACK),
    Kind("unknown", "a file that is not known here", lambda look: True),
)


def recognize(path: Path) -> Kind:
    """Finds what a path is. Raises OSError if it cannot be read."""
    if not path.is_dir() and not path.is_file():  # a pipe would never end
        return Kind("special", "neither a file nor a directory", lambda look: True)
    look = Look(path)
    found = next(kind for kind in (DIRECTORIES if path.is_dir() else FILES) if kind.recognizes(look))
    return found._replace(title=kind_of(path).title) if found.name == "data" else found


def missing_error(directory: Path, *names: str, advice: str) -> FileNotFoundError:
    """Makes the error for a directory without any of `names`: what it holds, what it is, and what would help."""
    kind = recognize(directory)
    what = [] if kind.name in ("directory", "empty") else [f"it is {kind.title}"]
    return files.missing_error(directory, *names, advice="; ".join([*what, kind.advice or advice]))
