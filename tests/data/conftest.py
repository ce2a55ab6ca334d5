import pytest


@pytest.fixture
def write(tmp_path):
    """Writes a file, of text or of bytes, and returns its path."""

    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
