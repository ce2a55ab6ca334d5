"""Everything that a BERT does, with the layers of encoders since: learning, windows, files, SavedModels, XLA, pages."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertEncoder, BertMaskedLM
from keras_bert.encoder.summary import summarize
from keras_bert.pretraining import BertPretrainer, MaskedLMMasking, write_records
from keras_bert.saved_model import export_encoder, export_serving
from keras_bert.tasks.long_text import sequence_output
from keras_bert.training import fine_tune, pretrain
from keras_bert.visualize import attention

from ..support import corpus as letters
from ..support import small
from ..support.encoders import LLAMA, MODERN, SWITCHES

CHANGES = {
    "modernbert": {**MODERN, "head_activation": "gelu"},
    "nomic_bert": {"rope_theta": 50.0, "gated": True, "attention_bias": False, "feed_forward_bias": False},
    "mpnet": {**SWITCHES["relative"], "relative_buckets": 32, "positions_after_padding": True, "pooler": False},
    "deberta-v2": {**SWITCHES["disentangled"], "pooler": False},
    "new": SWITCHES["scaled"],
    "eurobert": {**LLAMA, "rope_theta": 50.0, "num_key_value_heads": 2},
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


def probabilities(model):
    return np.array([answer["probability"] for answer in model.classify(TEXTS)])


@pytest.mark.slow
@pytest.mark.parametrize("family", ["modernbert", *BLOCKS])
def test_a_classifier_learns_is_saved_and_served(family, tmp_path):
    model, teacher = classifier(family), classifier(family, seed=1)
    before = probabilities(model)
    history = fine_tune(model, (X, Y), epochs=1, batch_size=8, lora_rank=2, learning_rate=1e-3, progress=False)
    history += fine_tune(model, (X, Y), epochs=1, batch_size=8, teacher=teacher, learning_rate=1e-3, progress=False)
    assert all(np.isfinite(epoch["loss"]) for epoch in history)
    after = probabilities(model)
    assert np.abs(after - before).max() > 1e-4
    model.save_preset(tmp_path / "preset")
    np.testing.assert_allclose(probabilities(BertClassifier.from_preset(tmp_path / "preset")), after, atol=1e-5)
    export_serving(model, tmp_path / "served")
    serve = tf.saved_model.load(tmp_path / "served/1").signatures["serving_default"]
    served = serve(text=tf.constant(TEXTS))["probabilities"].numpy()
    np.testing.assert_allclose(served.max(axis=-1), after, atol=1e-5)


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


@pytest.mark.slow
@pytest.mark.parametrize("family", CHANGES)
def test_pre_training(family, corpus, tmp_path):
    preprocessor = letters.preprocessor()
    write_records(corpus[:1], tmp_path / "records", preprocessor, "sentences", layout="sentences", progress=False)
    config = dataclasses.replace(letters.encoder().config, **config_of(family))
    model = BertPretrainer(BertEncoder(config), preprocessor, False)
    masking = MaskedLMMasking(preprocessor.tokenizer, predictions=4)
    settings = {"batch_size": 16, "learning_rate": 3e-3, "measure_every": 2, "masking": masking, "progress": False}
    history = pretrain(model, tmp_path / "records", 4, tmp_path / "run", **settings)
    assert np.isfinite(history[-1]["loss"])
    model.save_preset(tmp_path / "preset")
    inputs = {"input_word_ids": np.array([[2, 5, 6, 3]], "int32"), "masked_lm_positions": np.array([[1]], "int32")}
    found = BertMaskedLM.from_preset(tmp_path / "preset")(inputs)
    assert np.isfinite(found).all()
