"""The settings files of sentence-transformers: modules, pooling, a dense layer, prompts and maximum length.

An unsupported option that would change a vector raises ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert import files
from keras_bert.choices import POOLINGS
from keras_bert.formats import keras_hub, static
from keras_bert.formats.families.table import check_fixed_values, warn_of_unknown
from keras_bert.formats.tokenizers.tokenizer_json import ALL_IN_ONE
from keras_bert.formats.tokenizers.tokenizer_json import CONFIG as TOKENIZER
from keras_bert.formats.weight_files import TorchFile, open_safetensors, write_safetensors
from keras_bert.presets import PresetFiles
from keras_bert.task_table import OF_LIBRARY

MODULES = "modules.json"
ROUTER = "router_config.json"
POOLING = "1_Pooling/config.json"
LENGTH = "sentence_bert_config.json"
PROMPTS = "config_sentence_transformers.json"
_CONFIG = "config.json"
_MIN_LENGTH = 3  # tokens: [CLS] a [SEP]
_KINDS = ("Transformer", "Pooling", "Dense", "Normalize")
FIRST = (["Transformer", "Pooling"], ["StaticEmbedding"])
_CHAINS = [[*first, *dense, *last] for first in FIRST for dense in ([], ["Dense"]) for last in ([], ["Normalize"])]
# Dropout has no effect in inference, so the module is skipped. Its rate is for training with sentence-transformers;
# this package's losses take vectors without dropout.
_DROPOUT = re.compile(r"sentence_transformers\.(.*\.)?Dropout")
WEIGHTS = {"model.safetensors": open_safetensors, "pytorch_model.bin": TorchFile}
# Names of the Transformer's file. The first one that exists is read.
_LENGTH_FILES = [
    f"sentence_{name}_config.json" for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta")
]

_SWITCHES = POOLINGS["sentence"]
# sentence-transformers' classes of activations -> Keras's names.
_ACTIVATIONS = {
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.linear.Identity": "linear",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.GELU": "gelu",
}
_DENSE_SHAPE = {"in_features": int, "out_features": int, "bias": (bool, None), "activation_function": (str, None)}
_DENSE_SHAPE |= {"use_residual": (bool, None)}
_DENSE_NAMES = {"kernel": "linear.weight", "bias": "linear.bias", "residual": "residual.weight"}  # ours -> in the file
# Other kinds of models of the library -> the class here that reads them.
_LOADERS = {library: task.model for library, task in OF_LIBRARY.items() if library != "SentenceTransformer"}
_LOADERS["ColBERT"] = _LOADERS["MultiVectorEncoder"]  # PyLate's name
DENSE_ACTIVATIONS = tuple(_ACTIVATIONS.values())
SIMILARITIES = ("cosine", "dot")  # sentence-transformers also has distances, euclidean and manhattan
# Option of the Transformer -> its only supported value.
_FIXED_ARGUMENTS = {
    **{key: {} for key in ("processing_kwargs", "model_kwargs", "processor_kwargs", "config_kwargs")},
    **dict.fromkeys(("query_length", "document_length", "query_expansion")),
}
_FIXED_TRANSFORMER = {
    "transformer_task": "feature-extraction",
    "module_output_name": "token_embeddings",
    "tokenizer_name_or_path": None,
    **_FIXED_ARGUMENTS,
    **{key: {} for key in ("model_args", "tokenizer_args", "config_args")},  # of the older versions
}
_FIXED_MODALITIES = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
_FIXED_NORMALIZE = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}
_FIXED_DENSE = {**_FIXED_NORMALIZE, "use_residual": False}
_MODEL_SHAPE = {
    "model_type": (str, None),
    "similarity_fn_name": (str, None),
    "default_prompt_name": (str, None),
    "prompts": ({str: (str, None)}, None),
    "truncate_dim": (int, None),
}
# Known keys of each file: they are read, have one supported value, or do not change a vector. Others get a warning.
KNOWN = {
    MODULES: {"type", "path", "idx", "name", "kwargs"},  # kwargs: the names of arguments that `encode` passes on
    LENGTH: {"max_seq_length", "do_lower_case", "modality_config", "unpad_inputs", *_FIXED_TRANSFORMER},
    PROMPTS: {*_MODEL_SHAPE, "activation_fn", "max_active_dims", "__version__"},
    "Pooling": {
        "pooling_mode",
        "include_prompt",
        "embedding_dimension",
        "word_embedding_dimension",
        *_SWITCHES.values(),
    },
    "Dense": {*_DENSE_SHAPE, *_FIXED_DENSE},
    "Normalize": {*_FIXED_NORMALIZE},
}


@dataclass(frozen=True)
class SentenceSettings:
    """A preset's settings for sentence vectors."""

    pooling: str  # one of `POOLINGS["sentence"]`
    max_length: int | None  # the maximum length of a sequence, in tokens; None: no limit
    normalize: bool = True  # whether vectors are scaled to length 1
    dense: dict[str, Any] | None = None  # a layer after the pooling: its `units`, `activation` and `use_bias`
    prompts: dict[str, str] = field(default_factory=dict)  # name -> text that precedes each input
    default_prompt: str | None = None  # the name of the prompt that texts get by default
    include_prompt: bool = True  # whether the pooling includes the prompt's tokens
    similarity: str = "cosine"  # the similarity of two vectors: one of `SIMILARITIES`
    truncate_dim: int | None = None  # the number of values of a vector to keep; None: all
    matryoshka_dimensions: list[int] | None = None  # the sizes that its vectors were trained for


def read(preset: PresetFiles) -> SentenceSettings:
    """Reads the settings of a preset, also KerasHub's. Without any (a plain BERT): the mean, of length 1."""
    directory = preset.home
    model = preset.json_if_there(PROMPTS, {"model_type": (str, None)}, directory)
    if (model_type := model.get("model_type") or "SentenceTransformer") != "SentenceTransformer":
        loader, known = _LOADERS.get(model_type), ", ".join(_LOADERS)
        advice = f"load it with {loader}.from_preset" if loader else f"also supported are {known}"
        raise ValueError(f"{directory / PROMPTS}: model_type is {model_type!r}, not SentenceTransformer; {advice}")
    model = read_options(preset, directory / PROMPTS, _MODEL_SHAPE, KNOWN[PROMPTS])
    length = read_transformer(preset)
    modules = _read_modules(preset)
    if not modules:
        refuse_without_modules(preset)
        found = keras_hub.embedder_settings(preset) | static.settings(preset)
        return SentenceSettings(**{"pooling": "mean", "max_length": length} | found)
    if "Normalize" in modules:
        read_options(preset, directory / modules["Normalize"] / _CONFIG, dict, KNOWN["Normalize"], _FIXED_NORMALIZE)
    is_static = "StaticEmbedding" in modules
    return SentenceSettings(
        **({"pooling": "mean"} if is_static else _read_pooling(preset, directory / modules["Pooling"] / _CONFIG)),
        max_length=length,
        normalize="Normalize" in modules,
        dense=read_dense(preset, directory / modules["Dense"]) if "Dense" in modules else None,
        **_read_model(model, directory / PROMPTS, "Normalize" in modules),
        matryoshka_dimensions=preset.json_if_there(_CONFIG, {"matryoshka_dimensions": ([int], None)}).get(
            "matryoshka_dimensions"
        ),
    )


def read_options(
    preset: PresetFiles, path: Path, shape: files.JsonShape, known: Collection[str], fixed: Mapping[str, object] = {}
) -> Any:
    """Reads a file, empty if it is missing. Raises ValueError for other values than `fixed`, warns of unknown keys."""
    values = preset.json_if_there(path.name, shape, path.parent)
    check_fixed_values(values, fixed, path)
    warn_of_unknown(values, known, path)
    return values


def has_dense(preset: PresetFiles) -> bool:
    """Checks whether a model has a Dense module. Other modules need not be supported."""
    return any(each["type"].endswith(".Dense") for each in preset.json_if_there(MODULES, [{"type": str}], preset.home))


def first_module(preset: PresetFiles) -> tuple[str, str]:
    """Finds the kind and the folder of the first module, such as a Transformer, which has the weights.

    Each is "" if there is none; so is the folder if it is the preset's own, or if `read` will refuse the modules.
    """
    kinds = [""]
    try:
        modules = preset.json_if_there(MODULES, [{"type": str, "path": str}], preset.home)
        kinds = [kind_of(module["type"]) for module in modules] or kinds
        folder = modules[0]["path"] if any(kinds[: len(first)] == first for first in FIRST) else ""
        if kinds == ["Router"]:
            router = preset.json(ROUTER, {"structure": {"document": [str]}}, preset.home)
            folder = "".join(router["structure"]["document"][:1])
    except (OSError, ValueError):
        folder = ""
    is_folder = re.fullmatch(r"[\w-]+", folder) and (preset.home / folder).is_dir()
    return kinds[0], folder if is_folder else ""


def read_dense_weights(preset: PresetFiles) -> dict[str, np.ndarray]:
    """Reads `kernel`, float32 `[inputs, units]`, and maybe `bias` of the Dense module; empty without one."""
    modules = _read_modules(preset)
    return weights_of_dense(preset, preset.home / modules["Dense"]) if "Dense" in modules else {}


def weights_of_dense(preset: PresetFiles, folder: Path) -> dict[str, np.ndarray]:
    """Reads `kernel`, float32 `[inputs, units]`, and maybe `bias` and `residual`, like `kernel`, of a Dense."""
    config = preset.json(_CONFIG, _DENSE_SHAPE, folder)
    path = files.find(folder, *WEIGHTS)
    shape = (config["out_features"], config["in_features"])
    expected: dict[str, tuple[int, ...]] = {"linear.weight": shape}
    if config.get("bias") is not False:
        expected["linear.bias"] = shape[:1]
    if config.get("use_residual") and shape[0] != shape[1]:
        expected["residual.weight"] = shape
    with closing(WEIGHTS[path.name](path)) as file:
        shapes = {name: file.shape(name) for name in sorted(file.names)}
        if shapes != dict(sorted(expected.items())):
            raise ValueError(f"{path} has {shapes}; {path.parent / 'config.json'} says {expected}")
        values = {name: file.read(name) for name in shapes}
    return {ours: values[name].T for ours, name in _DENSE_NAMES.items() if name in values}


def write(
    directory: Path,
    hidden_size: int,
    settings: SentenceSettings,
    dense_weights: Mapping[str, np.ndarray] | None = None,
    is_static: bool = False,
) -> list[str]:
    """Writes the files by which `SentenceTransformer(directory)` computes the same vectors. Returns their names."""
    if is_static and (settings.pooling != "mean" or not settings.include_prompt):
        raise ValueError(
            f"static vectors with pooling={settings.pooling!r} and include_prompt={settings.include_prompt} cannot be "
            "stored; StaticEmbedding takes the mean of all tokens"
        )
    first = FIRST[is_static]
    kinds = [*first, *["Dense"] * bool(settings.dense), *["Normalize"] * settings.normalize]
    paths = ["", *(f"{i}_{kind}" for i, kind in enumerate(kinds) if i)]
    for path in paths[1:]:
        files.refuse_link(directory / path)
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(zip(paths, kinds, strict=True))
    ]
    switches = {switch: pooling == settings.pooling for pooling, switch in _SWITCHES.items()}
    values = {
        MODULES: modules,
        POOLING: {"word_embedding_dimension": hidden_size, **switches, "include_prompt": settings.include_prompt},
        LENGTH: {"max_seq_length": settings.max_length, "do_lower_case": False},
        PROMPTS: {
            "prompts": settings.prompts,
            "default_prompt_name": settings.default_prompt,
            # sentence-transformers does not scale shorter vectors; the dot product of our scaled ones is their cosine.
            "similarity_fn_name": "cosine" if settings.normalize and settings.truncate_dim else settings.similarity,
            **({"truncate_dim": settings.truncate_dim} if settings.truncate_dim else {}),
        },
    }
    if is_static:
        del values[POOLING], values[LENGTH]
        limit = {"direction": "Right", "max_length": settings.max_length, "strategy": "LongestFirst", "stride": 0}
        content = files.read_json(directory / ALL_IN_ONE)
        values[ALL_IN_ONE] = {**content, "truncation": limit}  # what else says how long a text may be
    written = [*values]
    if dense := settings.dense:
        assert dense_weights is not None  # settings.dense needs them
        folder = next(path for path in paths if path.endswith("_Dense"))
        write_dense(directory / folder, dense, dense_weights)
        written += [f"{folder}/{_CONFIG}", f"{folder}/model.safetensors"]
    files.write_texts(directory, {name: files.to_json(value) for name, value in values.items()})
    for path in paths:
        (directory / path).mkdir(exist_ok=True)
    return [*written, *paths]


def check_prompt(name: str | None, prompts: Mapping[str, str]) -> None:
    """Raises ValueError if there is no prompt with this name. None (the default prompt) and "" (no prompt) pass."""
    if name and name not in prompts:
        raise ValueError(f"there is no prompt {name!r}; this model has {', '.join(prompts) or 'no prompts'}")


def _read_model(values: Mapping[str, Any], path: Path, normalize: bool) -> dict[str, Any]:
    prompts = {name: prompt or "" for name, prompt in (values.get("prompts") or {}).items()}
    default = values.get("default_prompt_name")
    if default is not None and default not in prompts:
        raise ValueError(
            f"{path}: default_prompt_name is {default!r}, but its prompts are {', '.join(prompts) or 'none'}"
        )
    similarity = values.get("similarity_fn_name") or SIMILARITIES[0]
    if similarity not in SIMILARITIES:
        raise ValueError(
            f"{path}: similarity_fn_name is {similarity!r}; supported are {' and '.join(SIMILARITIES)}; set it to "
            "the one to compare this model's vectors by"
        )
    truncate_dim = values.get("truncate_dim")
    if similarity == "dot" and normalize and truncate_dim:
        raise ValueError(
            f"{path}: truncate_dim is {truncate_dim} and similarity_fn_name is 'dot', of vectors that are "
            "scaled before they are truncated; here they are scaled afterwards: set similarity_fn_name to cosine"
        )
    return {"prompts": prompts, "default_prompt": default, "similarity": similarity, "truncate_dim": truncate_dim}


def _read_modules(preset: PresetFiles) -> dict[str, str]:
    """Maps the kind of each module to the folder of its files. Empty without `modules.json`."""
    path = preset.home / MODULES
    if not path.is_file():
        return {}
    modules = preset.json(MODULES, [{"type": str, "path": str}], preset.home)
    for module in modules:
        warn_of_unknown(module, KNOWN[MODULES], path)
    modules = [module for module in modules if not _DROPOUT.fullmatch(module["type"])]
    kinds = [kind_of(module["type"]) for module in modules]
    if kinds not in _CHAINS:
        raise ValueError(
            f"{path} asks for {', '.join(kinds) or 'nothing'}; supported are {', '.join(_KINDS)}, each once, in this "
            "order; the last two may be missing, and StaticEmbedding may replace the first two"
        )
    for kind, module in zip(kinds, modules, strict=True):
        if not re.fullmatch(r"\.|[\w-]*", module["path"]):
            raise ValueError(f"{path}: the path of {kind} is {module['path']!r}, which is not supported")
        config = preset.home / module["path"] / _CONFIG
        if (kind in ("Pooling", "Dense") or (kind == "Transformer" and module["path"])) and not config.is_file():
            raise FileNotFoundError(f"{path} asks for {kind}, which needs {config}, but there is no such file")
    return {kind: module["path"] for kind, module in zip(kinds, modules, strict=True)}


def kind_of(name: str) -> str:
    """Shortens a module's class to its name in sentence-transformers: "Pooling". Other packages' names stay whole."""
    return re.sub(r"^sentence_transformers\.(.*\.)?", "", name)


def refuse_without_modules(preset: PresetFiles) -> None:
    """Raises ValueError if there are files of modules, but no `modules.json`, without which they would be ignored."""
    patterns = (
        ROUTER,
        *(f"[0-9]_{kind}/config.json" for kind in ("Pooling", "Dense", "SpladePooling", "MultiVectorMask")),
    )
    names = [path for pattern in patterns for path in sorted(preset.home.glob(pattern))]
    if names and not (preset.home / MODULES).is_file():
        raise ValueError(f"{names[0]} needs a {MODULES} in {preset.home}, which says what it is for; copy it there")


def _read_pooling(preset: PresetFiles, path: Path) -> dict[str, object]:
    values = preset.json(path.name, {"pooling_mode": (str, [str], None), "include_prompt": (bool, None)}, path.parent)
    warn_of_unknown(values, {*KNOWN["Pooling"], *(key for key in values if key.startswith("pooling_mode_"))}, path)
    modes = values.get("pooling_mode")
    if modes is None:
        modes = [key for key, on in values.items() if key.startswith("pooling_mode_") and on] or ["mean"]
    for pooling, switch in _SWITCHES.items():
        if modes in (pooling, [pooling], [switch]):
            return {"pooling": pooling, "include_prompt": values.get("include_prompt") is not False}
    raise ValueError(f"{path} asks for the pooling {modes}; expected one of {', '.join(_SWITCHES)}")


def read_dense(preset: PresetFiles, folder: Path, fixed: Mapping[str, object] = _FIXED_DENSE) -> dict[str, Any]:
    """Reads the units, the activation and whether there is a bias of a Dense, some of whose options are `fixed`."""
    path = folder / _CONFIG
    values = read_options(preset, path, _DENSE_SHAPE, KNOWN["Dense"], fixed)
    activation = values.get("activation_function") or "torch.nn.modules.activation.Tanh"
    if activation not in _ACTIVATIONS:
        raise ValueError(f"{path}: activation_function is {activation!r}; supported are {', '.join(_ACTIVATIONS)}")
    use_bias = "bias" in weights_of_dense(preset, folder)  # raises, before a layer of this size is made
    return {"units": values["out_features"], "activation": _ACTIVATIONS[activation], "use_bias": use_bias}


def write_dense(folder: Path, dense: Mapping[str, Any], weights: Mapping[str, np.ndarray], **more: object) -> None:
    """Writes the files of a Dense; `more` are further options."""
    torch_classes = {activation: torch_class for torch_class, activation in _ACTIVATIONS.items()}
    config = {
        "in_features": len(weights["kernel"]),
        "out_features": dense["units"],
        "bias": dense["use_bias"],
        "activation_function": torch_classes[dense["activation"]],
        **more,
    }
    used = {name: each for name, each in weights.items() if name != "bias" or dense["use_bias"]}
    tensors = {_DENSE_NAMES[name]: np.transpose(each) for name, each in used.items()}
    write_safetensors(
        folder / "model.safetensors", {name: each.shape for name, each in tensors.items()}, tensors.items()
    )
    files.write_texts(folder, {_CONFIG: files.to_json(config)})


def read_transformer(preset: PresetFiles, more: Mapping[str, files.JsonShape] = {}) -> int | None:
    """Reads the maximum length. Raises ValueError for unsupported options of the Transformer, except for `more`."""
    path = transformer_file(preset)
    shape = {"max_seq_length": (int, None), "modality_config": (dict, None), **more}
    fixed = {name: value for name, value in _FIXED_TRANSFORMER.items() if name not in more}
    values = read_options(preset, path, shape, KNOWN[LENGTH], fixed)
    tokenizer = preset.json_if_there(TOKENIZER, {"model_max_length": (float, None)})
    check_fixed_values(values.get("modality_config") or {}, _FIXED_MODALITIES, path)
    if values.get("do_lower_case") and not tokenizer.get("do_lower_case"):
        raise ValueError(
            f"{path}: do_lower_case is true, but the tokenizer keeps capitals; if it should not, set do_lower_case to "
            f"true in {TOKENIZER}"
        )
    return find_max_length(path, values, tokenizer)


def transformer_file(preset: PresetFiles) -> Path:
    """Finds the file of the Transformer's options."""
    name = next((name for name in _LENGTH_FILES if (preset.directory / name).is_file()), LENGTH)
    return preset.directory / name


def check_other_kind(preset: PresetFiles, task: str, output: str, fixed: Mapping[str, object] = {}) -> None:
    """Raises ValueError for settings that would change the outputs of a model whose outputs come from logits.

    `task` and `output` are the Transformer's; `fixed` are the model's own settings with only one supported value.
    """
    modalities = {"text": {"method": "forward", "method_output_name": "logits"}}
    options = {"transformer_task": task, "modality_config": modalities, "module_output_name": output}
    transformer = {**options, **_FIXED_ARGUMENTS, "do_lower_case": False}
    read_options(preset, preset.directory / LENGTH, {"max_seq_length": (int, None)}, KNOWN[LENGTH], transformer)
    path = preset.home / PROMPTS
    settings = read_options(preset, path, _MODEL_SHAPE, KNOWN[PROMPTS], fixed)
    name = settings.get("default_prompt_name")
    if prompt := (settings.get("prompts") or {}).get(name):
        raise ValueError(
            f"{path}: default_prompt_name is {name!r}, which puts {prompt!r} before every text; prompts "
            f"of a {settings.get('model_type')} are not supported"
        )


def find_max_length(source: Path, transformer: Mapping[str, Any], tokenizer: Mapping[str, Any]) -> int | None:
    """Finds the maximum length in tokens, the Transformer's or the tokenizer's; None: no limit."""
    lengths = {
        "max_seq_length": transformer.get("max_seq_length"),
        "model_max_length": tokenizer.get("model_max_length"),
    }
    key, length = next(((key, each) for key, each in lengths.items() if each is not None), ("", None))
    if length is None:
        return None
    if not length >= _MIN_LENGTH:
        raise ValueError(f"{source}: the maximum length, {key}, is {length} tokens; expected at least {_MIN_LENGTH}")
    return int(min(length, 1e9))  # "no maximum" is 1e30 in some files
