"""Small models of transformers 4 with TensorFlow, and the outputs that it computed: golden/make_transformers4.py."""

import functools
import tarfile
from pathlib import Path

import numpy as np

from . import data

ARCHIVE = data.ROOT / "tests/golden/transformers4.tar.xz"
# Names of its inputs -> ours.
INPUTS = {"input_ids": "input_word_ids", "attention_mask": "input_mask", "token_type_ids": "input_type_ids"}
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"t{i}" for i in range(55))]


@functools.cache
def names() -> list[str]:
    """The models: a family, a head, and a layout if it is not one file: "bert-sequence-sharded"."""
    with tarfile.open(ARCHIVE) as archive:
        return [name for name in archive.getnames() if "/" not in name]


def unpack(directory: Path) -> Path:
    """Writes a directory a model, with a tokenizer's vocabulary, which any family can read here."""
    data.unpack(ARCHIVE, directory)
    for name in names():
        (directory / name / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    return directory


def arrays(model: Path) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The inputs and the outputs of a model, under the names of transformers."""
    values = np.load(model / "outputs.npz")
    return tuple(
        {name.removeprefix(kind): values[name] for name in values.files if name.startswith(kind)}
        for kind in ("in_", "out_")
    )
