"""Registers the package's classes with Keras, for `keras.models.load_model`. A class is imported when a file has it."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from keras_bert.extras import ImportedIn, needing_tensorflow_text
from keras_bert.loss_table import loss_classes

# Module -> its classes that `register_keras_serializable` registers when the module is imported.
_OTHERS = {
    "encoder.encoder": ["BertEncoder"],
    "encoder.layers": ["Dropout"],
    "optimizers.adamw": ["AdamW", "WarmupThenDecay"],
    "optimizers.lamb": ["LAMB"],
    "pretraining.pretrainer": ["BertPretrainer"],
    "saved_model.hub_layer": ["HubLayer"],
    "tasks.heads.crf": ["CRF", "CRFLoss"],
    "tasks.steps.replicas": ["GlobalMean"],
    "tasks.heads.spans": ["SpanLoss"],
    "text.bytepair": ["BytePairTokenizer"],
    "text.preprocessor": ["BertPreprocessor"],
    "text.sentencepiece": ["SentencePieceTokenizer"],
    "text.wordpiece": ["WordPieceTokenizer"],
}


def classes() -> dict[str, list[str]]:
    """Lists all classes that Keras saves, by their modules in `keras_bert`."""
    from keras_bert.task_table import TASKS  # it lists the columns of files, too, which `import keras_bert` need not

    losses = {f"tasks.losses.{file}": names for file, names in loss_classes().items()}
    return {**{f"tasks.{task.module}": [task.model] for task in TASKS}, **losses, **_OTHERS}


class _ClassToImport:
    """Stands for a class in Keras's registry, until the class is imported and takes its place there."""

    def __init__(self, module: str, name: str) -> None:
        self._place = module, name

    @property
    def from_config(self) -> Callable[..., Any]:  # all that Keras uses of a class
        module, name = self._place
        with needing_tensorflow_text(name):
            return getattr(importlib.import_module(f"keras_bert.{module}"), name).from_config


def register() -> None:
    """Registers the classes, now or as soon as Keras is imported, which takes seconds."""
    if "keras" not in sys.modules:
        sys.meta_path.insert(0, ImportedIn("keras", _registered_at_the_end))
        return
    from keras.saving import get_custom_objects

    for module, names in classes().items():
        for name in names:
            get_custom_objects().setdefault(f"keras_bert>{name}", _ClassToImport(module, name))


@contextlib.contextmanager
def _registered_at_the_end() -> Iterator[None]:
    yield
    register()
