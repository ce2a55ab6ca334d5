"""Words and labels in columns."""

import pytest

from keras_bert.data import Examples, read_conll

from ..support.messages import error_names

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
    assert read_conll(path) == Examples({"words": words}, [["B-ORG", "O"], ["B-PER"]])
    assert read_conll(path, label_column=2) == Examples({"words": words}, [["NNP", "VBZ"], ["NNP"]])
    assert read_conll(path, word_column=2, label_column=1).x == [["NNP", "VBZ"], ["NNP"]]
    assert read_conll(path, label_column=None) == Examples({"words": words})
    path = write("b.txt", "Ada\nsang\n\nYes\n")
    assert read_conll(path, label_column=None) == Examples({"words": [["Ada", "sang"], ["Yes"]]})


def test_comments_before_a_sentence_are_no_words(write):
    path = write("a.conll", "# id 1\nAda NNP B-x\nsang VBD O\n\n# only\n# text = Yes !\n#end document\nYes UH O\n")
    assert read_conll(path) == Examples({"words": [["Ada", "sang"], ["Yes"]]}, [["B-x", "O"], ["O"]])
    path = write("b.conll", "# sent_id = 1\nAda\tB-x\nsang\tO\n\n#1 B-x\n# B-new\nYes\tO\n\n# last\n")
    assert read_conll(path).x == [["Ada", "sang"], ["#1", "Yes"]]
    assert read_conll(write("c.txt", "# id 1\n#1\nAda\n"), label_column=None).x == [["#1", "Ada"]]


@pytest.mark.parametrize("end", ["\t", " "])
def test_a_number_sign_with_a_label_is_a_word(write, end):
    lines = "# O\n#NFL B-tag\nrocks O\n\nAda B-x\n# O\n#FF O\n\n#solo B-once\n\n# B-x\n"
    words = [["#", "#NFL", "rocks"], ["Ada", "#", "#FF"], ["#solo"], ["#"]]
    assert read_conll(write("a.conll", lines.replace(" ", end))).x == words


def test_words_numbered_as_in_conll_u(write):
    rows = ["1-2\tdon't\t_", "1\tdo\tAUX", "2\tn't\tPART", "2.1\tgo\tVERB", "3\t1-2\tNUM"]
    path = write("a.conllu", "# sent_id = 1\n# text = don't 1-2\n" + "\n".join(rows) + "\n\n1\tYes\tINTJ\n")
    expected = Examples({"words": [["do", "n't", "1-2"], ["Yes"]]}, [["AUX", "PART", "NUM"], ["INTJ"]])
    assert read_conll(path, word_column=2) == expected
    with error_names(ValueError, "a.conllu", "column 1", "CoNLL-U", "word_column=2"):
        read_conll(path)
    # A date among words that nobody has numbered.
    assert read_conll(write("b.conll", "1-2 O\nwon O\n1.1 B-x\n")).x == [["1-2", "won", "1.1"]]


@pytest.mark.parametrize("blank", ["\t", "  ", " \t ", "\t\t", "\u3000", "\u00a0", ""])
@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_lines_of_white_space_end_sentences_and_any_line_ends(write, end, blank):
    path = write("a.conll", end.join(["\ufeffAda\tB-x", "sang\tO", blank, "Yes\tO", ""]).encode())
    assert read_conll(path) == Examples({"words": [["Ada", "sang"], ["Yes"]]}, [["B-x", "O"], ["O"]])
