"""The SavedModels that the contract is held against: ours, exported anew, and the two that TF Hub published."""

from pathlib import Path

import keras
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  the preprocessors need its operations

from keras_bert import BertConfig, BertEncoder, BertPreprocessor
from keras_bert.saved_model import export_encoder, export_preprocessor
from keras_bert.tasks import BertMaskedLM

# A program of its own, with Keras 2; pytest would import it in search of doctests.
collect_ignore = ["legacy_client.py"]

TF_HUB = Path(__file__).parents[3] / "shared/data/tfhub"
TF_HUB_NAMES = {"preprocessor": "bert_en_uncased_preprocess_3", "encoder": "small_bert_en_uncased_L-2_H-128_A-2_2"}


@pytest.fixture(scope="session")
def exports(tmp_path_factory):
    """Holds `preprocessor` and `encoder` (with `.mlm`), of the same kind and size as the two of TF Hub."""
    directory = tmp_path_factory.mktemp("exports")
    export_preprocessor(BertPreprocessor.from_preset("all-MiniLM-L6-v2"), directory / "preprocessor")
    keras.utils.set_random_seed(0)
    model = BertMaskedLM(BertEncoder(BertConfig.tiny(initializer_range=0.1)))
    export_encoder(model, directory / "encoder")
    return directory


@pytest.fixture(scope="session")
def tf_hub():
    """Holds the SavedModels that TF Hub published, under their names."""
    if not TF_HUB.is_dir():
        pytest.skip(f"TF Hub's SavedModels are not part of this repository; looked for them in {TF_HUB}")
    return TF_HUB


def load(kind, whose, request):
    """`kind`: "preprocessor" or "encoder"; `whose`: "ours" or "tf_hub"."""
    if whose == "ours":
        return tf.saved_model.load(request.getfixturevalue("exports") / kind)
    return tf.saved_model.load(request.getfixturevalue("tf_hub") / TF_HUB_NAMES[kind])


@pytest.fixture(scope="session", params=["ours", "tf_hub"])
def preprocessor(request):
    return load("preprocessor", request.param, request)


@pytest.fixture(scope="session", params=["ours", "tf_hub"])
def encoder(request):
    return load("encoder", request.param, request)


@pytest.fixture(scope="session")
def our_preprocessor(request):
    return load("preprocessor", "ours", request)


@pytest.fixture(scope="session")
def our_encoder(request):
    return load("encoder", "ours", request)


@pytest.fixture(scope="session")
def tf_hub_preprocessor(request):
    return load("preprocessor", "tf_hub", request)


@pytest.fixture(scope="session")
def tf_hub_encoder(request):
    return load("encoder", "tf_hub", request)
