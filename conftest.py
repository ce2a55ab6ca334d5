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
        if isinstance(item, pytest.DoctestItem):
            source = "".join(example.source for example in item.dtest.examples)
            if _WHOLE_MODEL.search(source):
                item.add_marker(pytest.mark.slow)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What has been imported stays: the collector, which now begins, need not look at it."""
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
    gc.enable()
    sys.meta_path.remove(LighterImports)


@pytest.fixture(autouse=True)
def _temporary_directories_go(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an example in a docstring leaves in `tempfile.mkdtemp()` goes with the test's own directory."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.setattr(tempfile, "tempdir", str(request.getfixturevalue("tmp_path")))


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
