"""The settings files of sentence-transformers' SparseEncoder: SPLADE's pooling, and the maximum length.

An unsupported option that would change a term's weight raises ValueError.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from keras_bert import files
from keras_bert.formats.family_table import check_fixed_values, warn_of_unknown
from keras_bert.formats.hugging_face_tokenizers import CONFIG as TOKENIZER
from keras_bert.formats.sentence_transformers import (
    KNOWN,
    LENGTH,
    MODULES,
    PROMPTS,
    check_default_prompt,
    find_max_length,
    fixed_transformer,
)

if TYPE_CHECKING:
    from keras_bert.formats.preset import Preset

_POOLING = "1_SpladePooling/config.json"
FILES = (MODULES, _POOLING, LENGTH, PROMPTS)
POOLINGS, ACTIVATIONS = ("max", "sum"), ("relu", "log1p_relu")
_PACKAGE = "sentence_transformers.sparse_encoder.models"

KNOWN_POOLING = {  # keys of the pooling's file; the last three do not change a term's weight
    *("pooling_strategy", "activation_function"),
    *("embedding_dimension", "word_embedding_dimension", "chunk_size"),
}
_FIXED_TRANSFORMER = fixed_transformer("fill-mask", "token_embeddings")
_FIXED_SETTINGS = {"model_type": "SparseEncoder", "max_active_dims": None, "similarity_fn_name": "dot"}


@dataclass(frozen=True)
class SparseSettings:
    """A preset's settings for sparse vectors.

    Attributes:
        is_declared: whether the files declare a SparseEncoder; if not, `pooling` and `activation` are the defaults.
        max_length: the maximum length of a text, in tokens; None: no limit.
        pooling: one of `POOLINGS`.
        activation: one of `ACTIVATIONS`.
    """

    is_declared: bool
    max_length: int | None
    pooling: str = "max"
    activation: str = "relu"


def read(preset: Preset) -> SparseSettings:
    """Reads the settings of a preset.

    Raises:
        ValueError: a setting is not supported, or a value has another type.
    """
    directory = preset.directory
    length = preset.json_if_there(LENGTH, {"max_seq_length": (int, None)})
    tokenizer = preset.json_if_there(TOKENIZER, {"model_max_length": (float, None)})
    max_length = find_max_length(directory, length, tokenizer)
    modules = preset.json_if_there(MODULES, [{"type": str, "path": str}])
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    if "SpladePooling" not in kinds:
        return SparseSettings(False, max_length)
    is_known = kinds in (["Transformer", "SpladePooling"], ["MLMTransformer", "SpladePooling"])
    if not is_known or modules[0]["path"] or not re.fullmatch(r"[\w-]+", modules[1]["path"]):
        raise ValueError(
            f"{directory / MODULES} asks for {', '.join(kinds)}; supported are Transformer or MLMTransformer, in the "
            "same directory, and SpladePooling, in a directory there"
        )
    check_fixed_values(length, _FIXED_TRANSFORMER, directory / LENGTH)
    settings = preset.json_if_there(PROMPTS, {"default_prompt_name": (str, None)})
    check_fixed_values(settings, _FIXED_SETTINGS, directory / PROMPTS)
    check_default_prompt(settings, directory / PROMPTS)
    warn_of_unknown(settings, KNOWN[PROMPTS], directory / PROMPTS)
    warn_of_unknown(length, KNOWN[LENGTH], directory / LENGTH)
    name = f"{modules[1]['path']}/config.json"
    path = directory / name
    pooling_settings = preset.json(name, {"pooling_strategy": (str, None), "activation_function": (str, None)})
    warn_of_unknown(pooling_settings, KNOWN_POOLING, path)
    options = {}
    for field, key, known in (
        ("pooling", "pooling_strategy", POOLINGS),
        ("activation", "activation_function", ACTIVATIONS),
    ):
        options[field] = pooling_settings.get(key) or known[0]
        if options[field] not in known:
            raise ValueError(f"{path}: {key} is {options[field]!r}; supported are {' and '.join(known)}")
    return SparseSettings(True, max_length, **options)


def write(directory: Path, settings: SparseSettings, overwrite: bool = False) -> None:
    """Writes the settings files, so that `SparseEncoder(directory)` computes the same vectors.

    Raises:
        FileExistsError: one of the files exists, and `overwrite` is False.
    """
    files.refuse_to_overwrite(directory, FILES, overwrite)
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"{_PACKAGE}.{kind}"}
        for i, (kind, path) in enumerate({"MLMTransformer": "", "SpladePooling": "1_SpladePooling"}.items())
    ]
    values: dict[str, object] = {
        MODULES: modules,
        _POOLING: {"pooling_strategy": settings.pooling, "activation_function": settings.activation},
        LENGTH: {"max_seq_length": settings.max_length, "do_lower_case": False},
        PROMPTS: {
            "model_type": "SparseEncoder",
            "prompts": {},
            "default_prompt_name": None,
            "similarity_fn_name": "dot",
        },
    }
    files.write_texts(directory, {name: files.to_json(value) for name, value in values.items()})
