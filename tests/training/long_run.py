"""A run to kill: trains on examples it makes itself, and prints a line a step. Arguments: its directory, its file."""

import sys
from pathlib import Path

import keras
import numpy as np

from keras_bert import BertClassifier, BertConfig, BertEncoder, BertPreprocessor
from keras_bert.text import WordPieceTokenizer
from keras_bert.training import fine_tune

WORDS = ["one", "two", "three", "four", "red", "green", "blue"]
SETTINGS = {"epochs": 3, "batch_size": 4, "learning_rate": 1e-3, "checkpoint_seconds": 0}


def model() -> BertClassifier:
    keras.utils.set_random_seed(0)
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
    config = BertConfig(
        vocab_size=12, hidden_size=16, num_layers=2, num_heads=2, intermediate_size=32, max_positions=16
    )  # fmt: skip
    preprocessor = BertPreprocessor(tokenizer, sequence_length=None, max_sequence_length=16)
    return BertClassifier(BertEncoder(config), preprocessor, labels=["number", "colour"], dropout=0.3)


def examples(count: int = 40) -> tuple[list[str], list[str]]:
    generator = np.random.default_rng(0)
    words = [generator.choice(WORDS, generator.integers(1, 9)) for _ in range(count)]
    return [" ".join(each) for each in words], ["number" if each[0] in WORDS[:4] else "colour" for each in words]


class Steps(keras.callbacks.Callback):
    """Prints the steps that were taken, whose state is saved."""

    def on_train_batch_end(self, batch, logs=None):
        print("step", flush=True)


if __name__ == "__main__":
    directory, weights = map(Path, sys.argv[1:])
    trained = model()
    x, y = examples()
    fine_tune(trained, (x, y), (x[:10], y[:10]), directory, callbacks=[Steps()], progress=False, **SETTINGS)
    np.savez(weights, *(variable.numpy() for variable in trained.variables))
