"""One interface for every format: what is there, what is missing, what is left over; shapes; heads."""

import os
import warnings

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_bert import BertEncoder, formats
from keras_bert.checkpoint_table import CHECKPOINT_FORMATS, WRITTEN
from keras_bert.encoder.weights import variables_by_name
from keras_bert.formats import FAMILIES, model_files, recognition
from keras_bert.formats.families.neobert import by_head
from keras_bert.shapes import shapes
from keras_bert.tasks.heads import ClassifierHead, MaskedLMHead

from ..support.checkpoints import CONFIGS, parts_of, random_weights, read_all, same, with_head
from ..support.messages import error_names, warning_names

FAMILY_AND_HEAD = [(family, head) for family in CONFIGS for head in (None, *FAMILIES[family].heads)]


# Three families have the layers of others.
@pytest.mark.slow
@pytest.mark.parametrize("family", [each for each in CONFIGS if each not in ("ernie", "xlm-roberta", "camembert")])
def test_shapes_are_those_of_the_layers(family):
    config = with_head(family, "sequence")

    def of_layer(layer):
        return {name: tuple(variable.shape) for name, variable in variables_by_name(layer).items()}

    parts = parts_of(config)
    assert shapes(config, "encoder") == of_layer(BertEncoder(config))
    assert parts["encoder"].keys() == shapes(config, "encoder").keys()
    for task in FAMILIES[family].heads:
        head = MaskedLMHead(config) if task == "masked_lm" else ClassifierHead(config, task, units=5)
        head.build()
        assert shapes(config, task, labels=5) == of_layer(head)
        assert parts[task].keys() == shapes(config, task).keys()
    keras.backend.clear_session()


@pytest.mark.parametrize(("family", "head"), FAMILY_AND_HEAD)
def test_round_trip(family, head, tmp_path):
    config = with_head(family, head)
    weights = random_weights(config, *filter(None, [head]))
    formats.write(tmp_path, config, weights)
    read_format, read_config, read_weights = read_all(tmp_path)
    assert (read_format, read_config) == ("hugging_face", config)
    assert same(read_weights, weights)
    header = int.from_bytes((tmp_path / "model.safetensors").read_bytes()[:8], "little")
    assert header % 8 == 0  # so that a program may use the values where they lie


@pytest.mark.parametrize("form", WRITTEN)
def test_what_a_format_writes_is_recognized_and_replaced(form, tmp_path):
    row, config = CHECKPOINT_FORMATS[form], CONFIGS["bert"]
    formats.write(tmp_path, config, random_weights(config), format=form)
    assert recognition.recognize(tmp_path).name == (row.kind or (form,))[0]
    written = {path.name for path in tmp_path.iterdir()} - {"README.md"}
    assert {name for name in written if model_files.matches(name, row.files)} == written
    assert written & {*row.configs}


def test_what_is_of_no_format_is_refused_and_what_is_of_one_is_known_by_its_configuration(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        formats.Preset(tmp_path).check()
    config = CONFIGS["bert"]
    formats.write_config(tmp_path / "mine.json", config)  # under a user's own name
    assert formats.read_config(tmp_path / "mine.json") == config
    (tmp_path / "model.safetensors").write_bytes(b"?")  # beside a preset of KerasHub
    (tmp_path / "config.json").write_text('{"class_name": "BertBackbone"}')
    assert recognition.recognize(tmp_path).name == "keras_hub"


def test_around_all_formats_that_are_written_not_one_bit_changes(tmp_path):
    config = CONFIGS["bert"]  # with the tanh approximation, which all of them express
    formats.write(tmp_path / "hugging_face", config, random_weights(config, "masked_lm", "next_sentence"))
    forms = [*WRITTEN]
    for source, target in zip(forms, [*forms[1:], "again"], strict=True):
        with formats.open_checkpoint(tmp_path / source) as checkpoint, warnings.catch_warnings():
            warnings.simplefilter("error")
            assert checkpoint.format == source
            parts = {part: checkpoint.weights(part) for part in ("encoder", *checkpoint.heads)}
            form = target.replace("again", "hugging_face")
            formats.write(tmp_path / target, checkpoint.config, parts, format=form)
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "hugging_face" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_the_older_prefix_of_nomic_bert(tmp_path):
    """That of the family's own code, in pre-trained models."""
    weights = random_weights(CONFIGS["nomic_bert"], "masked_lm")
    formats.write(tmp_path, CONFIGS["nomic_bert"], weights)
    change(tmp_path, lambda found: {name.replace("nomic_bert.", "bert."): value for name, value in found.items()})
    assert same(read_all(tmp_path)[2], weights)


def test_an_incomplete_head_is_the_one_that_the_architecture_names(tmp_path):
    """Three heads of ModernBERT have the same names."""
    formats.write(tmp_path, CONFIGS["modernbert"], random_weights(CONFIGS["modernbert"], "tokens"))
    change(tmp_path, lambda found: {name: value for name, value in found.items() if not name.startswith("head.")})
    with formats.open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.heads == {"tokens"}
        assert checkpoint.missing == ["head.dense.weight", "head.norm.weight"]
        with error_names(ValueError, "head.dense.weight is missing", "head.norm.weight is missing"):
            checkpoint.read("tokens")


def change(directory, function):
    path = directory / "model.safetensors"
    save_file(function(load_file(path)), path)


def test_missing_and_unexpected_names(tmp_path):
    formats.write(tmp_path, CONFIGS["bert"], random_weights(CONFIGS["bert"], "masked_lm"))
    lost = ["bert.encoder.layer.1.output.dense.bias", "cls.predictions.bias"]

    def damaged(weights):
        kept = {name: value for name, value in weights.items() if name not in lost}
        buffers = {"bert.embeddings.position_ids": np.arange(16)}  # old files have it; nobody misses it
        return {**kept, **buffers, "stranger": np.ones(3, "float32"), "bert.x": np.ones(3, "float32")}

    change(tmp_path, damaged)
    with formats.open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.missing == ["cls.predictions.bias", "encoder.layer.1.output.dense.bias"]
        assert checkpoint.unexpected == ["bert.x", "stranger"]
        assert checkpoint.heads == {"masked_lm"}
        for part, name in (("encoder", "encoder.layer.1.output.dense.bias"), ("masked_lm", "cls.predictions.bias")):
            with error_names(ValueError, tmp_path / "model.safetensors", f"{name} is missing"):
                checkpoint.read(part)


def test_no_such_part(tmp_path):
    formats.write(tmp_path, CONFIGS["roberta"], random_weights(CONFIGS["roberta"]))
    with formats.open_checkpoint(tmp_path) as checkpoint:
        with error_names(ValueError, "roberta", "no 'next_sentence'", "encoder"):
            checkpoint.read("next_sentence")
        with error_names(ValueError, "lm_head.bias is missing"):
            checkpoint.read("masked_lm")
    with error_names(ValueError, "roberta", "no next_sentence", "masked_lm"):
        formats.write(tmp_path / "other", CONFIGS["roberta"], {"next_sentence": {}})
    with error_names(ValueError, "format", "'onnx'", "hugging_face"):
        formats.write(tmp_path / "other", CONFIGS["roberta"], {}, format="onnx")
    assert not (tmp_path / "other").exists()


def test_shapes_that_are_asked_for(tmp_path):
    formats.write(tmp_path, CONFIGS["bert"], random_weights(CONFIGS["bert"], "sequence"))
    with formats.open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.shapes("sequence") == {"logits/kernel": (12, 3), "logits/bias": (3,)}
        with error_names(ValueError, "classifier.weight", "(3, 12)", "(5, 12)"):
            checkpoint.read("sequence", {"logits/kernel": (12, 5), "logits/bias": (5,)})


@pytest.mark.parametrize("name", ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias"])
def test_a_decoder_of_its_own_is_refused(name, tmp_path):
    formats.write(tmp_path, CONFIGS["bert"], random_weights(CONFIGS["bert"], "masked_lm"))
    original = "bert.embeddings.word_embeddings.weight" if "weight" in name else "cls.predictions.bias"
    change(tmp_path, lambda weights: {**weights, name: weights[original].copy()})
    with formats.open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.unexpected == []
        checkpoint.read("masked_lm")
    change(tmp_path, lambda weights: {**weights, name: weights[name] + 1})
    with formats.open_checkpoint(tmp_path) as checkpoint, error_names(ValueError, name, original, "decoder", "shares"):
        checkpoint.read("masked_lm")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_named(value, tmp_path):
    weights = random_weights(CONFIGS["bert"])
    weights["encoder"]["block_1/attention/qkv/kernel"][3, 30] = value  # the value's third
    formats.write(tmp_path, CONFIGS["bert"], weights)
    with formats.open_checkpoint(tmp_path) as checkpoint:
        with warning_names("encoder.layer.1.attention.self.value.weight", "NaN", "1 of"):
            read = checkpoint.read("encoder")
        assert same({"encoder": read}, weights)


def test_a_head_of_the_same_names_is_chosen_by_the_architecture(tmp_path):
    for head in ("tokens", "sequence"):
        formats.write(tmp_path / head, CONFIGS["bert"], random_weights(CONFIGS["bert"], head))
        with formats.open_checkpoint(tmp_path / head) as checkpoint:
            assert checkpoint.heads == {head}
    both = random_weights(CONFIGS["bert"], "tokens", "sequence")
    with error_names(ValueError, "two heads", "tokens", "sequence", "classifier.weight"):
        formats.write(tmp_path / "both", CONFIGS["bert"], both)


def test_reading_is_lazy(tmp_path):
    """What one weight's damage costs is that weight: the others are read without it."""
    weights = random_weights(CONFIGS["bert"])
    formats.write(tmp_path, CONFIGS["bert"], weights)
    change(tmp_path, lambda tensors: {**tensors, "pooler.dense.bias": np.arange(12)})
    with formats.open_checkpoint(tmp_path) as checkpoint:
        lazy = checkpoint.weights("encoder")
        assert len(lazy) == len(weights["encoder"]) == len(list(lazy))
        np.testing.assert_array_equal(lazy["pooler/kernel"], weights["encoder"]["pooler/kernel"])
        with error_names(ValueError, "pooler.dense.bias", "int64", "float"):
            lazy["pooler/bias"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_two_encoders_of_one_preset_share_no_memory(dtype, tmp_path):
    """TensorFlow takes the arrays that were read as they are."""
    config = CONFIGS["bert"]
    formats.write(tmp_path, config, random_weights(config))
    change(tmp_path, lambda found: {name: value.astype(dtype) for name, value in found.items()})
    before = read_all(tmp_path)[2]["encoder"]
    changed, other = (variables_by_name(BertEncoder.from_preset(tmp_path)) for _ in range(2))
    for name, variable in changed.items():
        variable.assign_add(keras.ops.ones_like(variable))
        np.testing.assert_allclose(variable, before[name] + 1, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(other[name], before[name])
    assert same({"encoder": before}, {"encoder": read_all(tmp_path)[2]["encoder"]})


def test_queries_and_keys_by_head_are_deinterleaved_and_values_are_not():
    config = CONFIGS["neobert"]  # the file has, head by head, the pairs of rotary coordinates beside each other
    order = np.reshape(by_head(config), (3, config.num_heads, config.head_size))
    half = config.head_size // 2
    for head in range(config.num_heads):
        begin = 3 * config.head_size * head
        for part in (0, 1):
            file = begin + part * config.head_size + np.arange(config.head_size).reshape(half, 2)
            np.testing.assert_array_equal(order[part, head].reshape(2, half), file.T)
        np.testing.assert_array_equal(order[2, head], begin + 2 * config.head_size + np.arange(config.head_size))


def test_a_file_that_is_cut_while_it_is_read(tmp_path):
    formats.write(tmp_path, CONFIGS["bert"], random_weights(CONFIGS["bert"]))
    with formats.open_checkpoint(tmp_path) as checkpoint:
        path = tmp_path / "model.safetensors"
        os.truncate(path, path.stat().st_size // 2)
        with error_names(ValueError, path, "cannot read", "shorter"):
            checkpoint.read("encoder")
