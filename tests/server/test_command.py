"""keras-bert serve when it cannot."""

import socket
import subprocess
import sys

import pytest

from .process import ENVIRONMENT, HANGS


def fails(*arguments, before: str = ""):
    """The only line that the command writes, without its `Error: `."""
    code = f"{before}\nfrom keras_bert.cli import main\nmain(prog_name='keras-bert')"
    done = subprocess.run(
        [sys.executable, "-c", code, "serve", *arguments],
        capture_output=True, text=True, env=ENVIRONMENT, timeout=HANGS, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert done.stdout == ""
    *log, line = done.stderr.splitlines()
    assert all(" version " in each for each in log), done.stderr
    assert line.startswith("Error: ")
    return line.removeprefix("Error: ")


@pytest.mark.slow
@pytest.mark.parametrize("module", ["grpc", "aiohttp", "tensorflow_serving"])
def test_without_the_extra(toy_versions, module):
    message = fails(str(toy_versions), before=f"import sys; sys.modules['{module}'] = None")
    assert message.startswith(f"there is no {module}")
    assert message.endswith("which serving needs: pip install 'keras-bert-models[serve]'")


def test_nothing_to_serve(tmp_path, toy_model):
    assert fails(str(tmp_path)).startswith(f"{tmp_path} has no version: a version is a SavedModel in a directory")
    message = fails(str(toy_model))
    assert message.startswith(f"{toy_model} is itself a SavedModel")
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "saved_model.pb").write_bytes(b"not a model")
    assert fails(str(tmp_path)).startswith(f"{tmp_path} has no version that can be loaded. version 2: ")


@pytest.mark.parametrize("option", ["--port", "--rest-port"])
def test_a_port_that_is_taken(toy_versions, option):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        other = {"--port": "--rest-port", "--rest-port": "--port"}[option]
        message = fails(str(toy_versions), option, str(port), other, "0")
    assert message.startswith(f"cannot listen on 127.0.0.1, port {port}: ")


def test_help_does_not_wait_for_tensorflow():
    code = (
        "import sys; from keras_bert.cli import main\n"
        "main(['serve', '--help'], standalone_mode=False)\n"
        "sys.exit('slow' if {'tensorflow', 'grpc', 'numpy'} & set(sys.modules) else 0)\n"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=HANGS)
