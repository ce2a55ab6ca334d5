"""The server's exception, and the limits of requests."""

from __future__ import annotations

import enum
import functools
import re
from pathlib import Path

_MAX_CHARACTERS = 500  # gRPC's clients drop longer messages


class Code(enum.IntEnum):
    """gRPC's status codes, each with HTTP's for it."""

    http_status: int

    def __new__(cls, number: int, http_status: int) -> Code:
        code = int.__new__(cls, number)
        code._value_, code.http_status = number, http_status
        return code

    OK = 0, 200
    CANCELLED = 1, 499
    UNKNOWN = 2, 500
    INVALID_ARGUMENT = 3, 400
    DEADLINE_EXCEEDED = 4, 504
    NOT_FOUND = 5, 404
    ALREADY_EXISTS = 6, 409
    PERMISSION_DENIED = 7, 403
    RESOURCE_EXHAUSTED = 8, 429
    FAILED_PRECONDITION = 9, 400
    ABORTED = 10, 409
    OUT_OF_RANGE = 11, 400
    UNIMPLEMENTED = 12, 501
    INTERNAL = 13, 500
    UNAVAILABLE = 14, 503
    DATA_LOSS = 15, 500
    UNAUTHENTICATED = 16, 401


class ServingError(Exception):
    """An error for the client: a message, and a status code of gRPC; the wrong field of the request, if it is known."""

    def __init__(self, code: Code, message: str, field: str | None = None, http_status: int | None = None) -> None:
        if len(message) > _MAX_CHARACTERS:
            message = message[:_MAX_CHARACTERS] + "..."
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.http_status = http_status  # in place of the code's


invalid_argument = functools.partial(ServingError, Code.INVALID_ARGUMENT)
not_found = functools.partial(ServingError, Code.NOT_FOUND)
failed_precondition = functools.partial(ServingError, Code.FAILED_PRECONDITION)
too_large = functools.partial(ServingError, Code.RESOURCE_EXHAUSTED, http_status=413)


_DIRECTORIES = re.compile(r"(?<![\w.:/])/(?:[^\s/:;,'\"()]+/)+")


def without_directories(message: str, *known: Path) -> str:
    """Leaves of absolute paths, and of `known`, their ends: where a server's files are is not for its clients."""
    for path in {*known, *(each.resolve() for each in known)}:
        message = message.replace(f"{path}/", "").replace(str(path), path.name)
    return _DIRECTORIES.sub("", message)


def internal_error(error: Exception) -> ServingError:
    """Makes the error for the client of an exception that nobody expected."""
    return ServingError(Code.INTERNAL, without_directories(f"{type(error).__name__}: {error}"))


# -- Limits. Larger requests are refused early, before they take time or memory from other requests.

MAX_BYTES = 16 * 2**20  # of a message, of a decompressed body, and of each tensor
MAX_ROWS = 2**16
MAX_JSON_VALUES = 2**20  # nobody else is served while Python parses JSON: up to half a second
