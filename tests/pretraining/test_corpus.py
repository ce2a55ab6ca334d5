"""Files -> documents -> sentences, in parts."""

from itertools import chain

import pytest

from keras_bert.pretraining.corpus import documents, parts_of, sentences

# Each with the sentences that a reader finds in it.
TEXTS = [
    ["Mr. Darcy bowed.", "He left."],
    ["“Why?” she asked.", "“Because!”", "No answer came."],
    ["It cost 3.50 in the U. S. market.", "Then it fell."],
    ["J. R. Smith came at 5 p.m. and left.", "(He was tired.)", "[Sic.]"],
    ["Wait... what?", "Élodie laughed!", "Ça va?"],
    ["今日は。", "明日は！", "「いいえ。」", "はい。"],
    ["no capital. so one sentence"],
]


@pytest.mark.parametrize("expected", TEXTS)
def test_sentences(expected):
    separator = "" if expected[0][0] == "今" else " "
    assert sentences(separator.join(expected)) == expected


def test_nothing_is_lost():
    assert sentences("") == []
    assert sentences("One. ") == ["One."]
    assert "".join(sentences("A b. C d! E")).replace(" ", "") == "Ab.Cd!E"


def write(path, text, newline="\n"):
    path.write_bytes(text.replace("\n", newline).encode())
    return path


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_layouts(tmp_path, newline):
    file = write(tmp_path / "a.txt", "\ufeffOne two.\nThree\nfour. Five.\n\n\n \nSix.", newline)
    (part,) = parts_of([file])
    assert list(documents(part, "sentences")) == [["One two.", "Three", "four. Five."], ["Six."]]
    assert list(documents(part, "prose")) == [["One two.", "Three four.", "Five.", "Six."]]


def test_long_files_are_several_documents(tmp_path):
    paragraph = "Some words of a sentence. " * 100
    file = write(tmp_path / "a.txt", f"{paragraph}\n\n" * 100)
    other = write(tmp_path / "b.txt", "The end.")
    (part,) = parts_of([file, other])
    found = list(documents(part))
    assert found[-1] == ["The end."]
    assert len(found) == 9
    assert all(len(document) % 100 == 0 for document in found[:-1])  # no paragraph is cut
    assert sum(map(len, found)) == 10001


def test_a_file_without_blank_lines_is_several_documents(tmp_path):
    file = write(tmp_path / "a.txt", "Some words of a sentence.\n" * 10000)
    (part,) = parts_of([file])
    found = list(documents(part))
    assert len(found) == 4
    assert sum(map(len, found)) == 10000


@pytest.mark.parametrize("layout", ["prose", "sentences"])
@pytest.mark.parametrize("part_bytes", [1, 7, 64, 500, 10**6])
def test_parts_have_everything_once(tmp_path, layout, part_bytes):
    blocks = ["\n".join(f"Sentence {i} of {j}." for i in range(j % 4 + 1)) for j in range(60)]
    files = [
        write(tmp_path / "a.txt", "\n\n".join(blocks[:20])),
        write(tmp_path / "empty.txt", ""),
        write(tmp_path / "b.txt", "\n\n\n".join(blocks[20:21])),
        write(tmp_path / "c.txt", "\n" + "\n \n".join(blocks[21:]) + "\n\n"),
    ]
    parts = parts_of(files, part_bytes)
    assert [part.start for part in parts[1:]] == [part.end for part in parts[:-1]]
    found = [document for part in parts for document in documents(part, layout)]
    expected = [block.split("\n") for block in blocks]
    if layout == "sentences":
        assert found == expected
    else:
        assert list(chain(*found)) == list(chain(*expected))


def test_a_line_of_megabytes(tmp_path):
    file = write(tmp_path / "a.txt", "word " * 10**6 + "End. And then.\n\nMore.")
    found = [document for part in parts_of([file], 10**6) for document in documents(part)]
    assert [len(sentence) for sentence in chain(*found)] == [5 * 10**6 + 4, 9, 5]
