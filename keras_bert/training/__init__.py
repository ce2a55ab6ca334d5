"""Training: optimizers, a learning rate schedule, batches by length, distillation, evaluation, resumable runs."""

import keras

from keras_bert.optimizers import LAMB, AdamW, WarmupThenDecay

if keras.backend.backend() == "tensorflow":  # on other backends, only the optimizers work
    from keras_bert.tasks.steps.replicas import Replicated
    from keras_bert.training.adapting import adapting
    from keras_bert.training.distillation import learning_from, student_of
    from keras_bert.training.distribution import strategy
    from keras_bert.training.fine_tune import fine_tune
    from keras_bert.training.fine_tuning_run import fine_tune_files
    from keras_bert.training.pretrain import Phase, evaluate_text, pretrain
    from keras_bert.training.pretraining_run import pretrain_files
    from keras_bert.training.report import evaluate, score
    from keras_bert.training.static_vectors import static_of

__all__ = [
    "LAMB",
    "AdamW",
    "Phase",
    "Replicated",
    "WarmupThenDecay",
    "adapting",
    "evaluate",
    "evaluate_text",
    "fine_tune",
    "fine_tune_files",
    "learning_from",
    "pretrain",
    "pretrain_files",
    "score",
    "static_of",
    "strategy",
    "student_of",
]
