"""Models as commands take them: found by their handle, loaded, run over the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from keras_bert import presets
from keras_bert.cli.errors import misuse
from keras_bert.cli.streams import Lines

if TYPE_CHECKING:
    import numpy as np

    from keras_bert import BertSentenceEncoder
    from keras_bert.formats import Preset

T = TypeVar("T")


def find_preset(ctx: click.Context, parameter: click.Parameter, handle: str) -> Path:
    """A callback of click: the directory of a handle."""
    with misuse(OSError):
        return presets.resolve(handle)


def load(from_preset: Callable[..., T], preset: Path, **arguments: Any) -> T:
    """`from_preset(preset, **arguments)`. Raises Misuse if files are missing or damaged, or an argument is bad."""
    with misuse(OSError):
        return from_preset(preset, **arguments)


def tokenizer_of(preset: Path | Preset) -> Any:
    """A checkpoint's tokenizer; None if it has no vocabulary."""
    from keras_bert.text import load_tokenizer

    try:
        return load_tokenizer(preset)
    except FileNotFoundError:
        return None


def encoded(model: BertSentenceEncoder, lines: Lines, batch_tokens: int) -> Iterator[tuple[list[str], np.ndarray]]:
    """Chunks of texts with their vectors. Raises Misuse if `--batch-tokens` is less than 1."""
    with lines.progress() as bar:
        for texts in lines.chunks():
            with misuse():
                vectors = model.encode(texts, batch_tokens, progress=False)
            yield texts, vectors
            bar.update(len(texts))
