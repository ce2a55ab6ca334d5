"""Corpora -> indexes to search by meaning, and their near-duplicates."""

from keras_bert.search.building import build_index
from keras_bert.search.near_duplicates import near_duplicates
from keras_bert.search.text_index import TextIndex

__all__ = ["TextIndex", "build_index", "near_duplicates"]
