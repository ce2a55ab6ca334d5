"""Readers of files of examples, which are checked before any work starts. They use neither models nor TensorFlow.

    tables.py     CSV, TSV and JSON lines, by column; rows.py, labels.py
    folders.py    a directory per class
    conll.py      words and labels, one a line
    squad.py      questions, contexts and answers
    examples.py   the result of all readers: dataclasses of parallel lists
    problems.py   the bad rows of a file, reported together

Every reader raises ValueError for a file that is not UTF-8, or has no examples, or has rows that cannot be used: the
message has their number, and the lines of the first ten. With `skip_bad=True` they are left out, with a warning.
"""

from keras_bert.data.conll import read_conll
from keras_bert.data.examples import Answer, QuestionExamples, TextExamples, WordExamples
from keras_bert.data.folders import read_folders
from keras_bert.data.squad import read_squad
from keras_bert.data.tables import read_table

__all__ = [
    "Answer",
    "QuestionExamples",
    "TextExamples",
    "WordExamples",
    "read_conll",
    "read_folders",
    "read_squad",
    "read_table",
]
