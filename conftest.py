"""For all tests and examples in docstrings."""

import tempfile

import pytest


@pytest.fixture(autouse=True)
def _temporary_directories_go(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an example in a docstring leaves in `tempfile.mkdtemp()` goes with the test's own directory."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.setattr(tempfile, "tempdir", str(request.getfixturevalue("tmp_path")))
