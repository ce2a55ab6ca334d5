"""Tokenizers: strings -> ids, in the TensorFlow graph."""

from keras_bert.text.bytepair import BytePairTokenizer
from keras_bert.text.learning import learn_vocabulary
from keras_bert.text.preprocessor import BertPreprocessor
from keras_bert.text.sentencepiece import SentencePieceTokenizer
from keras_bert.text.wordpiece import WordPieceTokenizer

__all__ = ["BertPreprocessor", "BytePairTokenizer", "SentencePieceTokenizer", "WordPieceTokenizer", "learn_vocabulary"]
