"""The files of sentence-transformers' SparseEncoder: SPLADE's pooling, the maximum length, and a table for queries.

`modules.json` names one of these chains of modules:

    Transformer or MLMTransformer, SpladePooling    the network, for queries and documents
    Router                                          these for documents; for queries SparseStaticEmbedding, a table

An unsupported option that would change a term's weight raises ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_bert import files
from keras_bert.choices import SPARSE_POOLINGS, check_choice
from keras_bert.formats.libraries import modules
from keras_bert.formats.libraries.modules import LENGTH, MODULES, PROMPTS, ROUTER, WEIGHTS, kind_of, read_options
from keras_bert.formats.row_translator import check_fixed_values, warn_of_unknown
from keras_bert.formats.tokenizers.tokenizer_json import ALL_IN_ONE, VOCABULARY
from keras_bert.formats.weight_files import write_safetensors
from keras_bert.presets import PresetFiles

QUERIES = "query_0_SparseStaticEmbedding"  # the folder of the table and its tokenizer
_ROUTED_POOLING = "document_1_SpladePooling/config.json"
ACTIVATIONS = ("relu", "log1p_relu")
_PACKAGE = "sentence_transformers.sparse_encoder.models"
_CHAINS = (["Transformer", "SpladePooling"], ["MLMTransformer", "SpladePooling"])
_ROUTER_SHAPE = {
    "types": {str: str},
    "structure": {"query": [str], "document": [str]},
    "parameters": ({"default_route": (str, None), "route_mappings": (dict, None)}, None),
}
_FIXED_ROUTER = {"default_route": "document", "route_mappings": {}}

KNOWN_POOLING = {  # keys of the pooling's file; the last three do not change a term's weight
    *("pooling_strategy", "activation_function"),
    *("embedding_dimension", "word_embedding_dimension", "chunk_size"),
}
_FIXED_SETTINGS = {"model_type": "SparseEncoder", "max_active_dims": None, "similarity_fn_name": "dot"}


class Settings(NamedTuple):
    """A preset's settings for sparse vectors."""

    is_declared: bool  # whether the files declare a SparseEncoder; if not, `pooling` and `activation` are the defaults
    max_length: int | None  # of a text, in tokens; None: no limit
    pooling: str = SPARSE_POOLINGS[0]
    activation: str = ACTIVATIONS[0]
    query_table: bool = False  # whether queries have a table in place of the network


def read(preset: PresetFiles) -> Settings:
    """Reads the settings of a preset."""
    length_file = preset.json_if_there(LENGTH, modules.LENGTH_SHAPE)
    max_length = modules.find_max_length(preset, preset.directory, length_file)
    folders = _read_modules(preset)
    if folders is None:
        return Settings(False, max_length)
    modules.check_other_kind(preset, "fill-mask", "token_embeddings", _FIXED_SETTINGS)
    if "SparseStaticEmbedding" in folders:
        _check_queries(preset, folders["SparseStaticEmbedding"])
    path = files.find(preset.home / folders["SpladePooling"], "config.json")
    shape = {"pooling_strategy": (str, None), "activation_function": (str, None)}
    pooling_settings = read_options(preset, path, shape, KNOWN_POOLING)
    pooling = pooling_settings.get("pooling_strategy") or SPARSE_POOLINGS[0]
    activation = pooling_settings.get("activation_function") or ACTIVATIONS[0]
    check_choice(f"{path}: pooling_strategy", pooling, SPARSE_POOLINGS)
    check_choice(f"{path}: activation_function", activation, ACTIVATIONS)
    return Settings(True, max_length, pooling, activation, query_table="SparseStaticEmbedding" in folders)


def read_query_weights(preset: PresetFiles, vocabulary_size: int) -> np.ndarray:
    """Reads the table for queries, float32 `[vocabulary_size]`: the weight of each token."""
    folder = preset.home / (_read_modules(preset) or {})["SparseStaticEmbedding"]
    path = files.find(folder, *WEIGHTS, advice="copy the file with the weights of queries there")
    with closing(WEIGHTS[path.name](path)) as file:
        shapes = {name: file.shape(name) for name in sorted(file.names)}
        if shapes != {"weight": (vocabulary_size,)}:
            raise ValueError(f"{path} has {shapes}; expected a weight for each of the {vocabulary_size} tokens")
        return np.asarray(file.read("weight"), np.float32)


def _read_modules(preset: PresetFiles) -> dict[str, str] | None:
    """Maps the kind of each module, but the Transformer, to its folder. None: the files declare no SparseEncoder."""
    found = preset.once(modules.read) or []
    kinds, folders = [kind for kind, _ in found], [folder for _, folder in found]
    if kinds == ["Router"] and folders == [""]:
        return _read_router(preset)
    if kinds in _CHAINS and not folders[0] and re.fullmatch(r"[\w-]+", folders[1]):
        return {"SpladePooling": folders[1]}
    if kinds in ([], ["Transformer"]) or any(kinds[: len(first)] == first for first in modules.FIRST):  # another kind
        return None
    raise ValueError(
        f"{preset.home / MODULES} asks for {', '.join(kinds)}; supported are Transformer or MLMTransformer, in the "
        "same directory, and SpladePooling, in a directory there; or a Router to these and, for queries, "
        "SparseStaticEmbedding"
    )


def _read_router(preset: PresetFiles) -> dict[str, str]:
    path = files.find(preset.home, ROUTER)
    values = read_options(preset, path, _ROUTER_SHAPE, _ROUTER_SHAPE)
    parameters = values.get("parameters") or {}
    check_fixed_values(parameters, _FIXED_ROUTER, path)
    warn_of_unknown(parameters, {*_FIXED_ROUTER, "allow_empty_key"}, path)
    routes = values["structure"]
    kinds = {name: [kind_of(values["types"].get(each, "")) for each in routes[name]] for name in routes}
    others = {name for route in routes.values() for name in route[1:]} | set(routes["query"])
    is_known = kinds.keys() == {"query", "document"} and kinds["query"] == ["SparseStaticEmbedding"]
    if not is_known or kinds["document"] not in _CHAINS or not all(re.fullmatch(r"[\w-]+", each) for each in others):
        chains = "; ".join(f"{name}: {', '.join(route)}" for name, route in kinds.items())
        raise ValueError(
            f"{path} asks for {chains}; supported are query: SparseStaticEmbedding, and document: Transformer or "
            "MLMTransformer, SpladePooling"
        )
    return {"SparseStaticEmbedding": routes["query"][0], "SpladePooling": routes["document"][1]}


def _check_queries(preset: PresetFiles, folder: str) -> None:
    """Raises ValueError if queries have a prompt, a tokenizer of their own, or no weights."""
    settings = preset.json_if_there(PROMPTS, {"prompts": ({str: (str, None)}, None)}, preset.home)
    if prompt := (settings.get("prompts") or {}).get("query"):
        raise ValueError(f"{preset.home / PROMPTS} puts {prompt!r} before queries; prompts are not supported")
    read_options(preset, preset.home / folder / "config.json", dict, {"frozen", "path"}, {"path": None})
    for name, read_file in ((ALL_IN_ONE, _without_lengths), (VOCABULARY, files.read_text)):
        paths = [each / name for each in (preset.home / folder, preset.directory)]
        if all(path.is_file() for path in paths) and read_file(paths[0]) != read_file(paths[1]):
            raise ValueError(f"{paths[0]} differs from {paths[1]}; queries and documents must have the same tokens")
    if not any((preset.home / folder / name).is_file() for name in WEIGHTS):
        raise ValueError(
            f"{preset.home / folder} has no {' or '.join(WEIGHTS)} with the weights of queries; copy the file there"
        )


def _without_lengths(path: Path) -> dict[str, Any]:
    """Reads a `tokenizer.json` without what its last use left there."""
    return {**files.read_json(path), "truncation": None, "padding": None}


def write(
    directory: Path, settings: Settings, config: object, weights: Mapping[str, np.ndarray], tokenizer: Any
) -> list[str]:
    """Writes the files by which `SparseEncoder(directory)` computes the same vectors. Returns their names."""
    query_weights = weights.get("query_weights")
    if query_weights is not None and tokenizer is not None:
        tokenizer.save_preset(directory / QUERIES, overwrite=True)
        if settings.max_length:
            modules.write_tokenizer_length(directory / QUERIES, settings.max_length)
    pooling = {"pooling_strategy": settings.pooling, "activation_function": settings.activation}
    kinds = ["MLMTransformer", "SpladePooling"]
    values: dict[str, object] = {
        LENGTH: {"max_seq_length": settings.max_length, "do_lower_case": False},
        PROMPTS: {
            "model_type": "SparseEncoder",
            "prompts": {},
            "default_prompt_name": None,
            "similarity_fn_name": "dot",
        },
    }
    if query_weights is None:
        values["SpladePooling"] = pooling
    else:
        kinds = ["Router"]
        routes = {"query": [QUERIES], "document": ["", "document_1_SpladePooling"]}
        names = [name for route in routes.values() for name in route]
        types = {name: f"{_PACKAGE}.{name.rpartition('_')[2] or 'MLMTransformer'}" for name in names}
        parameters = {"default_route": "document", "allow_empty_key": True}
        values[ROUTER] = {"types": types, "structure": routes, "parameters": parameters}
        values |= {_ROUTED_POOLING: pooling, f"{QUERIES}/config.json": {"frozen": True}}
        path = directory / QUERIES / "model.safetensors"
        write_safetensors(path, {"weight": query_weights.shape}, [("weight", query_weights)])
    written = modules.write(directory, [f"{_PACKAGE}.{kind}" for kind in kinds], values)
    return [*written, *([] if query_weights is None else [f"{QUERIES}/*"])]  # the tokenizer is there, too
