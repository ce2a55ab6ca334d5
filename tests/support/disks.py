"""Disks that are full."""

import contextlib
import resource
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Makes each write beyond the size fail with EFBIG, as beyond a full disk; in TensorFlow and SQLite, too."""
    limits, compiled = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    sys.dont_write_bytecode = True  # Python would leave half a compiled module, at which each later import fails
    try:
        yield
    finally:
        sys.dont_write_bytecode = compiled
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
