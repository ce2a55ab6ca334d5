"""The files that sentence-transformers keeps beside a model: pooling and maximum length."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_bert import files

MODULES = "modules.json"
POOLING = "1_Pooling/config.json"
LENGTH = "sentence_bert_config.json"
FILES = (MODULES, POOLING, LENGTH)
_TOKENIZER = "tokenizer_config.json"

# Our name of a pooling -> its switch in files up to version 5; later files have {"pooling_mode": "mean"}.
_SWITCHES = {
    "mean": "pooling_mode_mean_tokens",
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
}


@dataclass(frozen=True)
class SentenceSettings:
    """A preset's settings for sentence vectors.

    Attributes:
        pooling: "mean", "cls" or "max".
        max_length: the maximum length of a sequence, in tokens; None if the preset has none.
    """

    pooling: str
    max_length: int | None


def read(directory: Path) -> SentenceSettings:
    """The settings in `directory`; mean pooling if it has none (a plain BERT).

    Raises:
        ValueError: the preset's pooling, or one of its modules, is not supported.
    """
    return SentenceSettings(_read_pooling(directory), _read_length(directory))


def write(directory: Path, hidden_size: int, settings: SentenceSettings, overwrite: bool = False) -> None:
    """Writes the files, so that `SentenceTransformer(directory)` gives the same vectors.

    Raises:
        FileExistsError: one of them exists and `overwrite` is False.
    """
    files.refuse_to_overwrite(directory, FILES, overwrite)
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    switches = {switch: pooling == settings.pooling for pooling, switch in _SWITCHES.items()}
    values = {
        MODULES: modules,
        POOLING: {"word_embedding_dimension": hidden_size, **switches},
        LENGTH: {"max_seq_length": settings.max_length, "do_lower_case": False},
    }
    files.write_texts(directory, {name: files.to_json(value) for name, value in values.items()})
    (directory / "2_Normalize").mkdir(exist_ok=True)


def _read_pooling(directory: Path) -> str:
    kinds = [module["type"].rpartition(".")[2] for module in _read_modules(directory)]
    unknown = sorted(set(kinds) - {"Transformer", "Pooling", "Normalize"})
    if unknown:
        raise ValueError(f"{directory / MODULES} asks for {', '.join(unknown)}, which is not supported")
    settings = _read_if_there(directory / POOLING) or {"pooling_mode": "mean"}
    mode = settings.get("pooling_mode")
    chosen = [mode] if mode else [key for key, on in settings.items() if key.startswith("pooling_mode_") and on is True]
    for pooling, switch in _SWITCHES.items():
        if chosen in ([pooling], [switch]):
            return pooling
    raise ValueError(f"{directory / POOLING} asks for {chosen}; supported is one of {', '.join(_SWITCHES)}")


def _read_length(directory: Path) -> int | None:
    length = _read_if_there(directory / LENGTH).get("max_seq_length")
    return length or _read_if_there(directory / _TOKENIZER).get("model_max_length")


def _read_modules(directory: Path) -> list[dict[str, Any]]:
    path = directory / MODULES
    modules = files.read_json(path, list) if path.is_file() else []
    if not all(isinstance(module, dict) and isinstance(module.get("type"), str) for module in modules):
        raise ValueError(f"{path} is not a list of modules, each with its type")
    return modules


def _read_if_there(path: Path) -> dict[str, Any]:
    return files.read_json(path) if path.is_file() else {}
