"""Strings -> ids, in the TensorFlow graph. Knows nothing of models."""

from keras_bert.text.preprocessor import BertPreprocessor
from keras_bert.text.wordpiece import WordPieceTokenizer

__all__ = ["BertPreprocessor", "WordPieceTokenizer"]
