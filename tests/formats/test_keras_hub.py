"""KerasHub's preset directories, made here as KerasHub writes them (which is tested live in tests/contract)."""

import json

import h5py
import numpy as np
import pytest

from keras_bert import formats

from ..support.checkpoints import CONFIGS, read_all, same
from ..support.keras_hub import CLASSES, write_weights
from ..support.messages import error_names


@pytest.mark.parametrize("family", CLASSES)
@pytest.mark.parametrize("head", [None, "masked_lm", "sequence"])
def test_every_backbone(family, head, tmp_path):
    if family == "electra" and head:
        pytest.skip("KerasHub has no tasks for ELECTRA")
    config = CONFIGS[family]
    expected = write_weights(tmp_path, family, [head] if head else [])
    read_format, read_config, weights = read_all(tmp_path)
    assert read_format == "keras_hub"
    assert read_config.pooler == (family in ("bert", "albert"))
    for field in ("family", "num_layers", "num_heads", "max_positions", "embedding_size", "groups", "pad_token_id"):
        assert getattr(read_config, field) == getattr(config, field), field
    gelu = "gelu" if family in ("roberta", "xlm-roberta", "distilbert") else "gelu_tanh"
    assert read_config.activation == gelu
    assert read_config.layer_norm_epsilon == (1e-5 if "roberta" in family else 1e-12)
    if config.positions_after_padding:
        expected["encoder"]["embeddings/position/embeddings"][:2] = 0
        expected["encoder"]["embeddings/type/embeddings"][:] = 0
    for name in ("pooler/kernel", "pooler/bias"):
        if not read_config.pooler:
            expected["encoder"].pop(name, None)
    assert same(weights, expected)


def test_what_is_missing_is_named(tmp_path):
    write_weights(tmp_path, "bert", ["masked_lm"])
    name = "layers/transformer_encoder_1/_self_attention_layer/key_dense/vars/1"
    with h5py.File(tmp_path / "model.weights.h5", "a") as file:
        del file[name]
        file["layers/stranger/vars/0"] = np.ones(3)
    with formats.open_checkpoint(tmp_path) as checkpoint:
        assert (checkpoint.missing, checkpoint.unexpected) == ([name], ["layers/stranger/vars/0"])
        with error_names(ValueError, tmp_path / "model.weights.h5", f"{name} is missing"):
            checkpoint.read("encoder")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"class_name": "GPT2Backbone"}, ["class_name", "'GPT2Backbone'", "BertBackbone"]),
        ({"class_name": 7}, [7, "class_name", "string"]),
        ({"config": None}, ["no config", "object"]),
        ({"config": {"num_inner_repetitions": 2}}, ["num_inner_repetitions", 2, 1]),
        ({"config": {"hidden_dim": "wide"}}, ["'wide'", "config.hidden_dim", "whole number"]),
        ({"config": {"num_heads": None}}, ["no config.num_heads", "whole number"]),
        ({"config": {"dropout": [0.1]}}, ["[0.1]", "config.dropout", "number"]),
    ],
)
def test_a_config_that_is_not_known(change, words, tmp_path):
    write_weights(tmp_path, "bert")
    values = json.loads((tmp_path / "config.json").read_text())
    if change.get("config"):
        change = {"config": values["config"] | change["config"]}
    (tmp_path / "config.json").write_text(json.dumps({**values, **change}))
    with error_names(ValueError, tmp_path / "config.json", *words):
        formats.open_checkpoint(tmp_path)


def test_a_file_that_is_cut_short(tmp_path):
    write_weights(tmp_path, "bert")
    path = tmp_path / "model.weights.h5"
    path.write_bytes(path.read_bytes()[:3000])
    with error_names(ValueError, path, "3,000 bytes", "not a whole HDF5 file", "fetch"):
        formats.open_checkpoint(tmp_path)


def test_sizes_that_no_file_of_its_size_can_hold(tmp_path):
    """RoBERTa's segments are not in the file at all."""
    write_weights(tmp_path, "roberta")
    values = json.loads((tmp_path / "config.json").read_text())
    values["config"]["num_segments"] = 10**9
    (tmp_path / "config.json").write_text(json.dumps(values))
    words = ["weights", "configuration", "48,000,011,872 bytes"]
    with (
        formats.open_checkpoint(tmp_path) as checkpoint,
        error_names(ValueError, tmp_path / "model.weights.h5", *words),
    ):
        checkpoint.weights("encoder")


def write_task(directory, class_name="BertTextEmbedder", **settings):
    config = {"pooling_mode": "cls", "normalize": False, "preprocessor": {"config": {"sequence_length": 24}}} | settings
    (directory / "task.json").write_text(json.dumps({"class_name": class_name, "config": config}))


def settings_of(directory):
    with formats.Preset.open(directory) as preset:
        found = preset.sentence_settings
    return found.pooling, found.normalize, found.similarity, found.max_length


def test_the_settings_of_a_text_embedder(tmp_path):
    write_weights(tmp_path, "bert")
    assert settings_of(tmp_path) == ("mean", True, "cosine", None)
    write_task(tmp_path)
    assert settings_of(tmp_path) == ("cls", False, "dot", 24)
    write_task(tmp_path, "XLMRobertaTextEmbedder", pooling_mode="max", normalize=True, preprocessor=None)
    assert settings_of(tmp_path) == ("max", True, "cosine", None)
    write_task(tmp_path, "BertTextClassifier")
    assert settings_of(tmp_path) == ("mean", True, "cosine", None)
    for change, words in (
        ({"pooling_mode": "last"}, ["'last'", "mean, cls, max"]),
        ({"normalize": "no"}, ["normalize"]),
        ({"preprocessor": {"config": {"sequence_length": "long"}}}, ["sequence_length"]),
    ):
        write_task(tmp_path, **change)
        with error_names(ValueError, tmp_path / "task.json", *words):
            settings_of(tmp_path)
