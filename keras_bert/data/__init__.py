"""Files of examples -> examples, checked before any work starts. Nothing here knows of models or of TensorFlow.

    tables.py     CSV, TSV and JSON lines, by column; rows.py, labels.py
    folders.py    a directory per class
    conll.py      words and tags, one a line
    squad.py      questions, contexts and answers
    examples.py   what they all return: dataclasses of parallel lists
    problems.py   what is wrong with a file, gathered and told at once

Every reader raises ValueError for a file that is not UTF-8, or has no examples, or rows that cannot be used: the
message has their number and the first ten of them by line. With `skip_bad=True` these are left out, and a warning
says the same.
"""

from keras_bert.data.conll import read_conll
from keras_bert.data.examples import Answer, QuestionExamples, TextExamples, WordExamples
from keras_bert.data.folders import read_folders
from keras_bert.data.labels import check_can_be_learned
from keras_bert.data.squad import read_squad
from keras_bert.data.tables import read_table

__all__ = [
    "Answer",
    "QuestionExamples",
    "TextExamples",
    "WordExamples",
    "check_can_be_learned",
    "read_conll",
    "read_folders",
    "read_squad",
    "read_table",
]
