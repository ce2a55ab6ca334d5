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


def test_comments_before_a_sentence_are_no_words(write):
    path = write("a.conll", "# id 1\nAda NNP B-x\nsang VBD O\n\n# only\n# text = Yes !\n#end document\nYes UH O\n")
    assert read_conll(path) == WordExamples([["Ada", "sang"], ["Yes"]], [["B-x", "O"], ["O"]])
    path = write("b.conll", "# sent_id = 1\nAda\tB-x\nsang\tO\n\n#1 B-x\n# B-new\nYes\tO\n\n# last\n")
    assert read_conll(path).words == [["Ada", "sang"], ["#1", "Yes"]]
    assert read_conll(write("c.txt", "# id 1\n#1\nAda\n"), label_column=None).words == [["#1", "Ada"]]
    with pytest.raises(ValueError, match="line 2: 3 columns instead of 2"):  # in a sentence
        read_conll(write("d.conll", "Ada\tB-x\n# 2 3\nsang\tO\n"))
    with pytest.raises(ValueError, match="line 1: 1 column instead of 2"):  # a word without its label
        read_conll(write("e.conll", "#NFL\nAda\tB-x\nsang\tO\n"))
    with pytest.raises(ValueError, match="has -DOCSTART- lines and comments and no sentences"):
        read_conll(write("f.conll", "# id 1\n\n-DOCSTART- O\n"))


@pytest.mark.parametrize("end", ["\t", " "])
def test_a_number_sign_with_a_label_is_a_word(write, end):
    lines = "# O\n#NFL B-tag\nrocks O\n\nAda B-x\n# O\n#FF O\n\n#solo B-once\n\n# B-x\n"
    words = [["#", "#NFL", "rocks"], ["Ada", "#", "#FF"], ["#solo"], ["#"]]
    assert read_conll(write("a.conll", lines.replace(" ", end))).words == words


def test_words_numbered_as_in_conll_u(write):
    rows = ["1-2\tdon't\t_", "1\tdo\tAUX", "2\tn't\tPART", "2.1\tgo\tVERB", "3\t1-2\tNUM"]
    path = write("a.conllu", "# sent_id = 1\n# text = don't 1-2\n" + "\n".join(rows) + "\n\n1\tYes\tINTJ\n")
    expected = WordExamples([["do", "n't", "1-2"], ["Yes"]], [["AUX", "PART", "NUM"], ["INTJ"]])
    assert read_conll(path, word_column=2) == expected
    with pytest.raises(ValueError, match="column 1 numbers the words of each sentence, as in CoNLL-U.*word_column=2"):
        read_conll(path)
    # A date among words that nobody has numbered.
    assert read_conll(write("b.conll", "1-2 O\nwon O\n1.1 B-x\n")).words == [["1-2", "won", "1.1"]]


@pytest.mark.parametrize("blank", ["\t", "  ", " \t ", "\t\t", "\u3000", "\u00a0"])
def test_lines_of_white_space_end_sentences(write, blank):
    path = write("a.conll", f"Ada\tB-x\nsang\tO\n{blank}\nYes\tO\n")
    assert read_conll(path) == WordExamples([["Ada", "sang"], ["Yes"]], [["B-x", "O"], ["O"]])


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_any_line_ends(write, end):
    path = write("a.conll", end.join(["\ufeffAda B-x", "sang O", "", "Yes O", ""]).encode())
    assert read_conll(path) == WordExamples([["Ada", "sang"], ["Yes"]], [["B-x", "O"], ["O"]])


def test_labels_with_line_ends_are_refused(write):
    with pytest.raises(ValueError, match=r"line 2: label is 'O\\rx', with a tab or a line end"):
        read_conll(write("a.conll", "Ada\tB-x\nsang\tO\rx\n"))
