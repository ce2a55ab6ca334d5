"""tf-models-official (Model Garden), live: it reads what we write, object by object, and we read what it writes."""

import numpy as np
import pytest

from keras_bert import BertEncoder, formats
from keras_bert.config import BertConfig
from keras_bert.shapes import shapes
from keras_bert.tasks import BertMaskedLM

from ..support.garden import CONFIG, INPUTS, POSITIONS, SIZES, pretrainer, randomized, saved, theirs

pytestmark = pytest.mark.parity

REAL = INPUTS["input_mask"].astype(bool)


@pytest.fixture(scope="module")
def garden():
    return pytest.importorskip("official.nlp.modeling")


def same_outputs(ours, their_encoder, pooled=True):
    outputs, expected = ours(INPUTS), their_encoder(INPUTS)
    if pooled:
        close(outputs["pooled_output"], expected["pooled_output"])
    for our_layer, their_layer in zip(outputs["encoder_outputs"], expected["encoder_outputs"], strict=True):
        close(np.asarray(our_layer)[REAL], np.asarray(their_layer)[REAL])


def close(ours, expected):
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("item", ["model", "encoder"])
def test_encoders_that_they_wrote(garden, version, item, tmp_path):
    encoder = theirs(garden, version)
    same_outputs(BertEncoder.from_preset(saved(tmp_path / "ckpt", **{item: encoder})), encoder)


def test_albert_that_they_wrote(garden, tmp_path):
    encoder = garden.networks.AlbertEncoder(
        vocab_size=30,
        embedding_width=6,
        hidden_size=12,
        num_layers=3,
        num_attention_heads=3,
        max_sequence_length=16,
        type_vocab_size=2,
        intermediate_size=20,
        dict_outputs=True,
    )
    sizes = {**SIZES, "num_layers": 3, "embedding_size": 6, "num_groups": 1}
    config = BertConfig.named("albert-base", **sizes, activation="gelu_tanh")
    ours = BertEncoder.from_preset(saved(tmp_path / "ckpt", config, model=randomized(encoder)))
    outputs, expected = ours(INPUTS), encoder(INPUTS)
    close(np.asarray(outputs["sequence_output"])[REAL], np.asarray(expected["sequence_output"])[REAL])
    close(outputs["pooled_output"], expected["pooled_output"])


@pytest.mark.parametrize("as_items", [True, False])
def test_a_pretrainer_that_they_wrote(garden, as_items, tmp_path):
    model = pretrainer(garden)
    items = model.checkpoint_items if as_items else {"model": model}
    directory = saved(tmp_path / "ckpt", **items)
    ours = BertMaskedLM.from_preset(directory)
    same_outputs(ours.encoder, model.encoder_network, pooled=False)
    expected = model({**INPUTS, "masked_lm_positions": POSITIONS})
    close(ours({**INPUTS, "masked_lm_positions": POSITIONS}), expected["mlm_logits"])
    with formats.open_checkpoint(directory) as checkpoint:
        assert checkpoint.unexpected == []
        if not as_items:  # the items leave the last layer of next-sentence prediction out
            head = checkpoint.read("next_sentence")
            logits = np.asarray(ours.encoder(INPUTS)["pooled_output"]) @ head["logits/kernel"] + head["logits/bias"]
            close(logits, expected["next_sentence"])


def write_ours(directory, *heads):
    generator = np.random.default_rng(0)
    weights = {
        part: {
            name: generator.normal(size=shape).astype("float32") * 0.5
            for name, shape in shapes(CONFIG, part, 2).items()
        }
        for part in ("encoder", *heads)
    }
    formats.write(directory, CONFIG, weights, format="garden")
    return str(directory / "bert_model.ckpt")


@pytest.mark.parametrize("item", ["model", "encoder"])
def test_an_encoder_that_we_wrote(garden, item, tmp_path):
    import tensorflow as tf

    encoder = theirs(garden, 2)
    status = tf.train.Checkpoint(**{item: encoder}).read(write_ours(tmp_path))
    status.assert_existing_objects_matched()
    status.assert_consumed()
    same_outputs(BertEncoder.from_preset(tmp_path), encoder)


@pytest.mark.parametrize("as_items", [True, False])
def test_a_pretrainer_that_we_wrote(garden, as_items, tmp_path):
    import tensorflow as tf

    model = pretrainer(garden)
    items = model.checkpoint_items if as_items else {"model": model}
    status = tf.train.Checkpoint(**items).read(write_ours(tmp_path, "masked_lm", "next_sentence"))
    status.assert_existing_objects_matched()
    same_outputs(BertEncoder.from_preset(tmp_path), model.encoder_network)
    logits = model({**INPUTS, "masked_lm_positions": POSITIONS})["mlm_logits"]
    close(BertMaskedLM.from_preset(tmp_path)({**INPUTS, "masked_lm_positions": POSITIONS}), logits)
