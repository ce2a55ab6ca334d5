"""Serve a SavedModel over gRPC and REST, as TF Serving does.

The highest version in DIRECTORY/<version>/ is served. A higher version that appears takes over; no request is lost.
Ctrl-C or SIGTERM ends the server after it has answered all accepted requests.

\b
Example:
  $ keras-bert serve saved_models/minilm &
  $ curl -d '{"instances": ["I love pizza"]}' localhost:8501/v1/models/minilm:predict
"""

import logging
import os
from pathlib import Path
from typing import Any

import click

from keras_bert.cli.terminal import Failure, echo, quiet_imports
from keras_bert.server import check_versions

_PORT = click.IntRange(0, 65535)


@click.command(help=__doc__)
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--port", type=_PORT, default=8500, help="The port for gRPC; 0 takes any free port.")
@click.option("--rest-port", type=_PORT, default=8501, help="The port for REST; 0 takes any free port.")
@click.option("--host", default="127.0.0.1", help="The address to listen on; 0.0.0.0 for all networks.")
@click.option("--model-name", help="The model's name in requests.", show_default="the directory's name")
@click.option("--max-batch", type=click.IntRange(1), default=16, help="The largest number of rows in a batch.")
@click.option("--no-batching", is_flag=True, help="Compute each request separately.")
@click.option("--queue", type=click.IntRange(1), default=1024, help="The largest number of waiting requests.")
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), default=30.0, help="The time limit of a request, in seconds."
)
def serve(directory: Path, model_name: str | None, no_batching: bool, **options: Any) -> None:
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC's errors are reported below
    try:
        check_versions(directory)
    except FileNotFoundError as error:
        raise Failure(str(error)) from error
    # oneDNN compiles a kernel for each shape. By default it keeps 1,024, too few for batches of all sizes.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "4096")
    with quiet_imports():
        try:
            from keras_bert.server import run
        except ModuleNotFoundError as error:
            raise Failure(
                f"there is no {error.name}, which serving needs: pip install 'keras-bert-models[serve]'"
            ) from error
    name = model_name or directory.resolve().name
    settings = run.Settings(directory=directory, model_name=name, batching=not no_batching, **options)
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("keras_bert").setLevel(logging.INFO)
    try:
        run.serve(settings, echo)
    except OSError as error:
        raise Failure(str(error)) from error
