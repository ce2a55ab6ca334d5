"""The files of a model in a directory, in every format: which of them a new model replaces or removes.

A new model must not leave files of the previous model behind. A program that prefers `tokenizer.json` to `vocab.txt`,
or follows an old `modules.json` or index of shards, would mix two models. Files with other names, such as notes,
belong to the user and stay.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from keras_bert import files
from keras_bert.checkpoint_table import CHECKPOINT_FORMATS, CONFIGS, config_format
from keras_bert.formats.families import SENTENCEPIECE_FILES
from keras_bert.runtime_table import RUNTIMES

# Patterns of paths in a model's directory; * does not match a slash.
VOCABULARIES = ("vocab.txt", "vocab.json", *SENTENCEPIECE_FILES, "tokenizer.json")
TOKENIZER = (
    *VOCABULARIES,
    "merges.txt",
    "tokenizer_config.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "assets/tokenizer/vocabulary.*",  # KerasHub's
    "assets/tokenizer/merges.txt",
)
INT8_RANGES = "int8_ranges.safetensors"
CRF = "crf.safetensors"  # the scores of transitions: `transformers` would warn of them in its own file
PARTS = "parts.safetensors"  # in an export: the weights of parts that its graph does not compute with
OWN = (INT8_RANGES, CRF, PARTS)  # of this package only
# Files that a task adds to weights and configuration: sentence-transformers' and this package's.
SETTINGS = (
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_*_config.json",
    "[0-9]_*/config.json",
    "[0-9]_*/model.safetensors",
    "[0-9]_*/pytorch_model.bin",
    "router_config.json",
    "artifact.metadata",
    "query_0_SparseStaticEmbedding/*",
    "document_1_SpladePooling/config.json",
    "document_0_*Transformer/*",
    *OWN,
)
# Weights and configuration, in any format.
MODEL = (
    *dict.fromkeys(pattern for each in CHECKPOINT_FORMATS.values() for pattern in each.files),
    *(pattern for runtime in RUNTIMES.values() for pattern in runtime.files),
)


@contextmanager
def replacing(directory: Path, patterns: Collection[str], written: Collection[str], overwrite: bool) -> Iterator[None]:
    """Removes files that match `patterns`, but not `written`, after a block that writes a model."""
    existing = present(directory, patterns)
    files.refuse_to_overwrite(directory, existing, overwrite)
    yield
    for name in existing:
        if not matches(name, written):
            (directory / name).unlink(missing_ok=True)
    folders = {(directory / name).parent for name in existing} | {*directory.glob("[0-9]_Normalize")}
    for folder in folders - {directory, *(directory / name for name in written)}:
        with suppress(OSError):  # the folder holds other files
            folder.rmdir()


def present(directory: Path, patterns: Collection[str]) -> list[str]:
    """Lists the paths of files in a directory that match one of the patterns, in the order of the patterns."""
    more = _files_beside_config(directory) if set(MODEL) <= set(patterns) else ()
    paths = (path for pattern in (*patterns, *more) for path in sorted(directory.glob(pattern)) if not path.is_dir())
    return [*dict.fromkeys(str(path.relative_to(directory)) for path in paths)]


def matches(name: str, patterns: Collection[str]) -> bool:
    """Checks whether a path in a directory matches one of the patterns."""
    return any(name.count("/") == each.count("/") and fnmatch.fnmatchcase(name, each) for each in patterns)


def _files_beside_config(directory: Path) -> tuple[str, ...]:
    """Lists patterns of files that belong to a model because of the configuration beside them."""
    for name in CONFIGS:
        with suppress(OSError, ValueError, TypeError):
            row = CHECKPOINT_FORMATS[config_format(name, json.loads(files.read_whole(directory / name)))]
            if row.files_beside_config:
                return row.files_beside_config
    return ()
