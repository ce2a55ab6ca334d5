"""Reads the index of a TensorFlow checkpoint, `NAME.index`, without TensorFlow: names, types and shapes of its tensors.

The index is a table of LevelDB: blocks of sorted keys, each of which repeats only what differs from the key before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats.tensorflow import messages

_MAGIC = bytes.fromhex("57fb808b247547db")
_FOOTER, _TRAILER = 48, 5  # bytes
_MAX_EXPANSION = 100  # bytes of all names per byte of the file; real files have up to 10


class TensorFlowIndex:
    """The index at `path`. Raises ValueError if it is damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        content = files.read_whole(path)
        if content[-len(_MAGIC) :] != _MAGIC or len(content) < _FOOTER:
            raise ValueError("it does not end as such a file does")
        _, position = _handle(content, len(content) - _FOOTER)
        handle, _ = _handle(content, position)
        self._entries: dict[str, Any] = {}
        length = 0
        for _, value in _pairs(content, handle):
            for name, entry in _pairs(content, _handle(value, 0)[0]):
                length += len(name)
                if length > _MAX_EXPANSION * len(content):
                    raise ValueError("its names are too long")
                kind = "BundleEntry" if name else "BundleHeader"  # the header comes first, under an empty name
                self._entries[name.decode()] = messages.parse(kind, entry)
        if "" not in self._entries:
            raise ValueError("it has no header")
        self.num_shards = self._entries.pop("").num_shards
        self.shapes = {name: tuple(each.size for each in entry.shape.dim) for name, entry in self._entries.items()}

    @property
    def dtypes(self) -> dict[str, int]:
        """The number of each tensor's type; see `messages.DTYPES`."""
        return {name: entry.dtype for name, entry in self._entries.items()}

    def read_string(self, name: str) -> bytes:
        """Reads a tensor of one string. Raises OSError without the file of its value, ValueError if damaged."""
        content = self._read_scalar(name, messages.STRING, "string")
        # Its length, a checksum of that, and its bytes. The checksum of all takes the length as four bytes.
        length, start = _varint(content, 0)
        checked = length.to_bytes(8, "little")[:4] + content[start:]
        if len(content) != start + 4 + length:
            raise ValueError(f"{self.path} has not the bytes of {name}")
        self._check(name, checked)
        return content[start + 4 :]

    def read_bool(self, name: str) -> bool:
        """Reads a tensor of one truth value. Raises as `read_string`."""
        content = self._read_scalar(name, messages.BOOL, "truth value")
        self._check(name, content)
        return content != b"\0"

    def _read_scalar(self, name: str, dtype: int, title: str) -> bytes:
        entry = self._entries[name]
        if entry.dtype != dtype or entry.shape.dim:
            raise ValueError(f"{name} is not one {title}")
        path = self.path.with_name(f"{self.path.stem}.data-{entry.shard_id:05d}-of-{self.num_shards:05d}")
        files.check_file(path)
        with path.open("rb") as file:
            file.seek(entry.offset)
            return file.read(min(entry.size, files.MOST_GRAPH_BYTES))

    def _check(self, name: str, content: bytes) -> None:
        if _masked_checksum(content) != self._entries[name].crc32c:
            raise ValueError(f"{self.path} has not the bytes of {name}")


def _pairs(content: bytes, handle: tuple[int, int]) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of a block."""
    offset, size = handle
    block, trailer = content[offset : offset + size], content[offset + size : offset + size + _TRAILER]
    if len(trailer) != _TRAILER or trailer[0] != 0 or size < 4:
        raise ValueError("it is cut off, or compressed")
    if _masked_checksum(block + trailer[:1]) != int.from_bytes(trailer[1:], "little"):
        raise ValueError("a checksum is wrong")
    end, position, key = size - 4 - 4 * int.from_bytes(block[-4:], "little"), 0, b""
    while position < end:
        shared, position = _varint(block, position)
        more, position = _varint(block, position)
        length, position = _varint(block, position)
        key = key[:shared] + block[position : position + more]
        yield key, block[position + more : position + more + length]
        position += more + length


def _handle(content: bytes, position: int) -> tuple[tuple[int, int], int]:
    """Reads the offset and the size of a block, and returns them and the position after them."""
    offset, position = _varint(content, position)
    size, position = _varint(content, position)
    return (offset, size), position


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        byte = content[position] if position < len(content) else 0x80
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("a number in it does not end")


def _masked_checksum(content: bytes) -> int:
    """Computes LevelDB's checksum: a CRC-32C, rotated, plus a constant."""
    checksum = 0xFFFFFFFF
    for byte in content:
        checksum = _CRC_32C[(checksum ^ byte) & 0xFF] ^ (checksum >> 8)
    checksum ^= 0xFFFFFFFF
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _crc_of_byte(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_CRC_32C = [_crc_of_byte(byte) for byte in range(256)]
