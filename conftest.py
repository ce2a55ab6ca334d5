"""For all tests and examples in docstrings.

What makes the whole suite quicker stands here too: one thread a worker, and a collector of garbage that seldom runs.
"""

import ctypes
import gc
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from keras_bert.extras import LighterImports

_WHOLE_MODEL = re.compile(
    r"Bert(?!Preprocessor)\w+\.from_preset\(|(?:export_\w+|pretrain|\w+_files|build_index|evaluate_retrieval)\("
)
# What is exported or trained may be a smaller model, except where an example shows the whole model's size.
_SMALLER_MODEL = re.compile(r"(?:export_(?:encoder|litert|serving)|fine_tune\w*|learning_from)\(")
_GROWTH = 100e6  # bytes
_PAGE = os.sysconf("SC_PAGE_SIZE")
_settled = 0

# While tests are collected: a quarter of the processor time of an import. Keras's `fit` slices data frames.
LighterImports.libraries -= {"pandas"}
sys.meta_path.insert(0, LighterImports)

# Importing TensorFlow and tracing make objects by the million, hardly any of them garbage: to look for it as often as
# Python does takes a fifth of a process's time.
gc.disable()
if "PYTEST_XDIST_WORKER" in os.environ:
    # As many workers as cores: threads of one worker would only take the other's core. Processes inherit it.
    for library in ("TF_NUM_INTRAOP", "OMP_NUM"):
        os.environ.setdefault(f"{library}_THREADS", "1")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks examples in docstrings that load, train or export a whole model as slow: together they take minutes."""
    for item in items:
        if isinstance(item, pytest.DoctestItem) and _WHOLE_MODEL.search(_source(item)):
            item.add_marker(pytest.mark.slow)


def _source(item: pytest.DoctestItem) -> str:
    return "".join(example.source for example in item.dtest.examples)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What has been imported stays: the collector, which now begins, need not look at it."""
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
    gc.enable()
    sys.meta_path.remove(LighterImports)


@pytest.fixture(scope="session")
def minilm_of_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a smaller all-MiniLM-L6-v2, for pages and examples."""
    from tests.support import small

    return small.write_minilm_of_pages(tmp_path_factory.mktemp("minilm"))


@pytest.fixture(autouse=True)
def _examples_in_docstrings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What an example leaves in `tempfile.mkdtemp()` goes with the test's own directory.

    The slow ones run tf.functions eagerly: each makes a few calls of a new model, which would be traced for them.
    """
    if not isinstance(request.node, pytest.DoctestItem):
        yield
        return
    folder = request.getfixturevalue("tmp_path")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    if not request.node.get_closest_marker("slow"):
        yield
        return
    import tensorflow as tf

    if _SMALLER_MODEL.search(_source(request.node)):
        (folder / "all-MiniLM-L6-v2").symlink_to(request.getfixturevalue("minilm_of_pages"))
        monkeypatch.chdir(folder)
    tf.config.run_functions_eagerly("set_precision(" not in _source(request.node))  # int8 is of graphs
    yield
    tf.config.run_functions_eagerly(False)


def pytest_sessionfinish() -> None:
    """Notes the most memory that this process has had in the file that .ci/run names."""
    if path := os.environ.get("MEMORY_NOTES"):
        from tests.support.memory import most_memory

        with open(path, "a") as notes:
            print(most_memory() // 10**6, file=notes)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Models and the graphs traced of them go with their test: they refer to each other, and wait for the collector.

    A collection takes some tenths of a second, so only a process that has grown since the last one makes one.
    """
    global _settled
    yield
    if _memory() > _settled + _GROWTH:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what Python has freed, glibc still holds
        _settled = _memory()


def _memory() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
