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
        assert [word for words in examples.words for word in words] == [line.split("\t")[0] for line in lines if line]
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
    assert examples.texts[0] == first


def test_squad(shared_data):
    counts = {"train-v1.1": 6_881, "dev-v1.1": 1_905, "train-v2.0": 8_481, "dev-v2.0": 962}
    for name, questions in counts.items():
        path = shared_data / f"squad/{name}.json"
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # every answer is where it says
            examples = read_squad(path)
        raw = path.read_text("utf-8")
        assert len(examples) == questions == raw.count('"question":')
        assert sum(examples.impossible) == raw.count('"is_impossible": true')
        assert sum(map(len, examples.answers)) == raw.count('"answer_start":')
        for context, answers in zip(examples.contexts, examples.answers, strict=True):
            assert all(context[start:].startswith(text) for text, start in answers)


def lines_in(path):
    return path.read_bytes().rstrip(b"\n").count(b"\n") + 1


def test_sst2(shared_data):
    dev = read_table(shared_data / "sst2/dev.tsv", text_column="content", label_column="label")
    assert len(dev) == 872 == lines_in(shared_data / "sst2/dev.tsv") - 1
    assert dev.labels.count("1") == 444
    train = read_table(
        shared_data / "sst2/train.tsv", text_column="sentence", label_column="label", label_kind="number"
    )
    assert len(train) == 67_349 == lines_in(shared_data / "sst2/train.tsv") - 1
    assert (train.texts[0], train.labels[0]) == ("hide new secretions from the parental units ".strip(), 0.0)
    assert {type(label) for label in train.labels} == {float}
    assert not any("\r" in text for text in train.texts)


def test_mrpc(shared_data):
    path = shared_data / "mrpc/msr_paraphrase_train.txt"
    train = read_table(
        path, text_column="#1 String", text_pair_column="#2 String", label_column="Quality", format="tsv"
    )
    assert len(train) == 4_076 == lines_in(path) - 1
    quotes = path.read_text("utf-8-sig").count('"')
    assert sum(text.count('"') for text in train.texts + train.pairs) == quotes > 0
    assert train.labels.count("1") == 2_753


def test_stsb(shared_data):
    for name, rows in {"dev": 1_500, "train": 5_749}.items():
        path = shared_data / f"stsb/stsb-en-{name}.csv"
        examples = read_table(
            path, text_column=1, text_pair_column=2, label_column=3, label_kind="number", header=False
        )
        with open(path, encoding="utf-8", newline="") as file:
            theirs = list(csv.reader(file))
        assert list(zip(examples.texts, examples.pairs, strict=True)) == [(one, two) for one, two, _ in theirs]
        assert len(examples) == rows
        assert min(examples.labels) == 0
        assert max(examples.labels) == 5


def test_cola(shared_data):
    for name, rows in {"in_domain_train": 8_551, "in_domain_dev": 527, "out_of_domain_dev": 516}.items():
        path = shared_data / f"cola/{name}.tsv"
        examples = read_table(path, text_column=4, label_column=2, header=False)
        assert len(examples) == rows == lines_in(path)
        assert set(examples.labels) == {"0", "1"}
        with error_names(ValueError, "no column 'sentence'", "without a header"):
            read_table(path, text_column="sentence")
