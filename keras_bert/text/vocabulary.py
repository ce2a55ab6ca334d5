"""Reads `vocab.txt`, `vocab.json` and `merges.txt`, and checks vocabularies and merges."""

import os
import re
from collections.abc import Collection, Container, Mapping, Sequence
from pathlib import Path
from typing import cast

from keras_bert import files
from keras_bert.counted import counted

_NOT_IN_TOKENS = re.compile(r"[ \t\r\v\f\n\0]")  # U+2028 is allowed: it is a token of BERT's Chinese vocabulary
_NEVER_IN_UTF8 = {0xC0, 0xC1, *range(0xF5, 0x100)}
_LONGEST_TOKEN_BYTES = 256  # the limit of TensorFlow Text's FastWordpieceTokenizer


def read_tokens(
    vocabulary: str | Path | Sequence[str], special_tokens: Mapping[str, str], added_tokens: Sequence[str] = ()
) -> list[str]:
    """Reads and checks the tokens of a WordPiece vocabulary: a `vocab.txt` with one a line, or a list."""
    source = describe_source(vocabulary)
    if isinstance(vocabulary, str | os.PathLike):
        _check_is_file(vocabulary, "a vocab.txt with one token a line")
        tokens = files.split_lines(files.read_text(vocabulary))
    else:
        tokens = list(vocabulary)
    if not tokens:
        raise ValueError(f"{source} is empty")
    if not _is_plain(tokens):
        _find_fault(tokens, source, added_tokens)
    _check_special_and_added(special_tokens, added_tokens, set(tokens), source)
    return tokens


def describe_source(vocabulary: str | Path | Collection[str]) -> str:
    """Names a vocabulary in messages: by its path, if it is a file."""
    return str(vocabulary) if isinstance(vocabulary, str | os.PathLike) else "the vocabulary"


def _is_plain(tokens: Sequence[str]) -> bool:
    """Checks whether a vocabulary is certainly valid: quickly, without a loop over its tokens."""
    try:
        joined = "".join(tokens)
    except TypeError:
        return False
    distinct = set(tokens)
    is_short = 4 * max(map(len, tokens)) <= _LONGEST_TOKEN_BYTES  # a character has at most 4 bytes
    return is_short and len(distinct) == len(tokens) and "" not in distinct and not _NOT_IN_TOKENS.search(joined)


def _find_fault(tokens: Sequence[str], source: str, added_tokens: Collection[str]) -> None:
    """Raises if a token is not valid. Added tokens may have white space."""
    first_line: dict[str, int] = {}
    for line, token in enumerate(tokens, start=1):
        if not isinstance(token, str):
            raise TypeError(f"{source}: a token must be a str, but line {line} is {token!r}")
        if not token:
            raise ValueError(f"{source} is damaged: line {line} is empty")
        if _NOT_IN_TOKENS.search(token) and (token not in added_tokens or "\0" in token):
            raise ValueError(f"{source} is damaged: line {line} has white space or a NUL inside, {token[:60]!r}")
        if len(token.encode("utf-8", "replace")) > _LONGEST_TOKEN_BYTES:
            raise ValueError(f"{source} is damaged: line {line} has over {_LONGEST_TOKEN_BYTES} bytes, {token[:60]!r}")
        if token in first_line:
            raise ValueError(f"{source} has {token!r} twice, in lines {first_line[token]} and {line}")
        first_line[token] = line


def byte_symbols() -> list[str]:
    """Lists the printable character that stands for each byte in vocabularies and merges, such as `Ġ` for a space."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def bytes_of_tokens(tokens: Sequence[str], as_text: Container[str]) -> list[bytes]:
    """Lists the bytes of tokens of byte pairs. Special and added tokens, `as_text`, are written as plain text."""
    byte_of = {symbol: byte for byte, symbol in enumerate(byte_symbols())}
    return [
        token.encode() if token in as_text or not byte_of.keys() >= {*token} else bytes(map(byte_of.__getitem__, token))
        for token in tokens
    ]


def read_ids(
    vocabulary: str | Path | Mapping[str, int] | Sequence[str],
    special_tokens: Mapping[str, str],
    added_tokens: Sequence[str] = (),
) -> dict[str, int]:
    """Reads and checks the ids of a vocabulary of byte pairs: a `vocab.json`, its content, or the list of tokens."""
    source = describe_source(vocabulary)
    if isinstance(vocabulary, str | os.PathLike):
        _check_is_file(vocabulary, "a vocab.json with the id of each token")
        ids: Mapping[str, int] = files.read_json(Path(vocabulary), {str: int})
    elif isinstance(vocabulary, Mapping):
        ids = vocabulary
    else:
        tokens = list(vocabulary)
        ids = {token: index for index, token in enumerate(tokens)}
        if len(ids) < len(tokens):
            duplicate = next(token for index, token in enumerate(tokens) if ids[token] != index)
            raise ValueError(f"{source} has {duplicate!r} twice")
    for token, index in ids.items():
        if not isinstance(token, str) or not token or not isinstance(index, int) or isinstance(index, bool):
            raise ValueError(f"{source} is damaged: {token!r:.60} has the id {index!r:.60}; expected a token and an id")
    if sorted(ids.values()) != list(range(len(ids))):
        raise ValueError(f"{source} is damaged: the ids of its {counted(ids, 'token')} are not 0 to {len(ids) - 1}")
    _check_special_and_added(special_tokens, added_tokens, ids, source)
    for byte, symbol in enumerate(byte_symbols()):
        if symbol not in ids and byte not in _NEVER_IN_UTF8:
            raise ValueError(f"{source} has no {symbol}; it stands for byte {byte}, and byte pairs need all of UTF-8's")
    return dict(ids)


def read_merges(merges: str | Path | Sequence[str] | Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Reads and checks the pairs of a `merges.txt`: `left right` on each line; the first line may be a comment."""
    source = "the merges"
    if isinstance(merges, str | os.PathLike):
        source = str(merges)
        _check_is_file(merges, "a merges.txt with one pair of tokens a line")
        lines = files.split_lines(files.read_text(merges))
        merges = [line for line in lines[lines[0].startswith("#version") :] if line]
    pairs = [
        tuple(pair.split(" ") if isinstance(pair, str) else pair if isinstance(pair, list | tuple) else ())
        for pair in merges
    ]
    for number, (pair, line) in enumerate(zip(pairs, merges, strict=True)):
        if len(pair) != 2 or not all(isinstance(part, str) and part for part in pair):
            raise ValueError(f"{source}: merge {number} is {line!r:.60}; expected two tokens with a space between")
    return cast("list[tuple[str, str]]", pairs)


def check_merges(merges: Sequence[tuple[str, str]], ids: Mapping[str, int], source: str) -> None:
    """Raises ValueError if a part or the result of a merge is not in the vocabulary."""
    for number, (left, right) in enumerate(merges):
        for token in (left, right, left + right):
            if token not in ids:
                raise ValueError(
                    f"merge {number} makes {left + right!r:.60} of {left!r:.60} and {right!r:.60}, but {source} has no "
                    f"{token!r:.60}; pass the vocabulary and the merges of one model"
                )


def _check_special_and_added(
    special_tokens: Mapping[str, str], added_tokens: Sequence[str], vocabulary: Container[str], source: str
) -> None:
    for name, token in special_tokens.items():
        if token not in vocabulary:
            raise ValueError(f"{source} has no {token}; add it, or pass its name there as {name}=")
    seen: set[str] = set()
    for token in added_tokens:
        if not token or token in seen:
            raise ValueError(f"added_tokens has {repr(token)[:60] + ' twice' if token else 'an empty token'}")
        if token not in vocabulary:
            raise ValueError(f"{source} has no {token!r:.60}, an added token")
        seen.add(token)


def _check_is_file(path: str | Path, expected: str) -> None:
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}; expected {expected}")
