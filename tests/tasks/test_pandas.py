"""Columns of a table, whose index begins anywhere: the tasks take them as they take lists."""

import keras
import numpy as np
import pandas as pd
import pytest

from keras_bert import (
    BertClassifier,
    BertConfig,
    BertEncoder,
    BertPreprocessor,
    BertQuestionAnswerer,
    BertTokenClassifier,
)
from keras_bert.tasks.classifier import MULTI_LABEL, REGRESSION
from keras_bert.text import WordPieceTokenizer
from keras_bert.training import evaluate, fine_tune

WORDS = ["one", "two", "red", "blue"]
TEXTS = ["one two", "red", "blue red red", "two"]
ANSWERS = [[("two", 4)], [("red", 0)], [("blue", 0)], [("two", 0)]]
TASKS = {
    "classes": (BertClassifier, {"labels": ["a", "b"]}, TEXTS, ["a", "b", "b", "a"]),
    "numbers of classes": (BertClassifier, {"labels": ["a", "b"]}, TEXTS, [0, 1, 1, 0]),
    "pairs": (BertClassifier, {"labels": ["a", "b"], "pairs": True}, (TEXTS, TEXTS[::-1]), ["a", "b", "b", "a"]),
    "several labels": (
        BertClassifier, {"labels": ["a", "b"], "problem_type": MULTI_LABEL}, TEXTS, [["a"], [], ["a", "b"], ["b"]],
    ),
    "numbers": (BertClassifier, {"labels": ["a"], "problem_type": REGRESSION}, TEXTS, [0.5, 1.0, 2.0, 1.5]),
    "words": (
        BertTokenClassifier, {"labels": ["O", "B-x"]},
        [text.split() for text in TEXTS], [["O", "B-x"], ["O"], ["B-x", "O", "O"], ["B-x"]],
    ),
    "questions": (BertQuestionAnswerer, {}, (["two", "red", "blue", "one"], TEXTS), ANSWERS),
}  # fmt: skip


def new(kind, settings):
    keras.utils.set_random_seed(0)
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
    sizes = {"hidden_size": 8, "num_layers": 1, "num_heads": 2, "intermediate_size": 8, "max_positions": 16}
    stride = 4 if kind is BertQuestionAnswerer else None
    preprocessor = BertPreprocessor(tokenizer, sequence_length=None, max_sequence_length=16, stride=stride)
    return kind(BertEncoder(BertConfig(vocab_size=9, **sizes)), preprocessor, **settings)


def column(values):
    """As a split of a shuffled table has them."""
    if isinstance(values, tuple):
        return tuple(column(each) for each in values)
    return pd.Series(values, index=np.arange(7, 7 + len(values))[::-1])


@pytest.mark.parametrize("task", TASKS)
def test_columns_are_lists(task):
    kind, settings, x, y = TASKS[task]
    histories = []
    for examples in ((x, y), (column(x), column(y))):
        model = new(kind, settings)
        history = fine_tune(model, examples, epochs=1, batch_size=2, progress=False)
        model.compile("adam", model.training_loss(), jit_compile=False)
        fit = model.fit(*examples, validation_data=examples, batch_size=2, shuffle=False, verbose=0).history
        logits = model.predict(examples[0], verbose=0).sum()
        histories.append((history, fit, evaluate(model, *examples), model.evaluate(*examples, verbose=0), logits))
    np.testing.assert_equal(histories[0], histories[1])


def test_a_table_of_labels():
    model = new(*TASKS["several labels"][:2])
    table = pd.DataFrame({"a": [1.0, 0, 1, 0], "b": [0.0, 0, 1, 1]}, index=[9, 8, 7, 6])
    named = [["a"], [], ["a", "b"], ["b"]]
    np.testing.assert_array_equal(model.targets(table), model.targets(named))


def test_arrays_of_numpy_are_lists():
    kind, settings, x, y = TASKS["classes"]
    histories = []
    for examples in ((x, y), (np.array(x), np.array(y))):
        model = new(kind, settings)
        model.compile("adam", model.training_loss(), jit_compile=False)
        histories.append(model.fit(*examples, batch_size=2, shuffle=False, verbose=0).history)
    assert histories[0] == histories[1]
