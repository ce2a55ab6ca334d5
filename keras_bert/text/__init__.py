"""Tokenizers turn strings into ids in the TensorFlow graph or, on other backends, by Hugging Face's `tokenizers`."""

import importlib
from typing import TYPE_CHECKING

from keras_bert.extras import needing_tensorflow_text

if TYPE_CHECKING:
    from keras_bert.text.bytepair import BytePairTokenizer
    from keras_bert.text.learning import learn_vocabulary
    from keras_bert.text.preprocessor import BertPreprocessor, load_tokenizer
    from keras_bert.text.sentencepiece import SentencePieceTokenizer
    from keras_bert.text.wordpiece import WordPieceTokenizer

__all__ = [
    "BertPreprocessor",
    "BytePairTokenizer",
    "SentencePieceTokenizer",
    "WordPieceTokenizer",
    "learn_vocabulary",
    "load_tokenizer",
]

_HOMES = {
    "BertPreprocessor": "keras_bert.text.preprocessor",
    "BytePairTokenizer": "keras_bert.text.bytepair",
    "SentencePieceTokenizer": "keras_bert.text.sentencepiece",
    "WordPieceTokenizer": "keras_bert.text.wordpiece",
    "learn_vocabulary": "keras_bert.text.learning",
    "load_tokenizer": "keras_bert.text.preprocessor",
}


def __getattr__(name: str) -> object:
    """Imports a public name at its first use: the array preprocessor needs no TensorFlow, and no Keras."""
    if name not in _HOMES:
        raise AttributeError(f"module 'keras_bert.text' has no attribute {name!r}")
    home, known_as = _HOMES[name], name
    if name == "BertPreprocessor":
        import keras

        if keras.backend.backend() != "tensorflow":
            home, known_as = "keras_bert.text.arrays.preprocessor", "ArrayPreprocessor"
    with needing_tensorflow_text(name):
        return getattr(importlib.import_module(home), known_as)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
