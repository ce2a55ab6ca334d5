"""BERT for TensorFlow and Keras 3, from raw text to a served model."""

import importlib
from typing import TYPE_CHECKING

from keras_bert import registered
from keras_bert.extras import needing_tensorflow_text

if TYPE_CHECKING:
    from keras_bert.config import BertConfig
    from keras_bert.encoder import BertEncoder
    from keras_bert.optimizers import AdamW
    from keras_bert.saved_model import HubLayer
    from keras_bert.tasks.classifier import BertClassifier
    from keras_bert.tasks.heads.crf import CRF
    from keras_bert.tasks.masked_lm import BertMaskedLM
    from keras_bert.tasks.multi_vector import BertMultiVectorEncoder
    from keras_bert.tasks.multiple_choice import BertMultipleChoice
    from keras_bert.tasks.next_sentence import BertNextSentence
    from keras_bert.tasks.question_answerer import BertQuestionAnswerer
    from keras_bert.tasks.reranker import BertReranker
    from keras_bert.tasks.sentence import BertSentenceEncoder
    from keras_bert.tasks.sparse import BertSparseEncoder
    from keras_bert.tasks.token_classifier import BertTokenClassifier
    from keras_bert.text import BertPreprocessor

__version__ = "0.2.0"
__all__ = [
    "CRF",
    "AdamW",
    "BertClassifier",
    "BertConfig",
    "BertEncoder",
    "BertMaskedLM",
    "BertMultiVectorEncoder",
    "BertMultipleChoice",
    "BertNextSentence",
    "BertPreprocessor",
    "BertQuestionAnswerer",
    "BertReranker",
    "BertSentenceEncoder",
    "BertSparseEncoder",
    "BertTokenClassifier",
    "HubLayer",
]

_OUTSIDE_TASKS = {
    "AdamW": "optimizers",
    "BertConfig": "config",
    "BertEncoder": "encoder",
    "BertPreprocessor": "text",
    "CRF": "tasks.heads.crf",  # needs no TensorFlow
    "HubLayer": "saved_model",
}
registered.register()


def __getattr__(name: str) -> object:
    """Imports a public name at its first use: the encoder needs no TensorFlow, and unused modules take no time."""
    if name not in __all__:
        raise AttributeError(f"module 'keras_bert' has no attribute {name!r}")
    with needing_tensorflow_text(name):
        return getattr(importlib.import_module(f"keras_bert.{_OUTSIDE_TASKS.get(name, 'tasks')}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
