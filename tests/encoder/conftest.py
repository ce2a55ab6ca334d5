"""One encoder for all tests of the encoder that do not change it."""

import pytest

from keras_bert import BertEncoder

from ..support.encoders import random_encoder


@pytest.fixture(scope="session")
def encoder() -> BertEncoder:
    return random_encoder()
