"""Tokenizers turn strings into ids in the TensorFlow graph or, on other backends, by Hugging Face's `tokenizers`."""

import importlib
from typing import TYPE_CHECKING

import keras

from keras_bert.extras import needing_tensorflow_text

__all__ = [
    "BertPreprocessor",
    "BytePairTokenizer",
    "SentencePieceTokenizer",
    "WordPieceTokenizer",
    "learn_vocabulary",
    "load_tokenizer",
]

_HOMES = {
    "BytePairTokenizer": "keras_bert.text.bytepair",
    "SentencePieceTokenizer": "keras_bert.text.sentencepiece",
    "WordPieceTokenizer": "keras_bert.text.wordpiece",
    "learn_vocabulary": "keras_bert.text.learning",
    "load_tokenizer": "keras_bert.text.preprocessor",
}

if TYPE_CHECKING or keras.backend.backend() == "tensorflow":
    with needing_tensorflow_text("keras_bert.text"):
        from keras_bert.text.bytepair import BytePairTokenizer
        from keras_bert.text.learning import learn_vocabulary
        from keras_bert.text.preprocessor import BertPreprocessor, load_tokenizer
        from keras_bert.text.sentencepiece import SentencePieceTokenizer
        from keras_bert.text.wordpiece import WordPieceTokenizer
else:
    from keras_bert.text.array_preprocessor import ArrayPreprocessor as BertPreprocessor


def __getattr__(name: str) -> object:
    """Imports a class or function that needs TensorFlow at its first use, on other backends."""
    if name not in _HOMES:
        raise AttributeError(f"module 'keras_bert.text' has no attribute {name!r}")
    with needing_tensorflow_text(name):
        return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
