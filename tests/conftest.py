"""Fixtures for all tests.

Fixtures that need TensorFlow import it: pytest-xdist's first process, which runs no test, reads this file too.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

# Two threads of NumPy, scikit-learn, Faiss or PyTorch wait for each other in busy loops, where tests run side by side.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"} | os.environ

from keras_bert import presets

from .support.data import ROOT, SHARED_DATA
from .support.processes import start_command

if TYPE_CHECKING:
    from keras_bert.formats import Preset
    from keras_bert.text import WordPieceTokenizer


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests of real data as slow: `make test` needs nothing but the repository."""
    for item in items:
        if "shared_data" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real texts, vocabularies and models, beside the repository. The tests that take it are marked slow."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"needs real data, which are not part of this repository; looked for them in {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(scope="session")
def vocabulary() -> list[str]:
    """BERT's uncased English vocabulary: 30,522 tokens."""
    return (presets.resolve("all-MiniLM-L6-v2") / "vocab.txt").read_text("utf-8").split("\n")[:-1]


@pytest.fixture(scope="session")
def tokenizer(vocabulary) -> WordPieceTokenizer:
    """The tokenizer of that vocabulary."""
    from keras_bert.text import WordPieceTokenizer

    return WordPieceTokenizer(vocabulary)


@contextlib.contextmanager
def eagerly() -> Iterator[None]:
    import tensorflow as tf

    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:  # also after a block of a page that fails
        tf.config.run_functions_eagerly(before)


@pytest.fixture
def untraced() -> Iterator[None]:
    """Runs tf.functions eagerly: to trace one takes longer than a few calls."""
    with eagerly():
        yield


@pytest.fixture(scope="module")
def untraced_module() -> Iterator[None]:
    """The same for all tests of a module, and for its fixtures."""
    with eagerly():
        yield


@pytest.fixture(scope="session")
def small_preset(tmp_path_factory) -> Path:
    """The directory of a small BERT in Hugging Face's format. Tests must not change it."""
    from .support import small

    return small.write_preset(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def read_once() -> Callable[[str | Path], Any]:
    """A `from_preset` that returns the same model for the same files: each new model would be traced anew.

    `make` is another function of the class that reads a preset.
    """
    from keras_bert import BertSentenceEncoder

    models = {}

    def from_preset(preset: str | Path | Preset, make: str = "from_preset", **settings: Any) -> Any:
        read, preset = getattr(BertSentenceEncoder, make), preset if isinstance(preset, str | Path) else preset.home
        if not Path(preset).is_dir():
            return read(preset, **settings)
        content = tuple(path.read_bytes() for path in sorted(Path(preset).rglob("*")) if path.is_file())
        given = ((name, value) for name, value in sorted(settings.items()) if value not in (None, "float32"))
        key = make, content, *given
        if key not in models:
            models[key] = read(preset, **settings)
        return models[key]

    return from_preset


@pytest.fixture
def reader(tmp_path, monkeypatch, minilm_of_pages) -> Path:
    """The working directory for a page's commands; `all-MiniLM-L6-v2` is a smaller model there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all-MiniLM-L6-v2").symlink_to(minilm_of_pages)
    return tmp_path


@pytest.fixture(scope="session")
def exported(tmp_path_factory) -> Callable[[str], Path]:
    """A small model's SavedModels as they are written now: "preprocessor", "encoder" (with `.mlm`), "serving".

    An export takes seconds, so each is written at its first use. Tests must not change them. The first two overwrite
    an old SavedModel, of which nothing may stay.
    """
    from .golden import make_golden_export

    directory = tmp_path_factory.mktemp("exported")
    for part in ("preprocessor", "encoder"):
        (directory / part).mkdir()
        for name in ("saved_model.pb", "old.txt"):
            (directory / part / name).write_text("old")
    return functools.cache(lambda part: make_golden_export.export(directory, part))


@pytest.fixture(scope="session")
def loaded() -> Callable[[Path], Any]:
    """`tf.saved_model.load`, once for each directory. Tests must not change the variables."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  the operations of preprocessors

    return functools.cache(tf.saved_model.load)


@pytest.fixture(scope="session")
def in_c(tmp_path_factory) -> Callable[[Path, dict[str, list[str]]], dict[str, Any]]:
    """examples/c/run_export.c, compiled: a SavedModel's directory, columns of texts -> its outputs as tensors."""
    import tensorflow as tf

    from keras_bert.formats.tensorflow import saved_model

    if missing := [name for name in ("cc", "make") if shutil.which(name) is None]:
        pytest.skip(f"needs {' and '.join(missing)}, to compile examples/c/run_export.c")
    program = tmp_path_factory.mktemp("c") / "run_export"
    make = ["make", "-C", ROOT / "examples/c", f"PYTHON={sys.executable}", f"OUTPUT={program}", "CFLAGS=-Werror"]
    made = subprocess.run(make, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    packages = Path(tf.__file__).parents[1]

    def run(directory: Path, columns: dict[str, list[str]]) -> dict[str, Any]:
        graphs = saved_model.read_graphs(directory / "saved_model.pb")
        libraries = [packages / each for each in saved_model.libraries_of(saved_model.operations(graphs))]
        texts = [f"{name}={text}" for name, column in columns.items() for text in column]
        result = subprocess.run([program, directory, *libraries, *texts], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr[-3000:]
        outputs = map(json.loads, result.stdout.splitlines())
        return {each["name"]: tf.reshape(tf.constant(each["values"]), each["shape"]) for each in outputs}

    return run


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> list[Path]:
    """Two small files to pre-train on. Tests must not change them."""
    from .support import corpus

    return corpus.write(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen]]:
    """`start_command`, whose process ends with the test: start("encode", "a cat")."""
    processes = []

    def start(*arguments: str, **settings) -> subprocess.Popen:
        processes.append(start_command(*arguments, **settings))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The two ends of a terminal of 80 columns: the user's and the process's."""
    user, process = pty.openpty()
    fcntl.ioctl(process, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    yield user, process
    os.close(user)
    os.close(process)
