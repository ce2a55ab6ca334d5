"""Labels of words -> entities: conlleval's rules by table, and the script's own functions beside ours."""

import itertools

import pytest

from keras_bert.tasks.entities import find_entities, spans

TABLE = {
    "": [],
    "O O": [],
    "B-X I-X O B-X": [("X", 0, 2), ("X", 3, 4)],
    "B-X B-X": [("X", 0, 1), ("X", 1, 2)],
    # What cannot be: an entity that never began, or began as another one.
    "I-X I-X": [("X", 0, 2)],
    "O I-X": [("X", 1, 2)],
    "B-Y I-X I-X": [("Y", 0, 1), ("X", 1, 3)],
    "I-Y I-X": [("Y", 0, 1), ("X", 1, 2)],
    # IOBES, in order and not.
    "S-X B-X I-X E-X S-Y": [("X", 0, 1), ("X", 1, 4), ("Y", 4, 5)],
    "S-X I-X": [("X", 0, 1), ("X", 1, 2)],
    "S-X E-X": [("X", 0, 1), ("X", 1, 2)],
    "B-X E-X I-X": [("X", 0, 2), ("X", 2, 3)],
    "B-X E-X E-X": [("X", 0, 2), ("X", 2, 3)],
    "E-X O": [("X", 0, 1)],
    "B-X S-X": [("X", 0, 1), ("X", 1, 2)],
    "B-X O I-X E-X": [("X", 0, 1), ("X", 2, 4)],
    "B-X E-Y": [("X", 0, 1), ("Y", 1, 2)],
    # A word that was cut off is in no entity.
    "B-X None I-X": [("X", 0, 1), ("X", 2, 3)],
    # Names with dashes in them, and labels that only look as if they had a prefix.
    "B-work-of-art I-work-of-art": [("work-of-art", 0, 2)],
    "X- B- I-": [("X-", 0, 1), ("B-", 1, 2), ("I-", 2, 3)],
    "PER PER O PER LOC": [("PER", 0, 2), ("PER", 3, 4), ("LOC", 4, 5)],
}


@pytest.mark.parametrize("labels", TABLE)
def test_table(labels):
    labels = [None if label == "None" else label for label in labels.split()]
    assert find_entities(labels) == TABLE[" ".join(map(str, labels))]


def test_parts_of_speech():
    assert find_entities(["NOUN", "NOUN", "I-X", "I-X"], runs=False) == [("NOUN", 0, 1), ("NOUN", 1, 2), ("X", 2, 4)]


def _ends(before, label, type_before, type_now):
    """`endOfChunk` of conlleval.pl, with the lines for single words of its version for IOBES."""
    ends = (before, label) in [("B", "B"), ("B", "O"), ("I", "B"), ("I", "O")]
    ends |= (before, label) in [("E", "E"), ("E", "I"), ("E", "O"), ("E", "B"), ("B", "S"), ("I", "S"), ("E", "S")]
    ends |= before == "S"
    return ends or (before != "O" and type_before != type_now)


def _starts(before, label, type_before, type_now):
    """`startOfChunk` of conlleval.pl, likewise."""
    starts = (before, label) in [("B", "B"), ("I", "B"), ("O", "B"), ("O", "I"), ("E", "E"), ("E", "I"), ("O", "E")]
    starts |= label == "S" or (before, label) in [("E", "B"), ("S", "B"), ("S", "I"), ("S", "E")]
    return starts or (label != "O" and type_before != type_now)


def _conlleval(labels):
    found, begin = [], None
    before, type_before = "O", ""
    for i, label in enumerate([*labels, "O"]):
        now, _, type_now = label.partition("-")
        if begin is not None and _ends(before, now, type_before, type_now):
            found.append((type_before, begin, i))
            begin = None
        if _starts(before, now, type_before, type_now):
            begin = i
        before, type_before = now, type_now
    return found


def test_all_short_sentences_are_read_as_conlleval_does():
    labels = ["O", *(f"{prefix}-{name}" for prefix in "BIES" for name in "XY")]
    for length in range(1, 5):
        for sentence in itertools.product(labels, repeat=length):
            assert find_entities(sentence) == _conlleval(sentence), sentence


def test_text_is_cut_from_the_text():
    text = "In  New \tYork, é😀"
    labels = ("O", 1), ("B-L", 0.5), ("I-L", 0.7), ("S-X", 0.2)
    words = [{"label": label, "probability": probability} for label, probability in labels]
    found = spans(text, [(0, 2), (4, 7), (9, 13), (15, 17)], words)
    assert [(each["label"], each["text"]) for each in found] == [("L", "New \tYork"), ("X", "é😀")]
    assert found[0]["probability"] == pytest.approx(0.6)
    assert all(text[each["start"] : each["end"]] == each["text"] for each in found)
