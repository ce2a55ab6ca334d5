"""tf-models-official (Model Garden), live: its input pipeline reads our records, and ours those that it writes."""

import random

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertPreprocessor
from keras_bert.pretraining import Records, write_records

pytestmark = pytest.mark.parity


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
