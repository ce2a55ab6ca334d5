"""Parallel lists that are parallel."""

import dataclasses
import subprocess
import sys

import pytest

from keras_bert.data import QuestionExamples, TextExamples, WordExamples


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TextExamples(["a"], labels=["x", "y"]), "different lengths: {'texts': 1, 'labels': 2}"),
        (lambda: TextExamples(["a"], []), "different lengths: {'texts': 1, 'pairs': 0}"),
        (lambda: WordExamples([["a"]], []), "different lengths: {'words': 1, 'labels': 0}"),
        (lambda: WordExamples([["a"], ["b"]], [["O"], ["O", "O"]]), "sentence 2 has 1 words and 2 labels"),
        (lambda: QuestionExamples(["q"], ["a?"], []), "different lengths: {'ids': 1, 'questions': 1, 'contexts': 0}"),
    ],
)
def test_lists_of_different_lengths(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_frozen_and_counted():
    examples = TextExamples(["a", "b"])
    assert len(examples) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        examples.texts = []
    assert len(WordExamples([["a", "b"]])) == 1
    assert len(QuestionExamples(["q"], ["a?"], ["b"])) == 1


def test_data_needs_no_tensorflow_and_no_numpy():
    code = "import sys, keras_bert.data; print([m for m in ('tensorflow', 'keras', 'numpy') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == "[]"
