"""Versions come, fail, take over and go while clients ask."""

import asyncio
import contextlib
import shutil
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
import requests
import tensorflow as tf
from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

from keras_bert.server import versions as module
from keras_bert.server.errors import ServingError
from keras_bert.server.model import ModelSpec

from ..support.messages import assert_names, error_names
from . import toy
from .servers import HANGS, ONLY_SAVED_MODELS, output, wait_until

pytestmark = pytest.mark.timing
ENGINES = toy.ENGINES

ONE = np.array([1], np.float32)


LOOK = 0.05  # seconds


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch):
    monkeypatch.setattr(module, "POLL_SECONDS", LOOK)


@pytest.fixture(scope="module")
def models(engine, toy_model, tmp_path_factory):
    """Models that multiply by 1, 2, 3 and 4, under these names."""
    folder = tmp_path_factory.mktemp("models")
    return {factor: engine.copy(toy_model, folder / str(factor), factor) for factor in range(1, 5)}


@pytest.fixture
def versions(tmp_path, models):
    directory = tmp_path / "toy"
    shutil.copytree(models[1], directory / "1")
    return directory


def break_off(engine, model, version):
    """Begins to copy a model: there are the files by which it is known, but not yet all that they speak of."""
    for name in engine.files:
        (version / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(model / name, version / name)


def write_damaged(engine, version):
    for name in engine.files:
        (version / name).parent.mkdir(parents=True, exist_ok=True)
        (version / name).write_bytes(b"not a model")


def add(versions, model, number):
    """As export_serving does: under another name until it is complete."""
    shutil.copytree(model, versions / f".{number}.tmp")
    (versions / f".{number}.tmp").rename(versions / str(number))


@contextlib.contextmanager
def clients(server, *versions):
    """Two that ask without a pause, one for each protocol. Their answers must come from these versions, in this order.

    Yields a function that waits until a version has answered; the first has before, the last must after the block.
    """
    stopped, answers = threading.Event(), set()

    def ask_rest():
        response = server.post(":predict", {"instances": [1]})
        assert response.status_code == 200, response.text
        answers.update(response.json()["predictions"])

    def ask_grpc():
        response = server.predict(x=ONE)
        assert output(response, "y") == response.model_spec.version.value  # by the version that it says
        answers.update(output(response, "y").tolist())

    def ask_on(ask):
        while not stopped.is_set():
            ask()

    def hear(version):
        wait_until(lambda: version in answers or any(each.done() for each in asking))

    with ThreadPoolExecutor() as threads:
        asking = [threads.submit(ask_on, ask) for ask in (ask_rest, ask_grpc)]
        try:
            hear(versions[0])
            yield hear
            hear(versions[-1])
        finally:
            stopped.set()
    assert [each.exception() for each in asking] == [None, None]
    assert answers == set(versions)


def test_a_version_is_not_loaded_while_its_files_change(engine, versions, models):
    break_off(engine, models[2], versions / "2")

    async def look() -> list[list[int]]:
        served, loaded = module.Versions(versions, "toy"), []
        listings = await served._load_highest({1: ()})
        loaded.append(sorted(served.statuses))
        shutil.copytree(models[2], versions / "2", dirs_exist_ok=True)
        for _ in range(2):  # changed since the last look; then at rest
            listings = await served._load_highest(listings)
            loaded.append(sorted(served.statuses))
        await served.close()
        return loaded

    assert asyncio.run(look()) == [[], [], [2]]


def test_a_directory_that_is_gone_is_logged_once_and_watched_for(start, versions, models, caplog):
    server = start(versions)
    versions.rename(versions.parent / "elsewhere")
    wait_until(lambda: any("cannot be read" in line for line in server.log))
    time.sleep(6 * LOOK)
    (line,) = [line for line in server.log if "cannot be read" in line]
    assert line.startswith(f"{versions} cannot be read; the loaded version stays: ")
    assert not any(record.exc_info for record in caplog.records)
    assert output(server.predict(x=ONE), "y") == 1
    (versions.parent / "elsewhere").rename(versions)
    add(versions, models[2], 2)
    server.wait_for(v2="AVAILABLE")


def test_a_new_version_takes_over(start, versions, models):
    server = start(versions)
    assert "version 1 " in server.ready
    with clients(server, 1, 2, 4) as hear:
        add(versions, models[2], 2)
        server.wait_for(v1="END", v2="AVAILABLE")
        hear(2)
        add(versions, models[4], 4)
        server.wait_for(v2="END", v4="AVAILABLE")
    assert output(server.predict(version=4, x=ONE), "y") == 4
    with pytest.raises(grpc.RpcError) as caught:
        server.predict(version=2, x=ONE)
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    states = requests.get(server.url, timeout=HANGS).json()["model_version_status"]
    assert [(each["version"], each["state"]) for each in states] == [("4", "AVAILABLE"), ("2", "END"), ("1", "END")]
    # Back to an older one, by taking the new one away.
    with clients(server, 4, 2):
        (versions / "4").rename(versions / "withdrawn")
        wait_until(lambda: server.states() == {1: "END", 2: "AVAILABLE"}, server.states)


@pytest.mark.parametrize(("number", "words"), [(None, ["no version"]), (3, ["version 3", "not served"])])
def test_a_request_when_no_version_is_left_is_refused(tmp_path, number, words):
    spec = ModelSpec("toy", number)
    with error_names(ServingError, *words, "toy"), module.Versions(tmp_path, "toy").lease(spec):
        pass


def test_versions_that_are_gone_are_closed_and_forgotten(engine, start, versions, models, monkeypatch):
    """Otherwise a server's memory grows with each version (benchmarks/memory.py measures it)."""
    made, closed = [], []

    class Noted(getattr(engine.module, engine.name)):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(weakref.ref(self))

        def close(self):
            super().close()
            closed.append(made.index(weakref.ref(self)))

    monkeypatch.setattr(engine.module, engine.name, Noted)
    server = start(versions)
    write_damaged(engine, versions / "2")
    wait_until(lambda: server.states() == {1: "AVAILABLE", 2: "END"}, server.states)
    for old, new in ((1, 3), (3, 4)):
        add(versions, models[new], new)
        server.wait_for(**{f"v{old}": "END", f"v{new}": "AVAILABLE"})
        assert output(server.predict(x=ONE), "y") == new
    wait_until(lambda: [model() is None for model in made] == [True, True, False])
    assert closed == [0, 1]
    for number in (1, 2, 3):
        shutil.rmtree(versions / str(number))
    wait_until(lambda: server.states() == {4: "AVAILABLE"}, server.states)
    assert requests.get(f"{server.url}/versions/1", timeout=HANGS).status_code == 404
    # What is served stays, though its directory is gone.
    shutil.rmtree(versions / "4")
    time.sleep(6 * LOOK)
    assert server.states() == {4: "AVAILABLE"}
    assert output(server.predict(x=ONE), "y") == 4


def test_what_does_not_load_is_reported_and_the_old_goes_on(engine, start, versions, models):
    """Names that are no version numbers are ignored: 2^63 is more than gRPC's int64 holds."""
    write_damaged(engine, versions / "3")
    for name in ("0", "-3", "5.5", "2.0", "latest", "٣", "²", str(2**63), "9" * 200):
        (versions / name).symlink_to(models[3])
    server = start(versions)

    def attempts(number):
        return len([line for line in server.log if line.endswith(f"version {number}: loading")])

    assert server.ready.startswith("Serving toy version 1 ")
    (versions / "7").mkdir()  # not a model, or not yet
    (versions / "8").write_text("a file")
    with clients(server, 1, 2):
        shutil.copytree(models[2], versions / "2", ignore=shutil.ignore_patterns(Path(engine.data).name))
        wait_until(lambda: 2 in server.states() or attempts(3) > 1)
        assert attempts(3) == 1  # else version 2 has no turn
        server.wait_for(v2="END", v1="AVAILABLE")
        (status,) = requests.get(f"{server.url}/versions/2", timeout=HANGS).json()["model_version_status"]
        assert status["status"]["error_code"] != "OK"
        assert engine.data.partition(".")[0] in status["status"]["error_message"]
        assert str(versions) not in status["status"]["error_message"]
        wait_until(lambda: any("version 2: not loaded: " in line and "version 1 stays" in line for line in server.log))
        time.sleep(6 * LOOK)  # a few looks at the directory, in which nothing has changed
        # Once the copy is complete, it loads.
        shutil.copy(models[2] / engine.data, versions / "2" / engine.data)
        server.wait_for(v2="AVAILABLE", v1="END")
    assert set(server.states()) == {1, 2, 3}
    assert attempts(2) == 2  # not one a look


def write_warm_up(model, *records):
    (model / "assets.extra").mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(model / "assets.extra/tf_serving_warmup_requests")) as file:
        for record in records:
            file.write(record)


def log_of(signature, **inputs):
    log = PredictionLog()
    log.predict_log.request.model_spec.signature_name = signature
    for name, value in inputs.items():
        log.predict_log.request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    return log


def test_a_model_that_does_not_load_does_not_keep_others_from_being_served(engine, start, versions, models, tmp_path):
    broken = tmp_path / "broken"
    write_damaged(engine, broken / "1")
    server = start(versions, broken)
    assert server.ready.startswith("Serving toy version 1 at ")
    (line,) = [line for line in server.log if line.startswith(str(broken))]
    assert_names(line, "no version that can be loaded", "version 1", "the other models are served")
    assert output(server.predict(x=ONE), "y") == 1
    url = f"{server.root}/v1/models/broken"
    assert requests.post(f"{url}:predict", json={"instances": [1]}, timeout=HANGS).status_code == 404
    add(broken, models[3], 2)
    wait_until(lambda: requests.post(f"{url}:predict", json={"instances": [1]}, timeout=HANGS).status_code == 200)


@ONLY_SAVED_MODELS
def test_warm_up(start, versions, models, tmp_path):
    classify = PredictionLog()
    classify.classify_log.request.model_spec.name = "toy"
    records = [log_of("text", text=["a", "b"]), log_of("", x=ONE), classify]
    write_warm_up(versions / "1", *[record.SerializeToString() for record in records])
    server = start(versions)
    wait_until(lambda: any("version 1: loaded, 2 warm-up requests answered" in line for line in server.log))
    assert any("is a classify_log, which this server does not answer: left out" in line for line in server.log)
    bad = {
        2: (log_of("text", text=["poison"]).SerializeToString(), "assertion failed: [the text is poison]"),
        3: (log_of("missing", x=ONE).SerializeToString(), "no signature missing; the model has "),
        4: (b"\xff\xff", "request 1 of "),
    }
    for number, (record, message) in bad.items():
        model = shutil.copytree(models[2], tmp_path / f"bad{number}")
        write_warm_up(model, record)
        add(versions, model, number)
        wait_until(lambda number=number: server.states().get(number) == "END")
        (status,) = requests.get(f"{server.url}/versions/{number}", timeout=HANGS).json()["model_version_status"]
        assert message in status["status"]["error_message"]
        assert str(versions) not in status["status"]["error_message"]
    assert output(server.predict(x=ONE), "y") == 1


def test_a_version_stays_until_its_requests_are_answered(engine, start, versions, models, monkeypatch):
    answered = threading.Event()

    class Waiting(getattr(engine.module, engine.name)):
        def run(self, signature, *rest):
            assert signature.name != "busy" or answered.wait(HANGS)
            return super().run(signature, *rest)

    monkeypatch.setattr(engine.module, engine.name, Waiting)
    server = start(versions)
    call = server.stub.Predict.future(server.request("busy", rounds=np.array([3], np.int32)), HANGS)
    add(versions, models[2], 2)
    try:
        server.wait_for(v1="UNLOADING", v2="AVAILABLE")
        assert output(server.predict(x=ONE), "y") == 2
        assert server.states()[1] == "UNLOADING"
    finally:
        answered.set()
    assert call.result().model_spec.version.value == 1
    assert output(call.result(), "rounds").tolist() == [3]
    server.wait_for(v1="END")
