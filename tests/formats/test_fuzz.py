"""Damaged files of every kind end in an error of ours, or in the same tensors; see fuzz.py."""

import pytest

from ..support import fuzzing
from . import fuzz


@pytest.mark.parametrize("kind", fuzz.FILES)
def test_damage(kind, capsys):
    """The same damage in every run, none of which ends the process."""
    fuzz.main(kind, 8, 0)
    fuzzing.check_lines(capsys.readouterr().out.splitlines(), [kind], 8)


@pytest.mark.slow
def test_much_damage():
    fuzzing.check_program("tests.formats.fuzz", 30, [*fuzz.FILES])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["h5-tensorflow", "h5-addresses"])
def test_many_damaged_files_of_tensorflow(kind):
    """HDF5's own library reads them."""
    fuzzing.check_program("tests.formats.fuzz", 120, [kind])


@pytest.mark.parametrize("kind", ["safetensors-header", "h5-tensorflow", "int8-ranges"])
def test_what_guided_fuzzing_found(kind, tmp_path, monkeypatch):
    """The corpora in tests/corpora; see tests/guided.py."""
    monkeypatch.setattr("keras_bert.formats.weight_files._checksum", lambda *_: "right")
    _, read_content = fuzz.reader(kind, tmp_path / "model")
    for content in fuzzing.corpus(kind).values():
        read_content(content)
