"""A run to kill: trains on examples it makes itself, and prints a line a step. Arguments: its directory, its file."""

import sys
from pathlib import Path

import keras
import numpy as np

from keras_bert.training import fine_tune

from ..support.reviews import SETTINGS, classifier, examples


class Steps(keras.callbacks.Callback):
    """Prints the steps that were taken, whose state is saved."""

    def on_train_batch_end(self, batch, logs=None):
        print("step", flush=True)


if __name__ == "__main__":
    directory, weights = map(Path, sys.argv[1:])
    trained = classifier(dropout=0.3)
    settings = {**SETTINGS, "frozen_layers": 0, "checkpoint_seconds": 0}
    fine_tune(trained, examples(), directory=directory, callbacks=[Steps()], **settings)
    np.savez(weights, *(variable.numpy() for variable in trained.variables))
