"""strategy: what is there is used, and what cannot be used is refused."""

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from keras_bert.training import strategy

from ..support.messages import error_names


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    for name in ("TF_CONFIG", "SLURM_STEP_NUM_TASKS", "TPU_NAME"):
        monkeypatch.delenv(name, raising=False)


def cluster(**changes):
    hosts = {"worker": ["localhost:1001", "localhost:1002"]}
    return json.dumps({"cluster": hosts, "task": {"type": "worker", "index": 0}, **changes})


@pytest.mark.parametrize("kind", ["auto", "one"])
def test_one_device(kind, capsys):
    assert strategy(kind).num_replicas_in_sync == 1
    assert capsys.readouterr().err == "training on one device\n"


@pytest.mark.parametrize(("kind", "words"), [
    ("gpu", ["'gpu'", "auto, one, mirrored, multi_worker, tpu"]),
    ("parameter_server", ["'parameter_server'", "parameter servers", '"multi_worker"']),
    ("central_storage", ["'central_storage'", "parameter servers", '"multi_worker"']),
    ("multi_worker", ["process", "keras-bert launch", "TF_CONFIG"]),  # there is one process
])  # fmt: skip
def test_a_strategy_that_this_process_cannot_have_is_refused(kind, words):
    with error_names(ValueError, *words):
        strategy(kind)


@pytest.mark.parametrize(("config", "words"), [
    ("{", "cannot be read"),
    ("[]", "cannot be read"),
    (cluster(cluster={"worker": ["a:1"], "ps": ["b:1"]}), "parameter servers"),
    (cluster(task={}), "not the task"),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["auto", "multi_worker"])
def test_a_bad_cluster_is_refused(kind, config, words, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config)
    with error_names(ValueError, "TF_CONFIG", words):
        strategy(kind)


def test_a_strategy_is_refused_once_tensorflow_was_used(monkeypatch):
    tf.zeros(1)
    monkeypatch.setenv("TF_CONFIG", cluster())
    with error_names(RuntimeError, "TensorFlow was used", "strategy"):
        strategy()


# Slurm's variables in a step of two tasks on one machine.
SLURM = {"SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2"}


@pytest.mark.timing
@pytest.mark.slow
def test_slurm():
    code = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = '-1'; from keras_bert.training import strategy\n"
    code += "print(strategy().num_replicas_in_sync)"
    settings = {"stdout": subprocess.PIPE, "text": True}
    started = [
        subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **SLURM, "SLURM_PROCID": str(i)}, **settings)
        for i in range(2)
    ]
    assert [process.communicate()[0] for process in started] == ["2\n", "2\n"]
