"""Starts the server, and stops it without losing what it has accepted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc
import tensorflow as tf
from aiohttp import web

from keras_bert.server import grpc_service, rest
from keras_bert.server.batching import Batcher
from keras_bert.server.predicting import Predictor
from keras_bert.server.versions import Versions

MAX_REQUEST_BYTES = 16 * 2**20

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """What `keras-bert serve` is asked for.

    Attributes:
        directory: holds the versions.
        model_name: what requests call the model.
        host: a name or an address of this machine.
        port, rest_port: of gRPC and of REST; 0 for any that is free.
        max_batch: the most rows that are computed at a time.
        batching: whether to compute the rows of several requests at a time.
        queue: the most requests that wait.
        timeout: seconds that a request may take.
    """

    directory: Path
    model_name: str
    host: str
    port: int
    rest_port: int
    max_batch: int
    batching: bool
    queue: int
    timeout: float


def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serves until SIGTERM or SIGINT, then answers what it has accepted and returns. A second signal ends at once.

    Args:
        settings: what to serve, and where.
        announce: gets one line when the server is ready.

    Raises:
        FileNotFoundError: there is no version that can be loaded.
        OSError: a port is not free.
    """
    tf.get_logger().setLevel("ERROR")
    asyncio.run(_serve(settings, announce))


async def _serve(settings: Settings, announce: Callable[[str], None]) -> None:
    versions = Versions(settings.directory, settings.model_name)
    batcher = Batcher(settings.max_batch if settings.batching else None, settings.queue)
    predictor = Predictor(batcher, settings.max_batch, settings.timeout)
    number = await versions.load_first()
    drain_seconds = settings.timeout + 5  # by then every request has its answer, if only that time is up

    rpc_server, health = grpc_service.new_server(versions, predictor, MAX_REQUEST_BYTES)
    service = rest.RestService(versions, predictor, settings.timeout)
    http_server = rest.new_runner(service, MAX_REQUEST_BYTES, drain_seconds)
    port = _bind(rpc_server, settings.host, settings.port)
    await http_server.setup()
    site = web.TCPSite(http_server, settings.host, settings.rest_port)
    try:
        await site.start()
        await rpc_server.start()
        rest_port = http_server.addresses[0][1]
        stopped = _stop_signal()
        announce(
            f"Serving {settings.model_name} version {number} at {settings.host}: "
            f"gRPC port {port}, REST port {rest_port}"
        )
        watch = asyncio.create_task(versions.watch())
        await stopped.wait()
        _log.info("stopping: what was accepted is answered first")
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch
        await health.enter_graceful_shutdown()
        await asyncio.gather(http_server.cleanup(), rpc_server.stop(drain_seconds))
    finally:
        await http_server.cleanup()
        await rpc_server.stop(0)
        await batcher.close()
        await versions.close()
    _log.info("stopped")


def _bind(server: grpc.aio.Server, host: str, port: int) -> int:
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        bound = server.add_insecure_port(address)
    except RuntimeError:
        bound = 0
    if not bound:
        raise OSError(f"cannot listen on {address}: the port is taken, or the address is not one of this machine's")
    return bound


def _stop_signal() -> asyncio.Event:
    """Is set by the first SIGTERM or SIGINT; the second ends the process."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopped.is_set():
            os._exit(128 + number)
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            loop.add_signal_handler(number, stop, number)
    return stopped
