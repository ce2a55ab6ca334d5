"""Hugging Face's layout, in and out: what is there, what is missing, and what is damaged."""

import dataclasses
import json
import shutil
import struct
import warnings

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_bert import BertEncoder, formats, presets

from ..support.checkpoints import CONFIGS, random_weights, read_all, same
from ..support.messages import error_names, warning_names

CONFIG = dataclasses.replace(CONFIGS["bert"], num_layers=1)


@pytest.fixture
def preset(tmp_path):
    formats.write(tmp_path / "preset", CONFIG, random_weights(CONFIG))
    return tmp_path / "preset"


def change(directory, function):
    """Rewrites the weights by way of `function`, from a dict of arrays to another."""
    save_file(function(load_file(directory / "model.safetensors")), directory / "model.safetensors")


def test_rows_of_a_table_that_mpnet_does_not_use_are_left_out(tmp_path):
    """transformers computes 32 buckets, whatever the configuration says."""
    config = CONFIGS["mpnet"]
    weights = random_weights(config)
    formats.write(tmp_path, config, weights)
    name = "encoder.relative_attention_bias.weight"
    more = np.float32([[9] * config.num_heads] * 8)
    change(tmp_path, lambda arrays: {**arrays, name: np.concatenate([arrays[name], more])})
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, "relative_attention_num_buckets": 40}))
    _, read, found = read_all(tmp_path)
    assert read == config
    assert same(found, weights)
    change(tmp_path, lambda arrays: {**arrays, name: arrays[name][:31]})
    with error_names(ValueError, name, 31, 32), formats.open_checkpoint(tmp_path) as checkpoint:
        checkpoint.read("encoder")


def test_names_are_those_of_a_published_checkpoint(tmp_path):
    published = presets.resolve("all-MiniLM-L6-v2")
    with formats.open_checkpoint(published) as checkpoint:
        formats.write(tmp_path, checkpoint.config, {"encoder": checkpoint.weights("encoder")})
    ours, theirs = load_file(tmp_path / "model.safetensors"), load_file(published / "model.safetensors")
    theirs.pop("embeddings.position_ids", None)  # a buffer with 0, 1, 2, ...
    assert {name: value.shape for name, value in ours.items()} == {name: value.shape for name, value in theirs.items()}
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize(("prefix", "old_names"), [("", True), ("bert.", False), ("bert.", True)])
def test_spellings(preset, prefix, old_names):
    def respell(name):
        if old_names:
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        return prefix + name

    change(preset, lambda weights: {respell(name): value for name, value in weights.items()})
    assert same(read_all(preset)[2], random_weights(CONFIG))


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16, "float64"])
def test_float_types(preset, dtype):
    change(preset, lambda weights: {name: value.astype(dtype) for name, value in weights.items()})
    weights = random_weights(CONFIG)["encoder"]
    rounded = {name: value.astype(dtype).astype("float32") for name, value in weights.items()}
    assert same(read_all(preset)[2], {"encoder": rounded})


def test_a_file_without_pooler(preset):
    change(preset, lambda weights: {name: value for name, value in weights.items() if "pooler" not in name})
    encoder = BertEncoder.from_preset(preset)
    assert not encoder.config.pooler
    result = encoder({"input_word_ids": np.arange(10).reshape(2, 5)})
    np.testing.assert_array_equal(result["pooled_output"], result["sequence_output"][:, 0])


def test_nothing_is_overwritten_unasked(preset):
    before = (preset / "model.safetensors").read_bytes()
    with error_names(FileExistsError, preset, "config.json, model.safetensors", "overwrite"):
        BertEncoder(CONFIG).save_preset(preset)
    assert (preset / "model.safetensors").read_bytes() == before
    BertEncoder(CONFIG).save_preset(preset, overwrite=True)
    assert (preset / "model.safetensors").read_bytes() != before
    assert sorted(path.name for path in preset.iterdir()) == ["README.md", "config.json", "model.safetensors"]


QUERY, WORDS = "encoder.layer.0.attention.self.query.weight", "embeddings.word_embeddings.weight"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda w: {k: v for k, v in w.items() if k != QUERY}, [f"{QUERY} is missing"]),
        (lambda w: {**w, QUERY: w[QUERY][:, :6]}, [QUERY, "(12, 6)", "configuration", "(12, 12)"]),
        (lambda w: {k: v for k, v in w.items() if k.startswith("pooler")}, [f"{WORDS} is missing", "more"]),
        (lambda w: {k: v for k, v in w.items() if k != "pooler.dense.bias"}, ["pooler.dense.bias is missing"]),
        (lambda w: {**w, QUERY: w[QUERY].astype("int32")}, [QUERY, "int32", "float"]),
    ],
)
def test_bad_weights_fail_by_name(preset, function, words):
    change(preset, function)
    with error_names(ValueError, preset / "model.safetensors", *words):
        BertEncoder.from_preset(preset)


def test_layers_beyond_the_configuration_are_warned_of(preset, tmp_path):
    """As transformers does. Weights of heads, and buffers, are no weights of the encoder."""
    weights = load_file(preset / "model.safetensors")
    first = {name: value for name, value in weights.items() if name.startswith("encoder.layer.0.")}
    weights |= {name.replace("layer.0", "layer.1"): value for name, value in first.items()}
    more = {"lm_head.strange": np.ones(3, "float32"), "embeddings.position_ids": np.arange(16)}
    save_file({**weights, **more}, preset / "model.safetensors")
    beyond = [name for name in sorted(weights) if name.startswith("encoder.layer.1.")]
    with warning_names(preset / "model.safetensors", "num_layers 1", *beyond[:5], f"{len(beyond) - 5} more"):
        BertEncoder.from_preset(preset)
    config = json.loads((preset / "config.json").read_text())
    (preset / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 2}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BertEncoder.from_preset(preset)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"num_hidden_layers": 1001}, ["num_hidden_layers", "1,000", 1001]),
        ({"num_hidden_layers": 1000}, ["encoder.layer.1.attention.self.query.weight is missing", "more"]),
        ({"vocab_size": 31}, [WORDS, "(30, 12)", "configuration", "(31, 12)"]),
        ({"vocab_size": 10**9}, [WORDS, "(30, 12)", f"({10**9}, 12)"]),
        ({"vocab_size": 10**13}, ["vocab_size", "2,147,483,647", 10**13]),
    ],
)
def test_sizes_that_the_file_does_not_have(preset, sizes, words):
    """They cost no memory, and the next model can be loaded."""
    config = json.loads((preset / "config.json").read_text())
    (preset / "config.json").write_text(json.dumps(config | sizes))
    with error_names(ValueError, preset, *words):
        BertEncoder.from_preset(preset)
    (preset / "config.json").write_text(json.dumps(config))
    assert BertEncoder.from_preset(preset).built


def test_a_file_that_is_cut_short_and_a_header_that_claims_too_much(preset):
    path = preset / "model.safetensors"
    content = path.read_bytes()
    for damaged in (*(content[:size] for size in (0, 5, 100, 3000)), struct.pack("<Q", 1 << 60) + content[8:]):
        path.write_bytes(damaged)
        with error_names(ValueError, path, f"{len(damaged):,} bytes", "not a whole safetensors file", "fetch"):
            formats.open_checkpoint(preset)


@pytest.mark.parametrize(("dtype", "size"), [("F8_E4M3", 1), ("I32", 4), ("C64", 8)])
def test_types_of_numbers_that_are_no_weights(preset, dtype, size):
    """numpy has no float8."""
    path = preset / "model.safetensors"
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header, end = json.loads(content[8 : 8 + length]), 0
    for entry in header.values():
        if "dtype" in entry:
            start, end = end, end + size * int(np.prod(entry["shape"]))
            entry |= {"dtype": dtype, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
    with error_names(ValueError, path, "embeddings.word_embeddings.weight"):
        read_all(preset)


@pytest.mark.parametrize(
    ("name", "words"),
    [("config.json", ["model.safetensors"]), ("model.safetensors", ["config.json", "copy", "weights"])],
)
def test_a_missing_file_is_named(preset, name, words):
    (preset / name).unlink()
    with error_names(FileNotFoundError, preset, f"no {name}", *words):
        BertEncoder.from_preset(preset)


def test_an_interrupted_write_leaves_nothing(preset, monkeypatch):
    shutil.rmtree(preset)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        BertEncoder(CONFIG).save_preset(preset)
    assert not preset.exists()
