"""Tasks: hidden states to predictions, one module per task."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_bert.tasks.classifier import BertClassifier
    from keras_bert.tasks.masked_lm import BertMaskedLM
    from keras_bert.tasks.next_sentence import BertNextSentence
    from keras_bert.tasks.question_answerer import BertQuestionAnswerer
    from keras_bert.tasks.reranker import BertReranker
    from keras_bert.tasks.sentence import BertSentenceEncoder
    from keras_bert.tasks.sparse import BertSparseEncoder
    from keras_bert.tasks.token_classifier import BertTokenClassifier

__all__ = [
    "BertClassifier",
    "BertMaskedLM",
    "BertNextSentence",
    "BertQuestionAnswerer",
    "BertReranker",
    "BertSentenceEncoder",
    "BertSparseEncoder",
    "BertTokenClassifier",
]

# Lazy imports: the tasks need TensorFlow, the heads do not.
_MODULES = {
    "BertClassifier": "keras_bert.tasks.classifier",
    "BertMaskedLM": "keras_bert.tasks.masked_lm",
    "BertNextSentence": "keras_bert.tasks.next_sentence",
    "BertQuestionAnswerer": "keras_bert.tasks.question_answerer",
    "BertReranker": "keras_bert.tasks.reranker",
    "BertSentenceEncoder": "keras_bert.tasks.sentence",
    "BertSparseEncoder": "keras_bert.tasks.sparse",
    "BertTokenClassifier": "keras_bert.tasks.token_classifier",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'keras_bert.tasks' has no attribute {name!r}")
    # Import every task, since a .keras file may hold a model of any task.
    return {each: getattr(importlib.import_module(home), each) for each, home in _MODULES.items()}[name]


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
