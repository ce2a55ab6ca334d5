"""What training refuses before it begins, and what each message names."""

import sys
from collections.abc import Callable

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertSentenceEncoder
from keras_bert.optimizers import AdamW, WarmupThenDecay
from keras_bert.training import adapting, evaluate, fine_tune, report
from keras_bert.training.batches import hold_out

from ..support.messages import error_names
from ..support.reviews import LABELS, SETTINGS, classifier, examples
from ..support.tasks import CASES, PAIR


@pytest.fixture(scope="module")
def model():
    return classifier(num_layers=2)


def tuned(train=None, validation=None, **settings) -> Callable[[BertClassifier], object]:
    return lambda model: fine_tune(model, train or examples(), validation, **{**SETTINGS, "epochs": 1, **settings})


def vectors(x, **settings):
    """Fine-tunes an encoder of sentence vectors on texts without labels."""
    return lambda model: fine_tune(
        BertSentenceEncoder(model.encoder, model.preprocessor), (x, None), **{**SETTINGS, **settings}
    )


def columns(examples_count, labels_count):
    return ["text"] * examples_count, [0] * labels_count


REFUSED = {
    "examples are none": (tuned(([], [])), ValueError, "no examples", "train"),
    "examples are more than labels": (tuned((["one", "two"], ["good"])), ValueError, "2 texts", "1 label"),
    "examples are a dataset": (
        tuned(tf.data.Dataset.from_tensor_slices(examples())), TypeError, "train", "tuple of two", "Dataset", "fit",
    ),
    "examples are a table": (
        lambda model: fine_tune(model, pd.DataFrame(dict(zip(("text", "label"), examples(), strict=True)))),
        TypeError, "train is a DataFrame", "train['text'], train['label']",
    ),
    "examples for validation are no two": (tuned(None, (["one"],)), TypeError, "validation", "a tuple", "tuple of two"),
    "a label for validation is unknown": (tuned(None, (["one", "red"], ["good", "odd"])), ValueError, "'odd'"),
    "labels for validation are fewer": (
        tuned(None, (["one", "red"], ["good"])), ValueError, "examples to evaluate", "2 texts", "1 label",
    ),
    "patience without validation": (tuned(patience=2), ValueError, "patience", "validation examples"),
    "validation is examples and a share": (
        tuned(None, examples(), validation_split=0.5), ValueError, "validation", "validation_split", "only one",
    ),
    "batches have two limits": (
        tuned(batch_size=2, batch_tokens=64), ValueError, "batch_size", "batch_tokens", "only one",
    ),
    "no example is held out": (
        lambda _: hold_out(columns(4, 4), 0.1, seed=0), ValueError, "validation_split", 0.1, "0 of 4", "leaves 4",
    ),
    "all examples are held out": (
        lambda _: hold_out(columns(4, 4), 0.9, seed=0), ValueError, "validation_split", 0.9, "4 of 4", "leaves 0",
    ),
    "held-out examples lack labels": (
        lambda _: hold_out(columns(4, 3), 0.5, seed=0), ValueError, "examples", "labels", "3 and 4",
    ),
    "all classes count for nothing": (
        tuned(class_weight={"good": 0, "bad": 0.0}), ValueError, "class_weight", "0 for all", "nothing to learn",
    ),
    "all classes count for nothing in pairs": (
        tuned(class_weight={"good": 0, "bad": 0.0}, few_shot=True), ValueError, "class_weight", "0 for all",
    ),
    "a text for validation is None": (tuned(None, (["one", None], ["good", "bad"])), TypeError, "text 1", "None"),
    "texts for validation are pairs": (
        tuned(None, ((["one"], ["red"]), ["good"])), ValueError, "single texts", "pairs=True",
    ),
    "a hyper-parameter is out of its limits": (tuned(epochs=0), ValueError, "epochs", 0, "1 or more"),
    "a callback monitors validation examples without any": (
        tuned(callbacks=[keras.callbacks.ReduceLROnPlateau()]),
        ValueError, "ReduceLROnPlateau", "val_loss", "validation examples",
    ),
    "a callback sets the learning rate at the beginning of the warmup": (
        tuned(callbacks=[keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.1)]),
        ValueError, "learning rate", 0.1, "step 0", "warmup=0",
    ),
    "more layers are frozen than there are": (tuned(frozen_layers=3), ValueError, "frozen_layers", 3, "2 layers"),
    "LoRA has no layer": (tuned(lora_rank=2, frozen_layers=2), ValueError, "lora_rank", 2, "all layers", "frozen"),
    "LoRA is for another model": (
        lambda _: adapting(keras.Sequential()).__enter__(), TypeError, "Sequential", "BertClassifier",
    ),
    "a text is compared with nothing": (vectors(["one", "red"]), ValueError, "vectors", "compared"),
    "a warmup is less than none": (lambda _: WarmupThenDecay(1.0, -1, 5), ValueError, "warmup_steps", -1, 5),
    "a warmup is longer than the run": (lambda _: WarmupThenDecay(1.0, 6, 5), ValueError, "warmup_steps", 6, 5),
    "layers are not counted": (lambda _: AdamW(1.0, layer_decay=0.5), ValueError, "layer_decay", 0.5, "num_layers"),
    "no measures are known": (lambda _: evaluate(keras.Sequential(), [], []), TypeError, "measures", "Sequential"),
    "strings are compiled": (
        lambda model: compiled(model, jit_compile=True).fit(*examples(2), verbose=0),
        ValueError, "no strings", "packed inputs", "jit_compile=False",
    ),
}  # fmt: skip


def compiled(model, **settings):
    model.compile("sgd", model.training_loss(), **settings)
    return model


@pytest.mark.parametrize("what", REFUSED)
def test_is_refused_before_any_training_if(model, what):
    call, error, *words = REFUSED[what]
    before = model.get_weights()
    with error_names(error, *words):
        call(model)
    np.testing.assert_equal(model.get_weights(), before)


CLASS_WEIGHTS = {
    "negative": ({"bad": -1.0}, ValueError, "bad", -1.0, "0 or more"),
    "no number": ({0: float("nan")}, ValueError, "of 0", "nan", "0 or more"),
    "a word": ({"bad": "high"}, TypeError, "bad", "'high'", "number"),
    "of a name that is no label": ({"odd": 1.0}, ValueError, "odd", "labels", "good, bad"),
    "of too large an index": ({2: 1.0, "odd": 2.0}, ValueError, "class_weight: 2", "labels", "good, bad"),
    "of an index from the end": ({-1: 1.0}, ValueError, -1, "labels", "good, bad"),
    "of half an index": ({0.5: 1.0}, ValueError, 0.5, "labels", "good, bad"),
    "of None": ({None: 1.0}, ValueError, None, "labels", "good, bad"),
    "of a name and its index": ({"bad": 1.0, 1: 2.0}, ValueError, "bad", 1, "also"),
    "a list": ([1.0, 2.0], TypeError, [1.0, 2.0], "dict"),
}


@pytest.mark.parametrize("what", CLASS_WEIGHTS)
def test_class_weights_are_refused_that_are(model, what):
    class_weight, error, *words = CLASS_WEIGHTS[what]
    compiled(model)
    for train in (
        tuned(class_weight=class_weight),
        lambda model: model.fit(*examples(), class_weight=class_weight, verbose=0),
        lambda model: model.fit(*examples(), 2, 1, 0, None, 0.0, None, True, class_weight),
    ):
        with error_names(error, "class_weight", *words):
            train(model)


def test_a_label_that_the_model_lacks_is_refused_before_it_computes(monkeypatch):
    """Such as 0 and 1 in the file and names in the model: they would all count as wrong."""
    learner = classifier()
    monkeypatch.setattr(learner, "classify", lambda *_, **__: pytest.fail("it computes"))
    with error_names(ValueError, "'1'", "labels", ", ".join(LABELS)):
        evaluate(learner, ["one", "red"], ["good", "1"])


MEASURED_BY = {
    "numbers": ("scipy.stats", "scipy"),
    "several labels": ("sklearn.metrics", "scikit-learn"),
    "words": ("seqeval.metrics", "seqeval"),
    "scores": ("sklearn.metrics", "scikit-learn"),
    "vectors": ("sklearn.metrics", "scikit-learn"),
}


@pytest.mark.parametrize("name", MEASURED_BY)
def test_a_library_that_measures_is_missed_before_any_training(name, monkeypatch):
    case, (module, library) = CASES[name], MEASURED_BY[name]
    model = case.model()
    x, y = (PAIR, [0, 1, 1, 0]) if name == "vectors" else (case.x, case.y)
    monkeypatch.setattr(model, case.verb, lambda *_, **__: pytest.fail("it computes"))
    monkeypatch.setitem(sys.modules, module, None)
    before = model.get_weights()
    tune, measure = lambda: fine_tune(model, (x, y), (x, y), **SETTINGS), lambda: evaluate(model, x, y)
    for call in (tune, measure, report.check_installed):
        with error_names(ImportError, library, "keras-bert-models[train]"):
            call()
    np.testing.assert_equal(model.get_weights(), before)


def test_an_example_that_cannot_be_measured_alone_is_refused_before_any_training():
    case = CASES["numbers"]
    model = case.model()
    monitor = keras.callbacks.LambdaCallback(on_train_begin=lambda _: pytest.fail("it trains"))
    with error_names(ValueError, "correlation", "two or more examples"):
        fine_tune(model, (case.x, case.y), (case.x[:1], case.y[:1]), callbacks=[monitor], **SETTINGS)
