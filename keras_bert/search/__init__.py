"""Semantic search: indexes of corpora, their quality, near-duplicates, and hard negatives.

Functions import TensorFlow when they load a model, and check files before that.
"""

from keras_bert.search.building import build_index, remove_rows
from keras_bert.search.evaluation import evaluate_retrieval
from keras_bert.search.mining import NegativeRules, mine_negatives
from keras_bert.search.near_duplicates import duplicate_groups, near_duplicates
from keras_bert.search.text_index import TextIndex

__all__ = [
    "NegativeRules",
    "TextIndex",
    "build_index",
    "duplicate_groups",
    "evaluate_retrieval",
    "mine_negatives",
    "near_duplicates",
    "remove_rows",
]
