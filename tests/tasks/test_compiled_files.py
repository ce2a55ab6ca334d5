"""A compiled task comes back from a `.keras` file as any Keras model does: `evaluate`, and `fit` goes on as before."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertEncoder, BertReranker, BertSentenceEncoder
from keras_bert.pretraining import BertPretrainer
from keras_bert.tasks.losses.ranking_losses import LambdaLoss
from keras_bert.tasks.losses.sentence_losses import MatryoshkaLoss, MultipleNegativesRankingLoss
from keras_bert.training import LAMB, AdamW, WarmupThenDecay, fine_tune
from keras_bert.undocumented import flatten_layers

from ..support import reviews, small
from ..support.messages import error_names
from ..support.tasks import CASES, POSITIONS, TEXTS, TOKENS

pytestmark = pytest.mark.slow

PAIRS = (TEXTS, TEXTS[::-1])
THREE = (*PAIRS, TEXTS[1:] + TEXTS[:1])


def headless(kind, *arguments):
    return lambda: kind(small.encoder(num_layers=1), small.preprocessor(), *arguments)


# Of each: a model, its loss (None: its own), its examples. Other losses are saved in test_sentence_losses.py and
# test_reranker.py.
TASKS = {
    **{
        name: (case.model_without_dropout, case.loss, (case.x, case.y))
        for name, case in CASES.items()
        # With the loss of classes, and that of "of several sizes".
        if name not in ("pairs", "classes by the mean of tokens", "next sentence", "vectors")
    },
    "pre-training": (
        headless(BertPretrainer), None, (POSITIONS, {"masked_lm": TOKENS, "next_sentence": np.array([0, 1, 1, 0])}),
    ),
    "pre-training without pairs": (headless(BertPretrainer, False), None, (POSITIONS, {"masked_lm": TOKENS})),
    "lists": (headless(BertReranker), LambdaLoss(k=2), (THREE, [[1, 0], [0, 1], [1, 0], [1, 1]])),
    "of several sizes": (
        headless(BertSentenceEncoder), MatryoshkaLoss(MultipleNegativesRankingLoss(symmetric=True), [32, 8]),
        (PAIRS, np.arange(8).reshape(4, 2)),
    ),
}  # fmt: skip


def data_of(name, model):
    """The examples as Keras takes them. Only then can half of them be a batch."""
    return keras.tree.map_structure(np.asarray, model.arrays(*TASKS[name][2]))


def learn(model, data, batches):
    for start in batches:
        model.train_on_batch(*keras.tree.map_structure(lambda each, start=start: each[start::2], data))


def assert_goes_on(model, again, data):
    """Both evaluate and learn alike, bit for bit, and hold the same of their past."""
    assert again.compiled
    assert again.loss is not None
    for one, other in zip(again.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(one, other)
    x, y = data
    assert again.evaluate(x, y, verbose=0, return_dict=True) == model.evaluate(x, y, verbose=0, return_dict=True)
    for each in (model, again):
        learn(each, data, [1])
    for one, other in zip(again.variables, model.variables, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(again.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(one, other)


def loaded(model, path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "__array__", DeprecationWarning)
        model.save(path)
        return keras.models.load_model(path)


@pytest.mark.parametrize("name", TASKS)
def test_each_task_and_loss(tmp_path, name):
    make, loss, _ = TASKS[name]
    model = make()
    data = data_of(name, model)
    schedule = WarmupThenDecay(1e-2, 1, 9)
    model.compile(AdamW(schedule, gradient_accumulation_steps=None), loss or model.training_loss(), run_eagerly=True)
    learn(model, data, [0])
    assert_goes_on(model, loaded(model, tmp_path / "model.keras"), data)


OPTIMIZERS = {
    "by name": "adam",
    "of Keras": keras.optimizers.SGD(0.1, momentum=0.9),
    "in the middle of a window": keras.optimizers.Adam(1e-2, gradient_accumulation_steps=2),
    "LAMB": LAMB(1e-2, gradient_accumulation_steps=2, layer_decay=0.9, num_layers=1),
    "scaled": keras.optimizers.LossScaleOptimizer(AdamW(1e-2, gradient_accumulation_steps=2)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_compiled_by_the_user(tmp_path, name):
    model = CASES["classes"].model_without_dropout()
    data = data_of("classes", model)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=1)
    metrics = {"metrics": ["accuracy"], "weighted_metrics": [keras.metrics.SparseTopKCategoricalAccuracy(1)]}
    model.compile(OPTIMIZERS[name], loss, **metrics, run_eagerly=True)
    learn(model, data, [0])
    again = loaded(model, tmp_path / "model.keras")
    assert again.loss.ignore_class == 1
    assert_goes_on(model, again, data)


@pytest.mark.parametrize("jit_compile", [True, False, "auto", None])
def test_compiled_for_xla_or_not_or_not_at_all(tmp_path, jit_compile):
    model = CASES["classes"].model()
    if jit_compile is not None:
        model.compile("sgd", "mse", steps_per_execution=2, jit_compile=jit_compile)
    again = loaded(model, tmp_path / "model.keras")
    assert again.compiled == (jit_compile is not None)
    if again.compiled:
        assert (again.jit_compile, again.steps_per_execution) == (jit_compile is True, 2)
        assert again.get_compile_config() == model.get_compile_config()


@pytest.mark.parametrize("adapted", [{"frozen_layers": 1, "accumulate": 4}, {"lora_rank": 2}])
def test_compiled_by_fine_tune(tmp_path, adapted, untraced):
    model = reviews.classifier()
    settings = {name: each for name, each in reviews.SETTINGS.items() if name != "frozen_layers"}
    fine_tune(model, reviews.examples(12), **settings, **adapted)
    x, y = reviews.examples(4)
    again = loaded(model, tmp_path / "model.keras")
    assert again.evaluate(x, y, verbose=0) == model.evaluate(x, y, verbose=0)
    histories = [each.fit(x, y, shuffle=False, verbose=0).history for each in (model, again)]
    assert histories[0] == histories[1]
    for one, other in zip(again.variables, model.variables, strict=True):
        np.testing.assert_array_equal(one, other)


def test_checkpoints_of_keras_go_on(tmp_path):
    """`ModelCheckpoint` writes whole models; `BackupAndRestore` resumes a run that was interrupted."""
    (x, y), settings = reviews.examples(8), {"batch_size": 4, "shuffle": False, "verbose": 0}

    def new():
        model = reviews.classifier()
        model.compile(AdamW(1e-2), model.training_loss(), run_eagerly=True)
        return model

    unbroken = new()
    unbroken.fit(x, y, epochs=2, **settings)
    checkpoint = keras.callbacks.ModelCheckpoint(tmp_path / "model.keras")
    new().fit(x, y, epochs=1, callbacks=[checkpoint], **settings)
    resumed = keras.models.load_model(tmp_path / "model.keras")
    resumed.fit(x, y, initial_epoch=1, epochs=2, callbacks=[checkpoint], **settings)
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup", delete_checkpoint=False)
    power_cut = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: 1 / (1 - epoch))
    with pytest.raises(ZeroDivisionError):
        new().fit(x, y, epochs=2, callbacks=[backup, power_cut], **settings)
    restored = new()
    restored.fit(x, y, epochs=2, callbacks=[backup], **settings)
    for model in (resumed, restored, keras.models.load_model(tmp_path / "model.keras")):
        for one, other in zip(model.variables, unbroken.variables, strict=True):
            np.testing.assert_array_equal(one, other)
        for one, other in zip(model.optimizer.variables, unbroken.optimizer.variables, strict=True):
            np.testing.assert_array_equal(one, other)


def test_an_encoder_in_a_functional_model(tmp_path):
    inputs = keras.Input([], dtype="string")
    encoder = BertEncoder(small.encoder(num_layers=1).config)
    outputs = keras.layers.Dense(1)(encoder(small.preprocessor()(inputs))["pooled_output"])
    model = keras.Model(inputs, outputs)
    model.compile(AdamW(1e-2), "mse", run_eagerly=True)
    data = tf.constant(TEXTS), np.array([0.0, 1.0, 1.0, 0.0])
    learn(model, data, [0, 1])
    assert_goes_on(model, loaded(model, tmp_path / "model.keras"), data)


def freeze(*layers, thaw=()):
    for layer in layers:
        layer.trainable = False
    for layer in thaw:
        layer.trainable = True


FROZEN = {
    "the encoder": ("words of a CRF", lambda model: freeze(model.encoder)),
    "one block, and the last layer": ("words of a CRF", lambda model: freeze(model.encoder.blocks[0], model.crf)),
    "all": ("words of a CRF", freeze),
    "all but the CRF": ("words of a CRF", lambda model: freeze(model, thaw=[model.crf])),
    "a layer inside a block": ("words of a CRF", lambda model: freeze(model.encoder.blocks[0].attention.qkv)),
    "a head that shares the encoder": ("pre-training", lambda model: freeze(model.masked_lm, thaw=[model.encoder])),
    "the dense layer": ("of several sizes", lambda model: freeze(model.dense) if model.dense else freeze(model)),
}


@pytest.fixture
def unshared_preprocessors(monkeypatch):
    """What freezes a whole model freezes its preprocessor, which other tests have too."""
    monkeypatch.setattr(small, "preprocessor", small.preprocessor.__wrapped__)


@pytest.mark.parametrize("name", FROZEN)
def test_what_is_frozen_stays_frozen(tmp_path, name, unshared_preprocessors):
    task, freeze_layers = FROZEN[name]
    model = TASKS[task][0]()
    freeze_layers(model)
    assert not all(each.trainable for each in model.variables)
    again = loaded(model, tmp_path / "model.keras")
    from_configuration = type(model).from_config(model.get_config())
    inputs = {name: keras.Input([None], dtype="int32") for name in ("input_word_ids", "input_mask")}
    functional = keras.Model(inputs, model.encoder(inputs)["pooled_output"])
    (encoder,) = (each for each in keras.models.clone_model(functional).layers if isinstance(each, BertEncoder))
    for one, other in ((again, model), (from_configuration, model), (encoder, model.encoder)):
        for ours, theirs in zip(flatten_layers(one), flatten_layers(other), strict=True):
            assert (ours.name, ours.trainable) == (theirs.name, theirs.trainable)
        assert [each.trainable for each in one.variables] == [each.trainable for each in other.variables]


def test_a_model_may_be_made_frozen(unshared_preprocessors):
    encoder = BertEncoder(small.encoder(num_layers=1).config, trainable=False)
    outer = keras.Sequential([CASES["classes"].kind(encoder, small.preprocessor(), ["a", "b"], trainable=False)])
    assert not outer.trainable_variables
    with error_names(ValueError, "'embeddings/other'", "no such layer"):
        BertEncoder.from_config({**encoder.get_config(), "frozen": ["embeddings/other"]})
