"""Examples and a model -> a better model: optimizer and schedule, batches by length, measures, resuming."""

import keras

from keras_bert.training.adamw import AdamW, WarmupThenDecay
from keras_bert.training.lamb import LAMB

if keras.backend.backend() == "tensorflow":  # the optimizers need none, the rest does
    from keras_bert.tasks.replicas import Replicated
    from keras_bert.training.evaluation import evaluate
    from keras_bert.training.fine_tune import fine_tune
    from keras_bert.training.pretrain import Phase, pretrain
    from keras_bert.training.strategy import strategy

__all__ = ["LAMB", "AdamW", "Phase", "Replicated", "WarmupThenDecay", "evaluate", "fine_tune", "pretrain", "strategy"]
