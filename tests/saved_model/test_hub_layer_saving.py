"""HubLayer in .keras files, in copies and in exports: a whole SavedModel goes with it."""

import copy
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import HubLayer

from ..support.hub import LABELS, TEXTS, classifier, save_toy
from ..support.messages import error_names


def load_trusted(path):
    return keras.models.load_model(path, safe_mode=False)


@pytest.mark.slow
def test_it_learns_from_strings_and_goes_on_from_a_keras_file_without_the_export(without_dropout, tmp_path):
    moved = {kind: shutil.copytree(directory, tmp_path / kind) for kind, directory in without_dropout.items()}
    model = classifier(moved, "sequence_output")  # Flatten needs the length

    def fit(model):
        return model.fit(TEXTS, LABELS, batch_size=4, shuffle=False, epochs=3, verbose=0).history["loss"]

    layer = model.get_layer("encoder")
    before = layer.get_weights()
    losses = fit(model)
    changed = [not np.array_equal(old, new) for old, new in zip(before, layer.get_weights(), strict=True)]
    assert sum(changed) == len(layer.trainable_weights) - 2  # nothing reads the pooler
    model.save(tmp_path / "first.keras")
    for directory in moved.values():
        shutil.rmtree(directory)
    (tmp_path / "first.keras").rename(tmp_path / "second.keras")
    loaded = load_trusted(tmp_path / "second.keras")
    expected = model.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(loaded.predict(TEXTS, verbose=0), expected, atol=1e-5)
    # The optimizer finds the weights that it knows, and what it trains is what the loaded SavedModel computes with.
    layer = loaded.get_layer("encoder")
    before, further = layer.get_weights()[0], fit(loaded)
    np.testing.assert_allclose(further, fit(model), rtol=1e-4)
    assert further[-1] < 0.5 * losses[0]
    assert np.abs(layer.get_weights()[0] - before).max() > 0
    trained = loaded.predict(TEXTS, verbose=0)
    assert np.abs(trained - expected).max() > 1e-3

    loaded.save(tmp_path / "third.keras")
    again = load_trusted(tmp_path / "third.keras")
    again.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(served.serve(TEXTS), trained, atol=1e-5)


def test_the_file_holds_a_whole_saved_model(toy, tmp_path):
    layer = HubLayer(shutil.copytree(toy, tmp_path / "toy"), trainable=True)
    layer.set_weights(np.array([3.0, 0.0]))
    layer.save_assets(tmp_path / "saved")
    shutil.rmtree(tmp_path / "toy")
    saved_model = tf.saved_model.load(tmp_path / "saved")
    assert saved_model(tf.ones([1, 3])).numpy().tolist() == [[3.0] * 3]
    assert saved_model.number(tf.constant(["no"])).numpy().tolist() == [1]  # it has its file of words


def test_files_with_programs_are_refused_in_safe_mode(toy, tmp_path):
    keras.Sequential([keras.Input((3,)), HubLayer(toy)]).save(tmp_path / "model.keras")
    with error_names(ValueError, "HubLayer", "program", "safe_mode=False", "keras.models.load_model"):
        keras.models.load_model(tmp_path / "model.keras")
    model = load_trusted(tmp_path / "model.keras")
    np.testing.assert_array_equal(model.predict(np.ones((1, 3)), verbose=0), [[2.0] * 3])


@keras.saving.register_keras_serializable(package="tests")
class ModelWithItsOwnToy(keras.Model):
    """Its code says which SavedModel to run."""

    directory = None

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.layer = HubLayer(self.directory)
        self.built = True

    def call(self, x):
        return self.layer(x)


def test_a_file_cannot_replace_the_program_that_code_asks_for(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(ModelWithItsOwnToy, "directory", save_toy(tmp_path / "theirs", add=100.0))
    theirs = ModelWithItsOwnToy()
    theirs.layer.set_weights(np.array([3.0, 0.0]))
    theirs.save(tmp_path / "model.keras")
    monkeypatch.setattr(ModelWithItsOwnToy, "directory", toy)
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(np.ones((1, 3))), [[3.0] * 3])  # its weights, without its 100


def test_copies(toy):
    model = keras.Sequential([keras.Input((3,)), HubLayer(toy, trainable=True)])
    model.layers[0].set_weights(np.array([3.0, 0.0]))
    clone, deep = keras.models.clone_model(model), copy.deepcopy(model)
    ones = np.ones((1, 3))
    assert [float(each(ones)[0, 0]) for each in (model, clone, deep)] == [3, 2, 3]
    clone.layers[0].set_weights(np.array([4.0, 0.0]))
    assert [float(each(ones)[0, 0]) for each in (model, clone, deep)] == [3, 4, 3]


def test_a_layer_from_a_configuration_alone_says_what_is_missing(toy):
    model = keras.Sequential([keras.Input((3,)), HubLayer(toy, name="toy")])
    config = keras.saving.serialize_keras_object(model)
    model = keras.saving.deserialize_keras_object(config, safe_mode=False)
    with error_names(RuntimeError, "'toy'", "no SavedModel", "configuration", "whole .keras file"):
        model(np.ones((1, 3)))


@pytest.mark.slow
def test_a_model_of_tf_hub_that_was_loaded_can_be_exported(theirs, tmp_path):
    moved = {kind: shutil.copytree(directory, tmp_path / kind) for kind, directory in theirs.items()}
    classifier(moved).save(tmp_path / "model.keras")
    for directory in moved.values():
        shutil.rmtree(directory)
    model = load_trusted(tmp_path / "model.keras")
    model.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(served.serve(TEXTS), model.predict(TEXTS, verbose=0), atol=1e-5)
