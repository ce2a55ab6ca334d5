"""keras-bert serve: its options, and when it cannot serve."""

import socket
import sys

import pytest

import keras_bert.server
from keras_bert.runtime_table import RUNTIMES
from keras_bert.server import run

from ..support.commands import invoke
from ..support.messages import assert_names
from . import toy


def fails(*arguments):
    """The line that the command writes, without its `Error: `."""
    result = invoke("serve", *arguments, exit_code=1)
    assert result.stdout == ""
    *log, line = result.stderr.splitlines()
    assert all(" version " in each for each in log), result.stderr
    assert line.startswith("Error: ")
    return line.removeprefix("Error: ")


OPTIONS = "--port 1 --rest-port 2 --host ::1 --model-name bert --max-batch 3 --no-batching --queue 4 --timeout 5.5 "
OPTIONS += "--log-requests --api-key s3cret"


def test_options(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(run, "serve", lambda settings, announce: asked.append(settings) or announce("ready"))
    directory = tmp_path / "toy"
    invoke("serve", directory, exit_code=2)  # there is none
    (directory / "1").mkdir(parents=True)
    (directory / "1" / "saved_model.pb").touch()
    for options in ("", OPTIONS):
        assert invoke("serve", directory, *options.split()).output == "ready\n"
    assert asked == [
        run.Settings({"toy": directory}, "127.0.0.1", 8500, 8501, 16, True, 1024, timeout=30, log_requests=False),
        run.Settings({"bert": directory}, "::1", 1, 2, 3, False, 4, timeout=5.5, log_requests=True, api_key="s3cret"),
    ]
    assert "s3cret" not in repr(asked)
    monkeypatch.setenv("KERAS_BERT_API_KEY", "0ther")
    invoke("serve", directory)
    assert asked.pop().api_key == "0ther"
    for key in ("", "s3 cret", "s3cret\n", "clé"):
        message = invoke("serve", directory, "--api-key", key, exit_code=2).stderr
        assert_names(message, "API key", "header")
        assert not key or key not in message
    assert not asked[2:]


def test_exports_alone_have_no_port_for_grpc(tmp_path, monkeypatch):
    ports = []
    monkeypatch.setattr(run, "serve", lambda settings, announce: ports.append(settings.port))
    exported, versions = toy.write_export(tmp_path / "exported"), tmp_path / "versions"
    toy.write_export(versions / "1")
    both, saved_model = tmp_path / "both", tmp_path / "saved_model"
    toy.write_export(both / "2")
    for directory in (both, saved_model):
        (directory / "1").mkdir(parents=True)
        (directory / "1" / "saved_model.pb").touch()
    for alone in ((exported,), (versions,), (exported, versions)):
        invoke("serve", *alone)
        assert ports.pop() is None
        message = invoke("serve", *alone, "--port", "0", exit_code=2).stderr
        assert_names(message, "--port", "gRPC", "SavedModel", "leave it out")
    for beside in ((both,), (exported, saved_model)):
        invoke("serve", *beside)
        invoke("serve", *beside, "--port", "7")
        assert (ports.pop(), ports.pop()) == (7, 8500)


@pytest.mark.parametrize("option", ["--port", "--rest-port"])
@pytest.mark.parametrize("port", ["-1", "65536", "99999"])
def test_a_port_that_is_none(toy_versions, option, port):
    message = invoke("serve", toy_versions, option, port, exit_code=2).stderr
    assert f"'{option}': {port} is not in the range 0<=x<=65535" in message


def test_a_server_that_is_announced_accepts_connections(start, toy_versions):
    """Without gRPC, whose start would give it the time to. `Thread` connects."""
    assert start(toy_versions, port=None).port is None


def test_names_of_several_models(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(run, "serve", lambda settings, announce: asked.append(settings.directories))
    first, second, other = (tmp_path / name for name in ("first", "second", "other/first"))
    for directory in (first, second, other):
        (directory / "1").mkdir(parents=True)
        (directory / "1" / "saved_model.pb").touch()
    invoke("serve", first, second)
    assert asked.pop() == {"first": first, "second": second}
    (tmp_path / "link").symlink_to(first)
    monkeypatch.chdir(first)
    parent = f"{second}/../first"
    for given, name in ((tmp_path / "link", "link"), (".", "first"), (parent, "first"), (f"{second}/", "second")):
        invoke("serve", given)
        assert [*asked.pop()] == [name]
    nameless = tmp_path / "\udcff"
    nameless.symlink_to(first)
    for arguments in ((nameless,), (first, "--model-name", "\udcff")):
        assert "--model-name" in invoke("serve", *arguments, exit_code=2).stderr
    assert "--model-name" in invoke("serve", first, second, "--model-name", "bert", exit_code=2).stderr
    assert "the same name" in invoke("serve", first, other, exit_code=2).stderr


@pytest.mark.parametrize("module", ["grpc", "aiohttp", "orjson", "tensorflow_serving", "prometheus_client"])
def test_without_the_extra(toy_versions, monkeypatch, module):
    for name in [name for name in sys.modules if name.startswith(("keras_bert.server.", "tensorflow_serving."))]:
        monkeypatch.delitem(sys.modules, name)
        if name.startswith("keras_bert"):
            monkeypatch.delattr(keras_bert.server, name.rpartition(".")[2])
    monkeypatch.setitem(sys.modules, module, None)
    message = fails(toy_versions)
    assert message.startswith(f"there is no {module}")
    assert message.endswith("which serving needs: pip install 'keras-bert-models[serve]'")


def test_nothing_to_serve(tmp_path, toy_model):
    free = ("--port", 0, "--rest-port", 0)
    assert fails(tmp_path, *free).startswith(f"{tmp_path} has no version; a version is a SavedModel in a directory")
    assert fails(toy_model, *free).startswith(f"{toy_model} is itself a SavedModel")
    litert = tmp_path / "litert"
    litert.mkdir()
    for name in ("config.json", RUNTIMES["litert"].file):
        (litert / name).touch()
    assert_names(fails(litert, *free), litert, "has no version", "ONNX Runtime", "OpenVINO")
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "saved_model.pb").write_bytes(b"not a model")
    assert fails(tmp_path, *free).startswith(f"{tmp_path} has no version that can be loaded. version 2: ")


def test_a_trained_model_is_to_be_exported_first(small_preset):
    message = fails(small_preset)
    assert message.startswith(f"{small_preset} is a trained model, ")
    assert f"export it first: keras-bert export serving --preset {small_preset} " in message
    assert message.endswith(" --output serving; then: keras-bert serve serving")


@pytest.mark.parametrize("option", ["--port", "--rest-port"])
def test_a_port_that_is_taken(toy_versions, option):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        other = {"--port": "--rest-port", "--rest-port": "--port"}[option]
        message = fails(toy_versions, option, port, other, 0)
    assert message.startswith(f"cannot listen on 127.0.0.1, port {port}: ")
