"""Recognizes what a path is, ours or not, by the names of files and by first bytes. It opens no more than that."""

from __future__ import annotations

import json
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from keras_bert import files
from keras_bert.formats import model_files
from keras_bert.formats.tensorflow_index import is_index, is_record_file

_BEGINNING = 4096  # bytes that are read of a file


class Look:
    """A directory, or a file with its first bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def has(self, *patterns: str) -> bool:
        """Whether a directory has a file for each pattern."""
        return all(next(self.path.glob(pattern), None) is not None for pattern in patterns)

    @property
    def has_weights(self) -> bool:
        """Whether a directory has weights as transformers writes them."""
        return any(map(self.has, (*model_files.WEIGHTS, *model_files.SHARDS)))

    def is_of(self, **values: object) -> bool:
        """Whether `config.json` of a directory has these entries; `...` stands for any value."""
        return all(name in self.config and value in (..., self.config[name]) for name, value in values.items())

    @cached_property
    def config(self) -> dict[str, object]:
        try:
            values = json.loads((self.path / "config.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return values if isinstance(values, dict) else {}

    @cached_property
    def beginning(self) -> bytes:
        with self.path.open("rb") as file:
            return file.read(_BEGINNING)

    @cached_property
    def zipped(self) -> list[str]:
        """The names in a zip file."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                return archive.namelist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            return []


class Kind(NamedTuple):
    """What a path can be."""

    name: str
    title: str  # in messages: "it is ..."
    recognizes: Callable[[Look], bool]
    advice: str = ""  # if it is nothing that loads here; {path} and {parent} stand for its path and its directory


def _has(*patterns: str) -> Callable[[Look], bool]:
    return lambda look: look.has(*patterns)


def _any_of(*patterns: str) -> Callable[[Look], bool]:
    return lambda look: any(map(look.has, patterns))


def _exported(file: str) -> Callable[[Look], bool]:
    """Recognizes an export of this package: it has a configuration, but no weights beside."""
    return lambda look: look.has("config.json", file) and not look.has_weights


def _begins(*beginnings: bytes) -> Callable[[Look], bool]:
    return lambda look: look.beginning.startswith(beginnings)


def _ends(*endings: str) -> Callable[[Look], bool]:
    return lambda look: look.path.name.endswith(endings)


_is_compressed = _begins(b"\x1f\x8b", b"\xfd7zXZ\0", b"BZh")  # gzip, xz, bzip2
_WITH_TRANSFORMERS = (
    "where torch and transformers are installed, AutoModel.from_pretrained(...).save_pretrained(...) writes "
    "model.safetensors"
)
_NAME_DIRECTORY = "name its directory: keras-bert inspect {parent}"
_UNPACK = "unpack it, and inspect what was in it"
_OTHER_RUNTIME = "nothing here reads it: look for the model that it was made from, in its original format"

# The first that recognizes a path is what it is.
DIRECTORIES = (
    Kind("run", "a training run", _has(f"{files.RUN}/state.safetensors")),
    Kind("index", "an index of texts", _any_of("index.db", "vectors-*.faiss")),
    Kind("records", "examples to pre-train on", _has("records.json")),
    Kind(
        "hub_module",
        "a TF1 Hub module",
        _has("tfhub_module.pb"),
        "its format ended with TensorFlow 1: take the version of the model that is a TF2 SavedModel, or Google's "
        "checkpoint",
    ),
    Kind("saved_model", "a SavedModel", _has("saved_model.pb")),
    Kind("saved_model_text", "a SavedModel in text form", _has("saved_model.pbtxt")),
    Kind("serving", "versions of a SavedModel, as TF Serving loads them", _has("[0-9]*/saved_model.pb")),
    Kind("onnx", "an export for ONNX Runtime", _exported("onnx/model.onnx")),
    Kind("openvino", "an export for OpenVINO", _exported("openvino/openvino_model.xml")),
    Kind("litert", "an export for LiteRT", _exported("model.tflite")),
    Kind(
        "adapter",
        "a PEFT adapter (LoRA or the like) without its base model",
        _has("adapter_config.json"),
        "merge it where peft is installed: AutoPeftModel....from_pretrained(...).merge_and_unload()"
        ".save_pretrained(...) writes a whole model",
    ),
    Kind("sentence_transformers", "a model of sentence-transformers", _has("modules.json")),
    Kind("keras_hub", "a KerasHub preset", lambda look: look.is_of(class_name=...)),
    Kind(
        "hugging_face",
        "a model of transformers",
        lambda look: look.has("config.json") and look.has_weights,
    ),
    Kind(
        "flax",
        "a model of transformers for JAX (Flax)",
        _has("flax_model*.msgpack"),
        "where transformers 4, flax and torch are installed, AutoModel.from_pretrained(directory, from_flax=True)"
        ".save_pretrained(new) writes model.safetensors",
    ),
    Kind("transformers_saved_model", "a SavedModel of transformers", _has("saved_model/[0-9]*/saved_model.pb")),
    Kind("checkpoint", "a checkpoint of TensorFlow", _has("*.index")),
    Kind(
        "values",
        "a checkpoint of TensorFlow without its index",
        _has("*.data-[0-9]*-of-[0-9]*"),
        "copy the file that ends in .index there",
    ),
    Kind("gguf", "a model for llama.cpp (GGUF)", _has("*.gguf"), _OTHER_RUNTIME),
    Kind("other_onnx", "a model for ONNX Runtime", _any_of("*.onnx", "onnx/*.onnx"), _OTHER_RUNTIME),
    Kind("other_openvino", "a model for OpenVINO", _any_of("openvino_model.xml", "openvino/*.xml"), _OTHER_RUNTIME),
    Kind("tfrecords", "TFRecords", _any_of("*.tfrecord*")),
    Kind(
        "configuration",
        "a configuration without weights",
        _any_of("config.json", "*bert_config.json"),
        "copy the model's weights there",
    ),
    Kind("tokenizer", "a tokenizer without a model", _any_of(*model_files.VOCABULARIES, "assets/tokenizer/*")),
    Kind("keras_files", "a directory of files of Keras", _any_of("*.keras", "*.h5"), "inspect one of them"),
    Kind("tables", "a directory of texts", _any_of("*.txt", "*.csv", "*.tsv", "*.jsonl", "*.parquet")),
    Kind("empty", "an empty directory", lambda look: not any(look.path.iterdir()), "copy the files of a model there"),
    Kind(
        "directories",
        "a directory of directories",
        lambda look: any(each.is_dir() for each in look.path.iterdir()),
        "name one of them",
    ),
    Kind("unknown", "a directory of files that are not known here", lambda look: True),
)
FILES = (
    Kind("pointer", "a Git LFS pointer, not the file", _begins(files.POINTER), "run `git lfs pull` in the clone"),
    Kind("keras", "a model of Keras in one file", lambda look: {"config.json", "metadata.json"} <= {*look.zipped}),
    Kind("h5", "HDF5", _begins(b"\x89HDF\r\n\x1a\n")),
    Kind("safetensors", "safetensors", lambda look: look.beginning[7:9] == b"\0{"),
    Kind(
        "torch",
        "a file of PyTorch, a pickle, which can run code",
        lambda look: any(name.endswith(("/data.pkl", "/constants.pkl")) for name in look.zipped),
        f"it is not opened here; {_WITH_TRANSFORMERS}",
    ),
    Kind("arrays", "arrays of NumPy (.npz)", lambda look: bool(look.zipped) and look.zipped[0].endswith(".npy")),
    Kind("zip", "a zip archive", _begins(b"PK\x03\x04"), _UNPACK),
    Kind("tar", "a tar archive", lambda look: _is_tar(look), _UNPACK),
    Kind("compressed", "a compressed file", _is_compressed, "decompress it, and inspect what was in it"),
    Kind("gguf", "a model for llama.cpp (GGUF)", _begins(b"GGUF"), _OTHER_RUNTIME),
    Kind("tflite", "a model for LiteRT", lambda look: look.beginning[4:8] == b"TFL3", _OTHER_RUNTIME),
    Kind("onnx", "a model for ONNX Runtime", _ends(".onnx"), _OTHER_RUNTIME),
    Kind("openvino", "a model for OpenVINO", _ends("openvino_model.xml", "openvino_model.bin"), _OTHER_RUNTIME),
    Kind("array", "an array of NumPy", _begins(b"\x93NUMPY")),
    Kind("parquet", "a table in Parquet", _begins(b"PAR1")),
    Kind("sqlite", "a database of SQLite", _begins(b"SQLite format 3\0")),
    Kind("graph", "the graph of a SavedModel", _ends("saved_model.pb"), _NAME_DIRECTORY),
    Kind("index_file", "the index of a TensorFlow checkpoint", lambda look: is_index(look.path), _NAME_DIRECTORY),
    Kind("values", "the values of a TensorFlow checkpoint", lambda look: ".data-0" in look.path.name, _NAME_DIRECTORY),
    Kind("tfrecord", "TFRecords", lambda look: is_record_file(look.beginning)),
    Kind(
        "pickle",
        "a pickle, which can run code",
        _begins(*(bytes([0x80, version]) for version in range(2, 6))),
        f"it is not opened here; if it is a model of PyTorch: {_WITH_TRANSFORMERS}",
    ),
    Kind("flax", "weights of Flax", _ends(".msgpack"), _NAME_DIRECTORY),
    Kind("frozen", "a graph of TensorFlow, or another protocol buffer", _ends(".pb"), _OTHER_RUNTIME),
    Kind(
        "tokenizer_file",
        "a file of a tokenizer",
        lambda look: look.path.name in (*model_files.TOKENIZER, "vocabulary.spm"),
        _NAME_DIRECTORY,
    ),
    Kind("configuration_file", "a configuration", _ends("config.json"), _NAME_DIRECTORY),
    Kind("json", "JSON", lambda look: _ends(".json")(look) and look.beginning[:1] in (b"{", b"[")),
    Kind("table", "a table or texts", _ends(".txt", ".csv", ".tsv", ".jsonl", ".ndjson", ".xlsx", ".conll")),
    Kind("nothing", "an empty file", lambda look: not look.beginning),
    Kind("unknown_file", "a file that is not known here", lambda look: True),
)


def recognize(path: Path) -> Kind:
    """Finds what a path is. Raises OSError if it cannot be read."""
    if not path.is_dir() and not path.is_file():  # a pipe would never end
        return Kind("special", "neither a file nor a directory", lambda look: True)
    look = Look(path)
    return next(kind for kind in (DIRECTORIES if path.is_dir() else FILES) if kind.recognizes(look))


def missing_error(directory: Path, *names: str, advice: str) -> FileNotFoundError:
    """Makes the error for a directory without any of `names`: what it holds, what it is, and what would help."""
    kind = recognize(directory)
    what = [] if kind.name in ("unknown", "empty") else [f"it is {kind.title}"]
    return files.missing_error(directory, *names, advice="; ".join([*what, kind.advice or advice]))


def _is_tar(look: Look) -> bool:
    if not _is_compressed(look) and look.beginning[257:262] != b"ustar":
        return False
    try:
        with tarfile.open(look.path) as archive:
            return archive.next() is not None
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error, lzma.LZMAError):
        return False
