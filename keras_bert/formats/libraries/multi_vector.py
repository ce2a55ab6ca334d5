"""The files of late interaction: sentence-transformers' MultiVectorEncoder, PyLate's and Stanford's ColBERT.

    MultiVectorEncoder   `modules.json`: Transformer, Dense modules, MultiVectorMask, Normalize, and maybe
                         HierarchicalTokenPooling
    PyLate               `modules.json`: Transformer, Dense modules; the rest in `config_sentence_transformers.json`
    Stanford             `linear.weight` beside BERT's weights, and `artifact.metadata`

An unsupported option that would change a vector raises ValueError. Models are written as MultiVectorEncoder's.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_bert import files
from keras_bert.choices import check_choice
from keras_bert.formats.hugging_face import COLBERT, CONFIG
from keras_bert.formats.libraries import modules
from keras_bert.formats.libraries.modules import LENGTH, MODULES, PROMPTS, WEIGHTS, read_options
from keras_bert.presets import PresetFiles

STANFORD = "artifact.metadata"
PYLATE = "ColBERT"  # its model_type
_TYPES = ("MultiVectorEncoder", PYLATE)
_SIMILARITIES = {"maxsim": False, "meanmaxsim": True}
_CHAIN = re.compile(
    r"Transformer(,Dense)*((,MultiVectorMask)(,Normalize)?|(,Normalize)(,MultiVectorMask))?(,HierarchicalTokenPooling)?"
)
_EXPANSION = {"strategy": str, "attend": (bool, None), "token": (str, None), "length": int}
_TRANSFORMER = {"query_length": (int, None), "document_length": (int, None), "query_expansion": (_EXPANSION, None)}
_PYLATE = {
    **dict.fromkeys(("query_length", "document_length"), (int, None)),
    **dict.fromkeys(("query_prefix", "document_prefix"), (str, None)),
    **dict.fromkeys(("do_query_expansion", "attend_to_expansion_tokens"), (bool, None)),
    "skiplist_words": ([str], None),
}
_MODEL = {
    **_PYLATE,
    "model_type": (str, None),
    "similarity_fn_name": (str, None),
    "prompts": ({str: (str, None)}, None),
}
_FIXED_MODEL = {"default_prompt_name": None, "truncate_dim": None}
_ON_TOKENS = {"module_input_name": "token_embeddings", "module_output_name": "token_embeddings"}
_MASK = {"skiplist_words": ([str], None), "skiplist_tasks": ([str], None), "keep_only_token_ids": ([int], None)}
_POOLING = {
    "pool_factor": float,
    "num_protected_tokens": int,
    "normalize_embeddings": (bool, None),
    "tasks": ([str], None),
}
# sentence-transformers' package of a kind of module, else "base".
_PACKAGES: dict[str, str] = dict.fromkeys(("MultiVectorMask", "HierarchicalTokenPooling"), "multi_vector_encoder")
_FIXED_TASKS = ["document"]
_METADATA = {
    **dict.fromkeys(("query_token_id", "doc_token_id"), (str, None)),
    **dict.fromkeys(("query_maxlen", "doc_maxlen"), (int, None)),
    **dict.fromkeys(("attend_to_mask_tokens", "mask_punctuation"), (bool, None)),
}
_QUERY_LENGTH = 32  # ColBERT's, where files do not say


class Settings(NamedTuple):
    """A preset's settings for vectors of tokens; `BertMultiVectorEncoder` explains them."""

    is_declared: bool  # whether the files are of such a model; if not, these are the defaults
    max_length: int | None  # of a document, in tokens; None: no limit
    dense: list[dict[str, Any]] | None = None
    normalize: bool = True
    prompts: Mapping[str, str] = {}
    query_length: int | None = None
    query_expansion: dict[str, Any] | None = None
    skipped_tokens: list[str] | None = None
    token_pooling: dict[str, Any] | None = None
    mean_maxsim: bool = False


def read(preset: PresetFiles) -> Settings:
    """Reads the settings of a preset."""
    model = preset.json_if_there(PROMPTS, {"model_type": (str, None)}, preset.home)
    architectures = preset.json_if_there(CONFIG, {"architectures": ([str], None)}).get("architectures")
    if model.get("model_type") in _TYPES or "query_prefix" in model:
        return _read_modules(preset)
    if COLBERT in (architectures or ()) and not preset.has(MODULES, preset.home):
        return _read_stanford(preset)
    return Settings(False, None)


def read_weights(preset: PresetFiles) -> dict[str, np.ndarray]:
    """Reads the layers after the encoder: `kernel_0`, maybe `bias_0` and `residual_0`, `kernel_1`, ..."""
    if not preset.has(MODULES, preset.home):
        return {"kernel_0": _read_linear(preset).T}
    folders = [preset.home / folder for kind, folder in _modules_of(preset) if kind == "Dense"]
    layers = [modules.weights_of_dense(preset, folder) for folder in folders]
    return {f"{name}_{number}": each for number, layer in enumerate(layers) for name, each in layer.items()}


def _read_modules(preset: PresetFiles) -> Settings:
    path = preset.home / PROMPTS
    known = {*modules.KNOWN_OF_MODEL, *_PYLATE}
    model = read_options(preset, path, _MODEL, known, _FIXED_MODEL)
    folders: dict[str, Path] = {kind: preset.home / folder for kind, folder in _modules_of(preset)}
    max_length = modules.read_transformer(preset, _TRANSFORMER)
    transformer = preset.json_if_there(modules.transformer_file(preset).name, _TRANSFORMER)
    is_pylate = "MultiVectorMask" not in folders
    if "Normalize" in folders:
        read_options(preset, folders["Normalize"] / CONFIG, dict, _ON_TOKENS, _ON_TOKENS)
    dense = [_read_dense(preset, preset.home / each) for kind, each in _modules_of(preset) if kind == "Dense"]
    similarity = model.get("similarity_fn_name") or "maxsim"
    if is_pylate and similarity not in _SIMILARITIES:  # PyLate's name, or that of the model it began from
        similarity = "maxsim"
    check_choice(f"{path}: similarity_fn_name", similarity, _SIMILARITIES)
    expansion = _expansion_of(model, transformer)
    document_length = transformer.get("document_length") or model.get("document_length") or max_length
    query_length = transformer.get("query_length") or model.get("query_length")
    if expansion is not None:
        name = f"{modules.transformer_file(preset)}: the strategy of query_expansion"
        check_choice(name, expansion["strategy"], ("fixed", "min"))
        length = expansion["length"]
        query_length = length if expansion["strategy"] == "fixed" else query_length and max(query_length, length)
        expansion = {"length": length, "attend": bool(expansion.get("attend")), "token": expansion.get("token")}
    return Settings(
        True,
        document_length,
        dense,
        is_pylate or "Normalize" in folders,
        _prompts_of(model),
        query_length or (max_length if max_length != document_length else None),
        expansion,
        _read_skipped(preset, model, folders),
        _read_pooling(preset, folders),
        _SIMILARITIES[similarity],
    )


def _modules_of(preset: PresetFiles) -> list[tuple[str, str]]:
    """Lists the kind and the folder of each module."""
    found = preset.once(modules.read) or []
    if not _CHAIN.fullmatch(",".join(kind for kind, _ in found)):
        raise ValueError(
            f"{preset.home / MODULES} asks for {', '.join(kind for kind, _ in found) or 'nothing'}; supported are "
            "Transformer, any number of Dense, MultiVectorMask, Normalize and HierarchicalTokenPooling, in this order"
        )
    return found


def _read_dense(preset: PresetFiles, folder: Path) -> dict[str, Any]:
    use_residual = bool(preset.json(CONFIG, {"use_residual": (bool, None)}, folder).get("use_residual"))
    return {**modules.read_dense(preset, folder, _ON_TOKENS), "use_residual": use_residual}


def _expansion_of(model: Mapping[str, Any], transformer: Mapping[str, Any]) -> dict[str, Any] | None:
    """Finds the query expansion: that of the Transformer, else PyLate's, which is on if it is not off."""
    if "query_expansion" in transformer:
        return transformer["query_expansion"]
    if not model.keys() & _PYLATE.keys() or model.get("do_query_expansion") is False:
        return None
    attend, length = model.get("attend_to_expansion_tokens"), model.get("query_length") or _QUERY_LENGTH
    return {"strategy": "fixed", "attend": bool(attend), "length": length}


def _prompts_of(model: Mapping[str, Any]) -> dict[str, str]:
    """Joins the prompts of queries and documents with PyLate's prefixes, which stand before them."""
    prompts = {name: prompt or "" for name, prompt in (model.get("prompts") or {}).items()}
    document = next((name for name in ("document", "passage", "corpus") if name in prompts), "document")
    found = {"query": prompts.get("query", ""), "document": prompts.get(document, "")}
    for kind, prompt in found.items():
        prefix = model.get(f"{kind}_prefix") or ""
        found[kind] = prefix + prompt.removeprefix(prefix)
    return found


def _read_skipped(preset: PresetFiles, model: Mapping[str, Any], folders: Mapping[str, Path]) -> list[str]:
    if "MultiVectorMask" not in folders:
        words = model.get("skiplist_words")
        return list(string.punctuation) if words is None else words
    path = folders["MultiVectorMask"] / CONFIG
    values = read_options(preset, path, _MASK, _MASK, {"keep_only_token_ids": None, "skiplist_tasks": _FIXED_TASKS})
    return values.get("skiplist_words") or []


def _read_pooling(preset: PresetFiles, folders: Mapping[str, Path]) -> dict[str, Any] | None:
    if "HierarchicalTokenPooling" not in folders:
        return None
    path = folders["HierarchicalTokenPooling"] / CONFIG
    values = read_options(preset, path, _POOLING, _POOLING, {"tasks": _FIXED_TASKS})
    normalize = bool(values.get("normalize_embeddings"))  # files of before that option: no
    return {"factor": values["pool_factor"], "protected": values["num_protected_tokens"], "normalize": normalize}


def _read_stanford(preset: PresetFiles) -> Settings:
    metadata = preset.json_if_there(STANFORD, _METADATA)
    length = metadata.get("query_maxlen") or _QUERY_LENGTH
    units = len(_read_linear(preset))
    return Settings(
        True,
        metadata.get("doc_maxlen") or modules.read_transformer(preset),
        [{"units": units, "activation": "linear", "use_bias": False, "use_residual": False}],
        prompts={
            "query": f"{metadata.get('query_token_id') or '[unused0]'} ",
            "document": f"{metadata.get('doc_token_id') or '[unused1]'} ",
        },
        query_length=length,
        query_expansion={"length": length, "attend": bool(metadata.get("attend_to_mask_tokens")), "token": None},
        skipped_tokens=[] if metadata.get("mask_punctuation") is False else list(string.punctuation),
    )


def _read_linear(preset: PresetFiles) -> np.ndarray:
    """Reads the projection of Stanford's ColBERT, float32 `[units, hidden]`."""
    path = files.find(preset.directory, *WEIGHTS)
    with closing(WEIGHTS[path.name](path)) as file:
        if "linear.weight" not in file.names or len(file.shape("linear.weight")) != 2:
            raise ValueError(f"{path} has no linear.weight, the projection of a {COLBERT}; copy the whole file there")
        return file.read("linear.weight")


def marker_of(prompt: str, tokenizer: Any) -> str:
    """Finds the token of the vocabulary with which a prompt begins, such as "[Q] " or "[unused0]"; "": with text."""
    # In texts, such a token may be text: it is not found there. `tokenizer` is one, or a preprocessor.
    tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
    first = prompt.split(None, 1)[0] if prompt.strip() and not prompt[0].isspace() else ""
    for token in filter(None, (prompt, f"{first} ", first)):
        if prompt.startswith(token) and token in tokenizer.vocabulary:
            ids = np.asarray(tokenizer.tokenize([token])[0]).tolist()
            return token if len(ids) != 1 or ids[0] == tokenizer.vocabulary.index(token) else ""
    return ""


def checked_dense(dense: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Checks the layers between hidden states and vectors, and returns them with their defaults."""
    layers = []
    for layer in dense:
        values = {"units": None, "activation": "linear", "use_bias": False, "use_residual": False, **layer}
        if len(values) > 4 or not isinstance(values["units"], int) or values["units"] < 1:
            raise ValueError(
                f"dense has {layer!r:.80}; expected a dict of units, activation, use_bias and use_residual"
            )
        check_choice("the activation of dense", values["activation"], modules.DENSE_ACTIVATIONS)
        layers.append(values)
    return layers


def write(
    directory: Path, settings: Settings, config: object, weights: Mapping[str, np.ndarray], tokenizer: Any
) -> list[str]:
    """Writes the files by which `MultiVectorEncoder(directory)` computes the same vectors. Returns their names."""
    if tokenizer is None:
        return []
    listed = _modules_of_settings(settings)
    types = [f"sentence_transformers.{_PACKAGES.get(kind, 'base')}.modules.{kind}" for kind, _ in listed]
    values = {LENGTH: _lengths(settings), PROMPTS: _model_settings(settings, tokenizer)}
    values |= {kind: config for kind, config in listed if config and kind != "Dense"}
    dense = []
    for number, layer in enumerate(settings.dense or []):
        names = (name for name in ("kernel", "bias", "residual") if f"{name}_{number}" in weights)
        more = {**_ON_TOKENS, **({"use_residual": True} if layer["use_residual"] else {})}
        dense.append((layer, {name: weights[f"{name}_{number}"] for name in names}, more))
    return modules.write(directory, types, values, dense)


def _modules_of_settings(settings: Settings) -> list[tuple[str, dict[str, Any]]]:
    """Lists the kind and the configuration of each module to write."""
    skipped = settings.skipped_tokens or []
    mask = {"skiplist_words": skipped, "skiplist_tasks": _FIXED_TASKS, "keep_only_token_ids": None}
    modules = [("Transformer", {}), *(("Dense", layer) for layer in settings.dense or []), ("MultiVectorMask", mask)]
    if settings.normalize:
        modules.append(("Normalize", _ON_TOKENS))
    if (pooling := settings.token_pooling) is not None:
        config = {"pool_factor": pooling["factor"], "num_protected_tokens": pooling["protected"]}
        config |= {"normalize_embeddings": pooling["normalize"], "tasks": _FIXED_TASKS}
        modules.append(("HierarchicalTokenPooling", config))
    return modules


def _lengths(settings: Settings) -> dict[str, Any]:
    expansion = settings.query_expansion
    if expansion is not None:
        is_fixed = settings.query_length == expansion["length"]
        expansion = {"strategy": "fixed" if is_fixed else "min", **expansion}
    return {
        "max_seq_length": settings.max_length,
        "do_lower_case": False,
        "document_length": settings.max_length,
        "query_length": settings.query_length,
        "query_expansion": expansion,
    }


def _model_settings(settings: Settings, tokenizer: Any) -> dict[str, Any]:
    markers = {kind: marker_of(prompt, tokenizer) for kind, prompt in settings.prompts.items()}
    return {
        "model_type": "MultiVectorEncoder",
        "prompts": {"query": "", "document": "", **settings.prompts},
        "default_prompt_name": None,
        "similarity_fn_name": "meanmaxsim" if settings.mean_maxsim else "maxsim",
        # Other libraries put prompts before texts, and find the tokens there if they are told so in this way.
        **{f"{kind}_prefix": marker for kind, marker in markers.items() if marker},
    }
