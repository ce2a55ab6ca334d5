"""BertPretrainer: two objectives, one loss, and what is kept of it."""

import numpy as np
import pytest

from keras_bert import BertMaskedLM, BertNextSentence
from keras_bert.pretraining import BertPretrainer
from keras_bert.pretraining.pretrainer import config_of

from ..support.corpus import encoder
from ..support.messages import error_names
from ..support.small import shaken


@pytest.fixture(scope="module")
def model(preprocessor):
    return shaken(BertPretrainer(encoder(), preprocessor))


def inputs_of(batch):
    names = ("input_word_ids", "input_mask", "input_type_ids", "masked_lm_positions")
    return {name: batch[name] for name in names}


def cross_entropy(logits, labels):
    logits = logits - logits.max(-1, keepdims=True)
    chosen = np.take_along_axis(logits, np.asarray(labels)[..., None], -1)[..., 0]
    return np.log(np.exp(logits).sum(-1)) - chosen


@pytest.mark.parametrize("size", ["tiny", "mini", "small", "medium", "base", "large"])
def test_new_weights_of_all_sizes_keep_the_scale_of_a_vector(preprocessor, size):
    """As large as BERT-Base's leave it, within rounding. Only BERT-Tiny goes without dropout."""
    config = config_of(size, preprocessor.tokenizer, pairs=True)
    scale = config.initializer_range * config.hidden_size**0.5
    assert scale == pytest.approx(0.02 * 768**0.5, rel=0.2)
    dropout = 0.0 if size == "tiny" else 0.1
    assert (config.hidden_dropout, config.attention_dropout) == (dropout, dropout)


def test_every_published_size_can_be_pre_trained(preprocessor):
    """What the paper of ALBERT says of its base, section 3.1 and table 1, for another vocabulary."""
    config = config_of("albert-base", preprocessor.tokenizer, pairs=True)
    assert (config.family, config.num_groups, config.embedding_size, config.num_layers) == ("albert", 1, 128, 12)
    assert config.vocab_size == preprocessor.tokenizer.vocabulary_size
    assert BertPretrainer(encoder(family="albert"), preprocessor).objective == "sentence_order"  # section 3.1
    with error_names(ValueError, "roberta", "no head for pairs", "'sentences'"):
        config_of("roberta-base", preprocessor.tokenizer, pairs=True)
    with error_names(ValueError, "'huge'", "tiny", "albert-base", "config.json"):
        config_of("huge", preprocessor.tokenizer, pairs=True)


def test_the_loss_is_the_papers(model, batch):
    outputs = {name: np.array(value, np.float64) for name, value in model(inputs_of(batch)).items()}
    weights = batch["masked_lm_weights"]
    assert 0 < weights.mean() < 1  # some rows have fewer predictions
    of_tokens = cross_entropy(outputs["masked_lm"], batch["masked_lm_ids"])
    of_pairs = cross_entropy(outputs["next_sentence"], batch["next_sentence_labels"])
    expected = (of_tokens * weights).sum() / weights.sum() + of_pairs.mean()
    model.compile("sgd", model.training_loss(), weighted_metrics=model.training_metrics(), run_eagerly=True)
    targets = {"masked_lm": batch["masked_lm_ids"], "next_sentence": batch["next_sentence_labels"]}
    weight = {"masked_lm": weights, "next_sentence": np.ones(len(weights), np.float32)}
    found = model.evaluate(inputs_of(batch), targets, sample_weight=weight, batch_size=16, verbose=0, return_dict=True)
    np.testing.assert_allclose(found["loss"], expected, rtol=1e-5)
    right = outputs["masked_lm"].argmax(-1) == batch["masked_lm_ids"]
    np.testing.assert_allclose(found["masked_lm_accuracy"], right[weights > 0].mean(), rtol=1e-5)
    right = outputs["next_sentence"].argmax(-1) == batch["next_sentence_labels"]
    np.testing.assert_allclose(found["next_sentence_accuracy"], right.mean(), rtol=1e-5)


def test_each_weight_is_there_once(model):
    paths = [weight.path for weight in model.weights]
    assert len(set(paths)) == len(paths)
    assert len(paths) == 12 + 5 + 2 + 5 + 2  # a block; embeddings; pooler; the two heads
    assert len(model.trainable_weights) == len(paths)


def test_saved_and_loaded(tmp_path, model, batch):
    model.save_preset(tmp_path)
    with error_names(FileExistsError, tmp_path, "config.json", "overwrite"):
        model.save_preset(tmp_path)
    expected = model(inputs_of(batch))
    again = BertPretrainer.from_preset(tmp_path)
    for name, value in again(inputs_of(batch)).items():
        np.testing.assert_allclose(value, expected[name], atol=1e-5)
    masked = BertMaskedLM.from_preset(tmp_path)(inputs_of(batch))
    np.testing.assert_allclose(masked, expected["masked_lm"], atol=1e-5)
    pairs = {name: value for name, value in inputs_of(batch).items() if name != "masked_lm_positions"}
    np.testing.assert_allclose(BertNextSentence.from_preset(tmp_path)(pairs), expected["next_sentence"], atol=1e-5)


def test_without_pairs(tmp_path, preprocessor, batch):
    model = BertPretrainer(encoder(), preprocessor, pairs=False)
    assert list(model(inputs_of(batch))) == ["masked_lm", "sequence_output"]
    model.save_preset(tmp_path)
    again = BertPretrainer.from_preset(tmp_path)
    np.testing.assert_allclose(again(inputs_of(batch))["masked_lm"], model(inputs_of(batch))["masked_lm"], atol=1e-5)


def test_a_preset_of_another_program(tmp_path, model):
    """Its own heads, and rows as long as it has positions; a head for pairs that it lacks is new, if asked for."""
    BertMaskedLM(model.encoder).save_checkpoint(tmp_path, "hugging_face")
    model.preprocessor.tokenizer.save_preset(tmp_path)
    loaded = BertPretrainer.from_preset(tmp_path)
    assert list(loaded.heads) == ["masked_lm"]
    assert loaded.preprocessor.sequence_length == model.encoder.config.max_positions < BertPretrainer.ROW_LENGTH
    assert list(BertPretrainer.from_preset(tmp_path, pairs=True).heads) == ["masked_lm", "next_sentence"]
