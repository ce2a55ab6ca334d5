"""HubLayer around our exports, around the SavedModels that TF Hub published, and around a toy with plain numbers."""

import copy
import functools
import http.server
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertEncoder, BertPreprocessor, HubLayer
from keras_bert.saved_model import export_encoder, export_preprocessor
from keras_bert.saved_model.writing import callable_object
from keras_bert.tasks import BertMaskedLM

TF_HUB = Path(__file__).parents[3] / "shared/data/tfhub"
TF_HUB_NAMES = {"preprocessor": "bert_en_uncased_preprocess_3", "encoder": "small_bert_en_uncased_L-2_H-128_A-2_2"}
NAMES = ("input_word_ids", "input_mask", "input_type_ids")
GOOD = ["a fine film", "loved every minute", "great cast , great fun", "warm and wise"]
BAD = ["awful", "i hated it all", "dull , slow , cold", "a waste of time"]
TEXTS, LABELS = tf.constant(GOOD + BAD), np.array([[1.0]] * 4 + [[0.0]] * 4)
IDS = {name: np.array([[101, 7592, 102, 0]] * 2 if name == NAMES[0] else [[1, 1, 1, 0]] * 2) for name in NAMES}


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """Ours, of the kind and size of TF Hub's two; without dropout, so that training can be compared."""
    directory = tmp_path_factory.mktemp("exports")
    export_preprocessor(
        BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=16), directory / "preprocessor"
    )
    keras.utils.set_random_seed(0)
    config = BertConfig.tiny(initializer_range=0.1, hidden_dropout=0.0, attention_dropout=0.0)
    export_encoder(BertMaskedLM(BertEncoder(config)), directory / "encoder")
    return {kind: str(directory / kind) for kind in TF_HUB_NAMES}


@pytest.fixture(scope="module")
def tf_hub():
    if not TF_HUB.is_dir():
        pytest.skip(f"TF Hub's SavedModels are not part of this repository; looked for them in {TF_HUB}")
    return {kind: str(TF_HUB / name) for kind, name in TF_HUB_NAMES.items()}


@pytest.fixture(scope="module", params=["exports", "tf_hub"])
def models(request):
    """Kind -> directory."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module", params=["exports", pytest.param("tf_hub", marks=pytest.mark.slow)])
def models_to_train(request):
    """The same, for what takes long."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def preprocessor(models):
    return HubLayer(models["preprocessor"])


@pytest.fixture(scope="module")
def encoder(models):
    """Not to be trained."""
    return HubLayer(models["encoder"])


@pytest.fixture(scope="module")
def masked_lm(models):
    """Not to be trained."""
    return HubLayer(models["encoder"], endpoint="mlm")


def save_toy(directory, add=0.0):
    """x -> `scale * x + add`, and 1000 more when training; counts the calls in training."""
    scale, calls = tf.Variable(2.0, name="scale"), tf.Variable(0.0, trainable=False, name="calls")

    @tf.function
    def call(x, training=False):
        if training:
            calls.assign_add(1.0)
        return scale * x + add + (1000.0 if training else 0.0)

    for training in (False, True):
        call.get_concrete_function(tf.TensorSpec([None, 3]), training=training)
    lists = {"variables": [calls, scale], "trainable_variables": [scale]}
    loss = tf.function(lambda: scale**2, input_signature=[])
    tf.saved_model.save(callable_object(call, regularization_losses=[loss], **lists), directory)
    return str(directory)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return save_toy(tmp_path_factory.mktemp("toy"))


def classifier(models, output="pooled_output", trainable=True):
    keras.utils.set_random_seed(0)
    text = keras.Input(shape=(), dtype="string")
    outputs = HubLayer(models["encoder"], trainable=trainable, name="encoder")(HubLayer(models["preprocessor"])(text))
    flat = keras.layers.Flatten()(outputs[output])
    model = keras.Model(text, keras.layers.Dense(1)(flat))
    model.compile(keras.optimizers.Adam(1e-4), "mse")
    return model


def load_trusted(path):
    return keras.models.load_model(path, safe_mode=False)


# What it computes


def test_a_preprocessor_computes_what_the_saved_model_does(models, preprocessor):
    saved_model = tf.saved_model.load(models["preprocessor"])
    expected = saved_model(TEXTS)
    for texts in (TEXTS, GOOD + BAD, np.array(GOOD + BAD), tuple(GOOD + BAD), np.array(GOOD + BAD, object)):
        for name, ids in preprocessor(texts).items():
            np.testing.assert_array_equal(ids, expected[name])
    assert preprocessor([])["input_mask"].shape[0] == 0
    mapped = next(iter(tf.data.Dataset.from_tensors(TEXTS).map(preprocessor)))
    np.testing.assert_array_equal(mapped["input_word_ids"], expected["input_word_ids"])


def test_an_encoder_computes_what_the_saved_model_does(models, encoder):
    saved_model = tf.saved_model.load(models["encoder"])
    expected = saved_model({name: tf.constant(IDS[name], tf.int32) for name in NAMES})
    for kind in (np.int64, np.uint16, np.int32):
        outputs = encoder({name: IDS[name].astype(kind) for name in NAMES})
        assert outputs.keys() == expected.keys() == {"pooled_output", "sequence_output", "encoder_outputs", "default"}
        np.testing.assert_array_equal(outputs["encoder_outputs"][0], expected["encoder_outputs"][0])
        np.testing.assert_array_equal(outputs["pooled_output"], expected["pooled_output"])
    lists = {name: IDS[name].tolist() for name in NAMES} | {"input_mask": IDS["input_mask"] > 0}
    np.testing.assert_array_equal(encoder(lists)["sequence_output"], expected["sequence_output"])


@pytest.mark.parametrize(("batch", "length"), [(None, None), (None, 9), (3, None), (3, 9)])
def test_shapes_are_known_beforehand(encoder, masked_lm, batch, length):
    inputs = {name: keras.Input((length,), batch, dtype="int32") for name in NAMES}
    outputs = encoder(inputs)
    assert isinstance(outputs["encoder_outputs"], list)
    assert [each.shape for each in outputs["encoder_outputs"]] == [(batch, length, 128)] * 2
    assert (outputs["sequence_output"].shape, outputs["pooled_output"].shape) == ((batch, length, 128), (batch, 128))
    assert outputs["pooled_output"].dtype == "float32"
    inputs["masked_lm_positions"] = keras.Input((5,), batch, dtype="int64")
    logits = masked_lm(inputs)["mlm_logits"]
    assert logits.shape in [(batch, 5, 30522), (batch, None, 30522)]


@pytest.mark.slow
def test_endpoints_of_a_preprocessor(models):
    saved_model = tf.saved_model.load(models["preprocessor"])
    tokenize = HubLayer(models["preprocessor"], endpoint="tokenize")
    pack = HubLayer(models["preprocessor"], endpoint="bert_pack_inputs", arguments={"seq_length": 9})
    pieces = saved_model.tokenize(TEXTS)
    assert tokenize(GOOD + BAD).to_list() == pieces.to_list()
    expected = saved_model.bert_pack_inputs([pieces, pieces], seq_length=tf.constant(9))
    np.testing.assert_array_equal(pack([pieces, pieces])["input_type_ids"], expected["input_type_ids"])
    assert pack([[[7592], [2088, 102]]])["input_word_ids"].numpy()[1, :5].tolist() == [101, 2088, 102, 102, 0]

    first, second = (keras.Input(shape=(), dtype="string") for _ in range(2))
    packed = pack([tokenize(first), tokenize(second)])
    assert packed["input_mask"].shape == (None, 9)
    model = keras.Model([first, second], packed)
    ids = model.predict([TEXTS, TEXTS], verbose=0)
    np.testing.assert_array_equal(ids["input_word_ids"], expected["input_word_ids"])


@pytest.mark.slow
@pytest.mark.parametrize("endpoint", [None, "mlm"])
def test_xla(models_to_train, endpoint):
    layer = HubLayer(models_to_train["encoder"], endpoint=endpoint)
    inputs = {name: keras.Input((4,), dtype="int32", name=name) for name in NAMES}
    values = {name: IDS[name] for name in NAMES}
    if endpoint:
        inputs["masked_lm_positions"] = keras.Input((1,), dtype="int32", name="masked_lm_positions")
        values["masked_lm_positions"] = np.array([[1], [1]])
    outputs = {name: value for name, value in layer(inputs).items() if name in ("pooled_output", "mlm_logits")}
    model = keras.Model(inputs, outputs)
    expected = model.predict(values, verbose=0)
    assert layer.supports_jit
    model.compile("sgd", "mse", jit_compile=True)
    for name, value in model.predict(values, verbose=0).items():
        np.testing.assert_allclose(value, expected[name], atol=1e-4)
    layer.trainable = True
    assert np.all(np.isfinite(model.train_on_batch(values, expected)))


@pytest.mark.parametrize("endpoint", [None, "tokenize", "bert_pack_inputs"])
def test_no_xla_for_strings(models, endpoint):
    assert not HubLayer(models["preprocessor"], endpoint=endpoint).supports_jit


# Training


@pytest.mark.slow
def test_it_learns_from_strings(models_to_train):
    model = classifier(models_to_train)
    layer = model.get_layer("encoder")
    before, ids = layer.get_weights(), HubLayer(models_to_train["preprocessor"])(TEXTS)
    outputs = layer(ids)["pooled_output"].numpy()
    losses = model.fit(TEXTS, LABELS, batch_size=8, epochs=12, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    changed = [not np.array_equal(a, b) for a, b in zip(before, layer.get_weights(), strict=True)]
    assert sum(changed) == len(layer.trainable_weights)
    assert np.abs(layer(ids)["pooled_output"] - outputs).max() > 1e-3  # the SavedModel itself has learned


def test_trainable_can_be_changed(toy):
    layer, ones = HubLayer(toy), np.ones((4, 3), "float32")
    model = keras.Sequential([keras.Input((3,)), layer, keras.layers.Dense(1)])
    for trainable in (False, True, False):
        layer.trainable = trainable
        assert len(model.trainable_weights) == 2 + trainable  # never "calls", which the SavedModel does not train
        before = layer.get_weights()
        model.compile("sgd", "mse")
        model.fit(ones, ones, verbose=0)
        changed = [a != b for a, b in zip(before, layer.get_weights(), strict=True)]
        assert changed == [trainable, trainable]


@pytest.mark.slow
def test_weights_are_those_of_the_endpoint(models):
    saved_model = tf.saved_model.load(models["encoder"])
    counts = {}
    for endpoint, part in ((None, saved_model), ("mlm", saved_model.mlm)):
        layer = HubLayer(models["encoder"], trainable=True, endpoint=endpoint)
        names = sorted(variable.name.split(":")[0].replace("/", ".") for variable in part.variables)
        assert sorted(weight.name for weight in layer.weights) == names
        assert len(layer.trainable_weights) == len(part.trainable_variables)
        assert layer.count_params() == sum(variable.shape.num_elements() for variable in part.variables)
        counts[endpoint] = len(layer.trainable_weights)
    assert counts["mlm"] == counts[None] + 5
    layer = HubLayer(models["preprocessor"], trainable=True)
    assert layer.weights == []
    assert layer(TEXTS, training=True).keys() == set(NAMES)


def test_setting_weights_changes_what_it_computes(toy, tmp_path):
    layer = HubLayer(toy, trainable=True)
    assert [weight.name for weight in layer.trainable_weights] == ["scale"]
    assert [weight.name for weight in layer.non_trainable_weights] == ["calls"]
    layer.set_weights(np.array([3.0, 0.0]))
    np.testing.assert_array_equal(layer(np.ones((1, 3))), [[3.0] * 3])
    model = keras.Sequential([keras.Input((3,)), layer])
    model.save_weights(tmp_path / "x.weights.h5")
    layer.set_weights(np.array([4.0, 0.0]))
    model.load_weights(tmp_path / "x.weights.h5")
    np.testing.assert_array_equal(layer(np.ones((1, 3))), [[3.0] * 3])


def test_training_is_passed_on_when_it_is_trainable(toy):
    layer, ones = HubLayer(toy, trainable=True), np.ones((1, 3))
    assert [float(layer(ones, training=training)[0, 0]) for training in (None, False, True)] == [2, 2, 1002]
    layer.trainable = False  # as batch normalization does, and hub.KerasLayer
    assert float(layer(ones, training=True)[0, 0]) == 2
    assert layer.get_weights()[1] == 1


def test_regularization_counts_in_training(toy):
    layer, ones = HubLayer(toy, trainable=True), np.ones((4, 3), "float32")
    layer(ones, training=True)
    assert [float(loss) for loss in layer.losses] == [4]
    layer(ones)
    assert layer.losses == []
    model = keras.Sequential([keras.Input((3,)), layer])
    model.compile(keras.optimizers.SGD(0.1), lambda y, predicted: 0.0 * predicted)
    model.fit(ones, ones, epochs=1, verbose=0)
    np.testing.assert_allclose(layer.get_weights()[0], 2 - 0.1 * 2 * 2, rtol=1e-6)  # the gradient of scale**2
    layer.trainable = False
    layer(ones, training=True)
    assert layer.losses == []


def test_mixed_precision_leaves_the_saved_model_alone(toy):
    layer = HubLayer(toy, dtype="mixed_float16")
    outputs = layer(np.full((1, 3), 40000.0))
    assert (outputs.dtype, float(outputs[0, 0])) == (tf.float32, 80000.0)  # beyond float16


@pytest.mark.slow
def test_the_gradient_of_a_piece_that_occurs_twice_is_one_row(models):
    """Keras 3's Adam squares the parts of `tf.IndexedSlices` one by one."""
    layer = HubLayer(models["encoder"], trainable=True)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(IDS, training=True)["pooled_output"] ** 2)
    gradients = tape.gradient(loss, [weight.value for weight in layer.trainable_weights])
    assert all(isinstance(gradient, tf.Tensor) for gradient in gradients)


def losses_of_fine_tuning(library, layer, models):
    text = library.layers.Input(shape=(), dtype="string")
    pooled = layer(models["encoder"], trainable=True)(layer(models["preprocessor"])(text))["pooled_output"]
    kernel = library.initializers.Constant(np.random.default_rng(0).normal(0, 0.05, (128, 1)))
    model = library.Model(text, library.layers.Dense(1, kernel_initializer=kernel)(pooled))
    model.compile(library.optimizers.Adam(1e-4), library.losses.BinaryCrossentropy(from_logits=True))
    return [
        model.fit(TEXTS[i : i + 4], LABELS[i : i + 4], batch_size=4, shuffle=False, verbose=0).history["loss"][0]
        for i in [0, 4, 2, 1, 3] * 4
    ]


@pytest.mark.slow
def test_the_same_losses_as_with_hub_keras_layer(exports):
    hub, tf_keras = pytest.importorskip("tensorflow_hub"), pytest.importorskip("tf_keras")
    theirs = losses_of_fine_tuning(tf_keras, hub.KerasLayer, exports)
    ours = losses_of_fine_tuning(keras, HubLayer, exports)
    assert len(ours) == 20
    assert np.ptp(ours) > 0.1  # there was something to learn
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)


# Saving


@pytest.mark.slow
def test_keras_file(models_to_train, tmp_path):
    moved = {kind: shutil.copytree(directory, tmp_path / kind) for kind, directory in models_to_train.items()}
    model = classifier(moved, "sequence_output")  # Flatten needs the length
    model.fit(TEXTS, LABELS, verbose=0)
    model.save(tmp_path / "first.keras")
    for directory in moved.values():
        shutil.rmtree(directory)
    (tmp_path / "first.keras").rename(tmp_path / "second.keras")
    loaded = load_trusted(tmp_path / "second.keras")
    expected = model.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(loaded.predict(TEXTS, verbose=0), expected, atol=1e-5)
    # The optimizer finds the weights that it knows, and what it trains is what the loaded SavedModel computes with.
    loaded.get_layer("encoder").trainable = True
    before = loaded.get_layer("encoder").get_weights()[0]
    loaded.fit(TEXTS, LABELS, verbose=0)
    assert np.abs(loaded.get_layer("encoder").get_weights()[0] - before).max() > 0
    assert np.abs(loaded.predict(TEXTS, verbose=0) - expected).max() > 1e-3

    loaded.save(tmp_path / "third.keras")
    again = load_trusted(tmp_path / "third.keras")
    np.testing.assert_allclose(again.predict(TEXTS, verbose=0), loaded.predict(TEXTS, verbose=0), atol=1e-5)


@pytest.mark.slow
def test_training_goes_on_from_a_keras_file(exports, tmp_path):
    model = classifier(exports)
    model.fit(TEXTS, LABELS, batch_size=4, shuffle=False, epochs=2, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = load_trusted(tmp_path / "model.keras")
    losses = [
        each.fit(TEXTS, LABELS, batch_size=4, shuffle=False, epochs=3, verbose=0).history["loss"]
        for each in (model, loaded)
    ]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)


def test_the_file_holds_a_whole_saved_model(exports, tmp_path):
    layer = HubLayer(exports["encoder"])
    layer.set_weights([0.9 * weight for weight in layer.get_weights()])
    layer.save_assets(tmp_path)
    saved_model = tf.saved_model.load(tmp_path)
    inputs = {name: tf.constant(IDS[name], tf.int32) for name in NAMES}
    np.testing.assert_array_equal(saved_model(inputs)["pooled_output"], layer(inputs)["pooled_output"])


def test_files_with_programs_are_refused_in_safe_mode(toy, tmp_path):
    keras.Sequential([keras.Input((3,)), HubLayer(toy)]).save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match=r"a HubLayer, .*a program.*pass safe_mode=False to keras\.models\.load_model"):
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
    with pytest.raises(
        RuntimeError, match="the HubLayer 'toy' has no SavedModel, because .* load the whole .keras file"
    ):
        model(np.ones((1, 3)))


def test_a_rebuilt_layer_knows_at_once_that_xla_will_not_do(exports):
    """A model is compiled, as it was, before the SavedModel is there."""
    config = keras.saving.serialize_keras_object(HubLayer(exports["preprocessor"]))
    assert not keras.saving.deserialize_keras_object(config, safe_mode=False).supports_jit


@pytest.mark.slow
def test_what_was_loaded_can_be_exported(models_to_train, tmp_path):
    moved = {kind: shutil.copytree(directory, tmp_path / kind) for kind, directory in models_to_train.items()}
    classifier(moved).save(tmp_path / "model.keras")
    for directory in moved.values():
        shutil.rmtree(directory)
    model = load_trusted(tmp_path / "model.keras")
    model.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(served.serve(TEXTS), model.predict(TEXTS, verbose=0), atol=1e-5)


# Several devices

MIRRORED = """
import sys
import keras, numpy as np, tensorflow as tf
from keras_bert import HubLayer

preprocessor, encoder, file = sys.argv[1:]
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
texts = [f"number {i} is {'good' if i % 2 else 'bad'}" for i in range(16)]
labels = [[float(i % 2)] for i in range(16)]
# Keras averages the first batch over the devices to learn its shape, which strings do not survive.
data = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(8)
data = data.map(lambda texts, labels, to_ids=HubLayer(preprocessor): (to_ids(texts), labels))

def build():
    keras.utils.set_random_seed(0)
    names = ("input_word_ids", "input_mask", "input_type_ids")
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in names}
    outputs = HubLayer(encoder, trainable=True, name="encoder")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(outputs["pooled_output"]))
    model.compile(keras.optimizers.Adam(1e-4), "mse")
    return model

def fit(model):
    return model.fit(data, shuffle=False, epochs=2, verbose=0).history["loss"]

def same_weights(a, b):
    for x, y in zip(a.get_weights(), b.get_weights(), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=2e-5)

single = build()
with strategy.scope():
    mirrored = build()
before = mirrored.get_weights()
np.testing.assert_allclose(fit(mirrored), fit(single), rtol=1e-4)
same_weights(mirrored, single)
copies = strategy.experimental_local_results(mirrored.get_layer("encoder").trainable_weights[0].value)
assert len(copies) == 2 and np.array_equal(*copies) and not np.array_equal(copies[0], before[0])

mirrored.save(file)
with strategy.scope():
    loaded = keras.models.load_model(file, safe_mode=False)
same_weights(loaded, mirrored)
np.testing.assert_allclose(fit(loaded), fit(single), rtol=1e-4)
same_weights(loaded, single)
print("the same")
"""


def run(code, *arguments, **variables):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TF_CPP_MIN_LOG_LEVEL": "2"} | variables
    command = [sys.executable, "-c", code, *map(str, arguments)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


@pytest.mark.slow
def test_two_devices_learn_what_one_learns(exports, tmp_path):
    assert "the same" in run(MIRRORED, exports["preprocessor"], exports["encoder"], tmp_path / "model.keras")


# What people get wrong


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"input_mask": ...}, ValueError, "'input_mask' is missing"),
        ({"mask": IDS["input_mask"]}, ValueError, "'mask' is not an input"),
        ({"input_mask": IDS["input_mask"] * 1.0}, TypeError, r"input_mask is float64 \[2, 4\], not int32"),
        ({"input_mask": IDS["input_mask"][0]}, ValueError, r"input_mask is int64 \[4\], not int32 \[\?, \?\]"),
        ({"input_mask": None}, ValueError, r"input_mask cannot be read as int32 \[\?, \?\]"),
        ({"input_mask": [[1, 1], [1]]}, ValueError, r"input_mask cannot be read as int32 \[\?, \?\]"),
        ({"input_mask": keras.KerasTensor((2, 4))}, TypeError, r"input_mask is float32 \[2, 4\], not int32"),
    ],
)
def test_bad_inputs_of_an_encoder(models, encoder, change, error, message):
    inputs = {name: value for name, value in (IDS | change).items() if value is not ...}
    with pytest.raises(error, match=message) as caught:
        encoder(inputs)
    takes = ", ".join(f"{name}: int32 [?, ?]" for name in sorted(NAMES))
    assert str(caught.value).endswith(f"{models['encoder']} takes {{{takes}}}")


def test_something_that_is_not_a_dict(encoder):
    with pytest.raises(TypeError, match=r"the input is string \[8\], not a dict; .* takes \{input_mask: int32 "):
        encoder(TEXTS)


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        ("one", ValueError, r"the input is string \[\], not string \[\?\]; .* takes string \[\?\]"),
        ([["one"]], ValueError, r"the input is string \[1, 1\], not string \[\?\]"),
        ([1, 2], TypeError, r"the input is int32 \[2\], not string"),
        (["one", None], ValueError, r"the input cannot be read as string \[\?\]"),
        (keras.KerasTensor((None, 1), "string"), ValueError, r"the input is string \[\?, 1\], not string \[\?\]"),
    ],
)
def test_bad_inputs_of_a_preprocessor(preprocessor, texts, error, message):
    with pytest.raises(error, match=message):
        preprocessor(texts)


def test_bad_inputs_where_several_are_good(models):
    pack = HubLayer(models["preprocessor"], endpoint="bert_pack_inputs")
    with pytest.raises(
        ValueError, match=r"got \[int32 \[1, 2\]\]; the endpoint 'bert_pack_inputs' of .* takes \[ragged "
    ):
        pack([tf.constant([[1, 2]])])


def test_unknown_endpoints_and_arguments(models):
    with pytest.raises(ValueError, match="has no endpoint 'nsp'; its endpoints are mlm$"):
        HubLayer(models["encoder"], endpoint="nsp")
    with pytest.raises(ValueError, match="has no endpoint 'tokenise'; its endpoints are bert_pack_inputs, tokenize"):
        HubLayer(models["preprocessor"], endpoint="tokenise")
    with pytest.raises(ValueError, match="has no argument 'length'; besides the inputs it has seq_length"):
        HubLayer(models["preprocessor"], endpoint="bert_pack_inputs", arguments={"length": 9})


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (lambda path: shutil.rmtree(path), FileNotFoundError, "does not exist; expected the directory of a SavedModel"),
        (
            lambda path: (path / "saved_model.pb").unlink(),
            FileNotFoundError,
            "not a SavedModel: it has no saved_model.pb",
        ),
        (lambda path: os.truncate(path / "saved_model.pb", 0), ValueError, "cannot be loaded, it may be damaged"),
        (
            lambda path: os.truncate(path / "saved_model.pb", 9999),
            ValueError,
            "damaged: Cannot parse file .*saved_model.pb",
        ),
        (
            lambda path: shutil.rmtree(path / "variables"),
            FileNotFoundError,
            "not whole: it has no variables/variables.index",
        ),
        (
            lambda path: (path / "variables/variables.data-00000-of-00001").unlink(),
            ValueError,
            "damaged: .*variables.data-00000-of-00001; No such file",
        ),
        (
            lambda path: os.truncate(path / "variables/variables.data-00000-of-00001", 999),
            ValueError,
            "Read less bytes",
        ),
        (lambda path: os.truncate(path / "variables/variables.index", 9), ValueError, "may be damaged"),
        (lambda path: (path / "tfhub_module.pb").touch(), ValueError, "is a TF1 Hub module"),
    ],
)
def test_damaged_directories(exports, tmp_path, damage, error, message):
    path = Path(shutil.copytree(exports["encoder"], tmp_path / "model"))
    damage(path)
    with pytest.raises(error, match=message) as caught:
        HubLayer(path)
    assert str(caught.value).startswith(str(path))


def test_a_missing_vocabulary(tf_hub, tmp_path):
    path = Path(shutil.copytree(tf_hub["preprocessor"], tmp_path / "model"))
    shutil.rmtree(path / "assets")
    with pytest.raises(ValueError, match=r"cannot be loaded[\s\S]*vocab.txt; No such file"):
        HubLayer(path)


def test_a_directory_of_something_else(tmp_path):
    (tmp_path / "config.json").touch()
    with pytest.raises(FileNotFoundError, match=r"it has no saved_model\.pb; it holds config\.json$"):
        HubLayer(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"config\.json is a file; expected the directory"):
        HubLayer(tmp_path / "config.json")


def test_a_saved_model_that_is_not_reusable(tmp_path):
    keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)]).export(tmp_path / "keras", verbose=False)
    with pytest.raises(ValueError, match=r"not a reusable one: .* its signatures are serve, serving_default, which"):
        HubLayer(tmp_path / "keras")
    parts = tf.train.Checkpoint(double=callable_object(tf.function(lambda x: 2 * x, [tf.TensorSpec([None])])))
    tf.saved_model.save(parts, tmp_path / "parts")
    with pytest.raises(
        ValueError, match="cannot be called as a whole; its endpoints are double; its signatures are none"
    ):
        HubLayer(tmp_path / "parts")
    assert HubLayer(tmp_path / "parts", endpoint="double")([1.5]).numpy().tolist() == [3.0]


def test_a_failed_assertion_of_the_saved_model_is_seen(exports):
    inputs = {name: np.ones((1, 600), np.int32) for name in NAMES}
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match="512"):
        HubLayer(exports["encoder"])(inputs)


# Handles


def test_an_address(toy, tmp_path, monkeypatch):
    pytest.importorskip("tensorflow_hub")
    (tmp_path / "served").mkdir()
    with tarfile.open(tmp_path / "served/toy.tar.gz", "w:gz") as archive:
        archive.add(toy, ".")
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "cache"))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "served")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        layer = HubLayer(f"http://127.0.0.1:{server.server_port}/toy.tar.gz")
        server.shutdown()
    np.testing.assert_array_equal(layer(np.ones((1, 3))), [[2.0] * 3])


def test_an_address_without_tensorflow_hub(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_hub", None)
    with pytest.raises(ImportError, match=r"https://tfhub\.dev/a/1 needs .*pip install 'keras-bert-models\[hub\]'"):
        HubLayer("https://tfhub.dev/a/1")


@pytest.mark.parity
def test_other_backends_get_a_clear_error(toy):
    pytest.importorskip("jax")
    code = """
import sys
from keras_bert import HubLayer
try:
    HubLayer(sys.argv[1])
except RuntimeError as error:
    print(error)
"""
    assert "Keras's backend is jax; set KERAS_BACKEND=tensorflow" in run(code, toy, KERAS_BACKEND="jax")
