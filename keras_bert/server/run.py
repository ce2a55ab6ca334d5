"""Starts the server, and stops it without losing accepted requests."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from keras_bert.server import http_service, tracing
from keras_bert.server.connections import Connections, most_connections
from keras_bert.server.predicting import Batcher, Predictor
from keras_bert.server.requests import Requests
from keras_bert.server.versions import Models

if TYPE_CHECKING:
    import grpc

# A gRPC server cancels calls that arrive while it stops. Before that, it answers new calls with UNAVAILABLE for this
# long, so that their clients turn to another server.
_SECONDS_TO_REFUSE = 0.5

# A stop takes at most the time limit of a request and this.
_GRACE_SECONDS = 5

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """The options of `keras-bert serve`."""

    directories: Mapping[str, Path]  # by the name of the model in requests: the directory of its versions
    host: str  # a name or an address of this machine
    port: int | None  # the port of gRPC; 0: any free port; None: no gRPC, which imports TensorFlow
    rest_port: int  # the port of REST; 0: any free port
    max_batch: int  # the largest number of rows in a run
    batching: bool  # whether to merge requests into one run
    queue: int  # the largest number of waiting requests
    timeout: float  # the time limit of a request, in seconds
    log_requests: bool  # whether to log a line for each request
    api_key: str | None = field(default=None, repr=False)  # that requests must have


def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serves until SIGTERM or SIGINT, then answers accepted requests and returns. A second signal ends the process."""
    logging.getLogger("tensorflow").setLevel("ERROR")
    gc.collect()
    gc.freeze()  # garbage collection, which may run during a request, then skips the modules loaded so far
    asyncio.run(_serve(settings, announce))


async def _serve(settings: Settings, announce: Callable[[str], None]) -> None:
    limits = {"max_concurrent_requests": settings.queue, "max_batch_requests": settings.max_batch}
    models = Models(settings.directories, {**limits, "tokenization_workers": 1})
    requests = Requests(models, settings.timeout, settings.log_requests, settings.api_key)
    batcher = Batcher(settings.max_batch if settings.batching else None, settings.queue, requests.add_run)
    predictor = Predictor(batcher, settings.max_batch)
    most_http, most_rpc = most_connections()
    connections = Connections(most_http if settings.port is not None else most_http + most_rpc, settings.timeout)
    tracing.start_traces()
    http_server = http_service.new_runner(http_service.HttpService(models, predictor, requests, connections))
    # Binds the ports before the slow load of the model, so that a port in use is an error at once.
    rpc, ports = None, []
    if settings.port is not None:
        from keras_bert.server import grpc_service

        rpc = grpc_service.new_server(models, predictor, requests, most_rpc, settings.timeout)
        ports.append(f"gRPC port {_bind(rpc.server, settings.host, settings.port)}")
    rest_socket = _bind_socket(settings.host, settings.rest_port)
    try:
        served = await models.load_first()
        await http_server.setup()
        assert http_server.server is not None  # after `setup`
        serving = [connections.listen(rest_socket, http_server.server)]
        if rpc:
            await rpc.server.start()
        ports.append(f"REST port {rest_socket.getsockname()[1]}")
        stopped = _stop_signal(settings.timeout + _GRACE_SECONDS)
        announce(f"Serving {', '.join(served)} at {settings.host}: {', '.join(ports)}")
        serving.append(asyncio.ensure_future(connections.close_idle(http_server.server)))
        serving += [asyncio.ensure_future(each.watch()) for each in models.by_name.values()]
        await stopped.wait()
        _log.info("stopping: accepted requests are answered first")
        for each in serving:
            each.cancel()
        await asyncio.wait(serving)
        rest_socket.close()
        if rpc:
            await rpc.health.enter_graceful_shutdown()
        end = time.monotonic() + settings.timeout  # by then every request has its answer or its timeout
        await requests.stop()
        await connections.finish(end - time.monotonic())
        await http_server.cleanup()
        if rpc:
            await asyncio.sleep(_SECONDS_TO_REFUSE)
            await rpc.server.stop(_SECONDS_TO_REFUSE)  # ends watches of the health, and requests still on their way
    finally:
        await http_server.cleanup()
        if rpc:
            await rpc.server.stop(0)
        await batcher.close()
        await models.close()
    _log.info("stopped; requests answered: %d", requests.answered)


def _bind(server: grpc.aio.Server, host: str, port: int) -> int:
    try:
        return server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except RuntimeError:
        raise _cannot_listen(host, port, "the port is taken, or the address is not one of this machine's") from None


def _bind_socket(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise _cannot_listen(host, port, error.strerror or str(error)) from None
    return listener


def _cannot_listen(host: str, port: int, reason: str) -> OSError:
    return OSError(f"cannot listen on {host}, port {port}: {reason}")


def _stop_signal(seconds: float) -> asyncio.Event:
    """Makes an event that the first SIGTERM or SIGINT sets; the second ends the process, and so do `seconds`."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopped.is_set():
            os._exit(128 + number)
        stopped.set()
        end = threading.Timer(seconds, _end, [number, seconds])
        end.daemon = True
        end.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:  # it is ignored under nohup
            loop.add_signal_handler(number, stop, number)
    return stopped


def _end(number: int, seconds: float) -> None:
    _log.error("the stop takes longer than %.3g seconds, perhaps for a model that is being loaded: ended", seconds)
    os._exit(128 + number)
