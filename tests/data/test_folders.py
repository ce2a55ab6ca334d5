"""A directory per class."""

import os

import pytest

from keras_bert.data import Examples, read_folders

from ..support.messages import error_names, warning_names


def test_sorted_by_class_and_file(write, tmp_path):
    contents = {"pos/b.txt": "B\n", "neg/2.txt": "two", "pos/a.txt": "\ufeffA", "neg/10.txt": "ten"}
    for name, text in {**contents, "README": "no", "pos/notes.md": "no", ".git/x.txt": "no"}.items():
        write(name, text)
    expected = Examples({"text": ["ten", "two", "A", "B\n"]}, labels=["neg", "neg", "pos", "pos"])
    assert read_folders(tmp_path) == read_folders(str(tmp_path)) == expected


def test_bad_files_are_named(write, tmp_path):
    for name, text in {"neg/1.txt": " \n", "neg/2.txt": b"fine\n\xe9", "pos/1.txt": "good"}.items():
        write(name, text)
    bad = ["2 of 3", "neg/1.txt", "empty", "neg/2.txt", "line 2", "UTF-8"]
    with error_names(ValueError, *bad, "skip_bad"):
        read_folders(tmp_path)
    with warning_names(*bad):
        assert read_folders(tmp_path, skip_bad=True) == Examples({"text": ["good"]}, labels=["pos"])


def test_no_classes_or_no_files(write, tmp_path):
    write("x.txt", "x")
    with error_names(ValueError, tmp_path, "no directories", "class"):
        read_folders(tmp_path)
    write("pos/x.md", "x")
    with error_names(ValueError, tmp_path / "pos", "no .txt files"):
        read_folders(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_folders(tmp_path / "nothing")


def test_links_to_nothing_and_pipes_are_named(write, tmp_path):
    write("neg/1.txt", "dull")
    write("pos/1.txt", "good")
    (tmp_path / "pos/2.txt").symlink_to("gone.txt")
    os.mkfifo(tmp_path / "pos/3.txt")
    bad = ["2 of 4", "pos/2.txt", "link", "gone.txt", "pos/3.txt", "is a pipe"]
    with error_names(ValueError, *bad, "skip_bad"):
        read_folders(tmp_path)
    with warning_names(*bad):
        assert read_folders(tmp_path, skip_bad=True).labels == ["neg", "pos"]
    (tmp_path / "odd").symlink_to("nowhere")
    with error_names(ValueError, tmp_path / "odd", "link", "nowhere", "remove"):
        read_folders(tmp_path)


def test_names_of_directories_that_are_no_labels(write, tmp_path):
    write("neg/1.txt", "dull")
    write("a\nb/1.txt", "good")
    with error_names(ValueError, tmp_path, "directory", r"'a\nb'", "line end"):
        read_folders(tmp_path)
