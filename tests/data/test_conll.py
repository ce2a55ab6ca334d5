"""Words and labels in columns."""

import pytest

from keras_bert.data import WordExamples, read_conll

CONLL_2003 = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

-DOCSTART- -X- -X- O
Peter NNP B-NP B-PER
-DOCSTART- -X- -X- O

"""


def test_columns_and_documents(write):
    path = write("a.txt", CONLL_2003)
    words = [["EU", "rejects"], ["Peter"]]
    assert read_conll(path) == WordExamples(words, [["B-ORG", "O"], ["B-PER"]])
    assert read_conll(path, label_column=2) == WordExamples(words, [["NNP", "VBZ"], ["NNP"]])
    assert read_conll(path, word_column=2, label_column=1).words == [["NNP", "VBZ"], ["NNP"]]
    assert read_conll(path, label_column=None) == WordExamples(words)


def test_words_alone(write):
    path = write("a.txt", "Ada\nsang\n\nYes\n")
    assert read_conll(path, label_column=None) == WordExamples([["Ada", "sang"], ["Yes"]])
    with pytest.raises(ValueError, match="column 1 of 1 cannot be both the word and the label"):
        read_conll(path)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("sang", "1 column instead of 2"),
        ("sang VBD O", "3 columns instead of 2"),
        ("\tO", "word is empty"),
        ("sang\t", "label is empty"),
        ("\u00a0\tO", "word is empty"),
    ],
)
def test_bad_sentences(write, line, what):
    path = write("a.conll", f"Ada B-x\nsings O\n\nShe O\n{line}\nwell\n\nYes O\n")
    with pytest.raises(ValueError, match=f"a.conll: 1 of 3 sentences cannot be used: line 5: {what}. Fix"):
        read_conll(path)
    with pytest.warns(UserWarning, match=f"1 of 3 sentences are left out: line 5: {what}"):
        examples = read_conll(path, skip_bad=True)
    assert examples == WordExamples([["Ada", "sings"], ["Yes"]], [["B-x", "O"], ["O"]])


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", {}, "is empty"),
        ("-DOCSTART- O\n\n", {}, "has -DOCSTART- lines and no sentences"),
        ("Ada O\n", {"label_column": 3}, "has no column 3; its columns are 1 to 2"),
        ("Ada O\n", {"word_column": 0}, "has no column 0; its columns are 1 to 2"),
        (b"Ada O\n\xe9 O\n", {}, "line 2, is not UTF-8"),
    ],
)
def test_files_that_cannot_be_read(write, content, options, message):
    with pytest.raises(ValueError, match=message):
        read_conll(write("a.conll", content), **options)
