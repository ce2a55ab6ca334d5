"""Labels of words -> entities, even if a model's labels contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

OUTSIDE = "O"
_PREFIXES = ("B-", "I-", "E-", "S-")


class Entity(NamedTuple):
    """A run of words.

    Attributes:
        label: the label, without its prefix.
        first, end: indices of words; `end` is exclusive.
    """

    label: str
    first: int
    end: int


def find_entities(labels: Sequence[str | None], runs: bool = True) -> list[Entity]:
    """The entities in a sentence, in order.

    IOB2 and IOBES labels (Ramshaw and Marcus 1995; begin, inside, end, single) are read as conlleval does (Tjong Kim
    Sang and De Meulder 2003, `startOfChunk` and `endOfChunk`), which repairs invalid ones: an `I-X` or `E-X` that
    continues no X begins an entity, and an X without an `E-X` ends before the first label that does not continue it.

    Args:
        labels: one per word, with a prefix such as `B-`, or without one, such as a part of speech; "O" or None for no
            entity.
        runs: whether words in a row with the same label without a prefix are one entity; else each is an entity.

    Example:
        >>> find_entities(["O", "I-PER", "I-PER", "B-PER", "I-LOC"])
        [Entity(label='PER', first=1, end=3), Entity(label='PER', first=3, end=4), Entity(label='LOC', first=4, end=5)]
        >>> find_entities(["DET", "NOUN", "NOUN"], runs=False)[1:]
        [Entity(label='NOUN', first=1, end=2), Entity(label='NOUN', first=2, end=3)]
    """
    found: list[Entity] = []
    is_open = False
    for word, label in enumerate(labels):
        if label is None or label == OUTSIDE:
            is_open = False
            continue
        prefix, name = (label[0], label[2:]) if has_prefix(label) else ("I" if runs else "S", label)
        if is_open and prefix in "IE" and found[-1].label == name:
            found[-1] = found[-1]._replace(end=word + 1)
        else:
            found.append(Entity(name, word, word + 1))
        is_open = prefix in "BI"
    return found


def spans(
    text: str, places: Sequence[tuple[int, int]], words: Sequence[dict[str, Any]], runs: bool = True
) -> list[dict[str, Any]]:
    """The entities in a text, with their offsets.

    Args:
        text: the text of the words.
        places: each word's offsets in characters; the end is exclusive.
        words: each word's `label` and `probability`, as from `BertTokenClassifier.tag`.
        runs: see `find_entities`.

    Returns:
        Dicts of `label`, `start`, `end`, `text` (`text[start:end]`) and `probability`, the mean over the words.

    Example:
        >>> words = [{"label": "B-LOC", "probability": 0.5}, {"label": "I-LOC", "probability": 1.0}]
        >>> spans("New  York", [(0, 3), (5, 9)], words)
        [{'label': 'LOC', 'start': 0, 'end': 9, 'text': 'New  York', 'probability': 0.75}]
    """
    found = []
    for label, first, last in find_entities([word["label"] for word in words], runs):
        start, end = places[first][0], places[last - 1][1]
        probability = sum(word["probability"] for word in words[first:last]) / (last - first)
        place = {"label": label, "start": start, "end": end, "text": text[start:end]}
        found.append({**place, "probability": probability})
    return found


def has_prefix(label: str) -> bool:
    """Whether a label has a prefix, such as `B-` or `I-`."""
    return label.startswith(_PREFIXES) and len(label) > 2
