"""A directory per class."""

import pytest

from keras_bert.data import TextExamples, read_folders


def test_sorted_by_class_and_file(write, tmp_path):
    contents = {"pos/b.txt": "B\n", "neg/2.txt": "two", "pos/a.txt": "\ufeffA", "neg/10.txt": "ten"}
    for name, text in {**contents, "README": "no", "pos/notes.md": "no", ".git/x.txt": "no"}.items():
        write(name, text)
    expected = TextExamples(["ten", "two", "A", "B\n"], labels=["neg", "neg", "pos", "pos"])
    assert read_folders(tmp_path) == read_folders(str(tmp_path)) == expected


def test_bad_files_are_told_by_name(write, tmp_path):
    for name, text in {"neg/1.txt": " \n", "neg/2.txt": b"fine\n\xe9", "pos/1.txt": "good"}.items():
        write(name, text)
    with pytest.raises(ValueError, match="2 of 3 files cannot be used: neg/1.txt: is empty; neg/2.txt: line 2, is not"):
        read_folders(tmp_path)
    with pytest.warns(UserWarning, match="2 of 3 files are left out"):
        assert read_folders(tmp_path, skip_bad=True) == TextExamples(["good"], labels=["pos"])


def test_no_classes_or_no_files(write, tmp_path):
    write("x.txt", "x")
    with pytest.raises(ValueError, match="has no directories; expected one for each class"):
        read_folders(tmp_path)
    write("pos/x.md", "x")
    with pytest.raises(ValueError, match=r"pos has no .txt files; expected the texts of a class"):
        read_folders(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_folders(tmp_path / "nothing")


def test_links_to_nothing_are_told(write, tmp_path):
    write("neg/1.txt", "dull")
    write("pos/1.txt", "good")
    (tmp_path / "pos/2.txt").symlink_to("gone.txt")
    message = "of 3 files {}: pos/2.txt: is a link to gone.txt, which does not exist"
    with pytest.raises(ValueError, match=message.format("cannot be used")):
        read_folders(tmp_path)
    with pytest.warns(UserWarning, match=message.format("are left out")):
        assert read_folders(tmp_path, skip_bad=True).labels == ["neg", "pos"]
    (tmp_path / "odd").symlink_to("nowhere")
    with pytest.raises(ValueError, match="odd is a link to nowhere, which does not exist; repair or remove it"):
        read_folders(tmp_path)


def test_names_of_directories_that_are_no_labels(write, tmp_path):
    write("neg/1.txt", "dull")
    write("a\nb/1.txt", "good")
    with pytest.raises(ValueError, match=r"of a directory, the label is 'a\\nb', with a tab or a line end"):
        read_folders(tmp_path)
