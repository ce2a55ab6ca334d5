"""A run to kill: trains on examples it makes itself, and prints a line a step. Arguments: its directory, its file."""

import sys
from pathlib import Path

import keras
import numpy as np

from keras_bert.training import fine_tune

from ..support.reviews import SETTINGS, classifier, examples

if __name__ == "__main__":
    directory, weights = map(Path, sys.argv[1:])
    trained = classifier(dropout=0.3)
    settings = {**SETTINGS, "frozen_layers": 0, "checkpoint_seconds": 0}
    steps = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: print("step", flush=True))
    fine_tune(trained, examples(), directory=directory, callbacks=[steps], **settings)
    np.savez(weights, *(variable.numpy() for variable in trained.variables))
