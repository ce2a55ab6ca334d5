"""Reads `pytorch_model.bin`: a pickle, which could run code. PyTorch can read it without running code."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import numpy as np

from keras_bert import files
from keras_bert.formats.shapes import Shape

_SAFE_SINCE = (2, 6)  # before, weights_only=True could be bypassed (CVE-2025-32434)
_ADVICE = (
    "convert it once, where torch and transformers are installed: "
    "AutoModel.from_pretrained(directory).save_pretrained(directory) writes model.safetensors"
)


class TorchFile:
    """An open `pytorch_model.bin`: tensors by name, memory-mapped if the file allows it.

    Raises:
        ImportError: torch is not installed, or too old to read an untrusted pickle safely.
        ValueError: the file is damaged, or holds anything but tensors.
    """

    def __init__(self, path: Path) -> None:
        files.refuse_pointer(path)
        self.path = path
        self.size = path.stat().st_size
        refused = f"{path} is a pickle, which can run untrusted code; it is only read with torch"
        try:
            import torch
        except ImportError:
            raise ImportError(f"{refused} (weights_only=True), which is not installed; {_ADVICE}") from None
        if tuple(int(part) for part in torch.__version__.split(".")[:2]) < _SAFE_SINCE:
            raise ImportError(f"{refused} 2.6 or later, not with {torch.__version__}; {_ADVICE}")
        try:
            self._tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
        except pickle.UnpicklingError as error:
            raise ValueError(f"{path} was refused: it holds more than tensors ({error})") from None
        except Exception as error:  # the type of torch's error depends on the damage
            size = path.stat().st_size
            raise ValueError(f"{path} ({size:,} bytes) cannot be read; fetch it again: {error}") from None
        if not isinstance(self._tensors, dict) or not all(isinstance(x, torch.Tensor) for x in self._tensors.values()):
            raise ValueError(f"{path} does not hold a dict of tensors by name")
        self.names = set(self._tensors)

    def shape(self, name: str) -> Shape:
        return tuple(self._tensors[name].shape)

    def read(self, name: str) -> np.ndarray:
        tensor = self._tensors[name]
        return (tensor.float() if tensor.is_floating_point() else tensor).numpy()  # numpy has no bfloat16

    def close(self) -> None:
        self._tensors = {}
