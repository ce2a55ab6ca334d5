"""HTTP's connections: no more than there are files for, and none that a client keeps without using it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import socket
import time
from collections.abc import Iterator

from aiohttp import web

_FILES_TO_SPARE = 24  # for new versions of models
_MOST = 65_536
_BACKLOG = 128  # connections that wait in the kernel
_SECONDS_TO_BEGIN = 1.0  # a connection that is younger does not make room for others
_LOOK_SECONDS = 0.02

_log = logging.getLogger(__name__)


def most_connections() -> tuple[int, int]:
    """Divides the files that the process may still open into connections of HTTP and a third as many of gRPC."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _MOST if limit == resource.RLIM_INFINITY else min(limit, _MOST)
    used = len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 2 * _FILES_TO_SPARE  # without /proc
    free = max(8, files - used - _FILES_TO_SPARE)
    return free - free // 4, free // 4


class Connections:
    """Accepts connections up to `most`, and closes those that are idle: no request came, or no answer is taken."""

    # If there are `most`, the one that is idle for longest makes room for the next; if none is, the next one waits.
    # `seconds` limits the time of a request's headers, of a pause between requests, and of a pause in reading an
    # answer.

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._idle: dict[web.RequestHandler, float] = {}  # since when, the longest first
        self._busy = 0

    @contextlib.contextmanager
    def busy(self, connection: web.RequestHandler) -> Iterator[None]:
        """Keeps a connection, in this block: its request has arrived, but for the body, and its answer is not sent."""
        self._idle.pop(connection, None)
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self._idle[connection] = time.monotonic()

    async def send(self, http: web.Request, response: web.StreamResponse) -> web.StreamResponse:
        """Sends a response, as long as the client goes on reading it. Returns it for aiohttp."""
        sending = asyncio.ensure_future(_send(http, response))
        unsent = None
        try:
            while not (await asyncio.wait({sending}, timeout=self._seconds))[0]:
                transport = http.transport
                size = None if transport is None else transport.get_write_buffer_size()
                if transport is not None and size == unsent:
                    transport.abort()
                unsent = size
            with contextlib.suppress(ConnectionError):  # the client has left, as aiohttp finds out, too
                sending.result()
        finally:
            sending.cancel()
        return response

    def listen(self, listener: socket.socket, server: web.Server) -> asyncio.Future[None]:
        """Listens, from now on, and makes a task that accepts connections until it is cancelled."""
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        return asyncio.ensure_future(self._accept(listener, server))

    async def _accept(self, listener: socket.socket, server: web.Server) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                while len(server.connections) >= self._most:
                    self._close_idle(server, _SECONDS_TO_BEGIN, at_most=1)
                    await asyncio.sleep(_LOOK_SECONDS)
                connection, _ = await loop.sock_accept(listener)
                _, protocol = await loop.connect_accepted_socket(server, connection)
                self._idle[protocol] = time.monotonic()
            except OSError as error:
                _log.error("cannot accept connections: %s", error)
                await asyncio.sleep(1)

    async def close_idle(self, server: web.Server) -> None:
        """Closes connections that are idle for too long, until it is cancelled."""
        while True:
            await asyncio.sleep(min(1.0, self._seconds / 4))
            self._close_idle(server, self._seconds)

    def _close_idle(self, server: web.Server, seconds: float, at_most: int | None = None) -> None:
        connected = set(server.connections)
        for connection in [each for each in self._idle if each not in connected]:
            del self._idle[connection]
        late = time.monotonic() - seconds
        for connection in [each for each, since in self._idle.items() if since < late][:at_most]:
            del self._idle[connection]
            connection.force_close()

    async def finish(self, seconds: float) -> None:
        """Waits until all answers are sent, up to `seconds`."""
        end = time.monotonic() + seconds
        while self._busy and time.monotonic() < end:
            await asyncio.sleep(0.05)


async def _send(http: web.Request, response: web.StreamResponse) -> None:
    if http.transport is not None:
        # Without a write buffer, a finished response is a sent one, which is not lost if the process ends.
        http.transport.set_write_buffer_limits(0)
    await response.prepare(http)
    await response.write_eof()
