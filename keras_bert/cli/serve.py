"""keras-bert serve: a server of a SavedModel with TF Serving's protocols."""

import logging
import os
from pathlib import Path

import click

from keras_bert.cli import quiet

_PORT = click.IntRange(0, 65535)


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--port", type=_PORT, default=8500, show_default=True, help="The port for gRPC; 0 takes any free port.")
@click.option(
    "--rest-port", type=_PORT, default=8501, show_default=True, help="The port for REST; 0 takes any free port."
)
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address to listen on; 0.0.0.0 is the whole network."
)
@click.option("--model-name", help="The name of the model in requests.  [default: the directory's name]")
@click.option(
    "--max-batch", type=click.IntRange(1), default=16, show_default=True, help="The largest number of rows in a batch."
)
@click.option("--no-batching", is_flag=True, help="Compute each request by itself.")
@click.option(
    "--queue",
    type=click.IntRange(1),
    default=1024,
    show_default=True,
    help="The number of requests that may wait; more are refused.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    show_default=True,
    help="The seconds after which a request fails.",
)
def serve(
    directory: Path,
    port: int,
    rest_port: int,
    host: str,
    model_name: str | None,
    max_batch: int,
    no_batching: bool,
    queue: int,
    timeout: float,
) -> None:
    """Serve a SavedModel over gRPC and REST, as TF Serving does.

    It is read from DIRECTORY/<version>/; the highest version is served. When a higher one appears, it is loaded and
    takes over; no request is lost. Ctrl-C or SIGTERM ends the server after it has answered all accepted requests.

    \b
    Example:
      $ keras-bert serve saved_models/minilm &
      $ curl -d '{"instances": ["I love pizza"]}' localhost:8501/v1/models/minilm:predict
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # errors are reported once, below
    with quiet.imports():
        try:
            from keras_bert.server import run
        except ModuleNotFoundError as error:
            raise click.ClickException(
                f"there is no {error.name}, which serving needs: pip install 'keras-bert-models[serve]'"
            ) from error
    settings = run.Settings(
        directory=directory,
        model_name=model_name or directory.resolve().name,
        host=host,
        port=port,
        rest_port=rest_port,
        max_batch=max_batch,
        batching=not no_batching,
        queue=queue,
        timeout=timeout,
    )
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("keras_bert").setLevel(logging.INFO)
    try:
        run.serve(settings, click.echo)
    except OSError as error:
        raise click.ClickException(str(error)) from error
