"""Explains a tokenization: each token, its place in the text, and the changes of normalization there."""

from __future__ import annotations

import bisect
import difflib
import itertools
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from keras_bert.text.arguments import list_of_str
from keras_bert.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class ExplainedToken:
    """A token of a sequence, or a character that is in no token."""

    token: str | None  # None: a dropped character
    id: int | None = None
    position: int | None = None  # in the sequence, from 0, special tokens included
    type_id: int | None = None  # 0, as of any first text
    byte_span: tuple[int, int] | None = None  # in the text in UTF-8; None: not from the text, such as [CLS]
    character_span: tuple[int, int] | None = None  # the whole characters that the byte span touches
    text: str = ""  # these characters
    changes: tuple[str, ...] = ()  # the changes that normalization made in them, such as "É -> e" and "U+200B dropped"


def explain(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[ExplainedToken]]:
    """Explains the tokens of each text, from `[CLS]` to `[SEP]` (or the family's own), with their places in the text.

    Use it to see why a text has its ids. Dropped characters, except white space, are listed, too, in the order of the
    text. Raises as `tokenize_with_offsets`.

    Example:
        >>> from keras_bert.text import load_tokenizer
        >>> tokenizer = load_tokenizer("all-MiniLM-L6-v2")
        >>> for each in explain(tokenizer, ["Pizzás"])[0]:
        ...     each.position, each.token, each.byte_span, each.character_span, each.text, each.changes
        (0, '[CLS]', None, None, '', ())
        (1, 'pizza', (0, 6), (0, 5), 'Pizzá', ('P -> p', 'á -> a'))
        (2, '##s', (6, 7), (5, 6), 's', ())
        (3, '[SEP]', None, None, '', ())
    """
    texts = list_of_str(texts)
    if not texts:
        return []
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    token_texts = ids.with_values(tokenizer.detokenize(ids.values[:, None]))  # the text of each token
    rows = zip(texts, *(each.to_list() for each in (ids, starts, ends, token_texts)), strict=True)
    return [_explain_text(tokenizer, text, list(zip(*tokens, strict=True))) for text, *tokens in rows]


def _explain_text(tokenizer: Tokenizer, text: str, found: list[tuple[int, int, int, bytes]]) -> list[ExplainedToken]:
    """Explains one text; `found` has the id, start, end and own text of each token."""
    data = text.encode()
    begins = [0, *itertools.accumulate(len(character.encode()) for character in text)]  # byte offset of each character
    tokens = [ExplainedToken(tokenizer.vocabulary[tokenizer.cls_token_id], tokenizer.cls_token_id, 0, 0)]
    first_unexplained = 0  # the characters before this one are explained
    for position, (id_, start, end, token_text) in enumerate(found, start=1):
        first, last = bisect.bisect_right(begins, start) - 1, bisect.bisect_left(begins, end)
        last = max(first, last)  # if the span is empty
        tokens += _list_dropped(text, begins, first_unexplained, first)
        first_unexplained = max(first_unexplained, last)
        changes = ()
        if id_ == tokenizer.unk_token_id:
            changes = ("not in the vocabulary",)
        elif end > start and token_text.strip() not in (b"", data[start:end].strip()):
            changes = _list_changes(text[first:last], token_text.decode(errors="replace").strip())
        token, spans = tokenizer.vocabulary[id_], ((start, end), (first, last))
        tokens.append(ExplainedToken(token, id_, position, 0, *spans, text[first:last], changes))
    tokens += _list_dropped(text, begins, first_unexplained, len(text))
    sep = tokenizer.sep_token_id
    return [*tokens, ExplainedToken(tokenizer.vocabulary[sep], sep, 1 + len(found), 0)]


def _list_changes(text: str, result: str) -> tuple[str, ...]:
    """Lists the changes by which normalization turned `text` into `result`."""
    kept = [each for each in text if each in result or unicodedata.category(each) not in ("Cc", "Cf")]
    changes = [_describe_drop(each) for each in text if each not in kept]
    letters = _join_marks(kept)
    for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(None, letters, list(result), autojunk=False).get_opcodes():
        if kind == "replace" and i2 - i1 == j2 - j1:
            changes += [f"{old} -> {new}" for old, new in zip(letters[i1:i2], result[j1:j2], strict=True)]
        elif kind == "delete":
            changes += [_describe_drop(each) for each in "".join(letters[i1:i2])]
        elif kind != "equal":
            changes.append(f"{''.join(letters[i1:i2])} -> {result[j1:j2]}".lstrip())
    return tuple(changes)


def _join_marks(characters: Sequence[str]) -> list[str]:
    """Joins each character with the marks after it."""
    letters: list[str] = []
    for each in characters:
        if letters and unicodedata.category(each).startswith("M"):
            letters[-1] += each
        else:
            letters.append(each)
    return letters


def _describe_drop(character: str) -> str:
    return f"U+{ord(character):04X} dropped"


def _list_dropped(text: str, begins: list[int], first: int, last: int) -> list[ExplainedToken]:
    """Lists the characters from `first` up to `last`, without white space."""
    return [
        ExplainedToken(
            None,
            byte_span=(begins[i], begins[i + 1]),
            character_span=(i, i + 1),
            text=text[i],
            changes=(_describe_drop(text[i]),),
        )
        for i in range(first, last)
        if text[i] not in "\t\n\r" and not unicodedata.category(text[i]).startswith("Z")
    ]
