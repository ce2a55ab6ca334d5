"""The files that sentence-transformers keeps beside a model: how to make one vector of many."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert import presets

MODULES = "modules.json"
POOLING = "1_Pooling/config.json"
LENGTH = "sentence_bert_config.json"
_TOKENIZER = "tokenizer_config.json"

# Our name of a pooling -> the switch for it in files up to version 5; later ones say {"pooling_mode": "mean"}.
_SWITCHES = {
    "mean": "pooling_mode_mean_tokens",
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
}


@dataclass(frozen=True)
class SentenceSettings:
    """What a preset says about sentence vectors.

    Attributes:
        pooling: "mean", "cls" or "max".
        max_length: the longest sequence the model is meant for, in pieces; None where the preset does not say.
    """

    pooling: str
    max_length: int | None


def read(directory: Path) -> SentenceSettings:
    """The settings in `directory`: mean pooling where it has none (a plain BERT).

    Raises:
        ValueError: the preset pools in a way, or has a part, that is not supported.
    """
    return SentenceSettings(_read_pooling(directory), _read_length(directory))


def write(directory: Path, hidden_size: int, settings: SentenceSettings, overwrite: bool = False) -> None:
    """Writes the files with which `SentenceTransformer(directory)` gives the same vectors.

    Raises:
        FileExistsError: one of them exists and `overwrite` is False.
    """
    presets.refuse_to_overwrite(directory, [MODULES, POOLING, LENGTH], overwrite)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    files = {
        MODULES: [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(modules)
        ],
        POOLING: {
            "word_embedding_dimension": hidden_size,
            **{switch: pooling == settings.pooling for pooling, switch in _SWITCHES.items()},
        },
        LENGTH: {"max_seq_length": settings.max_length, "do_lower_case": False},
    }
    for name, value in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    (directory / "2_Normalize").mkdir(exist_ok=True)


def _read_pooling(directory: Path) -> str:
    kinds = [module["type"].rpartition(".")[2] for module in _json(directory / MODULES, [])]
    unknown = sorted(set(kinds) - {"Transformer", "Pooling", "Normalize"})
    if unknown:
        raise ValueError(f"{directory / MODULES} asks for {', '.join(unknown)}, which is not supported")
    settings = _json(directory / POOLING, {"pooling_mode": "mean"})
    mode = settings.get("pooling_mode")
    chosen = [mode] if mode else [key for key, on in settings.items() if key.startswith("pooling_mode_") and on is True]
    for pooling, switch in _SWITCHES.items():
        if chosen in ([pooling], [switch]):
            return pooling
    raise ValueError(f"{directory / POOLING} asks for {chosen}; supported is one of {', '.join(_SWITCHES)}")


def _read_length(directory: Path) -> int | None:
    length = _json(directory / LENGTH, {}).get("max_seq_length")
    return length or _json(directory / _TOKENIZER, {}).get("model_max_length")


def _json(path: Path, missing: Any) -> Any:
    if not path.is_file():
        return missing
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not a JSON file: {error}") from None
