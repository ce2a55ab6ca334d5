"""A file's name -> the module for its format."""

from pathlib import Path
from types import ModuleType

from keras_bert.embedding import json_lines, parquet

FORMATS = {".jsonl": json_lines, ".ndjson": json_lines, ".parquet": parquet}


def format_of(path: Path) -> ModuleType:
    """The module with `count`, `parts` and `writer`. Raises ValueError if the suffix is unknown.

    Example:
        >>> format_of(Path("reviews.JSONL")).__name__
        'keras_bert.embedding.json_lines'
    """
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise ValueError(f"{path} does not end in {', '.join(FORMATS)}") from None
