"""BERT for TensorFlow and Keras 3, from raw text to a served model."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_bert.config import BertConfig
    from keras_bert.encoder import BertEncoder
    from keras_bert.saved_model import HubLayer
    from keras_bert.tasks import (
        BertClassifier,
        BertMaskedLM,
        BertNextSentence,
        BertQuestionAnswerer,
        BertSentenceEncoder,
        BertTokenClassifier,
    )
    from keras_bert.text import BertPreprocessor

__version__ = "0.2.0"
__all__ = [
    "BertClassifier",
    "BertConfig",
    "BertEncoder",
    "BertMaskedLM",
    "BertNextSentence",
    "BertPreprocessor",
    "BertQuestionAnswerer",
    "BertSentenceEncoder",
    "BertTokenClassifier",
    "HubLayer",
]

# Imported at first use: the encoder needs no TensorFlow, and unused parts should cost no time.
_HOMES = {
    "BertClassifier": "keras_bert.tasks",
    "BertConfig": "keras_bert.config",
    "BertEncoder": "keras_bert.encoder",
    "BertMaskedLM": "keras_bert.tasks",
    "BertNextSentence": "keras_bert.tasks",
    "BertPreprocessor": "keras_bert.text",
    "BertQuestionAnswerer": "keras_bert.tasks",
    "BertSentenceEncoder": "keras_bert.tasks",
    "BertTokenClassifier": "keras_bert.tasks",
    "HubLayer": "keras_bert.saved_model",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'keras_bert' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
