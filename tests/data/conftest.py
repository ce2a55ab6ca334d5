from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "../shared/data"


@pytest.fixture(scope="session")
def shared_data():
    if not DATA.is_dir():
        pytest.skip("needs the tasks' files of shared/data, beside the repository")
    return DATA


@pytest.fixture
def write(tmp_path):
    """Writes a file, of text or of bytes, and returns its path."""

    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
