"""Everything that a BERT does, with the layers of encoders since: learning, windows, files, SavedModels, XLA, pages."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertConfig, BertEncoder, BertMaskedLM
from keras_bert.encoder.summary import summarize
from keras_bert.formats import check_storable
from keras_bert.pretraining import BertPretrainer, MaskedLMMasking, write_records
from keras_bert.saved_model import export_encoder
from keras_bert.sizes import SIZES
from keras_bert.tasks.heads.long_text import sequence_output
from keras_bert.training import fine_tune, pretrain
from keras_bert.visualize import attention

from ..support import corpus as letters
from ..support import small
from ..support.encoders import LLAMA, MODERN, SWITCHES
from ..support.messages import error_names

CHANGES = {
    "modernbert": {**MODERN, "head_activation": "gelu"},
    "nomic_bert": {"rope_theta": 50.0, "gated": True, "attention_bias": False, "feed_forward_bias": False},
    "mpnet": {**SWITCHES["relative"], "relative_buckets": 32, "positions_after_padding": True, "pooler": False},
    "deberta-v2": {**SWITCHES["disentangled"], "pooler": False},
    "new": SWITCHES["scaled"],
    "eurobert": {**LLAMA, "rope_theta": 50.0, "num_key_value_heads": 2, "head_dim": 12},
    "neobert": {**LLAMA, "rope_theta": 10_000.0},
    "jina_embeddings_v3": {"rope_theta": 50.0, "type_vocab_size": 1, "pooler": False},
}
TEXTS = ["The film was very good!", "a dull story", "", "He hated the acting and the music " * 4]
X, Y = ["good film", "great story", "bad plot", "dull music"] * 4, ["good", "good", "bad", "bad"] * 4
# One of each kind of block: the other families have the same switches, which tests/encoder/test_switches.py has too.
BLOCKS = ("deberta-v2", "mpnet", "eurobert", "new")
FAMILIES = ["modernbert", *(pytest.param(each, marks=pytest.mark.slow) for each in BLOCKS)]


def config_of(family):
    return {"type_vocab_size": 2, **CHANGES[family], "family": family}


def classifier(family, seed=0):
    return small.task(BertClassifier, ["bad", "good"], seed=seed, config=config_of(family), text={"stride": 8})


@pytest.mark.slow
@pytest.mark.parametrize("family", BLOCKS)
def test_a_classifier_learns_and_is_saved(family, tmp_path, untraced):
    model, teacher = classifier(family), classifier(family, seed=1)
    before = model.get_weights()
    settings = {"epochs": 1, "batch_size": 8, "learning_rate": 1e-3, "progress": False}
    (epoch,) = fine_tune(model, (X, Y), lora_rank=2, teacher=teacher, **settings)
    assert np.isfinite(epoch["loss"])
    assert max(np.abs(after - was).max() for after, was in zip(model.get_weights(), before, strict=True)) > 1e-4
    model.save_preset(tmp_path)
    assert small.same(BertClassifier.from_preset(tmp_path), model)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_encoder_in_xla_in_a_saved_model_and_on_a_page(family, tmp_path):
    model = classifier(family)
    encoder, packed = model.encoder, small.preprocessor()(tf.constant(TEXTS[:2]))
    mask = packed["input_mask"].numpy().astype(bool)
    expected = encoder(packed)["sequence_output"].numpy()[mask]
    compiled = tf.function(encoder, jit_compile=True)
    np.testing.assert_allclose(compiled(packed)["sequence_output"].numpy()[mask], expected, atol=1e-4)
    export_encoder(encoder, tmp_path / "encoder")
    loaded = tf.saved_model.load(tmp_path / "encoder")
    np.testing.assert_allclose(loaded(packed)["sequence_output"].numpy()[mask], expected, atol=1e-5)
    attention(encoder, small.preprocessor(), TEXTS[0]).save(tmp_path / "page.html")
    assert summarize(encoder.config, sequence_length=24).parameters == encoder.count_params()
    windows = {name: tf.stack([values, values], axis=1) for name, values in packed.items()}
    both = sequence_output(encoder, windows)
    np.testing.assert_allclose(both[:, 1].numpy()[mask], expected, atol=1e-5)


@pytest.fixture(scope="module")
def records(corpus, tmp_path_factory):
    directory = tmp_path_factory.mktemp("records")
    write_records(corpus[:1], directory, letters.preprocessor(), "sentences", layout="sentences", progress=False)
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("family", ["modernbert", *BLOCKS])
def test_pre_training(family, records, tmp_path, untraced):
    preprocessor = letters.preprocessor()
    config = dataclasses.replace(letters.encoder().config, **config_of(family))
    model = BertPretrainer(BertEncoder(config), preprocessor, False)
    masking = MaskedLMMasking(preprocessor.tokenizer, predictions=4)
    settings = {"batch_size": 16, "learning_rate": 3e-3, "measure_every": 2, "masking": masking, "progress": False}
    history = pretrain(model, records, 4, tmp_path / "run", **settings)
    assert np.isfinite(history[-1]["loss"])
    model.save_preset(tmp_path / "preset")
    inputs = {"input_word_ids": np.array([[2, 5, 6, 3]], "int32"), "masked_lm_positions": np.array([[1]], "int32")}
    found = BertMaskedLM.from_preset(tmp_path / "preset")(inputs)
    assert np.isfinite(found).all()


def test_heads_of_known_families_may_be_left_out_and_follow_the_family():
    """As in configurations of earlier versions, which had no such fields."""
    later = ("masked_lm_activation", "sequence_activation", "head_norm", "own_decoder", "decoder_bias")
    for name in SIZES:
        config = BertConfig.named(name)
        fields = {field: value for field, value in config.to_dict().items() if field not in later}
        assert BertConfig(**fields) == config
        assert dataclasses.replace(BertConfig(), **fields) == config
    assert BertConfig(family="roberta").sequence_activation == "tanh"
    assert BertConfig(family="roberta", sequence_activation="relu").sequence_activation == "relu"
    assert BertConfig(family="modernbert", head_norm=False).head_norm  # a default stands for the family's value
    assert not BertConfig(family="lexbert", head_norm=False).head_norm


@pytest.mark.parametrize(("changes", "heads", "field"), [
    ({"family": "roberta", "sequence_activation": "relu"}, ["sequence"], ("sequence_activation='relu'", "'tanh'")),
    ({"sequence_activation": "relu"}, ["sequence"], ("sequence_activation='relu'", None)),
    ({"head_norm": True}, ["tokens"], ("head_norm=True", False)),
    ({"masked_lm_activation": "relu"}, ["masked_lm"], ("masked_lm_activation='relu'", None)),
    ({"own_decoder": True}, ["masked_lm"], ("own_decoder=True", False)),
])  # fmt: skip
def test_a_head_that_files_of_the_family_cannot_have_is_refused_before_training(changes, heads, field):
    config = BertConfig.tiny(**changes)
    check_storable(config, ["next_sentence"] if "family" not in changes else [])  # heads without these layers
    with error_names(ValueError, config.family, *field):
        check_storable(config, heads)
