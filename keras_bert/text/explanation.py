"""Explains a tokenization: each token, its place in the text, and the changes of normalization there."""

from __future__ import annotations

import bisect
import difflib
import itertools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from keras_bert.counted import counted
from keras_bert.text.arguments import list_of_str
from keras_bert.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class ExplainedToken:
    """A token of a sequence, or a character that is in no token."""

    token: str | None  # None: a dropped character
    id: int | None = None
    position: int | None = None  # in the sequence, from 0, special tokens included
    type_id: int | None = None  # of the segment: 0 of a first text
    byte_span: tuple[int, int] | None = None  # in the text in UTF-8; None: not from the text, such as [CLS]
    character_span: tuple[int, int] | None = None  # the whole characters that the byte span touches
    text: str = ""  # these characters
    changes: tuple[str, ...] = ()  # the changes that normalization made in them, such as "É -> e" and "U+200B dropped"


def explain(
    tokenizer: Tokenizer, texts: Sequence[str], text_pairs: Sequence[str] | None = None
) -> list[list[ExplainedToken]]:
    """Explains the tokens of each text, from `[CLS]` to `[SEP]` (or the family's own), with their places in the text.

    Use it to see why a text has its ids, or how the model reads a pair. Dropped characters, except white space, are
    listed, too, in the order of the text. With `text_pairs`, one for each text, each row is a pair. Places are then in
    the text that the token is of. Raises as `tokenize_with_offsets`, and ValueError if there are not as many pairs.

    Example:
        >>> from keras_bert.text import load_tokenizer
        >>> tokenizer = load_tokenizer("all-MiniLM-L6-v2")
        >>> for each in explain(tokenizer, ["Pizzás"])[0]:
        ...     each.position, each.token, each.byte_span, each.character_span, each.text, each.changes
        (0, '[CLS]', None, None, '', ())
        (1, 'pizza', (0, 6), (0, 5), 'Pizzá', ('P -> p', 'á -> a'))
        (2, '##s', (6, 7), (5, 6), 's', ())
        (3, '[SEP]', None, None, '', ())
        >>> [(each.token, each.type_id) for each in explain(tokenizer, ["a"], ["b"])[0]]
        [('[CLS]', 0), ('a', 0), ('[SEP]', 0), ('b', 1), ('[SEP]', 1)]
    """
    segments = [list_of_str(each) for each in ([texts] if text_pairs is None else [texts, text_pairs])]
    if len(segments[0]) != len(segments[-1]):
        raise ValueError(f"got {counted(segments[0], 'text')}, but {len(segments[-1]):,} in text_pairs")
    explained = [_explain_segment(tokenizer, segment) for segment in segments]
    return [_place(tokenizer, rows) for rows in zip(*explained, strict=True)]


def _explain_segment(tokenizer: Tokenizer, texts: list[str]) -> list[list[ExplainedToken]]:
    """Explains each text alone, without special tokens and places in a sequence."""
    if not texts:
        return []
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    token_texts = ids.with_values(tokenizer.detokenize(ids.values[:, None]))  # the text of each token
    rows = zip(texts, *(each.to_list() for each in (ids, starts, ends, token_texts)), strict=True)
    return [_explain_text(tokenizer, text, list(zip(*tokens, strict=True))) for text, *tokens in rows]


def _place(tokenizer: Tokenizer, segments: Sequence[list[ExplainedToken]]) -> list[ExplainedToken]:
    """Puts the special tokens around one or two segments, as `packing.pack` does, and numbers the tokens."""
    cls, sep = (ExplainedToken(tokenizer.vocabulary[i], i) for i in (tokenizer.cls_token_id, tokenizer.sep_token_id))
    pair_format = tokenizer.pair_format
    parts = [(0, [cls, *segments[0], sep])]
    if len(segments) == 2:
        parts[0][1].extend([sep] * (pair_format.separators - 1))
        parts.append((pair_format.second_type_id, [*[cls] * pair_format.second_cls, *segments[1], sep]))
    position, row = itertools.count(), []
    for type_id, tokens in parts:
        row += [
            each if each.token is None else replace(each, position=next(position), type_id=type_id) for each in tokens
        ]
    return row


def _explain_text(tokenizer: Tokenizer, text: str, found: list[tuple[int, int, int, bytes]]) -> list[ExplainedToken]:
    """Explains one text; `found` has the id, start, end and own text of each token."""
    data = text.encode()
    begins = [0, *itertools.accumulate(len(character.encode()) for character in text)]  # byte offset of each character
    tokens: list[ExplainedToken] = []
    first_unexplained = 0  # the characters before this one are explained
    for id_, start, end, token_text in found:
        first, last = bisect.bisect_right(begins, start) - 1, bisect.bisect_left(begins, end)
        last = max(first, last)  # if the span is empty
        tokens += _list_dropped(text, begins, first_unexplained, first)
        first_unexplained = max(first_unexplained, last)
        changes = ()
        if id_ == tokenizer.unk_token_id and text[first:last].strip() != tokenizer.vocabulary[id_]:
            changes = ("not in the vocabulary",)
        elif end > start and token_text.strip() not in (b"", data[start:end].strip()):
            changes = _list_changes(text[first:last], token_text.decode(errors="replace").strip())
        token = ExplainedToken(
            token=tokenizer.vocabulary[id_],
            id=id_,
            byte_span=(start, end),
            character_span=(first, last),
            text=text[first:last],
            changes=changes,
        )
        tokens.append(token)
    return tokens + _list_dropped(text, begins, first_unexplained, len(text))


def _list_changes(text: str, result: str) -> tuple[str, ...]:
    """Lists the changes by which normalization turned `text` into `result`."""
    kept = [each for each in text if each in result or unicodedata.category(each) not in ("Cc", "Cf")]
    changes = [_drop(each) for each in text if each not in kept]
    letters: list[str] = []  # each with the marks after it
    for each in kept:
        if letters and unicodedata.category(each).startswith("M"):
            letters[-1] += each
        else:
            letters.append(each)
    for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(None, letters, list(result), autojunk=False).get_opcodes():
        if kind == "replace" and i2 - i1 == j2 - j1:
            changes += [f"{old} -> {new}" for old, new in zip(letters[i1:i2], result[j1:j2], strict=True)]
        elif kind == "delete":
            changes += map(_drop, "".join(letters[i1:i2]))
        elif kind != "equal":
            changes.append(f"{''.join(letters[i1:i2])} -> {result[j1:j2]}".lstrip())
    return tuple(changes)


def _drop(character: str) -> str:
    return f"U+{ord(character):04X} dropped"


def _list_dropped(text: str, begins: list[int], first: int, last: int) -> list[ExplainedToken]:
    """Lists the characters from `first` up to `last`, without white space."""
    return [
        ExplainedToken(
            token=None,
            byte_span=(begins[i], begins[i + 1]),
            character_span=(i, i + 1),
            text=text[i],
            changes=(_drop(text[i]),),
        )
        for i in range(first, last)
        if text[i] not in "\t\n\r" and not unicodedata.category(text[i]).startswith("Z")
    ]
