"""Fixtures for pre-training. Equal settings share one writer of records: a new one would be traced anew."""

import functools

import numpy as np
import pytest

from ..support import corpus as small_corpus


@pytest.fixture(scope="package", autouse=True)
def few_writers():
    from keras_bert.pretraining.records import ShardWriter

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("keras_bert.pretraining.records.ShardWriter", functools.cache(ShardWriter))
        yield


@pytest.fixture(scope="session")
def preprocessor():
    return small_corpus.preprocessor()


@pytest.fixture(scope="package")
def written(corpus, preprocessor, tmp_path_factory):
    """The directory of records of the corpus in two copies, and their counts. Tests must not change them."""
    from keras_bert.pretraining import write_records

    directory = tmp_path_factory.mktemp("records")
    return directory, write_records(corpus, directory, preprocessor, copies=2, progress=False, **small_corpus.WRITTEN)


@pytest.fixture(scope="package")
def records(written):
    from keras_bert.pretraining import Records

    return Records(written[0])


@pytest.fixture(scope="session")
def batch():
    """16 examples of random tokens, in the form of records."""
    generator = np.random.default_rng(0)
    mask = np.int32(np.arange(small_corpus.LENGTH) < generator.integers(8, small_corpus.LENGTH + 1, (16, 1)))
    return {
        "input_word_ids": mask * generator.integers(5, len(small_corpus.VOCABULARY), mask.shape, np.int32),
        "input_mask": mask,
        "input_type_ids": mask * np.int32(np.arange(small_corpus.LENGTH) > 4),
        "masked_lm_positions": np.tile(np.int32([1, 3, 5, 0]), (16, 1)),
        "masked_lm_ids": generator.integers(5, len(small_corpus.VOCABULARY), (16, 4), np.int32),
        "masked_lm_weights": np.tile(np.float32([1, 1, 1, 0]), (16, 1)),
        "next_sentence_labels": generator.integers(0, 2, 16, np.int32),
    }
