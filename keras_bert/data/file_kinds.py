"""Recognizes what a file is by its first bytes: what holds neither texts nor a table, for every command to name."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from keras_bert.runtime_table import RUNTIMES, Runtime

_BEGINNING = 4096  # bytes that are read of a file
_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"


class Look:
    """A path, and of a file its first bytes. It opens no pipe, which can be read only once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def raw(self) -> bytes:
        if not self.path.is_file():
            return b""
        with self.path.open("rb") as file:
            return file.read(_BEGINNING)

    @cached_property
    def beginning(self) -> bytes:
        """The first bytes, without gzip."""
        if not self.raw.startswith(_GZIP):
            return self.raw
        try:
            return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(self.raw, _BEGINNING)
        except zlib.error:
            return self.raw

    @property
    def suffix(self) -> str:
        """The ending of the name in lower case, without gzip's."""
        suffixes = [suffix.lower() for suffix in self.path.suffixes if suffix.lower() != ".gz"]
        return suffixes[-1] if suffixes else ""

    @cached_property
    def zipped(self) -> list[str]:
        """The names in a zip file."""
        if not self.raw.startswith(_ZIP):
            return []
        try:
            with zipfile.ZipFile(self.path) as archive:
                return archive.namelist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            return []


class Kind(NamedTuple):
    """What a path can be."""

    name: str
    title: str  # in messages: "it is ..."
    recognizes: Callable[[Any], bool]  # takes a `Look`
    advice: str = ""  # if it is nothing that loads here


def begins(*beginnings: bytes) -> Callable[[Look], bool]:
    return lambda look: look.beginning.startswith(beginnings)


def _is_for(runtime: Runtime) -> Callable[[Look], bool]:
    return lambda look: runtime.begins(look.beginning)


PART = "copy it to the other files of its model, and inspect their directory"
OTHER_RUNTIME = "nothing here reads it: look for the model that it was made from, in its original format"
_PICKLES = (b"\x80\2", b"\x80\3", b"\x80\4", b"\x80\5")
_BZIP2 = tuple(b"BZh%d1AY&SY" % level for level in range(1, 10))  # a text may begin with less of it
_ARCHIVES = (b"\xfd7zXZ\0", *_BZIP2, _ZIP, b"7z\xbc\xaf\x27\x1c", b"\x28\xb5\x2f\xfd")  # xz, bzip2, zip, 7z, zstd
_GGUF = tuple(b"GGUF%c" % version for version in range(1, 9))
_TAR = (b"ustar\0", b"ustar ")
_PICTURES = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")
ARCHIVE = ("archive", "an archive, or a compressed file")
UNPACK = "unpack it, and inspect what was in it"
# The first that recognizes a file is what it is, if it is not a table.
NO_DATA = (
    Kind("keras", "a model of Keras in one file", lambda look: {"config.json", "metadata.json"} <= {*look.zipped}),
    Kind(
        "h5",
        "weights of Keras without a model (HDF5)",
        begins(b"\x89HDF\r\n\x1a\n"),
        f"{PART}; or, in the code that made the model: model.load_weights(...)",
    ),
    Kind("safetensors", "safetensors", lambda look: look.beginning[7:9] == b"\0{", PART),
    Kind(
        "part",
        "a pickle, as PyTorch writes it, which can run code",
        lambda look: look.beginning[:2] in _PICKLES or any(name.endswith("/data.pkl") for name in look.zipped),
        "it is not opened here; if it is a model: where torch and transformers are installed, "
        "AutoModel.from_pretrained(...).save_pretrained(...) writes model.safetensors",
    ),
    Kind(
        "array",
        "arrays of NumPy",
        lambda look: look.beginning.startswith(b"\x93NUMPY") or any(name.endswith(".npy") for name in look.zipped),
        "in Python: numpy.load(...)",
    ),
    Kind(*ARCHIVE, lambda look: begins(*_ARCHIVES)(look) or look.beginning[257:263] in _TAR, UNPACK),
    Kind("other", "a model for llama.cpp (GGUF)", begins(*_GGUF), OTHER_RUNTIME),
    *(Kind("other", f"a model for {each.title}", _is_for(each), OTHER_RUNTIME) for each in RUNTIMES.values()),
    Kind("unknown", "a picture", begins(*_PICTURES)),
    Kind("unknown", "a PDF", begins(b"%PDF-"), "export its text into a .txt"),
    Kind("unknown", "a database of SQLite", begins(b"SQLite format 3\0"), "export a table of it as .csv"),
    Kind("unknown", "Arrow, not Parquet", begins(b"ARROW1\0"), "write it as Parquet"),
)
