"""Weights in several files, by an index that may come from a stranger."""

import json
import os
import shutil

import pytest
from safetensors.numpy import load_file, save_file

from keras_bert import formats

from ..support.checkpoints import CONFIGS, random_weights, read_all, same
from ..support.messages import error_names

INDEX = "model.safetensors.index.json"
SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
WEIGHTS = random_weights(CONFIGS["bert"], "masked_lm")


@pytest.fixture
def sharded(tmp_path):
    """A directory with a model in two shards, dealt out by turns: Q, K and V come from both."""
    directory = tmp_path / "sharded"
    formats.write(directory, CONFIGS["bert"], WEIGHTS)
    whole = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    weight_map = {name: SHARDS[i % 2] for i, name in enumerate(whole)}
    for shard in SHARDS:
        save_file({name: whole[name] for name in whole if weight_map[name] == shard}, directory / shard)
    (directory / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
    return directory


def rename_shard(directory, name):
    index = json.loads((directory / INDEX).read_text())
    index["weight_map"] = {k: name if v == SHARDS[1] else v for k, v in index["weight_map"].items()}
    (directory / INDEX).write_text(json.dumps(index))


def test_two_shards(sharded):
    _, config, weights = read_all(sharded)
    assert config == CONFIGS["bert"]
    assert same(weights, WEIGHTS)


def test_a_missing_shard(sharded):
    (sharded / SHARDS[1]).unlink()
    with error_names(FileNotFoundError, sharded / INDEX, SHARDS[1], "missing"):
        formats.open_checkpoint(sharded)


@pytest.mark.parametrize("name", ["../outside.safetensors", "sub/inside.safetensors", "..", "", "a\\b", "ABSOLUTE"])
def test_a_shard_elsewhere_is_refused(sharded, name):
    """Even where the file is there, and whole."""
    for place in (sharded.parent / "outside.safetensors", sharded / "sub" / "inside.safetensors"):
        place.parent.mkdir(exist_ok=True)
        shutil.copy(sharded / SHARDS[1], place)
    rename_shard(sharded, str(sharded / SHARDS[1]) if name == "ABSOLUTE" else name)
    with error_names(ValueError, sharded / INDEX, "shard", "beside its index"):
        formats.open_checkpoint(sharded)


def test_a_link_out_of_the_directory_is_refused(sharded):
    shutil.move(sharded / SHARDS[1], sharded.parent / "outside.safetensors")
    (sharded / SHARDS[1]).symlink_to("../outside.safetensors")
    with error_names(ValueError, sharded / INDEX, SHARDS[1], "link", "outside"):
        formats.open_checkpoint(sharded)


def test_links_inside_of_the_directory(sharded):
    shutil.move(sharded / SHARDS[1], sharded / "elsewhere.safetensors")
    (sharded / SHARDS[1]).symlink_to("elsewhere.safetensors")
    assert same(read_all(sharded)[2], WEIGHTS)


def test_the_cache_of_the_hub_consists_of_links(sharded, tmp_path):
    snapshot, blobs = tmp_path / "models--x" / "snapshots" / "0123", tmp_path / "models--x" / "blobs"
    shutil.move(sharded, blobs)
    snapshot.mkdir(parents=True)
    for name in os.listdir(blobs):
        (snapshot / name).symlink_to(f"../../blobs/{name}")
    assert same(read_all(snapshot)[2], WEIGHTS)


def test_a_tensor_that_is_not_in_its_shard(sharded):
    rename_shard(sharded, SHARDS[0])
    with error_names(ValueError, sharded / INDEX, SHARDS[0], "is not"):
        formats.open_checkpoint(sharded)


@pytest.mark.parametrize("text", ["{}", '{"weight_map": []}', '{"weight_map": {"a": 3}}', "[]", "{", ""])
def test_a_damaged_index(sharded, text):
    (sharded / INDEX).write_text(text)
    with error_names(ValueError, sharded / INDEX):
        formats.open_checkpoint(sharded)
