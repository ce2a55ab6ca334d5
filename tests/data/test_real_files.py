"""The files of well-known tasks, as they are in the world. Counts are of lines, or of the csv module's rows."""

import csv
import re
import warnings
import zipfile

import pytest

from keras_bert.data import read_conll, read_folders, read_squad, read_table

from ..support.messages import error_names

pytestmark = pytest.mark.slow


def test_wnut17(shared_data):
    counts = {"emerging.dev.conll": 1_009, "emerging.test.annotated": 1_287, "wnut17train.conll": 3_394}
    for name, sentences in counts.items():
        examples = read_conll(shared_data / "wnut17" / name)
        lines = (shared_data / "wnut17" / name).read_text("utf-8").split("\n")
        assert len(examples) == sentences
        assert [word for words in examples.x for word in words] == [line.split("\t")[0] for line in lines if line]
        assert {tag[:2] for tags in examples.labels for tag in tags} == {"O", "B-", "I-"}
        beginnings = sum(tag.startswith("B-") for tags in examples.labels for tag in tags)
        assert beginnings == sum(bool(re.search(r"\tB-", line)) for line in lines)


def test_film_reviews(shared_data, tmp_path):
    with zipfile.ZipFile(shared_data / "long_reviews/movie_reviews.zip") as archive:
        archive.extractall(tmp_path)
        first = archive.read("movie_reviews/neg/cv000_29416.txt").decode()
        members = [name for name in archive.namelist() if name.endswith(".txt")]
    examples = read_folders(tmp_path / "movie_reviews")
    assert len(examples) == len(members) == 2_000
    assert examples.labels == ["neg"] * 1_000 + ["pos"] * 1_000
    assert examples.x[0] == first


def test_squad(shared_data):
    counts = {"train-v1.1": 6_881, "dev-v1.1": 1_905, "train-v2.0": 8_481, "dev-v2.0": 962}
    for name, questions in counts.items():
        path = shared_data / f"squad/{name}.json"
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # every answer is where it says
            examples = read_squad(path)
        raw = path.read_text("utf-8")
        assert len(examples) == questions == raw.count('"question":')
        assert examples.labels.count(()) == raw.count('"is_impossible": true')
        assert sum(map(len, examples.labels)) == raw.count('"answer_start":')
        for context, answers in zip(examples.texts["context"], examples.labels, strict=True):
            assert all(context[start:].startswith(text) for text, start in answers)


STSB = {"text_column": 1, "text_pair_column": 2, "label_column": 3, "label_kind": "number", "header": False}
COLA = {"text_column": 4, "label_column": 2, "header": False}
MRPC = {"text_column": "#1 String", "text_pair_column": "#2 String", "label_column": "Quality", "format": "tsv"}
# File -> how it is read, its rows, the least and the greatest label and how often the greatest is there.
TABLES = {
    "sst2/dev.tsv": ({"text_column": "content", "label_column": "label"}, 872, ("0", "1", 444)),
    "sst2/train.tsv": (
        *({"text_column": "sentence", "label_column": "label", "label_kind": "number"}, 67_349),
        (0.0, 1.0, 37_569),
    ),
    "mrpc/msr_paraphrase_train.txt": (MRPC, 4_076, ("0", "1", 2_753)),
    "stsb/stsb-en-dev.csv": (STSB, 1_500, (0.0, 5.0, 56)),
    "stsb/stsb-en-train.csv": (STSB, 5_749, (0.0, 5.0, 266)),
    "cola/in_domain_train.tsv": (COLA, 8_551, ("0", "1", 6_023)),
    "cola/in_domain_dev.tsv": (COLA, 527, ("0", "1", 365)),
    "cola/out_of_domain_dev.tsv": (COLA, 516, ("0", "1", 354)),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_glue(shared_data, name):
    options, rows, labels = TABLES[name]
    path = shared_data / name
    examples = read_table(path, **options)
    greatest = max(examples.labels)
    assert (min(examples.labels), greatest, examples.labels.count(greatest)) == labels
    assert len(examples) == rows
    texts = list(examples.texts.values())
    if name.endswith(".csv"):
        with open(path, encoding="utf-8", newline="") as file:
            assert [*zip(*texts, strict=True)] == [(one, two) for one, two, _ in csv.reader(file)]
    else:
        content = path.read_text("utf-8-sig")
        assert rows == content.rstrip("\n").count("\n") + (not options.get("header", True))
        assert sum(text.count('"') for column in texts for text in column) == content.count('"')
        assert not any("\r" in text for column in texts for text in column)


def test_a_header_that_is_missing_is_named(shared_data):
    with error_names(ValueError, "no column 'sentence'", "without a header"):
        read_table(shared_data / "cola/in_domain_dev.tsv", text_column="sentence")
