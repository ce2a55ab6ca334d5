"""Parallel lists that are parallel."""

import dataclasses
import subprocess
import sys

import pytest

from keras_bert.data import QuestionExamples, TextExamples, WordExamples


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
