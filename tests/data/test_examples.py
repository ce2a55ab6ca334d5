"""Examples, and their labels: names, numbers and several names."""

import subprocess
import sys

import pytest

from keras_bert.data import read_table
from keras_bert.data.texts import parse_label


def test_data_needs_no_tensorflow_and_no_numpy():
    code = "import sys, keras_bert.data; print([m for m in ('tensorflow', 'keras', 'numpy') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("value", "kind", "label"),
    [
        (" good\r", "class", "good"),
        (0, "class", "0"),
        (True, "class", "true"),
        (False, "class", "false"),
        (" 4.5 ", "number", 4.5),
        ("-1e-3", "number", -0.001),
        (5, "number", 5.0),
        ("war|love", "multi_label", ("war", "love")),
        (" war | love |war", "multi_label", ("war", "love")),
        ("", "multi_label", ()),
        ([], "multi_label", ()),
        (["war", 7], "multi_label", ("war", "7")),
    ],
)
def test_labels(value, kind, label):
    parsed = parse_label(value, kind)
    assert parsed == label
    assert type(parsed) is type(label)


def test_kinds_in_tables(write):
    path = write("a.csv", "text,score,topics\none,0.5,war;love\ntwo,2,\n")
    assert read_table(path, label_column="score", label_kind="number").labels == [0.5, 2.0]
    topics = read_table(path, label_column="topics", label_kind="multi_label", separator=";")
    assert topics.labels == [("war", "love"), ()]
    path = write("a.jsonl", '{"text": "one", "topics": ["war", "love"]}\n{"text": "two", "topics": []}\n')
    assert read_table(path, label_column="topics", label_kind="multi_label").labels == [("war", "love"), ()]
