"""Labels of words -> entities: conlleval's rules by table, and the script's own functions beside ours."""

import itertools
import random

import pytest

from keras_bert.answers.entities import LabelScheme, find_entities, locate_entities

from ..support.messages import error_names

TABLE = {
    "": [],
    "O O": [],
    "B-X I-X O B-X": [("X", 0, 2), ("X", 3, 4)],
    "B-X B-X": [("X", 0, 1), ("X", 1, 2)],
    "I-X I-X": [("X", 0, 2)],  # an entity that never began; more of them are read as conlleval does, below
    "S-X B-X I-X E-X S-Y": [("X", 0, 1), ("X", 1, 4), ("Y", 4, 5)],
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
    found = find_entities(["NOUN", "NOUN", "I-X", "I-X"], LabelScheme.detect(["NOUN", "I-X"]))
    assert found == [("NOUN", 0, 1), ("NOUN", 1, 2), ("X", 2, 4)]


def _ends(before, label, type_before, type_now):
    """`endOfChunk` of conlleval.pl, with the lines for single words of its version for BIOES."""
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


# The letters of an entity of one word, of two and of four.
SCHEMES = {
    "BIO": ("B", "BI", "BIII"),
    "BIOES": ("S", "BE", "BIIE"),
    "BILOU": ("U", "BL", "BIIL"),
    "BMES": ("S", "BE", "BMME"),
    "BMEW": ("W", "BE", "BMME"),
    "IOE": ("E", "IE", "IIIE"),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_scheme_marks_the_same_entities(scheme):
    generator = random.Random(0)
    by_length = {len(letters): letters for letters in SCHEMES[scheme]}
    letters = set("".join(by_length.values()))
    known = LabelScheme.detect(["O", *(f"{letter}-{kind}" for letter in letters for kind in "XY")])
    for _ in range(200):
        labels, entities = [], []
        while len(labels) < 12:
            kind, length = generator.choice("XY"), generator.choice([1, 2, 4])
            entities.append((kind, len(labels), len(labels) + length))
            labels += [*(f"{letter}-{kind}" for letter in by_length[length]), *["O"] * generator.randrange(2)]
        assert find_entities(labels, known) == entities
        assert find_entities(known.bioes(labels)) == entities


def test_bare_letters_mark_words_of_chinese_and_entities_of_one_kind():
    assert find_entities(["B", "E", "S", "B", "M", "E"]) == [("_", 0, 2), ("_", 2, 3), ("_", 3, 6)]
    assert find_entities(["B", "I", "O", "B"]) == [("_", 0, 2), ("_", 3, 4)]
    assert find_entities(["N", "V", "B", "I"]) == [("N", 0, 1), ("V", 1, 2), ("B", 2, 3), ("I", 3, 4)]


def test_the_whole_set_decides_what_a_label_means():
    last = ["L-X", "O", "U-Y"]  # of a long text, from its middle
    assert find_entities(last, LabelScheme.detect(["O", "B-X", "I-X", "L-X", "U-Y"])) == [("X", 0, 1), ("Y", 2, 3)]
    sizes = LabelScheme.detect(["O", "S-shirt", "M-shirt", "L-shirt", "L-X", "U-Y"])
    assert find_entities(last, sizes) == [("L-X", 0, 1), ("U-Y", 2, 3)]


@pytest.mark.parametrize("labels", [
    "O L-X L-Y", "O S-X M-X L-X", "O B-cell T-cell", "O E-mail PHONE", "O vitamin-B vitamin-E", "O B_12 D_3", "DT IN",
])  # fmt: skip
def test_labels_that_only_begin_like_a_scheme_are_kinds_of_their_own(labels):
    scheme = LabelScheme.detect(labels.split())
    assert scheme.meanings == {}
    (name,) = {labels.split()[1]}
    assert find_entities([name], scheme) == [(name, 0, 1)]


@pytest.mark.parametrize(("labels", "words"), [
    ("O B_PER I_PER", ("'B_PER', 'I_PER'",)),
    ("O B:PER I:PER", ("'B:PER', 'I:PER'",)),
    ("O PER-B PER-I LOC-B", ("'LOC-B', 'PER-B', 'PER-I'",)),
    ("O PER_B PER_M PER_E PER_S", ("'PER_B', 'PER_E', 'PER_M'",)),
    ("O b-PER i-PER", ("'b-PER', 'i-PER'",)),
    ("O B-PER I_PER", ("'I_PER'",)),
    ("O B_PER I_PER NOUN", ("'B_PER', 'I_PER'",)),
    ("0 B-PER I-PER", ("'0'",)),
    ("o B-PER L-PER I-PER", ("'o'",)),
    ("O B-PER I-PER F-PER", ("'F-PER'",)),
    ("O B-PER I-PER M-PER", ("B-, I-, M-", "one scheme")),
    ("O B-PER L-PER E-PER", ("B-, E-, L-", "one scheme")),
])  # fmt: skip
def test_labels_that_look_like_a_scheme_but_are_none_are_refused(labels, words):
    with error_names(ValueError, *words, "O", "letter", "dash", "kind"):
        LabelScheme.detect(labels.split())


def test_text_is_cut_from_the_text():
    text = "In  New \tYork, é😀"
    labels = ("O", 1), ("B-L", 0.5), ("I-L", 0.7), ("S-X", 0.2)
    words = [{"label": label, "probability": probability} for label, probability in labels]
    found = locate_entities(text, [(0, 2), (4, 7), (9, 13), (15, 17)], words)
    assert [(each["label"], each["text"]) for each in found] == [("L", "New \tYork"), ("X", "é😀")]
    assert found[0]["probability"] == pytest.approx(0.6)
    assert all(text[each["start"] : each["end"]] == each["text"] for each in found)
