import pytest

from . import toy
from .process import Server


@pytest.fixture(scope="session")
def toy_model(tmp_path_factory):
    """A SavedModel, which tests copy and do not change."""
    return toy.write(tmp_path_factory.mktemp("saved_model") / "toy")


@pytest.fixture(scope="session")
def toy_versions(toy_model, tmp_path_factory):
    """A directory with one version of it."""
    directory = tmp_path_factory.mktemp("versions") / "toy"
    directory.mkdir()
    (directory / "1").symlink_to(toy_model)
    return directory


@pytest.fixture(scope="session")
def server(toy_versions):
    """A server of the toy model, for all tests that leave it as it is."""
    server = Server(toy_versions)
    yield server
    server.close()


@pytest.fixture
def start():
    """Starts a server, which does not outlive the test."""
    servers = []

    def start_server(*arguments) -> Server:
        servers.append(Server(*arguments))
        return servers[-1]

    yield start_server
    for server in servers:
        server.close()
