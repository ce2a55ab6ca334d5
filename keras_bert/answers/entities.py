"""Reads entities from labels of words, even from sequences that break the scheme, such as `O I-PER`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

import numpy as np

OUTSIDE = "O"
_NO_KIND = "_"  # the kind of entities whose labels are bare letters, as in seqeval
# The letters of all schemes -> those of BIOES: begin, inside (middle), end (last), single (unit, whole).
_BIOES = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S", "W": "S"}
_PREFIXED = re.compile(r"([BIMELSUW])-(.+)", re.DOTALL)
_OTHER_LETTER = re.compile(r"[A-Z]-.+", re.DOTALL)
# Labels that may be misspelled labels of a scheme: b-PER, B_PER, B:PER; PER-B, PER_B.
_PREFIX_LIKE = re.compile(r"(?P<letter>[BIMELSUW])[\W_](?P<kind>.+)", re.DOTALL | re.IGNORECASE)
_SUFFIX_LIKE = re.compile(r"(?P<kind>.+)[\W_](?P<letter>[BIMELSUW])", re.DOTALL | re.IGNORECASE)
_ADVICE = (
    "labels of entities are O, and a letter, a dash and a kind, such as B-PER: B and I (BIO), with E and S (BIOES), "
    "with L and U (BILOU), or B, M, E and S (BMES); rename them in the data, or in id2label of a model's config.json"
)


class WordAnswer(TypedDict):
    """A word, its label and the label's probability; the last two are None for a truncated word."""

    word: str
    label: str | None
    probability: float | None


class EntityAnswer(TypedDict):
    """An entity: its label, offsets in characters (`end` is exclusive), text, and the mean probability of its words."""

    label: str
    start: int
    end: int
    text: str
    probability: float


class Entity(NamedTuple):
    """An entity as a range of words: its label without prefix, and the indices of its words; `end` is exclusive."""

    label: str
    first: int
    end: int


@dataclass(frozen=True)
class LabelScheme:
    """The scheme by which labels mark entities. The whole set of a model's labels decides it, never a single label.

    =======  ============  ===========  =========  ==================================
    Scheme   Other name    Three words  One word   Source
    =======  ============  ===========  =========  ==================================
    BIO      IOB2          B I I        B          Tjong Kim Sang and Veenstra 1999
    BIOES    IOBES         B I E        S          Krishnan and Ganapathy 2005
    BILOU                  B I L        U          Ratinov and Roth 2009
    BMES     BMEW          B M E        S or W     Xue 2003, of Chinese words
    IOB1     IOB           I I I        I          Ramshaw and Marcus 1995
    IOE      IOE2          I I E        E          Tjong Kim Sang and Veenstra 1999
    =======  ============  ===========  =========  ==================================

    A set without prefixes, such as parts of speech, has no scheme: each label is a kind of entity.
    """

    meanings: Mapping[str, tuple[str, str]]  # label -> its letter in BIOES, and its kind; empty without a scheme
    joins_equal_labels: bool  # whether words in a row with one label, without a prefix, are one entity; else each is

    @classmethod
    def detect(cls, labels: Iterable[str | None]) -> LabelScheme:
        """Detects the scheme of labels. Raises ValueError if they look like those of a scheme, but are none."""
        present = set(labels)
        names = sorted(label for label in present if label not in (OUTSIDE, None))
        return cls(_meanings(names, OUTSIDE in present), OUTSIDE in present)

    def bioes(self, labels: Iterable[str | None]) -> list[str]:
        """Converts labels of a sentence to BIOES: "O", or `B-`, `I-`, `E-`, `S-` before the kind; None becomes "O"."""
        bare_letter = "I" if self.joins_equal_labels else "S"
        outside = (OUTSIDE, None)
        return [
            OUTSIDE if each in outside else "-".join(self.meanings.get(each, (bare_letter, each))) for each in labels
        ]


# The letters that each scheme may have.
_SCHEMES = {"BIO": "BI", "BIOES": "BIES", "BILOU": "BILU", "BMES": "BMESW", "IOB1": "BI", "IOE": "IE"}


def allowed_transitions(labels: Sequence[str], scheme: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Computes which labels may begin a sentence, follow each other, and end a sentence in a scheme.

    Args:
        labels: the names of the labels.
        scheme: "BIO", "BIOES", "BILOU", "BMES", "IOB1" or "IOE"; see `LabelScheme`.

    Returns:
        bool `[labels]`, `[labels, labels]` (from, to) and `[labels]`.

    Raises:
        ValueError: there is no such scheme, or the labels are of another scheme.

    Example:
        >>> allowed_transitions(["O", "B-PER", "I-PER"], "BIO")[1][0]  # after O
        array([ True,  True, False])
    """
    if scheme not in _SCHEMES:
        raise ValueError(f"scheme is {scheme!r:.60}; expected {', '.join(_SCHEMES)}")
    meanings = LabelScheme.detect([*labels, OUTSIDE]).meanings
    if foreign := sorted(name for name in meanings if name[0] not in _SCHEMES[scheme]):
        raise ValueError(f"the label {foreign[0]!r} is not of the scheme {scheme}, of {', '.join(_SCHEMES[scheme])}")
    letters = {letter for letter, _ in meanings.values()}
    marks_first, marks_last = "B" in letters, "E" in letters
    boundary = (OUTSIDE, "")
    tags = [meanings.get(name, boundary) for name in labels]

    def is_allowed(before: tuple[str, str], after: tuple[str, str]) -> bool:
        is_same = before[1] == after[1] and before[0] in ("B", "I") and after[0] in ("I", "E")
        if scheme == "IOB1":
            return after[0] != "B" or (before[1] == after[1] and before[0] in ("B", "I"))
        is_continued = marks_first and after[0] in ("I", "E")  # a label that can only continue an entity
        is_open = marks_last and before[0] in ("B", "I")
        return is_same or not (is_continued or is_open)

    follows = [[is_allowed(before, after) for after in tags] for before in tags]
    start, end = [is_allowed(boundary, each) for each in tags], [is_allowed(each, boundary) for each in tags]
    return np.array(start), np.array(follows), np.array(end)


def scheme_of(labels: Sequence[str], sentences: Iterable[Sequence[str]] = ()) -> str | None:
    """Detects the scheme of labels, a name in `allowed_transitions`; None if they have none."""
    # IOB1 and BIO have the same labels. The scheme is IOB1 if all sentences keep IOB1's rules and some break BIO's.
    meanings = LabelScheme.detect([*labels, OUTSIDE]).meanings
    letters = {name[0] for name in meanings}
    fitting = [
        scheme for scheme in ("BIO", "IOE", "BIOES", "BILOU", "BMES") if letters and letters <= {*_SCHEMES[scheme]}
    ]
    if fitting[:1] != ["BIO"]:
        return fitting[0] if fitting else None
    rules = {scheme: allowed_transitions(labels, scheme) for scheme in ("BIO", "IOB1")}
    index = {name: position for position, name in enumerate(labels)}
    breaks_bio = False
    for sentence in sentences:
        indices = np.array([index[each] for each in sentence], int)
        is_kept = {
            scheme: indices.size == 0 or bool(start[indices[0]] and follows[indices[:-1], indices[1:]].all())
            for scheme, (start, follows, _) in rules.items()
        }
        if not is_kept["IOB1"]:
            return "BIO"
        breaks_bio = breaks_bio or not is_kept["BIO"]
    return "IOB1" if breaks_bio else "BIO"


def find_entities(labels: Sequence[str | None], scheme: LabelScheme | None = None) -> list[Entity]:
    """Finds the entities in a sentence, in order; the default scheme is that of these labels and "O"."""
    # Labels are read as in conlleval (Tjong Kim Sang and De Meulder 2003, `startOfChunk` and `endOfChunk`), which
    # repairs invalid ones: an `I-X` or `E-X` that continues no X begins an entity, and an X without an `E-X` ends
    # before the first label that does not continue it.
    scheme = scheme or LabelScheme.detect([*labels, OUTSIDE])
    entities: list[Entity] = []
    is_open = False
    for word, label in enumerate(scheme.bioes(labels)):
        if label == OUTSIDE:
            is_open = False
            continue
        letter, name = label[0], label[2:]
        if is_open and letter in "IE" and entities[-1].label == name:
            entities[-1] = entities[-1]._replace(end=word + 1)
        else:
            entities.append(Entity(name, word, word + 1))
        is_open = letter in "BI"
    return entities


def locate_entities(
    text: str, offsets: Sequence[tuple[int, int]], words: Sequence[WordAnswer], scheme: LabelScheme | None = None
) -> list[EntityAnswer]:
    """Finds the entities in a text, from its words' labels and probabilities, and their offsets in characters."""
    entities: list[EntityAnswer] = []
    for label, first, last in find_entities([word["label"] for word in words], scheme):
        start, end = offsets[first][0], offsets[last - 1][1]
        probability = sum(word["probability"] or 0.0 for word in words[first:last]) / (last - first)
        entities.append(
            {"label": label, "start": start, "end": end, "text": text[start:end], "probability": probability}
        )
    return entities


def _meanings(names: Sequence[str], has_outside: bool) -> dict[str, tuple[str, str]]:
    """Splits each label into its letter in BIOES and its kind; empty without a scheme. Raises as `detect` does."""
    prefixed = {name: match.groups() for name in names if (match := _PREFIXED.fullmatch(name))}
    if not prefixed and _is_convincing(bare := {*names} & {*_BIOES}) and all(len(name) > 1 for name in {*names} - bare):
        prefixed = {name: (name, _NO_KIND) for name in sorted(bare)}
    letters = {letter for letter, _ in prefixed.values()}
    others = [name for name in names if name not in prefixed]
    _check_lookalikes(names, others)
    if not _is_scheme(letters) or (others and not letters & {"B", "I"}):
        return {}
    if len({_BIOES[letter] for letter in letters}) < len(letters):
        prefixes = ", ".join(f"{letter}-" for letter in sorted(letters))
        raise ValueError(f"the labels begin with {prefixes}, which are not of one scheme; {_ADVICE}")
    other_prefixes = [name for name in others if _OTHER_LETTER.fullmatch(name)]
    suspects = other_prefixes if has_outside else others
    if suspects and _is_convincing(letters):
        raise ValueError(f"{suspects[0]!r} is among labels of entities, but is none; {_ADVICE}")
    if other_prefixes:  # such as B-cell and T-cell
        return {}
    return {name: (_BIOES[letter], kind) for name, (letter, kind) in prefixed.items()}


def _is_scheme(letters: Collection[str]) -> bool:
    """Checks whether letters may be those of one scheme. L and M need other letters, which begin the entity."""
    return set(letters) <= set("BIES") or letters in ({"U"}, {"W"}, {"M", "E"}) or bool({*letters} & {"B", "I"})


def _is_convincing(letters: Collection[str]) -> bool:
    """Checks whether these letters are hardly there by chance: they mark more than the beginnings of entities."""
    roles = {_BIOES[letter] for letter in letters}
    return {"B", "I"} <= roles or ({"I", "E"} <= roles and "I" in letters) or {"B", "E", "S"} <= roles


def _check_lookalikes(names: Sequence[str], others: Collection[str]) -> None:
    """Raises ValueError if labels outside of the scheme seem to mark entities as well: `b-PER`, `B_PER`, `PER-B`."""
    for pattern in (_PREFIX_LIKE, _SUFFIX_LIKE):
        lookalikes = {name: match for name in names if (match := pattern.fullmatch(name))}
        suspects = [name for name in lookalikes if name in others]
        letters: dict[str, set[str]] = {}
        for match in lookalikes.values():
            letters.setdefault(match["kind"], set()).add(match["letter"].upper())
        if len(lookalikes) == len(names):
            letters["any"] = set().union(*letters.values())
        if suspects and any(map(_is_convincing, letters.values())):
            examples = f"{', '.join(map(repr, suspects[:3]))}: such labels"
            raise ValueError(f"{examples} look like those of entities, but are none; {_ADVICE}")
