"""Training on JAX: on one device and on several the same as on TensorFlow, which is not imported."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from ..support.data import ROOT
from . import on_devices


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="jax is not installed")
def test_losses_and_weights_are_those_of_tensorflow(tmp_path, untraced):
    values = {**on_devices.examples(), **on_devices.weights(on_devices.classifier())}
    np.savez(tmp_path / "in.npz", **values)
    expected = on_devices.train(values)
    assert len(expected["losses"]) == on_devices.ROWS // on_devices.BATCH
    settings = {
        "PYTHONPATH": str(ROOT),
        "KERAS_BACKEND": "jax",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    command = [sys.executable, ROOT / "tests/contract/on_devices.py", tmp_path / "in.npz", tmp_path]
    result = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for devices in (1, 2):
        found = np.load(tmp_path / f"{devices}.npz")
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-4, err_msg=name)
    assert np.abs(expected["head/logits/kernel"] - values["head/logits/kernel"]).max() > 1e-3
