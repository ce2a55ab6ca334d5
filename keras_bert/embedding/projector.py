"""Writes vectors and their texts for TensorBoard's Embedding Projector."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from keras_bert import files

if TYPE_CHECKING:
    import numpy as np

CONFIG = "projector_config.pbtxt"
VECTORS = "vectors.tsv"
METADATA = "metadata.tsv"
_CONFIG_TEXT = f"""embeddings {{
  tensor_name: "texts"
  tensor_path: "{VECTORS}"
  metadata_path: "{METADATA}"
}}
"""
_EMPTY_TEXT = "(empty)"  # the projector skips empty lines, and would shift all later texts


def write_projector(
    directory: str | Path, blocks: Iterable[tuple[list[str], np.ndarray]], overwrite: bool = False
) -> int:
    """Writes `vectors.tsv`, `metadata.tsv` and `projector_config.pbtxt`, all of them or none.

    Each text is a line of `metadata.tsv`, with white space replaced by single spaces.

    Args:
        directory: the directory for `tensorboard --logdir`; created if missing.
        blocks: texts and their vectors, float32 `[texts, width]`; read one block at a time.
        overwrite: whether to replace a directory that this function wrote.

    Returns:
        The number of texts.

    Raises:
        FileExistsError: the directory exists, and `overwrite` is False or it holds something else.
        ValueError: there are no texts.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> folder = Path(tempfile.mkdtemp()) / "pets"
        >>> write_projector(folder, [(["a cat", "a\\tdog"], np.float32([[0.5, -1], [1, 0.25]]))])
        2
        >>> (folder / "vectors.tsv").read_text()
        '0.5\\t-1\\n1\\t0.25\\n'
        >>> (folder / "metadata.tsv").read_text()
        'a cat\\na dog\\n'
    """
    count = 0
    with files.directory_written_whole(Path(directory), CONFIG, overwrite) as unfinished:
        with open(unfinished / VECTORS, "wb") as vectors, open(unfinished / METADATA, "wb") as metadata:
            for texts, rows in blocks:
                vectors.writelines(("\t".join(files.decimals(row)) + "\n").encode() for row in rows)
                metadata.writelines(f"{' '.join(text.split()) or _EMPTY_TEXT}\n".encode() for text in texts)
                count += len(texts)
        if not count:
            raise ValueError("there are no texts")
        files.write_texts(unfinished, {CONFIG: _CONFIG_TEXT})
    return count
