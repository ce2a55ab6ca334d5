import pytest

from keras_bert.server import exported


def pytest_generate_tests(metafunc):
    """Runs the tests of the toy model for each of the module's ENGINES, but for a test that names its own."""
    own = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "engine" in metafunc.fixturenames and "engine" not in own:
        names = getattr(metafunc.module, "ENGINES", ["SavedModel"])
        metafunc.parametrize("engine", names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def engine(request):
    """What the toy model is: a SavedModel, or an export, which gRPC serves as it does beside a SavedModel."""
    from . import toy

    with pytest.MonkeyPatch.context() as patch:
        if request.param == "export":
            patch.setattr(exported, "load", toy.load)
        yield toy.ENGINES[request.param]


@pytest.fixture(scope="session")
def toy_model(engine, tmp_path_factory):
    """A model to copy. Tests must not change it."""
    return engine.write(tmp_path_factory.mktemp("model") / "toy")


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
    from .servers import Thread

    server = Thread(toy_versions)
    yield server
    server.close()


@pytest.fixture
def start():
    """Starts a server in this process; it ends with the test."""
    from .servers import Thread

    yield from _starting(Thread)


@pytest.fixture
def start_process():
    """Starts a server in its own process, as `keras-bert serve` does."""
    from .servers import Process

    yield from _starting(Process)


def _starting(kind):
    servers = []

    def start(*arguments, **options):
        servers.append(kind(*arguments, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
