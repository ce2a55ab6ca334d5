"""Writes the README of a SavedModel in low precision: the hardware and software that it needs."""

from pathlib import Path

FILE = "README.md"

_BOTH = """\
It needs oneDNN's operations, which TensorFlow has in its builds for x86 on Linux. Elsewhere, such as on ARM, loading it
ends with "Op type not registered": use an export in float32 there. It has no float weights to train further.
"""
_CARDS = {
    "bfloat16": f"""\
# A model in bfloat16

{_BOTH}
The processor must have AVX-512: without it, oneDNN ends the process. It is fast with AVX512_BF16 or AMX.
""",
    "int8": f"""\
# A model in int8

{_BOTH}
It is fast on processors with AVX512_VNNI or AMX. If it was exported on a processor with AVX-512, all but its products
is in bfloat16, and it must be served on a processor with AVX-512, too: without it, oneDNN ends the process.
""",
}


def write(directory: Path, precision: str) -> None:
    """Writes `README.md`.

    Args:
        directory: the SavedModel's directory.
        precision: "bfloat16" or "int8".
    """
    (directory / FILE).write_text(_CARDS[precision], encoding="utf-8")
