"""Trains models of every kind on replicas.

Arguments: a strategy, the number of replicas, a folder with `records`, a file for what came out. For several processes,
the variable TF_CONFIG is set. For "mirrored", this process has as many CPUs as replicas.
"""

import functools
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_bert import (
    BertClassifier,
    BertEncoder,
    BertMultiVectorEncoder,
    BertQuestionAnswerer,
    BertReranker,
    BertSentenceEncoder,
    BertTokenClassifier,
)
from keras_bert.pretraining import BertPretrainer
from keras_bert.tasks.base.lists import pack_lists
from keras_bert.tasks.losses.ranking_losses import LambdaLoss
from keras_bert.tasks.losses.sentence_losses import (
    AnglELoss,
    CoSENTLoss,
    GISTEmbedLoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
    MultipleNegativesSymmetricRankingLoss,
)
from keras_bert.tasks.steps.few_shot import compare_pairs
from keras_bert.tasks.steps.gradient_cache import by_mini_batches
from keras_bert.tasks.steps.training_step import on_labels
from keras_bert.training import AdamW, Replicated, distribution, fine_tune, pretrain, strategy

from ..support import reviews, small

WORDS = ["good", "great", "love", "like", "film", "movie", "plot"]
PRAISE = set(WORDS[:4])
_NUMBERED = re.compile(r"^bert_encoder(_\d+)?/")  # Keras counts the models of a process
ROWS = 37  # with 16 rows a batch, 5 are left over: for 3 replicas 2, 2 and 1
EPOCHS = 2
# Losses that compare the rows of a batch: gradients are those of one device with the whole batch.
COMPARING = {
    "ranking": MultipleNegativesSymmetricRankingLoss(),
    "shorter_by_three": MatryoshkaLoss(MultipleNegativesRankingLoss(), [32, 8]),  # in mini-batches of three
    "tokens_by_three": MultipleNegativesRankingLoss(1.0),  # of their vectors; replicas have rows of unlike lengths
    "guided": GISTEmbedLoss(),
    "cosent": CoSENTLoss(),
    "angle": AnglELoss(),
    "lists": LambdaLoss(),
    "few_shot": None,  # the loss is that of the step
    "few_shot_of_two": None,  # two rows: of three replicas, one has none
}
# A step on replicas takes many times as long to trace as on one: most jobs are done on one kind of them, and in many
# the encoder does not learn. Of seven rows, two replicas have four and three, and so two mini-batches and one.
JOBS = {
    ("mirrored", 2): (
        *("any_model", "tagged", "tagged_by_crf", "answered", "mixed", "angle", "guided", "cosent"),
        *("shorter_by_three", "tokens_by_three"),
    ),
    ("mirrored", 3): ("lists", "few_shot", "few_shot_of_two"),
    ("multi_worker", 2): ("few_shot_run", "ranking", "classified", "pretrained"),
}


def sentences() -> list[list[str]]:
    """In every sixteen, eight of a word and then eight of twelve: replicas have unlike numbers of tokens."""
    generator = np.random.default_rng(0)
    return [[str(word) for word in generator.choice(WORDS, 1 if i % 16 < 8 else 12)] for i in range(ROWS)]


class Losses(keras.callbacks.Callback):
    """Notes the mean loss of an epoch's steps so far, after each."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(float(logs["loss"]))


def encoder_and_preprocessor(**settings):
    # Dropout draws other numbers on another replica: without it, all must come to the same.
    return small.encoder(scale=0.0, num_layers=1), small.preprocessor(max_sequence_length=32, **settings)


class AnyModel(Replicated, keras.Model):
    pass


def any_model():
    """Keras's own fit of a model of the user's: two batches an update, then batches of all rows, which are shuffled."""
    inputs = keras.Input([1])
    model = AnyModel(inputs, keras.layers.Dense(1, kernel_initializer="ones", name="any")(inputs))
    model.compile(AdamW(0.1, global_clipnorm=0.5, gradient_accumulation_steps=2), "mse")
    rows = np.arange(28.0)[:, None] % 9
    losses = model.fit(rows, 3 * rows, batch_size=7, shuffle=False, verbose=0).history["loss"]
    updates = int(model.optimizer.iterations)
    model.compile("sgd", "mse")
    losses += model.fit(rows[:7], 2 * rows[:7], batch_size=7, shuffle=True, verbose=0).history["loss"]
    return model, [*losses, updates]


def classified():
    """Keras's own fit, evaluate and predict, on strings."""
    model = BertClassifier(*encoder_and_preprocessor(sequence_length=16), labels=["praise", "thing"])
    optimizer = AdamW(1e-3, global_clipnorm=0.5)
    model.compile(optimizer, model.training_loss(), metrics=["accuracy"])
    x = [" ".join(words) for words in sentences()]
    y = ["praise" if words[0] in PRAISE else "thing" for words in sentences()]
    losses = Losses()
    model.fit(x, y, batch_size=16, epochs=EPOCHS, shuffle=False, verbose=0, callbacks=[losses])
    measures = model.evaluate(x, y, batch_size=16, verbose=0)
    return model, [*losses.seen, *measures, *np.ravel(model.predict(x, batch_size=16, verbose=0))]


def tagged():
    """fine_tune, with gradients of two batches accumulated; several labels a row."""
    model = BertTokenClassifier(*encoder_and_preprocessor(sequence_length=None), labels=["praise", "thing"])
    y = [["praise" if word in PRAISE else "thing" for word in words] for words in sentences()]
    settings = {"epochs": EPOCHS, "batch_size": 16, "learning_rate": 1e-3, "clip_norm": 0.5, "accumulate": 2}
    history = fine_tune(model, (sentences(), y), (sentences(), y), progress=False, **settings)
    return model, [entry[name] for entry in history for name in ("loss", "val_accuracy")]


def tagged_by_crf():
    """fine_tune with a CRF, which learns from a teacher with one."""
    teacher, model = (
        BertTokenClassifier(*encoder_and_preprocessor(sequence_length=None), labels=["O", "B-x", "I-x"], crf=True)
        for _ in range(2)
    )
    for variable in teacher.trainable_variables:
        variable.assign(1.5 * variable)
    kinds = [[word in PRAISE for word in words] for words in sentences()]
    y = [["BI"[i > 0 and row[i - 1]] + "-x" if row[i] else "O" for i in range(len(row))] for row in kinds]
    settings = {"epochs": EPOCHS, "batch_size": 16, "learning_rate": 1e-3, "teacher": teacher, "frozen_layers": 1}
    history = fine_tune(model, (sentences(), y), (sentences(), y), progress=False, **settings)
    return model, [entry[name] for entry in history for name in ("loss", "val_f1")]


def answered():
    """fine_tune, on windows."""
    model = BertQuestionAnswerer(*encoder_and_preprocessor(sequence_length=None, stride=8))
    x = ["film good"] * ROWS, [" ".join(words) for words in sentences()]
    y = [[(words[0], 0)] for words in sentences()]
    settings = {"epochs": EPOCHS, "batch_size": 16, "learning_rate": 1e-3, "frozen_layers": 1}
    history = fine_tune(model, (x, y), (x, y), progress=False, **settings)
    return model, [entry[name] for entry in history for name in ("loss", "val_f1")]


def mixed():
    """In bfloat16; its weights are not compared."""
    plain = reviews.classifier()
    keras.utils.set_random_seed(0)
    encoder = BertEncoder(plain.encoder.config, dtype="mixed_bfloat16")
    model = BertClassifier(encoder, plain.preprocessor, reviews.LABELS, dropout=0.0)
    settings = {"epochs": 4, "batch_size": 8, "learning_rate": 1e-3, "frozen_layers": 1, "progress": False}
    return None, [epoch["loss"] for epoch in fine_tune(model, reviews.examples(16), **settings)]


def few_shot_run():
    """fine_tune by few_shot, whose head is fitted in each process; its weights are not compared."""
    model = reviews.classifier()
    x, y = reviews.examples(10)
    settings = {"epochs": 1, "batch_size": 6, "learning_rate": 1e-3, "frozen_layers": 1, "progress": False}
    history = fine_tune(model, (x, y), few_shot=True, **settings)
    return None, [history[0]["loss"], *(answer["probability"] for answer in model.classify(x))]


def compared(kind):
    """A step of gradient descent with one of the losses that compare rows; replicas may have mini-batches of three."""
    words = small.WORDS.split()
    columns = [[" ".join(words[i + 3 * j : i + 3 + i % 3 + 2 * j]) for i in range(7)] for j in range(2)]
    columns[1][5] = columns[1][0]  # of one replica, and of the other
    loss, y, step = COMPARING[kind], np.arange(14).reshape(7, 2), on_labels
    y[5, 1] = y[0, 1]
    if kind == "lists":
        model = small.task(BertReranker, config={"num_layers": 1}, scale=0.1)
        model.encoder.trainable = False
        x = pack_lists(model.preprocessor, [*columns, columns[0][::-1]])
        y = np.array([[1, 0], [1, 1], [0, 2], [0, 0], [1, 0], [0, 0], [2, 2]])  # replicas have 3 pairs and 1
    elif loss is None:
        rows = 2 if kind.endswith("of_two") else 7
        model, step = reviews.classifier(), compare_pairs
        model.head.logits.trainable = False
        x, y = model.preprocessor(columns[0][:rows]), np.array([0, 1, 1, 0, 1, 0, 0])[:rows]
        loss = model.training_loss()
    elif kind == "tokens_by_three":
        model = BertMultiVectorEncoder(small.encoder(num_layers=1, scale=0.1), small.preprocessor(), [{"units": 8}])
        model = small.shaken(model, scale=0.1)
        model.encoder.trainable = False
        x = tuple(map(tf.constant, columns))
    else:
        model = BertSentenceEncoder(small.encoder(num_layers=1, scale=0.1), small.preprocessor(), dense={"units": 32})
        model.encoder.trainable = kind in ("ranking", "shorter_by_three")
        x = tuple(model.preprocessor(column) for column in columns)
        y = np.linspace(0, 1, 7) if isinstance(loss, CoSENTLoss) else y
        y = np.random.default_rng(0).normal(size=(7, 2, 8)) if isinstance(loss, GISTEmbedLoss) else y
    if kind.endswith("by_three") and model.distribute_strategy.num_replicas_in_sync > 1:
        step = by_mini_batches(3)
    with model.training_with(step):
        model.compile(keras.optimizers.SGD(1.0), loss)
        history = model.fit(tf.data.Dataset.from_tensors((x, tf.constant(y))), verbose=0)
    return model, history.history["loss"]


def pretrained(records: Path, directory: Path):
    """pretrain, from records of pairs."""
    model = BertPretrainer(*encoder_and_preprocessor(sequence_length=16))
    model.encoder.trainable = False
    settings = {"batch_size": 16, "learning_rate": 1e-3, "measure_every": 4, "accumulate": 2}
    history = pretrain(model, records, 8, directory, records, progress=False, **settings)
    names = ("loss", "masked_lm_loss", "masked_lm_accuracy", "next_sentence_loss", "next_sentence_accuracy")
    return model, [entry[name] for entry in history for name in names]


def rows_seen(devices: tf.distribute.Strategy) -> list[int]:
    """Which rows this process has in an epoch, of a dataset whose batches are global."""
    rows = tf.data.Dataset.range(ROWS).batch(16).with_options(distribution.DATA_OPTIONS)
    parts = [devices.experimental_local_results(each) for each in devices.experimental_distribute_dataset(rows)]
    return [int(row) for part in parts for each in part for row in each]


def train(devices: tf.distribute.Strategy, names: Iterable[str], folder: Path) -> tuple[dict, dict]:
    """Does these jobs. Returns the arrays that came out, and what this process says of itself."""
    plain = (any_model, classified, tagged, tagged_by_crf, answered, mixed, few_shot_run)
    jobs = {each.__name__: each for each in plain}
    jobs |= {name: functools.partial(compared, name) for name in COMPARING}
    replicas = devices.num_replicas_in_sync
    jobs["pretrained"] = functools.partial(pretrained, folder / "records", folder / f"run_{replicas}")
    found = {}
    for name in names:
        with devices.scope():
            model, numbers = jobs[name]()
        weights = model.weights if model else []
        found |= {f"{name} {_NUMBERED.sub('encoder/', each.path)}": each.numpy() for each in weights}
        found[f"{name} numbers"] = np.array(numbers)
    return found, {"replicas": replicas, "chief": distribution.is_chief(devices), "rows": rows_seen(devices)}


def main(kind: str, replicas: int, folder: Path, result: Path) -> None:
    if kind == "mirrored":
        devices_of_cpu = [tf.config.LogicalDeviceConfiguration()] * replicas
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices_of_cpu)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})  # a graph runs a few times only
    found, notes = train(strategy(kind), JOBS[kind, replicas], folder)
    np.savez(result, **found)
    print(json.dumps(notes))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
