"""Words of messages: a number with its noun, names with commas between them, and what a file says, escaped."""

import difflib
import itertools
import re
import unicodedata
from collections.abc import Collection, Iterable, Sized


def counted(what: int | Sized, noun: str, plural: str | None = None) -> str:
    """Writes "1 row", or of (2048, "row") "2,048 rows". `what` is a number, or what is counted, such as a list."""
    number = len(what) if isinstance(what, Sized) else what
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def listed(names: Collection[str], most: int = 20) -> str:
    """Writes names with commas between them, of more than `most` the first ones and the number of the others."""
    first = ", ".join(itertools.islice(names, most))
    return first + (f" and {len(names) - most:,} more" if len(names) > most else "")


def either(names: Iterable[str]) -> str:
    """Writes "a, b or c", of two names or more."""
    *first, last = names
    return f"{', '.join(first)} or {last}"


def did_you_mean(given: str, names: Collection[str]) -> str:
    """Writes "; did you mean 'text'?", of the name that is most like the given one; or nothing if none is."""
    similar = [name for name in names if _fold(name) == _fold(given)]
    similar = similar or difflib.get_close_matches(given, names, 1, 0.8)
    return f"; did you mean {similar[0]!r}?" if similar else ""


def _fold(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()


def visible(text: str, kept: str = "\t\n") -> str:
    """Escapes, as in JSON, what a terminal would obey: control characters but `kept`, and what turns texts around."""
    if text.isprintable():
        return text
    return "".join(f"\\u{ord(each):04x}" if each not in kept and _is_obeyed(each) else each for each in text)


def _is_obeyed(character: str) -> bool:
    kind = unicodedata.category(character)  # a control character, half of a pair, the end of a line or paragraph
    is_mark = kind == "Cf" and unicodedata.bidirectional(character) not in ("BN", "AN")  # not that of an emoji
    return is_mark or kind in ("Cc", "Cs", "Zl", "Zp")
