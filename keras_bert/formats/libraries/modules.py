"""The modules of sentence-transformers' models: their chain, options and Dense layers, and the maximum length.

`modules.json` lists them. The first one has the weights, in the same directory; the others have a folder each. All
kinds of models of the library are read and written here; a file beside this one knows which chains a kind allows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert import files
from keras_bert.choices import check_choice
from keras_bert.formats.row_translator import check_fixed_values, warn_of_unknown
from keras_bert.formats.tokenizers.tokenizer_json import CONFIG as TOKENIZER
from keras_bert.formats.weight_files import SafetensorsFile, TorchFile, write_safetensors
from keras_bert.presets import PresetFiles

MODULES = "modules.json"
ROUTER = "router_config.json"
LENGTH = "sentence_bert_config.json"
LENGTH_SHAPE: dict[str, files.JsonShape] = {"max_seq_length": (int, None)}
PROMPTS = "config_sentence_transformers.json"
CONFIG = "config.json"
WEIGHTS = {"model.safetensors": SafetensorsFile, "pytorch_model.bin": TorchFile}
FIRST = (["Transformer", "Pooling"], ["StaticEmbedding"])  # of a sentence encoder

# Dropout has no effect in inference, so the module is skipped. Its rate is for training with sentence-transformers;
# this package's losses take vectors without dropout.
_DROPOUT = re.compile(r"sentence_transformers\.(.*\.)?Dropout")
_MIN_LENGTH = 3  # tokens: [CLS] a [SEP]
# Names of the Transformer's file. The first one that exists is read.
_LENGTH_FILES = [
    f"sentence_{name}_config.json" for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta")
]
# sentence-transformers' classes of activations -> Keras's names.
_ACTIVATIONS = {
    "torch.nn.modules.activation.Tanh": "tanh",
    "torch.nn.modules.linear.Identity": "linear",
    "torch.nn.modules.activation.ReLU": "relu",
    "torch.nn.modules.activation.GELU": "gelu",
}
DENSE_ACTIVATIONS = tuple(_ACTIVATIONS.values())
_DENSE_SHAPE = {"in_features": int, "out_features": int, "bias": (bool, None), "activation_function": (str, None)}
_DENSE_SHAPE |= {"use_residual": (bool, None)}
_DENSE_NAMES = {"kernel": "linear.weight", "bias": "linear.bias", "residual": "residual.weight"}  # ours -> in the file
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
MODEL_SHAPE = {
    "model_type": (str, None),
    "similarity_fn_name": (str, None),
    "default_prompt_name": (str, None),
    "prompts": ({str: (str, None)}, None),
    "truncate_dim": (int, None),
}
# Known keys of each file: they are read, have one supported value, or do not change a vector. Others get a warning.
_KNOWN_OF_MODULES = {"type", "path", "idx", "name", "kwargs"}  # kwargs: the names of arguments that `encode` passes on
_KNOWN_LENGTHS = {"max_seq_length", "do_lower_case", "modality_config", "unpad_inputs", *_FIXED_TRANSFORMER}
KNOWN_OF_MODEL = {*MODEL_SHAPE, "activation_fn", "max_active_dims", "__version__"}
_PLACES = {"module_input_name", "module_output_name"}


def kind_of(name: str) -> str:
    """Shortens a module's class to its name in sentence-transformers: "Pooling". Other packages' names stay whole."""
    return re.sub(r"^(sentence_transformers|pylate\.models\.Dense)\.(.*\.)?", "", name)


def read(preset: PresetFiles) -> list[tuple[str, str]] | None:
    """Lists the kind and the folder of each module but Dropout. None: there is no `modules.json`."""
    modules, path = preset.json_if_there(MODULES, [{"type": str, "path": str}], preset.home), preset.home / MODULES
    if not preset.has(MODULES, preset.home):
        _refuse_without_modules(preset)
        return None
    for module in modules:
        warn_of_unknown(module, _KNOWN_OF_MODULES, path)
    found = [(kind_of(each["type"]), each["path"]) for each in modules if not _DROPOUT.fullmatch(each["type"])]
    for kind, folder in found:
        if not re.fullmatch(r"\.|[\w-]*", folder):
            raise ValueError(f"{path}: the path of {kind} is {folder!r}; supported are folders in the same directory")
    return found


def first_module(preset: PresetFiles) -> tuple[str, str]:
    """Finds the kind and the folder of the first module, such as a Transformer, which has the weights."""
    # Each is "" if there is none; so is the folder if it is the preset's own, or if `read` will refuse the modules.
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


def write(
    directory: Path,
    types: Sequence[str],  # the class of each module
    values: Mapping[str, object],  # content of JSON, by the name of a file or, for its `config.json`, of a module
    dense: Sequence[tuple[Mapping[str, Any], Mapping[str, np.ndarray], Mapping[str, object]]] = (),
) -> list[str]:
    """Writes `modules.json` and what its modules need; of a Dense, settings, weights, more options. Returns names."""
    kinds = [kind_of(each) for each in types]
    paths = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds) if number)]
    for path in paths[1:]:
        files.refuse_link(directory / path)
        (directory / path).mkdir(exist_ok=True)
    folders = dict(zip(kinds, paths, strict=True))
    contents = {f"{folders[name]}/{CONFIG}" if folders.get(name) else name: each for name, each in values.items()}
    contents[MODULES] = [
        {"idx": number, "name": str(number), "path": path, "type": each}
        for number, (path, each) in enumerate(zip(paths, types, strict=True))
    ]
    of_dense = [path for kind, path in zip(kinds, paths, strict=True) if kind == "Dense"]
    for path, layer in zip(of_dense, dense, strict=True):
        _write_dense(directory / path, *layer)
    files.write_texts(directory, {name: files.to_json(each) for name, each in contents.items()})
    return [*contents, *(f"{path}/{name}" for path in of_dense for name in (CONFIG, "model.safetensors")), *paths]


def write_tokenizer_length(directory: Path, length: int) -> None:
    """Writes the maximum length of a sequence, in tokens, into the tokenizer's settings in a directory."""
    settings = files.read_json(directory / TOKENIZER)
    files.write_texts(directory, {TOKENIZER: files.to_json({**settings, "model_max_length": length})})


def _refuse_without_modules(preset: PresetFiles) -> None:
    """Raises ValueError if there are files of modules, but no `modules.json`, without which they would be ignored."""
    patterns = (
        ROUTER,
        *(f"[0-9]_{kind}/config.json" for kind in ("Pooling", "Dense", "SpladePooling", "MultiVectorMask")),
    )
    names = [path for pattern in patterns for path in sorted(preset.home.glob(pattern))]
    if names and not (preset.home / MODULES).is_file():
        raise ValueError(f"{names[0]} needs a {MODULES} in {preset.home}, which says what it is for; copy it there")


def weights_of_dense(preset: PresetFiles, folder: Path) -> dict[str, np.ndarray]:
    """Reads `kernel`, float32 `[inputs, units]`, and maybe `bias` and `residual`, like `kernel`, of a Dense."""
    config = preset.json(CONFIG, _DENSE_SHAPE, folder)
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


def read_dense(preset: PresetFiles, folder: Path, fixed: Mapping[str, object]) -> dict[str, Any]:
    """Reads the units, the activation and whether there is a bias of a Dense, some of whose options are `fixed`."""
    path = folder / CONFIG
    values = read_options(preset, path, _DENSE_SHAPE, {*_DENSE_SHAPE, *_PLACES}, fixed)
    activation = values.get("activation_function") or "torch.nn.modules.activation.Tanh"
    check_choice(f"{path}: activation_function", activation, _ACTIVATIONS)
    use_bias = "bias" in weights_of_dense(preset, folder)  # raises, before a layer of this size is made
    return {"units": values["out_features"], "activation": _ACTIVATIONS[activation], "use_bias": use_bias}


def _write_dense(
    folder: Path, dense: Mapping[str, Any], weights: Mapping[str, np.ndarray], more: Mapping[str, object]
) -> None:
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
    files.write_texts(folder, {CONFIG: files.to_json(config)})


def read_transformer(preset: PresetFiles, more: Mapping[str, files.JsonShape] = {}) -> int | None:
    """Reads the maximum length. Raises ValueError for unsupported options of the Transformer, except for `more`."""
    path = transformer_file(preset)
    shape = {**LENGTH_SHAPE, "modality_config": (dict, None), **more}
    fixed = {name: value for name, value in _FIXED_TRANSFORMER.items() if name not in more}
    values = read_options(preset, path, shape, _KNOWN_LENGTHS, fixed)
    check_fixed_values(values.get("modality_config") or {}, _FIXED_MODALITIES, path)
    if values.get("do_lower_case") and not preset.json_if_there(TOKENIZER).get("do_lower_case"):
        raise ValueError(
            f"{path}: do_lower_case is true, but the tokenizer keeps capitals; if it should not, set do_lower_case to "
            f"true in {TOKENIZER}"
        )
    return find_max_length(preset, path, values)


def transformer_file(preset: PresetFiles) -> Path:
    """Finds the file of the Transformer's options."""
    name = next((name for name in _LENGTH_FILES if (preset.directory / name).is_file()), LENGTH)
    return preset.directory / name


def check_other_kind(preset: PresetFiles, task: str, output: str, fixed: Mapping[str, object] = {}) -> None:
    """Raises ValueError for settings that would change the outputs of a model whose outputs come from logits."""
    # `task` and `output` are the Transformer's; `fixed` are the model's own settings with only one supported value.
    modalities = {"text": {"method": "forward", "method_output_name": "logits"}}
    options = {"transformer_task": task, "modality_config": modalities, "module_output_name": output}
    transformer = {**options, **_FIXED_ARGUMENTS, "do_lower_case": False}
    read_options(preset, preset.directory / LENGTH, {"max_seq_length": (int, None)}, _KNOWN_LENGTHS, transformer)
    path = preset.home / PROMPTS
    settings = read_options(preset, path, MODEL_SHAPE, KNOWN_OF_MODEL, fixed)
    name = settings.get("default_prompt_name")
    if prompt := (settings.get("prompts") or {}).get(name):
        raise ValueError(
            f"{path}: default_prompt_name is {name!r}, which puts {prompt!r} before every text; prompts "
            f"of a {settings.get('model_type')} are not supported"
        )


def find_max_length(preset: PresetFiles, source: Path, transformer: Mapping[str, Any]) -> int | None:
    """Finds the maximum length in tokens, the Transformer's, from its settings, or the tokenizer's; None: no limit."""
    tokenizer = preset.json_if_there(TOKENIZER, {"model_max_length": (float, None)})
    for key, values in (("max_seq_length", transformer), ("model_max_length", tokenizer)):
        if (length := values.get(key)) is not None:
            if not length >= _MIN_LENGTH:
                raise ValueError(
                    f"{source}: the maximum length, {key}, is {length} tokens; expected at least {_MIN_LENGTH}"
                )
            return int(min(length, 1e9))  # "no maximum" is 1e30 in some files
    return None
