"""The SavedModels to test the contract on: ours, newly exported, and two published on TF Hub."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from ..support import small
from ..support.data import TF_HUB

# A separate program, with Keras 2; pytest would import it in search of doctests.
collect_ignore = ["legacy_client.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one long process come first: xdist's workers share the last ones, and each would start it."""
    items.sort(key=lambda item: {"keras_2", "outputs"}.isdisjoint(getattr(item, "fixturenames", ())))


class Models(NamedTuple):
    """A preprocessor, an encoder of two layers, and their properties.

    Attributes:
        find: "preprocessor" or "encoder" -> the directory of its SavedModel.
        vocabulary: list of the tokens.
        length: the sequence length of the preprocessor.
        positions: the longest row that the encoder takes.
        hidden_size: int.
        weights: the encoder's number of parameters.
    """

    find: Callable[[str], Path]
    vocabulary: list[str]
    length: int
    positions: int
    hidden_size: int
    weights: int

    def ids(self, *tokens):
        return [self.vocabulary.index(token) for token in tokens]


@pytest.fixture(scope="session")
def ours(exported):
    from ..golden import make_golden_export as golden

    sizes, weights = small.CONFIG, small.weights()
    count = sum(value.size for name, value in weights.items() if not name.startswith("cls."))
    return Models(exported, small.VOCABULARY, golden.SEQUENCE_LENGTH, sizes.max_positions, sizes.hidden_size, count)


@pytest.fixture(scope="session")
def theirs(shared_data):
    vocabulary = (TF_HUB["preprocessor"] / "assets/vocab.txt").read_text("utf-8").splitlines()
    return Models(TF_HUB.__getitem__, vocabulary, 128, 512, 128, 4_385_920)


@pytest.fixture(scope="session", params=["ours", pytest.param("theirs", marks=pytest.mark.slow)])
def models(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def preprocessor(models, loaded):
    return loaded(models.find("preprocessor"))


@pytest.fixture(scope="session")
def encoder(models, loaded):
    return loaded(models.find("encoder"))


@pytest.fixture(scope="session")
def our_preprocessor(ours, loaded):
    return loaded(ours.find("preprocessor"))


@pytest.fixture(scope="session")
def our_encoder(ours, loaded):
    return loaded(ours.find("encoder"))


@pytest.fixture(scope="session")
def their_preprocessor(theirs, loaded):
    return loaded(theirs.find("preprocessor"))


@pytest.fixture(scope="session")
def their_encoder(theirs, loaded):
    return loaded(theirs.find("encoder"))
