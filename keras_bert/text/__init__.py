"""Tokenizers: strings -> ids, in the TensorFlow graph; on Keras's other backends, by Hugging Face's `tokenizers`."""

import importlib
from typing import TYPE_CHECKING

from keras_bert.extras import needing_tensorflow_text

if TYPE_CHECKING:
    from keras_bert.text.bytepair import BytePairTokenizer
    from keras_bert.text.learning import learn_vocabulary
    from keras_bert.text.preprocessor import BertPreprocessor
    from keras_bert.text.sentencepiece import SentencePieceTokenizer
    from keras_bert.text.wordpiece import WordPieceTokenizer

__all__ = ["BertPreprocessor", "BytePairTokenizer", "SentencePieceTokenizer", "WordPieceTokenizer", "learn_vocabulary"]

_HOMES = {
    "BertPreprocessor": "keras_bert.text.preprocessor",
    "BytePairTokenizer": "keras_bert.text.bytepair",
    "SentencePieceTokenizer": "keras_bert.text.sentencepiece",
    "WordPieceTokenizer": "keras_bert.text.wordpiece",
    "learn_vocabulary": "keras_bert.text.learning",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'keras_bert.text' has no attribute {name!r}")
    if name == "BertPreprocessor" and _backend() != "tensorflow":
        return importlib.import_module("keras_bert.text.array_preprocessor").ArrayPreprocessor
    with needing_tensorflow_text(name):
        # Import all of them: a .keras file may hold any tokenizer.
        return {each: getattr(importlib.import_module(home), each) for each, home in _HOMES.items()}[name]


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])


def _backend() -> str:
    import keras

    return keras.backend.backend()
