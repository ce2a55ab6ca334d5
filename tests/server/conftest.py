import pytest

from . import toy
from .servers import Process, Server, Thread


@pytest.fixture(scope="session")
def toy_model(tmp_path_factory):
    """A SavedModel to copy. Tests must not change it."""
    return toy.write(tmp_path_factory.mktemp("saved_model") / "toy")


@pytest.fixture(scope="session")
def toy_versions(toy_model, tmp_path_factory):
    """A directory with one version of the toy model."""
    directory = tmp_path_factory.mktemp("versions") / "toy"
    directory.mkdir()
    (directory / "1").symlink_to(toy_model)
    return directory


@pytest.fixture(scope="session")
def server(toy_versions):
    """A server of the toy model, for all tests that do not change it."""
    server = Thread(toy_versions)
    yield server
    server.close()


@pytest.fixture
def start():
    """Starts a server in this process; it ends with the test."""
    yield from _starting(Thread)


@pytest.fixture
def start_process():
    """Starts a server in its own process, as `keras-bert serve` does."""
    yield from _starting(Process)


def _starting(kind):
    servers: list[Server] = []

    def start(*arguments, **options) -> Server:
        servers.append(kind(*arguments, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
