"""One encoder for all tests of the encoder that do not change it."""

import pytest


@pytest.fixture(scope="session")
def encoder():
    from ..support.encoders import random_encoder

    return random_encoder()
