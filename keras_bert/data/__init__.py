"""Reads files of examples, and checks them before any work starts, without models or TensorFlow.

Files are in UTF-8, with or without a byte order mark. Every reader raises OSError if a file cannot be read, and
ValueError if it is not UTF-8, has no examples, or has bad rows. The message has the number of bad rows, and the line
numbers of the first ten. With `skip_bad=True`, bad rows are left out, with a UserWarning that counts them.
"""

from keras_bert.data.beir import RetrievalData, read_beir
from keras_bert.data.conll import read_conll
from keras_bert.data.examples import Answer, Examples, Rows
from keras_bert.data.squad import read_squad
from keras_bert.data.texts import read_columns, read_folders, read_table

__all__ = [
    "Answer",
    "Examples",
    "RetrievalData",
    "Rows",
    "read_beir",
    "read_columns",
    "read_conll",
    "read_folders",
    "read_squad",
    "read_table",
]
