"""Memory of a loop over models, as of folds, trials or exports: each is made, used, and deleted.

python benchmarks/many_models.py [KIND ...] [--models 20] [--optimizer adam]

Kinds are the tasks, which are trained by `fit`, and the functions below. Each runs in a process of its own. A row has
the size of the process in MB after each model. A model has 4 million weights, which are 16 MB, and as much for each of
the optimizer's two moments. Trials train all-MiniLM-L6-v2, with 22 million weights.
"""

import argparse
import functools
import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from _measure import heading, need_library, parse, run, table

import keras_bert
from keras_bert import AdamW, BertConfig, BertEncoder, BertPreprocessor
from keras_bert.pretraining import BertPretrainer, write_records
from keras_bert.training import fine_tune, pretrain

PRESET = "all-MiniLM-L6-v2"  # for its vocabulary
TEXTS, MORE = ["I love pizza", "it rains", "good food", "a cold wind"], ["pasta", "it pours", "a meal", "a storm"]
SETTINGS = {"epochs": 1, "batch_size": 2, "progress": False}
INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
# Freed memory goes back to the system at once, so that the size of the process is that of what it holds.
ENVIRONMENT = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def encoder() -> BertEncoder:
    return BertEncoder(
        BertConfig(
            vocab_size=30522, hidden_size=128, num_layers=1, num_heads=2, intermediate_size=128, max_positions=64
        )
    )


def new(task: str) -> Any:
    """An untrained model of a task."""
    words = {"BertClassifier": [["food", "weather"]], "BertTokenClassifier": [["O", "B-x"]]}
    stride = 8 if task == "BertQuestionAnswerer" else None
    preprocessor = BertPreprocessor.from_preset(PRESET, sequence_length=None, max_sequence_length=32, stride=stride)
    if task == "BertMaskedLM":
        return keras_bert.BertMaskedLM(encoder())  # of ids
    return getattr(keras_bert, task)(encoder(), preprocessor, *words.get(task, []))


def ids() -> dict[str, np.ndarray]:
    return {name: np.ones((4, 8), np.int32) for name in INPUTS}


# What each task is trained on.
EXAMPLES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "BertClassifier": lambda: (TEXTS, ["food", "weather"] * 2),
    "BertTokenClassifier": lambda: ([text.split() for text in TEXTS], [["O"] * len(text.split()) for text in TEXTS]),
    "BertQuestionAnswerer": lambda: ((MORE, TEXTS), [[("I", 0)], [("it", 0)], [("good", 0)], [("a", 0)]]),
    "BertReranker": lambda: ((MORE, TEXTS), [1, 0, 1, 0]),
    "BertSentenceEncoder": lambda: ((MORE, TEXTS), None),
    "BertSparseEncoder": lambda: (TEXTS, np.zeros((4, 30522), np.float32)),
    "BertMaskedLM": lambda: (ids() | {"masked_lm_positions": np.ones((4, 2), np.int32)}, np.ones((4, 2), np.int32)),
    "BertNextSentence": lambda: ((MORE, TEXTS), [0, 1, 0, 1]),
}


def fit(task: str, optimizer: str | None) -> None:
    model = new(task)
    model.compile(optimizer, "mse" if task == "BertSparseEncoder" else model.training_loss())
    model.fit(*EXAMPLES[task](), batch_size=2, verbose=0)


def functional(optimizer: str | None) -> None:
    inputs = {name: keras.Input([None], dtype="int32", name=name) for name in INPUTS}
    model = keras.Model(inputs, keras.layers.Dense(1)(encoder()(inputs)["pooled_output"]))
    model.compile(optimizer or AdamW(2e-5), "mse")
    model.fit(ids(), np.zeros(4), batch_size=2, verbose=0)


def fine_tuned(**settings: Any) -> None:
    fine_tune(new("BertClassifier"), EXAMPLES["BertClassifier"](), **SETTINGS, **settings)


def kept_run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        fine_tuned(directory=folder, validation=EXAMPLES["BertClassifier"]())


def real() -> keras_bert.BertClassifier:
    return keras_bert.BertClassifier.from_preset(PRESET, labels=["food", "weather"])


def tried(model: keras_bert.BertClassifier, callbacks: list[keras.callbacks.Callback]) -> float:
    examples = EXAMPLES["BertClassifier"]()
    return fine_tune(model, examples, examples, callbacks=callbacks, **SETTINGS)[0]["val_accuracy"]


@functools.cache
def study() -> Any:
    import optuna

    return optuna.create_study()


def optuna_trial() -> None:
    """Makes a trial of the study; every second one is pruned."""
    from optuna import TrialPruned

    def prune(epoch: int, logs: dict[str, float]) -> None:
        if len(study().trials) % 2 == 0:
            raise TrialPruned

    callbacks = [keras.callbacks.LambdaCallback(on_epoch_end=prune)]
    study().optimize(lambda trial: tried(real(), callbacks), n_trials=1)


def tuner_trial() -> None:
    import keras_tuner

    class Tuned(keras_tuner.HyperModel):
        def build(self, hp: Any) -> keras.Model:
            return real()

        def fit(self, hp: Any, model: keras_bert.BertClassifier, callbacks: list[keras.callbacks.Callback]) -> float:
            return tried(model, callbacks)

    objective = keras_tuner.Objective("val_accuracy", "max")
    with tempfile.TemporaryDirectory() as folder:
        keras_tuner.RandomSearch(Tuned(), objective, max_trials=1, directory=folder).search()


def pretrained() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "text.txt").write_text("It rains.\nWe stay at home.\nThe sun shines.\n\n" * 8)
        preprocessor = BertPreprocessor.from_preset(PRESET, sequence_length=32)
        settings = {"layout": "sentences", "progress": False}
        write_records([f"{folder}/text.txt"], f"{folder}/records", preprocessor, **settings)
        model = BertPretrainer(encoder(), preprocessor)
        pretrain(model, f"{folder}/records", 3, f"{folder}/run", batch_size=2, progress=False)


def from_preset(precision: str | None = None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        new("BertSentenceEncoder").save_preset(folder)
        model = keras_bert.BertSentenceEncoder.from_preset(folder, precision=precision)
        model.encode(TEXTS)
        model.encode("one text")
        model(TEXTS)


def load_model() -> None:
    with tempfile.TemporaryDirectory() as folder:
        new("BertClassifier").save(f"{folder}/model.keras")
        keras.models.load_model(f"{folder}/model.keras").classify(TEXTS)


def hub_layer(trained: bool) -> None:
    from keras_bert.saved_model import HubLayer, export_encoder

    with tempfile.TemporaryDirectory() as folder:
        export_encoder(encoder(), folder)
        layer = HubLayer(folder, trainable=trained)
    if not trained:
        layer(ids())
        return
    inputs = {name: keras.Input([None], dtype="int32", name=name) for name in INPUTS}
    model = keras.Model(inputs, keras.layers.Dense(1)(layer(inputs)["pooled_output"]))
    model.compile(AdamW(2e-5), "mse")
    model.fit(ids(), np.zeros(4), batch_size=2, verbose=0)


OTHERS: dict[str, Callable[[], None]] = {
    "fine_tune": fine_tuned,
    "fine_tune into a directory": kept_run,
    "fine_tune with LoRA": functools.partial(fine_tuned, lora_rank=4),
    "trial of Optuna": optuna_trial,
    "trial of KerasTuner": tuner_trial,
    "pretrain": pretrained,
    "from_preset": from_preset,
    "from_preset in int8": functools.partial(from_preset, "int8"),
    "load_model": load_model,
    "HubLayer": functools.partial(hub_layer, False),
    "HubLayer, trained": functools.partial(hub_layer, True),
}
KINDS = [*EXAMPLES, "a Keras model", *OTHERS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--optimizer", help="one of Keras's, for `fit`; by default AdamW")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parse(parser, kinds=["a Keras model", "BertClassifier"], models=2)
    if arguments.here:
        print(*sizes(arguments.kinds[0], arguments), flush=True)
        return
    need_library("psutil")
    heading(["tensorflow", "keras"])
    table(["MB after model", *range(1, arguments.models + 1)], rows_of(arguments))


def rows_of(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yields a row for each kind. Each has a process of its own."""
    for kind in arguments.kinds or KINDS:
        command = [sys.executable, __file__, kind, "--models", str(arguments.models), "--here"]
        command += ["--optimizer", arguments.optimizer] if arguments.optimizer else []
        output = subprocess.run(command, env=ENVIRONMENT, check=True, stdout=subprocess.PIPE, text=True).stdout
        yield [kind, *output.splitlines()[-1].split()]


def sizes(kind: str, arguments: argparse.Namespace) -> Iterator[int]:
    """Yields the MB of this process after each model."""
    import psutil

    works = {task: functools.partial(fit, task, arguments.optimizer) for task in EXAMPLES} | OTHERS
    work = works.get(kind) or functools.partial(functional, arguments.optimizer)
    for _ in range(arguments.models):
        work()
        keras.utils.clear_session()
        gc.collect()
        yield round(psutil.Process().memory_info().rss / 1e6)


if __name__ == "__main__":
    tf.get_logger().setLevel("ERROR")
    run(main)
