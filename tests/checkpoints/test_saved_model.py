"""The weights in a SavedModel: TF Hub's, and our own."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertEncoder, checkpoints
from keras_bert.encoder.weights import load_weights
from keras_bert.saved_model import export_encoder
from keras_bert.tasks import BertMaskedLM

from .models import CONFIGS, random_weights, read_all, same

TF_HUB = Path(__file__).parents[3] / "shared/data/tfhub/small_bert_en_uncased_L-2_H-128_A-2_2"


@pytest.fixture(scope="module", params=["roberta", "albert"])
def exported(request, tmp_path_factory):
    """What `export_encoder` writes, and the model."""
    config, directory = CONFIGS[request.param], tmp_path_factory.mktemp("exported")
    weights = random_weights(config, "masked_lm")
    checkpoints.write(directory / "preset", config, weights)
    export_encoder(BertMaskedLM.from_preset(directory / "preset"), directory / "model")
    return directory / "model", config, weights


def test_our_own_need_a_configuration(exported, tmp_path):
    directory, config, weights = exported
    shutil.copytree(directory, tmp_path / "model")
    shutil.rmtree(tmp_path / "model" / "assets.extra", ignore_errors=True)
    with pytest.raises(ValueError, match=r"has no assets.extra/config.json: how many heads"):
        checkpoints.open_checkpoint(tmp_path / "model")
    config.write(tmp_path / "model" / "assets.extra" / "config.json")
    read_format, read_config, read_weights = read_all(tmp_path / "model")
    assert (read_format, read_config) == ("saved_model", config)
    assert same(read_weights, weights)


def test_a_damaged_graph(tmp_path):
    config, weights = CONFIGS["bert"], random_weights(CONFIGS["bert"])
    checkpoints.write(tmp_path, config, weights, format="garden")
    (tmp_path / "variables").mkdir()
    for path in tmp_path.glob("bert_model.ckpt.*"):
        path.rename(tmp_path / "variables" / path.name.replace("bert_model.ckpt", "variables"))
    (tmp_path / "saved_model.pb").write_bytes(b"")  # no operations at all: the tanh approximation
    assert same(read_all(tmp_path)[2], weights)
    (tmp_path / "saved_model.pb").write_bytes(b"\xff" * 9)
    with pytest.raises(ValueError, match=r"saved_model.pb is not a SavedModel, or is damaged"):
        checkpoints.open_checkpoint(tmp_path)


@pytest.fixture(scope="module")
def tf_hub():
    if not TF_HUB.is_dir():
        pytest.skip(f"TF Hub's SavedModel is not part of this repository; looked for it in {TF_HUB}")
    return TF_HUB


def test_the_real_one(tf_hub):
    with checkpoints.open_checkpoint(tf_hub) as checkpoint:
        assert checkpoint.format == "saved_model"
        assert (checkpoint.missing, checkpoint.unexpected) == ([], [])
        assert checkpoint.heads == {"masked_lm"}
        config = checkpoint.config
    assert (config.num_layers, config.hidden_size, config.num_heads, config.activation) == (2, 128, 2, "gelu_tanh")


def test_the_real_ones_outputs(tf_hub):
    theirs = tf.saved_model.load(tf_hub)
    ours = BertMaskedLM.from_preset(tf_hub)
    generator = np.random.default_rng(0)
    mask = (np.arange(12) < np.array([[12], [7], [1]])).astype("int32")
    inputs = {
        "input_word_ids": generator.integers(1, 30522, mask.shape).astype("int32") * mask,
        "input_mask": mask,
        "input_type_ids": np.sort(generator.integers(0, 2, mask.shape)).astype("int32") * mask,
    }
    positions = np.array([[0, 5, 11], [6, 2, 0], [0, 0, 0]], "int32")
    expected = theirs.mlm({**{k: tf.constant(v) for k, v in inputs.items()}, "masked_lm_positions": positions})
    outputs = ours.encoder(inputs)
    logits = ours({**inputs, "masked_lm_positions": positions})
    real = mask.astype(bool)
    np.testing.assert_allclose(outputs["pooled_output"], expected["pooled_output"], atol=1e-5)
    np.testing.assert_allclose(logits, expected["mlm_logits"], atol=2e-5)
    for ours_layer, their_layer in zip(outputs["encoder_outputs"], expected["encoder_outputs"], strict=True):
        np.testing.assert_allclose(np.asarray(ours_layer)[real], np.asarray(their_layer)[real], atol=1e-5)


def test_weights_go_into_an_encoder(tf_hub):
    with checkpoints.open_checkpoint(tf_hub) as checkpoint:
        encoder = BertEncoder(checkpoint.config)
        load_weights(encoder, checkpoint, "encoder")
        read = checkpoint.read("encoder")
    np.testing.assert_array_equal(encoder.pooler.kernel, read["pooler/kernel"])
