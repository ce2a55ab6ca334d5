"""Memory of a loop over models, as of folds, trials or exports: each is made, used, and deleted.

python benchmarks/many_models.py [KIND ...] [--models 20] [--optimizer adam]

Kinds are the tasks, which are trained by `fit`, and the functions below. Each runs in a process of its own. A row has
the size of the process in MB after each model. A model has 4 million weights, which are 16 MB, and as much for each of
the optimizer's two moments. Trials train all-MiniLM-L6-v2, with 22 million weights.
"""

import functools
import gc
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
from _measure import MINILM, heading, in_new_process, need_library, one_of, options, parse, run, table

import keras_bert
from keras_bert import AdamW, BertConfig, BertEncoder, BertPreprocessor
from keras_bert.pretraining import BertPretrainer, write_records
from keras_bert.training import fine_tune, pretrain

TEXTS, MORE = ["I love pizza", "it rains", "good food", "a cold wind"], ["pasta", "it pours", "a meal", "a storm"]
SETTINGS = {"epochs": 1, "batch_size": 2, "progress": False}
INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
# Freed memory goes back to the system at once, so that the size of the process is that of what it holds.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def encoder() -> BertEncoder:
    sizes = {"hidden_size": 128, "num_layers": 1, "num_heads": 2, "intermediate_size": 128, "max_positions": 64}
    return BertEncoder(BertConfig(vocab_size=30522, **sizes))


def new(task: str) -> Any:
    """An untrained model of a task."""
    words = {"BertClassifier": [["food", "weather"]], "BertTokenClassifier": [["O", "B-x"]]}
    stride = 8 if task == "BertQuestionAnswerer" else None
    preprocessor = BertPreprocessor.from_preset(MINILM, sequence_length=None, max_sequence_length=32, stride=stride)
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

    def tried(trial: Any) -> float:
        model = keras_bert.BertClassifier.from_preset(MINILM, labels=["food", "weather"])
        examples = EXAMPLES["BertClassifier"]()
        callbacks = [keras.callbacks.LambdaCallback(on_epoch_end=prune)]
        return fine_tune(model, examples, examples, callbacks=callbacks, **SETTINGS)[0]["val_accuracy"]

    study().optimize(tried, n_trials=1)


def pretrained() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "text.txt").write_text("It rains.\nWe stay at home.\nThe sun shines.\n\n" * 8)
        preprocessor = BertPreprocessor.from_preset(MINILM, sequence_length=32)
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
    "pretrain": pretrained,
    "from_preset": from_preset,
    "from_preset in int8": functools.partial(from_preset, "int8"),
    "load_model": load_model,
    "HubLayer": functools.partial(hub_layer, False),
    "HubLayer, trained": functools.partial(hub_layer, True),
}
KINDS = [*EXAMPLES, "a Keras model", *OTHERS]


def sizes(kind: str, models: int, optimizer: str | None) -> Iterator[int]:
    """Yields the MB of this process after each model."""
    import psutil

    works = {task: functools.partial(fit, task, optimizer) for task in EXAMPLES} | OTHERS
    work = works.get(kind) or functools.partial(functional, optimizer)
    for _ in range(models):
        work()
        keras.utils.clear_session()
        gc.collect()
        yield round(psutil.Process().memory_info().rss / 1e6)


def main() -> None:
    parser = options(__doc__, models=20)
    parser.add_argument("kinds", nargs="*", type=one_of(KINDS), default=KINDS, help=", ".join(KINDS))
    parser.add_argument("--optimizer", help="one of Keras's, for `fit`; by default AdamW")
    arguments = parse(parser, kinds=["a Keras model"], models=2)
    need_library("psutil")
    heading(["tensorflow", "keras"])
    settings = (arguments.models, arguments.optimizer)

    def row(kind: str) -> list[str]:
        code = f"import many_models; print(*many_models.sizes(*{(kind, *settings)!r}))"
        return [kind, *in_new_process(code, **ENVIRONMENT).split()]

    table(["MB after model", *range(1, arguments.models + 1)], map(row, arguments.kinds))


if __name__ == "__main__":
    run(main)
