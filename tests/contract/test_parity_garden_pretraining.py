"""tf-models-official (Model Garden), live: its input pipeline reads our records, and ours those that it writes."""

import dataclasses
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertEncoder, BertPreprocessor, formats
from keras_bert.encoder.weights import load_weights
from keras_bert.pretraining import BertPretrainer, Records, write_records
from keras_bert.text import WordPieceTokenizer

from ..support.garden import CONFIG, INPUTS, POSITIONS, pretrainer, saved

pytestmark = pytest.mark.parity

TOKENIZER = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxy"])

TEXT = "\n\n".join(
    "\n".join(f"Sentence number {i} of document {j} says that it is {word}." for i in range(9))
    for j, word in enumerate(["short", "unbelievable", "red", "late"])
)


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "text.txt"


@pytest.fixture(scope="module")
def preprocessor():
    return BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=32)


def test_theirs_reads_ours(tmp_path, corpus, preprocessor):
    loader = pytest.importorskip("official.nlp.data.pretrain_dataloader")
    write_records([corpus], tmp_path / "records", preprocessor, layout="sentences", predictions=5)
    config = loader.BertPretrainDataConfig(
        input_path=str(tmp_path / "records/*.tfrecord"),
        global_batch_size=4,
        is_training=False,
        seq_length=32,
        max_predictions_per_seq=5,
        drop_remainder=False,
    )
    theirs = list(loader.BertPretrainDataLoader(config).load())
    ours = list(Records(tmp_path / "records").in_order(4))
    assert len(ours) == len(theirs) > 2
    for our_batch, their_batch in zip(ours, theirs, strict=True):
        assert set(our_batch) == set(their_batch)
        for name, value in our_batch.items():
            np.testing.assert_array_equal(np.reshape(their_batch[name], value.shape), value, err_msg=name)


@pytest.mark.parametrize("has_newer_names", [False, True])
def test_ours_reads_theirs(tmp_path, corpus, preprocessor, has_newer_names):
    creation = pytest.importorskip("official.nlp.data.create_pretraining_data")
    tokenization = pytest.importorskip("official.nlp.tools.tokenization")
    preprocessor.save_preset(tmp_path / "tokenizer")
    tokenizer = tokenization.FullTokenizer(str(tmp_path / "tokenizer/vocab.txt"), do_lower_case=True)
    as_text = lambda line: tokenization.convert_to_unicode(line).strip()  # noqa: E731
    instances = creation.create_training_instances(
        [str(corpus)], tokenizer, as_text, 32, 1, 0.1, 0.15, 5, random.Random(0)
    )
    creation.write_instance_to_example_files(
        instances, tokenizer, 32, 5, [str(tmp_path / "theirs.tfrecord")], False, has_newer_names
    )
    found = list(Records(tmp_path / "theirs.tfrecord").in_order(1))
    assert len(found) == len(instances) > 10
    for batch, instance in zip(found, instances, strict=True):
        length = len(instance.tokens)
        ids = tokenizer.convert_tokens_to_ids(instance.tokens)
        np.testing.assert_array_equal(batch["input_word_ids"][0, :length], ids)
        assert int(tf.reduce_sum(batch["input_mask"])) == length
        np.testing.assert_array_equal(batch["input_type_ids"][0, :length], instance.segment_ids)
        assert int(batch["next_sentence_labels"][0]) == instance.is_random_next


def test_losses_and_a_step(tmp_path):
    """The loss of their task, and what a step of gradient descent leaves of the weights."""
    garden = pytest.importorskip("official.nlp.modeling")
    masked_lm = pytest.importorskip("official.nlp.tasks.masked_lm")
    loader = pytest.importorskip("official.nlp.data.pretrain_dataloader")
    theirs = pretrainer(garden)
    task = masked_lm.MaskedLMTask(masked_lm.MaskedLMConfig(train_data=loader.BertPretrainDataConfig()))
    config = dataclasses.replace(CONFIG, hidden_dropout=0.0, attention_dropout=0.0)
    saved(tmp_path / "before/bert_model.ckpt", config, model=theirs)
    ours = BertPretrainer(
        BertEncoder.from_preset(tmp_path / "before"), BertPreprocessor(TOKENIZER, 8, max_sequence_length=16)
    )
    load_heads(ours, tmp_path / "before")

    labels = {"masked_lm_ids": np.array([[8, 9], [6, 0]]), "next_sentence_labels": np.array([[1], [0]])}
    weights = np.array([[1, 1], [1, 0]], "float32")
    inputs = {**INPUTS, "masked_lm_positions": POSITIONS}
    with tf.GradientTape() as tape:
        outputs = theirs(inputs, training=False)
        expected = task.build_losses({**labels, "masked_lm_weights": weights}, outputs, task.build_metrics())
    gradients = tape.gradient(expected, theirs.trainable_variables)
    for variable, gradient in zip(theirs.trainable_variables, gradients, strict=True):
        if gradient is not None:
            variable.assign_sub(0.1 * tf.convert_to_tensor(gradient))
    saved(tmp_path / "after/bert_model.ckpt", config, model=theirs)

    ours.compile(keras.optimizers.SGD(0.1), ours.training_loss(), jit_compile=False)
    targets = {"masked_lm": labels["masked_lm_ids"], "next_sentence": labels["next_sentence_labels"][:, 0]}
    loss = ours.train_on_batch(
        inputs, targets, sample_weight={"masked_lm": weights, "next_sentence": np.ones(2, "float32")}
    )
    np.testing.assert_allclose(np.ravel(loss)[0], expected, rtol=1e-5)
    after = BertPretrainer(BertEncoder.from_preset(tmp_path / "after"), ours.preprocessor)
    load_heads(after, tmp_path / "after")
    for found, wanted in zip(ours.weights, after.weights, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5, err_msg=found.path)


def load_heads(model, directory):
    with formats.open_checkpoint(directory) as checkpoint:
        load_weights(model.masked_lm.head, checkpoint, "masked_lm")
        load_weights(model.next_sentence, checkpoint, "next_sentence")
