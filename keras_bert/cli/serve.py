"""Serve models to clients of TF Serving, OpenAI and others.

Each DIRECTORY holds the versions of a model, and its name is the model's. A version is a SavedModel, or an export for
{runtimes}, which needs no TensorFlow. The highest version in DIRECTORY/<version>/ is served. A higher
version that appears takes over; no request is lost. A DIRECTORY may also be an export itself, as version 1.
Ctrl-C or SIGTERM ends the server after it has answered all accepted requests.

\b
Example:
  $ keras-bert serve saved_models/minilm &
  $ curl -d '{"instances": ["I love pizza"]}' localhost:8501/v1/models/minilm:predict
"""

import logging
import os
import re
import time
from pathlib import Path
from typing import Any

import click

from keras_bert.cli.terminal import Failure, Misuse, echo
from keras_bert.runtime_table import LOADABLE_TITLES

_PORT = click.IntRange(0, 65535)
_DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)
_SECONDS = 60.0
_MOST = 5  # records of one place in this time


@click.command(help=str(__doc__).replace("{runtimes}", LOADABLE_TITLES))
@click.argument("directories", metavar="DIRECTORY...", nargs=-1, required=True, type=_DIRECTORY)
@click.option(
    "--port",
    type=_PORT,
    show_default="8500",
    help="The port for gRPC, if there is a SavedModel; 0 takes any free port.",
)
@click.option("--rest-port", type=_PORT, default=8501, help="The port for REST; 0 takes any free port.")
@click.option("--host", default="127.0.0.1", help="The address to listen on; 0.0.0.0 for all networks.")
@click.option("--model-name", help="The model's name in requests.", show_default="the directory's name")
@click.option("--max-batch", type=click.IntRange(1), default=16, help="The largest number of rows in a batch.")
@click.option("--no-batching", is_flag=True, help="Compute each request separately.")
@click.option("--queue", type=click.IntRange(1), default=1024, help="The largest number of waiting requests.")
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), default=30.0, help="The time limit of a request, in seconds."
)
@click.option(
    "--api-key",
    metavar="KEY",
    envvar="KERAS_BERT_API_KEY",
    callback=lambda context, parameter, key: _check_key(key),
    help="Answer only requests with this key, but for /health. Other users of the machine see commands, but not the "
    "environment: set KERAS_BERT_API_KEY instead.",
)
@click.option("--log-requests", is_flag=True, help="Log each request: its model, status code and milliseconds.")
def serve(
    directories: tuple[Path, ...], port: int | None, model_name: str | None, no_batching: bool, **options: Any
) -> None:
    if model_name and len(directories) > 1:
        raise Misuse("--model-name is for a single directory; several models have the names of theirs")
    by_name = {_name(each, model_name): each for each in directories}
    if len(by_name) < len(directories):
        raise Misuse(f"two directories have the same name: {', '.join(map(str, directories))}")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC's errors are reported below
    from keras_bert.server import check_versions, complete_versions, is_saved_model

    try:
        for directory in directories:
            check_versions(directory)
    except FileNotFoundError as error:
        raise Failure(_advice(directory) or str(error)) from error
    paths = [path for directory in directories for path in complete_versions(directory).values()]
    has_rpc = any(map(is_saved_model, paths))
    if port is not None and not has_rpc:
        raise Misuse(
            "--port is for gRPC, which serves exports only beside a SavedModel; leave it out: REST serves them"
        )
    # oneDNN compiles a kernel for each shape. By default it keeps 1,024, too few for batches of all sizes.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "4096")
    try:
        from keras_bert.server import run

        if has_rpc:
            from keras_bert.server import grpc_service, saved_model  # noqa: F401  before the server listens
    except ModuleNotFoundError as error:
        packages = "'keras-bert-models[serve]'" if has_rpc else "aiohttp orjson prometheus_client"
        raise Failure(f"there is no {error.name}, which serving needs: pip install {packages}") from error
    rpc_port = (8500 if port is None else port) if has_rpc else None
    settings = run.Settings(directories=by_name, port=rpc_port, batching=not no_batching, **options)
    handler = logging.StreamHandler()
    handler.addFilter(Repetitions())
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", handlers=[handler])
    logging.getLogger("keras_bert").setLevel(logging.INFO)
    try:
        run.serve(settings, echo)
    except OSError as error:
        raise Failure(str(error)) from error


class Repetitions(logging.Filter):
    """Leaves out warnings and errors that repeat themselves, and says so: five a minute from each place in the code."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[tuple[str, int], tuple[float, int]] = {}  # by place: since when, and how many

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        place, now = (record.pathname, record.lineno), time.monotonic()
        start, count = self._counts.get(place, (now, 0))
        note = ""
        if now - start > _SECONDS:
            note = f" ({count - _MOST:,} like it were left out)" if count > _MOST else ""
            start, count = now, 0
        count += 1
        self._counts[place] = start, count
        if count == _MOST:
            note = " (more like it are left out for a minute)"
        record.msg, record.args = f"{record.getMessage()}{note}", ()
        return count <= _MOST


def _check_key(key: str | None) -> str | None:
    """Raises Misuse for a key that no header can hold. The message must not show it."""
    if key is None or re.fullmatch("[!-~]+", key):
        return key
    raise Misuse("the API key has white space or characters that are not ASCII, or is empty; a header cannot hold it")


def _name(directory: Path, given: str | None) -> str:
    """Finds the model's name: by default the directory's, a link's own. Raises Misuse if it is none for requests."""
    name = given or (directory.resolve().name if directory.name in ("", "..") else directory.name)
    if not name.isprintable() or not name:  # bytes that are not UTF-8 are not printable either
        raise Misuse(f"{name or directory} is no name for requests; give the model one with --model-name")
    return name


def _advice(directory: Path) -> str | None:
    """Says how to serve a directory of a model that is no SavedModel; None if it is none."""
    from keras_bert.inspection import inspect

    found = inspect(directory)
    export = next((each for each in found.commands if each.startswith("keras-bert export serving")), None)
    if export is None:
        return None
    return f"{directory} is a trained model, {found.what}; export it first: {export}; then: keras-bert serve serving"
