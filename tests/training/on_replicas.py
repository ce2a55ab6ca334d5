"""Trains models of every kind on replicas. Arguments: a strategy, a folder with `records`, a file for what came out.

For several processes, the variable TF_CONFIG is set. For "mirrored", this process has two CPUs.
"""

import functools
import json
import re
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_bert import BertClassifier, BertQuestionAnswerer, BertTokenClassifier
from keras_bert.pretraining import BertPretrainer
from keras_bert.training import AdamW, distribution, fine_tune, pretrain, strategy

from ..support import small

WORDS = ["good", "great", "love", "like", "film", "movie", "plot"]
PRAISE = set(WORDS[:4])
_NUMBERED = re.compile(r"^bert_encoder(_\d+)?/")  # Keras counts the models of a process
ROWS = 37  # with 16 rows a batch, 5 are left over: for 3 replicas 2, 2 and 1
EPOCHS = 2
ALL = ("classified", "tagged", "tagged_by_crf", "answered", "taught", "pretrained")
# A step on replicas takes many times as long to trace as on one: each job is done on one kind of them.
JOBS = {
    "one": ALL,
    "mirrored": ("tagged", "tagged_by_crf", "answered", "taught"),
    "multi_worker": ("classified", "pretrained"),
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
    return model, losses.seen + measures, model.predict(x, batch_size=16, verbose=0)


def tagged():
    """fine_tune, with gradients of two batches accumulated; several labels a row."""
    model = BertTokenClassifier(*encoder_and_preprocessor(sequence_length=None), labels=["praise", "thing"])
    y = [["praise" if word in PRAISE else "thing" for word in words] for words in sentences()]
    settings = {"epochs": EPOCHS, "batch_size": 16, "learning_rate": 1e-3, "clip_norm": 0.5, "accumulate": 2}
    history = fine_tune(model, (sentences(), y), (sentences(), y), progress=False, **settings)
    return model, [entry[name] for entry in history for name in ("loss", "accuracy")], np.zeros(0)


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
    settings = {"epochs": EPOCHS, "batch_size": 16, "learning_rate": 1e-3, "teacher": teacher}
    history = fine_tune(model, (sentences(), y), (sentences(), y), progress=False, **settings)
    return model, [entry[name] for entry in history for name in ("loss", "f1")], np.zeros(0)


def answered():
    """fine_tune, on windows."""
    model = BertQuestionAnswerer(*encoder_and_preprocessor(sequence_length=None, stride=8))
    x = ["film good"] * ROWS, [" ".join(words) for words in sentences()]
    y = [[(words[0], 0)] for words in sentences()]
    history = fine_tune(model, (x, y), (x, y), epochs=EPOCHS, batch_size=16, learning_rate=1e-3, progress=False)
    return model, [entry[name] for entry in history for name in ("loss", "f1")], np.zeros(0)


def taught():
    """fine_tune, with a teacher."""
    model = BertClassifier(*encoder_and_preprocessor(sequence_length=None), labels=["praise", "thing"], name="student")
    teacher = BertClassifier(*encoder_and_preprocessor(sequence_length=None), labels=["praise", "thing"])
    for variable in teacher.trainable_variables:
        variable.assign(1.5 * variable)
    x = [" ".join(words) for words in sentences()]
    y = ["praise" if words[0] in PRAISE else "thing" for words in sentences()]
    history = fine_tune(
        model, (x, y), epochs=EPOCHS, batch_size=16, learning_rate=1e-3, teacher=teacher, progress=False
    )
    return model, [entry["loss"] for entry in history], np.zeros(0)


def pretrained(records: Path, directory: Path):
    """pretrain, from records of pairs."""
    model = BertPretrainer(*encoder_and_preprocessor(sequence_length=16))
    settings = {"batch_size": 16, "learning_rate": 1e-3, "measure_every": 4, "accumulate": 2}
    history = pretrain(model, records, 8, directory, records, progress=False, **settings)
    names = ("loss", "masked_lm_loss", "masked_lm_accuracy", "next_sentence_loss", "next_sentence_accuracy")
    return model, [entry[name] for entry in history for name in names], np.zeros(0)


def rows_seen(devices: tf.distribute.Strategy) -> list[int]:
    """Which rows this process has in an epoch, of a dataset whose batches are global."""
    rows = tf.data.Dataset.range(ROWS).batch(16).with_options(distribution.DATA_OPTIONS)
    parts = [devices.experimental_local_results(each) for each in devices.experimental_distribute_dataset(rows)]
    return [int(row) for part in parts for each in part for row in each]


def main(kind: str, folder: Path, result: Path) -> None:
    if kind == "mirrored":
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    devices = strategy(kind)
    found = {}
    jobs = {"classified": classified, "tagged": tagged, "tagged_by_crf": tagged_by_crf}
    jobs |= {"answered": answered, "taught": taught}
    jobs["pretrained"] = functools.partial(pretrained, folder / "records", folder / f"run_{kind}")
    for name in JOBS[kind]:
        with devices.scope():
            model, numbers, predictions = jobs[name]()
        found |= {f"{name} {_NUMBERED.sub('encoder/', each.path)}": each.numpy() for each in model.weights}
        found |= {f"{name} numbers": numbers, f"{name} predictions": predictions}
    np.savez(result, **found)
    told = {
        "replicas": devices.num_replicas_in_sync,
        "chief": distribution.is_chief(devices),
        "rows": rows_seen(devices),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
