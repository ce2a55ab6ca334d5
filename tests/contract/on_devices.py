"""Trains a classifier of packed inputs on one device of Keras's backend, then on all. Arguments: a file, a folder."""

import sys

import keras
import numpy as np

from keras_bert import BertConfig, BertEncoder
from keras_bert.tasks.heads import ClassifierHead
from keras_bert.training import AdamW, WarmupThenDecay

NAMES = ("input_word_ids", "input_mask", "input_type_ids")
ROWS, BATCH, LENGTH, CLASSES = 24, 4, 10, 3
CONFIG = BertConfig(
    vocab_size=30, hidden_size=32, num_layers=2, num_heads=2, intermediate_size=48, max_positions=16,
    initializer_range=0.3, hidden_dropout=0.0, attention_dropout=0.0,
)  # fmt: skip


def classifier() -> keras.Model:
    inputs = {name: keras.Input((LENGTH,), dtype="int32", name=name) for name in NAMES}
    pooled = BertEncoder(CONFIG, name="encoder")(inputs)["pooled_output"]
    return keras.Model(inputs, ClassifierHead(CONFIG, "sequence", CLASSES, name="head")(pooled))


def examples() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    lengths = generator.integers(2, LENGTH + 1, (ROWS, 1))
    mask = (np.arange(LENGTH) < lengths).astype("int32")
    return {
        "input_word_ids": generator.integers(1, CONFIG.vocab_size, mask.shape).astype("int32") * mask,
        "input_mask": mask,
        "input_type_ids": (np.arange(LENGTH) > lengths // 2).astype("int32") * mask,
        "labels": generator.integers(0, CLASSES, ROWS),
    }


def train(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Examples and weights, under their paths in the model -> losses, and weights under the same names."""
    model = classifier()
    for weight in model.weights:
        weight.assign(values[weight.path])
    optimizer = AdamW(WarmupThenDecay(1e-2, 1, ROWS // BATCH), epsilon=1e-3, global_clipnorm=0.5)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = []
    note = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: losses.append(logs["loss"]))
    inputs = {name: values[name] for name in NAMES}
    model.fit(inputs, values["labels"], batch_size=BATCH, shuffle=False, verbose=0, callbacks=[note])
    return {"losses": np.array(losses), **weights(model)}


def weights(model: keras.Model) -> dict[str, np.ndarray]:
    return {weight.path: keras.ops.convert_to_numpy(weight) for weight in model.weights}


if __name__ == "__main__":
    values, devices = dict(np.load(sys.argv[1])), keras.distribution.list_devices()
    for count in (1, len(devices)):
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices[:count]))
        np.savez(f"{sys.argv[2]}/{count}.npz", **train(values))
    assert "tensorflow" not in sys.modules
