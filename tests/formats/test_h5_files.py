"""HDF5 files that would make HDF5 open other files, load libraries, or take more memory than they have bytes."""

import h5py
import numpy as np
import pytest

from keras_bert.formats.weight_files import H5File
from keras_bert.inspection import inspect

from ..support.messages import error_names

FLOAT = h5py.h5t.IEEE_F32LE


def virtual(file):
    layout = h5py.VirtualLayout((3,), "f4")
    layout[:] = h5py.VirtualSource("secret.h5", "a", (3,))
    file.create_virtual_dataset("b", layout)


def with_unknown_filter(file):
    """A dataset for which HDF5 would look for a library in its directory of plugins."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((3,))
    properties.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, ())
    h5py.h5d.create(file.id, b"b", FLOAT, h5py.h5s.create_simple((3,)), properties)
    file["b"].id.write_direct_chunk((0,), bytes(12))


def named(name):
    return lambda file: h5py.h5d.create(file.id, name, FLOAT, h5py.h5s.create_simple((3,)))


def of_type(dtype):
    return lambda file: file.create_dataset("b", (3,), dtype)


def packed(**settings):
    return lambda file: file.create_dataset("b", data=np.zeros(100_000, "i4"), **settings)


def deep(file):
    for _ in range(300):
        file = file.create_group("d")


def crowded(file):
    for i in range(20_001):
        file.id.links.create_hard(b"%d" % i, file.id, b"a")


# What stands in the file besides an array -> words of the error.
HOSTILE = {
    "external link": (lambda file: file.update({"b": h5py.ExternalLink("secret.h5", "/a")}), ["b", "link"]),
    "soft link": (lambda file: file.update({"b": h5py.SoftLink("/a")}), ["b", "link"]),
    "virtual": (virtual, ["b", "another file"]),
    "external": (lambda file: file.create_dataset("b", (3,), "f4", external=[("secret.h5", 0, 12)]), ["another file"]),
    "huge": (lambda file: file.create_dataset("b", (2**40,), "f4"), ["4,398,046,511,104 bytes", "not in the file"]),
    "huge, in pieces": (lambda file: file.create_dataset("b", (2**40,), "f4", chunks=(2**20,)), ["b", "pieces"]),
    **{each: (packed(compression=each), ["b", "compressed"]) for each in ("gzip", "lzf")},
    "scaled": (packed(scaleoffset=1), ["b", "compressed"]),
    "unknown filter": (with_unknown_filter, ["b", "compressed"]),
    "reference": (of_type(h5py.ref_dtype), ["b", "object"]),
    "compound": (of_type([("x", "f4"), ("y", "S3")]), ["b", "S3", "numbers"]),
    "text": (of_type(h5py.string_dtype()), ["b", "object", "numbers"]),
    "texts of one length": (of_type("S7"), ["b", "S7"]),
    "opaque": (of_type("V2000000000"), ["b", "V2000000000"]),
    "lists": (of_type(h5py.vlen_dtype("f4")), ["b", "object"]),
    "type": (lambda file: file.update({"b": np.dtype("f4")}), ["b", "neither"]),
    "nothing": (lambda file: file.create_dataset("b", data=h5py.Empty("f4")), ["b", "numbers"]),
    "not UTF-8": (named(b"\xffb"), [r"b'\xffb'", "UTF-8"]),
    "two lines": (named(b"b\nc"), [r"'b\nc'", "printable"]),
    "deep": (deep, ["500"]),
    "crowded": (crowded, ["20,000"]),
}


def write(path, add=lambda file: None, **settings):
    with h5py.File(path, "w", **settings) as file:
        file["a"] = np.arange(12, dtype="f4")
        add(file)
    return path


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_no_file_of_weights_needs_is_refused(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "secret.h5")
    add, words = HOSTILE[kind]
    path = write(tmp_path / "weights.h5", add)
    with error_names(ValueError, path, *words) as raised:
        H5File(path)
    assert "\n" not in str(raised.value)


def test_something_before_the_file_is_refused(tmp_path):
    path = write(tmp_path / "weights.h5", userblock_size=512)
    with error_names(ValueError, path, "HDF5"):
        H5File(path)


def test_a_circle_of_groups_ends(tmp_path):
    path = write(tmp_path / "weights.h5", lambda file: file.create_group("g").update({"up": file["/"]}))
    assert H5File(path).names == {"a"}


def test_a_circle_of_free_places_is_refused(tmp_path):
    """HDF5 would follow it, and note each place, until no memory is left."""
    path = write(tmp_path / "weights.h5")
    content = bytearray(path.read_bytes())
    heap = content.index(b"HEAP") + 8
    free, address = (int.from_bytes(content[place : place + 8], "little") for place in (heap + 8, heap + 16))
    content[address + free : address + free + 8] = free.to_bytes(8, "little")
    path.write_bytes(content)
    with error_names(ValueError, path, "heap", "endless"):
        H5File(path)
    assert "endless" in inspect(path).wrong[0]


def test_a_name_does_not_lead_through_another(tmp_path):
    """In a damaged file, the name of an array may have a slash, and lead through a link to another file."""
    path = write(tmp_path / "weights.h5", lambda file: file.update({"bXa": 3}))
    path.write_bytes(path.read_bytes().replace(b"bXa\0", b"b/a\0"))
    with error_names(ValueError, path, "b/a", "no group"):
        H5File(path)


@pytest.mark.parametrize("settings", [{"libver": "latest"}, {"track_order": True}])
def test_files_of_other_versions_of_hdf5(settings, tmp_path):
    path = write(tmp_path / "weights.h5", lambda file: file.update({"g/é": np.ones((2, 3), "f2")}), **settings)
    file = H5File(path)
    assert {name: file.shape(name) for name in file.names} == {"a": (12,), "g/é": (2, 3)}
    np.testing.assert_array_equal(file.read("a"), np.arange(12))
