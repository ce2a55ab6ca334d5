"""SavedModels to inspect and call: ours from an earlier version, TF Hub's, and a toy with plain numbers."""

import functools

import pytest

import keras_bert

from ..support import small
from ..support.data import TF_HUB, unpack


@pytest.fixture(scope="session")
def committed(tmp_path_factory):
    """The exports in saved_models/tiny-bert: "preprocessor", "encoder" or "serving" -> a directory."""
    from ..golden import make_golden_export as golden

    directory = tmp_path_factory.mktemp("committed")

    @functools.cache
    def unpacked(part):
        unpack(golden.EXPORTS / f"{part}.tar.gz", directory / part)
        return directory / part / "1" if part == "serving" else directory / part

    return unpacked


@pytest.fixture(scope="session")
def ours(committed):
    """Kind -> directory, as a str."""
    return {kind: str(committed(kind)) for kind in TF_HUB}


@pytest.fixture(scope="session")
def theirs(shared_data):
    return {kind: str(directory) for kind, directory in TF_HUB.items()}


@pytest.fixture(scope="session", params=["ours", pytest.param("theirs", marks=pytest.mark.slow)])
def models(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def without_dropout(ours, tmp_path_factory):
    """Our models with an encoder of one layer, without dropout: its training is deterministic."""
    from keras_bert.saved_model import export_encoder

    directory = tmp_path_factory.mktemp("without_dropout") / "encoder"
    export_encoder(keras_bert.BertMaskedLM(small.encoder(num_layers=1)), directory)
    return {**ours, "encoder": str(directory)}


@pytest.fixture(scope="session")
def our_preprocessor(ours):
    return keras_bert.HubLayer(ours["preprocessor"])


@pytest.fixture(scope="session")
def our_encoder(ours):
    """Not to be trained."""
    return keras_bert.HubLayer(ours["encoder"])


@pytest.fixture(scope="session")
def preprocessor(request, models, ours):
    if models is ours:
        return request.getfixturevalue("our_preprocessor")
    return keras_bert.HubLayer(models["preprocessor"])


@pytest.fixture(scope="session")
def encoder(request, models, ours):
    """Not to be trained."""
    return request.getfixturevalue("our_encoder") if models is ours else keras_bert.HubLayer(models["encoder"])


@pytest.fixture(scope="session")
def toy(tmp_path_factory):
    from ..support.hub import save_toy

    return save_toy(tmp_path_factory.mktemp("toy") / "toy")
