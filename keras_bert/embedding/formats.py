"""A file's name -> what reads and writes such files."""

from pathlib import Path
from types import ModuleType

from keras_bert.embedding import json_lines, parquet

FORMATS = {".jsonl": json_lines, ".ndjson": json_lines, ".parquet": parquet}


def format_of(path: Path) -> ModuleType:
    """`json_lines` or `parquet`: `count`, `parts` and `writer`. ValueError where the name ends otherwise.

    Example:
        >>> format_of(Path("reviews.JSONL")).__name__
        'keras_bert.embedding.json_lines'
    """
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise ValueError(f"{path} does not end in {', '.join(FORMATS)}") from None
