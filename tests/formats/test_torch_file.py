"""`pytorch_model.bin`: read only with torch, and never run."""

import json
import pickle
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_bert import formats
from keras_bert.formats import Preset, hugging_face
from keras_bert.tasks.registry import columns_of_texts

from ..support.checkpoints import CONFIGS, random_weights, read_all, same
from ..support.messages import error_names

WEIGHTS = random_weights(CONFIGS["bert"], "masked_lm")


@pytest.fixture
def directory(tmp_path):
    formats.write(tmp_path, CONFIGS["bert"], WEIGHTS)
    return tmp_path


def test_without_torch_it_is_refused(directory, monkeypatch):
    (directory / "model.safetensors").unlink()
    (directory / "pytorch_model.bin").write_bytes(pickle.dumps({"a": 1}))
    monkeypatch.setitem(sys.modules, "torch", None)
    with error_names(ImportError, "pytorch_model.bin", "pickle", "torch", "model.safetensors"):
        formats.open_checkpoint(directory)


def test_safetensors_are_preferred(directory):
    (directory / "pytorch_model.bin").write_bytes(b"never looked at")
    assert same(read_all(directory)[2], WEIGHTS)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model.bin.index.json"])
def test_the_settings_beside_it_are_read(tmp_path, name):
    settings = {**hugging_face.label_entries(["a", "b"]), "problem_type": "multi_label_classification"}
    formats.write(tmp_path, CONFIGS["bert"], WEIGHTS, settings=settings)
    (tmp_path / "model.safetensors").rename(tmp_path / name)
    assert hugging_face.task_settings(Preset(tmp_path)) == settings


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def saved(directory, torch):
    """Writes the model as torch does, by way of `change`, from tensors to what is saved."""

    def save(change=lambda tensors: tensors, **kwargs):
        tensors = {name: torch.tensor(value) for name, value in load_file(directory / "model.safetensors").items()}
        torch.save(change(tensors), directory / "pytorch_model.bin", **kwargs)
        (directory / "model.safetensors").unlink()
        return directory

    return save


@pytest.mark.parametrize("zipped", [True, False])
def test_tensors(saved, zipped):
    directory = saved(_use_new_zipfile_serialization=zipped)
    assert same(read_all(directory)[2], WEIGHTS)


def test_the_columns_that_its_model_reads_are_known(saved):
    assert columns_of_texts(saved(), "text", "text_pair") == ["text", "text_pair"]


def test_half_precision(saved, torch):
    directory = saved(lambda tensors: {name: value.bfloat16() for name, value in tensors.items()})
    read = read_all(directory)[2]["encoder"]["pooler/kernel"]
    np.testing.assert_allclose(read, WEIGHTS["encoder"]["pooler/kernel"], rtol=2**-8)


def test_code_is_refused_and_not_run(saved, tmp_path):
    mark = tmp_path / "was run"

    class Bomb:
        def __reduce__(self):
            return open, (str(mark), "w")

    directory = saved(lambda tensors: {**tensors, "x": Bomb()})
    with error_names(ValueError, "pytorch_model.bin", "refused", "more than tensors"):
        formats.open_checkpoint(directory)
    assert not mark.exists()


@pytest.mark.parametrize("share", [0, 0.3, 0.9])
@pytest.mark.parametrize("zipped", [True, False])
def test_truncated(saved, share, zipped):
    directory = saved(_use_new_zipfile_serialization=zipped)
    path = directory / "pytorch_model.bin"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with error_names(ValueError, path):
        formats.open_checkpoint(directory)


def test_a_tensor_that_claims_more_than_the_file_holds(saved, torch):
    """One stored number can stand for as many as one likes."""
    name = "bert.embeddings.word_embeddings.weight"
    directory = saved(lambda tensors: {**tensors, name: torch.zeros(1, 1).expand(10**9, 12)})
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "vocab_size": 10**9}))
    path = directory / "pytorch_model.bin"
    with (
        formats.open_checkpoint(directory) as checkpoint,
        error_names(ValueError, path, "weights", "configuration", f"{path.stat().st_size:,} bytes"),
    ):
        checkpoint.weights("encoder")
