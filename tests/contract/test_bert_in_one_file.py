"""examples/bert_in_one_file.py equals the package and transformers: tokens, outputs, losses, and a step of training."""

import importlib.util

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertEncoder, BertPreprocessor, presets
from keras_bert.pretraining import BertPretrainer

from ..support import small
from ..support.data import ROOT
from ..support.texts import SENTENCES, TEXTS
from ..support.tokenization import NASTY, ODD_WORDS, random_texts

EXAMPLES = [("the film was good", "she loved the story"), ("dull", "a very long and dull plot " * 4), ("cold music",)]
NAMES = {"ids": "input_word_ids", "mask": "input_mask", "types": "input_type_ids"}


@pytest.fixture(scope="module")
def one_file():
    spec = importlib.util.spec_from_file_location("bert_in_one_file", ROOT / "examples/bert_in_one_file.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A small BERT with both heads; no weight of it is 0 or 1."""
    directory = tmp_path_factory.mktemp("small")
    small.shaken(BertPretrainer(small.encoder(scale=0.1), small.preprocessor()), scale=0.1).save_preset(directory)
    return directory


@pytest.fixture(scope="module")
def batch(one_file, directory):
    """Rows with masked words, as the file makes them."""
    _, _, vocabulary = one_file.load(directory)
    rows = one_file.pack(EXAMPLES, vocabulary, 16)
    batch = one_file.mask_words(rows, vocabulary, np.random.default_rng(3))
    assert 0 < batch["is_chosen"].sum() < rows["mask"].sum() / 2
    assert (batch["ids"] != rows["ids"]).any()
    return {**batch, "is_random": np.array([0, 1, 1], "int32")}


def packed(batch):
    return {theirs: batch[ours] for ours, theirs in NAMES.items()}


def close(ours, theirs):
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=0, atol=1e-5)


def test_tokens(one_file):
    path = presets.resolve("all-MiniLM-L6-v2")
    _, _, vocabulary = one_file.load(path)
    preprocessor = BertPreprocessor.from_preset(path, sequence_length=20, truncation="longest_first")  # Google's
    texts = [*TEXTS, *SENTENCES, *ODD_WORDS, *random_texts(NASTY, 300, 12), "a" * 101, "unaffable", "x" * 100]
    expected = preprocessor.tokenizer.tokenize(texts).to_list()
    for text, ids in zip(texts, expected, strict=True):
        assert [vocabulary[token] for token in one_file.tokenize(text, vocabulary)] == ids, ascii(text)
    rows = one_file.pack(list(zip(texts, reversed(texts), strict=True)), vocabulary, 20)
    for ours, theirs in NAMES.items():
        assert np.array_equal(rows[ours], preprocessor((texts, texts[::-1]))[theirs])


def test_outputs_of_a_real_model_whose_heads_are_new(one_file):
    path = presets.resolve("all-MiniLM-L6-v2")
    weights, config, vocabulary = one_file.load(path)
    rows = one_file.pack([("I love pizza",), ("the cat sat", "it slept")], vocabulary, 12)
    ours, theirs = one_file.bert(weights, config, rows), BertEncoder.from_preset(path)(packed(rows))
    real = rows["mask"].astype(bool)
    for one, other in zip(ours["encoder_outputs"], theirs["encoder_outputs"], strict=True):
        close(np.asarray(one)[real], np.asarray(other)[real])
    close(ours["pooled_output"], theirs["pooled_output"])
    assert one_file.predict_words(weights, ours["sequence_output"]).shape == (2, 12, 30522)
    assert one_file.predict_next_sentence(weights, ours["pooled_output"]).shape == (2, 2)


@pytest.mark.slow
def test_losses_and_a_step_of_training(one_file, directory, batch):
    weights, config, _ = one_file.load(directory)
    model = BertPretrainer.from_preset(directory, sequence_length=16)
    row, column = np.nonzero(batch["is_chosen"])
    count = np.bincount(row, minlength=3)
    places = np.zeros((3, count.max()), "int32")
    for index in range(3):
        places[index, : count[index]] = column[row == index]
    labels = {"masked_lm": np.take_along_axis(batch["words"], places, 1), "next_sentence": batch["is_random"]}
    used = {"masked_lm": (np.arange(count.max()) < count[:, None]).astype("float32"), "next_sentence": np.ones(3)}
    model.compile(keras.optimizers.SGD(0.1), model.training_loss())

    def package():
        outputs = model({**packed(batch), "masked_lm_positions": places})
        return [term.mean for term in model.label_terms(None, labels, outputs, used)]

    close(one_file.pretraining_losses(weights, config, batch), package())
    found = one_file.train_step(weights, config, batch, keras.optimizers.SGD(0.1), rate=0.0)
    with tf.GradientTape() as tape:
        losses = package()
        loss = sum(losses)
    close(found, losses)
    model.optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    after = one_file.pretraining_losses(weights, config, batch)
    assert sum(after) < sum(found)
    close(after, package())
    assert one_file.train_step(weights, config, batch, keras.optimizers.SGD(0.1))[0] != pytest.approx(float(after[0]))


@pytest.mark.parity
def test_transformers(one_file, directory, batch, tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model = transformers.BertForPreTraining.from_pretrained(directory).eval()
    model.save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_bytes((directory / "vocab.txt").read_bytes())
    rows = {"input_ids": "ids", "attention_mask": "mask", "token_type_ids": "types"}
    inputs = {name: torch.tensor(batch[ours]) for name, ours in rows.items()}
    labels = torch.tensor(np.where(batch["is_chosen"], batch["words"], -100)).long()
    with torch.no_grad():
        expected = model(
            **inputs, labels=labels, next_sentence_label=torch.tensor(batch["is_random"]).long(),
            output_hidden_states=True,
        )  # fmt: skip
    for source in (directory, tmp_path):
        weights, config, _ = one_file.load(source)
        outputs = one_file.bert(weights, config, batch)
        real = batch["mask"].astype(bool)
        close(np.asarray(outputs["sequence_output"])[real], expected.hidden_states[-1].numpy()[real])
        words = np.asarray(one_file.predict_words(weights, outputs["sequence_output"]))
        close(words[real], expected.prediction_logits.numpy()[real])
        close(one_file.predict_next_sentence(weights, outputs["pooled_output"]), expected.seq_relationship_logits)
        close(sum(one_file.pretraining_losses(weights, config, batch)), expected.loss)
