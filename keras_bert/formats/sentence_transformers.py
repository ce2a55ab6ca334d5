"""The files of sentence-transformers beside a model: modules, pooling and maximum length.

Other options that would change a vector are refused by name.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats.layout_table import check_plain

MODULES = "modules.json"
POOLING = "1_Pooling/config.json"
LENGTH = "sentence_bert_config.json"
FILES = (MODULES, POOLING, LENGTH)
_KINDS = ("Transformer", "Pooling", "Normalize")
_PROMPTS = "config_sentence_transformers.json"
_TOKENIZER = "tokenizer_config.json"
# Names of the Transformer's file; the first match counts.
_LENGTHS = [f"sentence_{name}_config.json" for name in ("bert", "roberta", "distilbert", "albert", "xlm-roberta")]

# Our name of a pooling -> its switch in files up to version 5; later files have {"pooling_mode": "mean"}.
_SWITCHES = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens"}
# Options of the Transformer -> the only supported value.
_PLAIN_TRANSFORMER = {
    "transformer_task": "feature-extraction",
    "module_output_name": "token_embeddings",
    "processing_kwargs": {},
    "tokenizer_name_or_path": None,
    # Of the older versions, and of the newer.
    "model_args": {},
    "tokenizer_args": {},
    "config_args": {},
    "model_kwargs": {},
    "processor_kwargs": {},
    "config_kwargs": {},
}
_PLAIN_MODALITIES = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
_PLAIN_NORMALIZE = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}


@dataclass(frozen=True)
class SentenceSettings:
    """A preset's settings for sentence vectors."""

    pooling: str  # "mean", "cls" or "max"
    max_length: int | None  # of a sequence, in tokens; None: no limit
    normalized: bool = True  # whether vectors have length 1


def read(directory: Path) -> SentenceSettings:
    """The settings in `directory`; mean pooling and length 1 if it has none (a plain BERT).

    Raises:
        FileNotFoundError: a module has no file.
        ValueError: a setting is not supported, or a value has another type.
    """
    length = _read_length(directory)
    if not (directory / MODULES).is_file():
        return SentenceSettings("mean", length)
    _check_prompts(directory / _PROMPTS)
    modules = _read_modules(directory)
    if "Normalize" in modules:
        path = modules["Normalize"] / "config.json"
        check_plain(_read_if_there(path), _PLAIN_NORMALIZE, path)
    return SentenceSettings(_read_pooling(modules["Pooling"] / "config.json"), length, "Normalize" in modules)


def write(directory: Path, hidden_size: int, settings: SentenceSettings, overwrite: bool = False) -> None:
    """Writes the files, so that `SentenceTransformer(directory)` gives the same vectors.

    Raises:
        FileExistsError: one of them exists and `overwrite` is False.
    """
    files.refuse_to_overwrite(directory, FILES, overwrite)
    kinds = _KINDS if settings.normalized else _KINDS[:2]
    paths = ["", *(f"{i}_{kind}" for i, kind in enumerate(kinds) if i)]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(zip(paths, kinds, strict=True))
    ]
    switches = {switch: pooling == settings.pooling for pooling, switch in _SWITCHES.items()}
    values = {
        MODULES: modules,
        POOLING: {"word_embedding_dimension": hidden_size, **switches},
        LENGTH: {"max_seq_length": settings.max_length, "do_lower_case": False},
    }
    files.write_texts(directory, {name: files.to_json(value) for name, value in values.items()})
    for path in paths:
        (directory / path).mkdir(exist_ok=True)


def _check_prompts(path: Path) -> None:
    shape = {"default_prompt_name": (str, None), "prompts": ({str: (str, None)}, None)}
    values = _read_if_there(path, shape)
    check_plain(values, {"model_type": "SentenceTransformer", "truncate_dim": None}, path)
    name = values.get("default_prompt_name")
    prompt = (values.get("prompts") or {}).get(name)
    if prompt:
        raise ValueError(
            f"{path}: default_prompt_name is {name!r}, which puts {prompt!r} before every text; prompts are not "
            "supported: set default_prompt_name to null, and put the prompt into your texts"
        )


def _read_modules(directory: Path) -> dict[str, Path]:
    """Kind of each module -> the directory of its files."""
    path = directory / MODULES
    modules = files.read_json(path, [{"type": str, "path": str}])
    kinds = [re.sub(r"^sentence_transformers\.(.*\.)?", "", module["type"]) for module in modules]
    if kinds not in ([*_KINDS], [*_KINDS[:2]]):
        raise ValueError(
            f"{path} asks for {', '.join(kinds) or 'nothing'}; supported are {', '.join(_KINDS)}, in this order; "
            "the last may be missing"
        )
    for kind, module in zip(kinds, modules, strict=True):
        if not re.fullmatch("" if kind == "Transformer" else r"[\w-]*", module["path"]):
            raise ValueError(f"{path}: the path of {kind} is {module['path']!r}, which is not supported")
    return {kind: directory / module["path"] for kind, module in zip(kinds, modules, strict=True)}


def _read_pooling(path: Path) -> str:
    values = files.read_json(path, {"pooling_mode": (str, [str], None)})
    check_plain(values, {"include_prompt": True}, path)
    modes = values.get("pooling_mode")
    if modes is None:
        modes = [key for key, on in values.items() if key.startswith("pooling_mode_") and on] or ["mean"]
    for pooling, switch in _SWITCHES.items():
        if modes in (pooling, [pooling], [switch]):
            return pooling
    raise ValueError(f"{path} asks for the pooling {modes}; supported is one of {', '.join(_SWITCHES)}")


def _read_length(directory: Path) -> int | None:
    """The maximum length; refuses other options of the Transformer."""
    path = next((directory / name for name in _LENGTHS if (directory / name).is_file()), directory / LENGTH)
    values = _read_if_there(path, {"max_seq_length": (int, None), "modality_config": (dict, None)})
    tokenizer = _read_if_there(directory / _TOKENIZER, {"model_max_length": (float, None)})
    check_plain(values, _PLAIN_TRANSFORMER, path)
    check_plain(values.get("modality_config") or {}, _PLAIN_MODALITIES, path)
    if values.get("do_lower_case") and not tokenizer.get("do_lower_case"):
        raise ValueError(
            f"{path}: do_lower_case is true, but the tokenizer keeps capitals; if it should not, set do_lower_case to "
            f"true in {_TOKENIZER}"
        )
    length = values.get("max_seq_length")
    length = tokenizer.get("model_max_length") if length is None else length
    if length is None:
        return None
    if not length >= 1:
        raise ValueError(f"{path}: the maximum length is {length} tokens; expected at least 1")
    return int(min(length, 1e9))  # "no maximum" is 1e30 in some files


def _read_if_there(path: Path, shape: Any = dict) -> dict[str, Any]:
    return files.read_json(path, shape) if path.is_file() else {}
