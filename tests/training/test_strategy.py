"""strategy: what is there is used, and what cannot be used is refused."""

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from keras_bert.training import strategy


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


# Batches of seven rows, two of them an update, on one device and on two.
_TWO_DEVICES = """
import json
import keras, numpy as np, tensorflow as tf
from keras_bert.training import AdamW, Replicated, strategy

two = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)

class Model(Replicated, keras.Model):
    pass

rows = np.arange(28.0)[:, None] % 9
for kind in ("one", "mirrored"):
    devices = strategy(kind)
    with devices.scope():
        inputs = keras.Input([1])
        model = Model(inputs, keras.layers.Dense(1, kernel_initializer="ones")(inputs))
        model.compile(AdamW(0.1, global_clipnorm=0.5, gradient_accumulation_steps=2), "mse")
    (loss,) = model.fit(rows, 3 * rows, batch_size=7, shuffle=False, verbose=0).history["loss"]
    weights = [float(np.squeeze(weight)) for weight in model.get_weights()]
    told = type(devices).__name__, devices.num_replicas_in_sync, int(model.optimizer.iterations)
    print(json.dumps([told, [loss, *weights]]))
"""


@pytest.mark.slow
def test_several_devices_train_as_one():
    result = subprocess.run([sys.executable, "-c", _TWO_DEVICES], capture_output=True, text=True, check=False)
    assert "training on 2 devices of this machine\n" in result.stderr, result.stderr
    (_, one), (told, two) = map(json.loads, result.stdout.splitlines())
    assert told == ["MirroredStrategy", 2, 2]
    assert two == pytest.approx(one, rel=1e-5)
    assert one[1] > 1.1  # the kernel, which was 1


@pytest.mark.parametrize("kind", ["parameter_server", "central_storage"])
def test_what_keras_cannot_do(kind):
    with pytest.raises(ValueError, match='Keras 3 cannot train with parameter servers.*use "multi_worker"'):
        strategy(kind)


def test_no_such_kind():
    with pytest.raises(ValueError, match="'gpu'; expected one of auto, one, mirrored, multi_worker, tpu$"):
        strategy("gpu")


def test_no_cluster():
    with pytest.raises(ValueError, match="one process only: start several with `keras-bert launch"):
        strategy("multi_worker")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "TF_CONFIG cannot be read"),
        ("[]", "TF_CONFIG cannot be read"),
        (cluster(cluster={"worker": ["a:1"], "ps": ["b:1"]}), "names parameter servers"),
        (cluster(task={}), "not the task of this process"),
    ],
)
@pytest.mark.parametrize("kind", ["auto", "multi_worker"])
def test_bad_cluster(kind, config, message, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(ValueError, match=message):
        strategy(kind)


def test_too_late(monkeypatch):
    """Tests before this one have computed something."""
    tf.zeros(1)
    monkeypatch.setenv("TF_CONFIG", cluster())
    with pytest.raises(RuntimeError, match=r"call strategy\(\) first"):
        strategy()


# Slurm's variables in a step of two tasks on one machine.
SLURM = {"SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2"}


@pytest.mark.timing
@pytest.mark.slow
def test_slurm():
    code = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = '-1'; from keras_bert.training import strategy\n"
    code += "print(strategy().num_replicas_in_sync)"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, **SLURM, "SLURM_PROCID": str(i)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    assert [process.communicate()[0] for process in started] == ["2\n", "2\n"]
