"""Reads and checks the vocabulary of byte pairs, `vocab.json` and `merges.txt`."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from keras_bert import files


def read_ids(vocabulary: str | Path | Mapping[str, int] | Sequence[str], needed: Mapping[str, str]) -> dict[str, int]:
    """Token -> id, checked.

    Args:
        vocabulary: path of a `vocab.json`, or its content, or the list of tokens.
        needed: the tokens that must be there: name for messages -> token.

    Raises:
        FileNotFoundError: no such file.
        TypeError, ValueError: no vocabulary, or a damaged one.
    """
    source = "the vocabulary"
    if isinstance(vocabulary, str | os.PathLike):
        source = str(vocabulary)
        if not Path(vocabulary).is_file():
            raise FileNotFoundError(
                f"no vocabulary file at {vocabulary}; expected a vocab.json with the id of each token"
            )
        vocabulary = files.read_json(Path(vocabulary), {str: int})
    elif not isinstance(vocabulary, Mapping):
        tokens = list(vocabulary)
        vocabulary = {token: index for index, token in enumerate(tokens)}
        if len(vocabulary) < len(tokens):
            twice = next(token for index, token in enumerate(tokens) if vocabulary[token] != index)
            raise ValueError(f"{source} has {twice!r} twice")
    for token, index in vocabulary.items():
        if not isinstance(token, str) or not token or not isinstance(index, int) or isinstance(index, bool):
            raise ValueError(
                f"{source} is damaged: {token!r:.60} has the id {index!r:.60}; expected a token and a number"
            )
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise ValueError(
            f"{source} is damaged: the ids of its {len(vocabulary)} tokens are not 0 to {len(vocabulary) - 1}"
        )
    for name, token in needed.items():
        if token not in vocabulary:
            advice = f"add it, or pass {name}= with the name that it has there"
            if not name.endswith("_token"):
                advice = f"it stands for {name}, and byte pairs are made of all 256 bytes"
            raise ValueError(f"{source} has no {token}; {advice}")
    return dict(vocabulary)


def read_merges(merges: str | Path | Sequence[str] | Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """The pairs of a `merges.txt` (UTF-8, a pair a line, separated by a space; the first line may be a comment).

    Raises:
        FileNotFoundError: no such file.
        ValueError: it is not UTF-8, or a line is no pair.
    """
    source = "the merges"
    if isinstance(merges, str | os.PathLike):
        source = str(merges)
        if not Path(merges).is_file():
            raise FileNotFoundError(f"no merges at {merges}; expected a merges.txt with one pair of tokens a line")
        try:
            lines = Path(merges).read_bytes().decode("utf-8-sig").split("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{merges} is not UTF-8: {error}") from None
        lines = [line.removesuffix("\r") for line in lines]
        merges = [
            line for number, line in enumerate(lines) if line and not (number == 0 and line.startswith("#version"))
        ]
    pairs = []
    for number, pair in enumerate(merges):
        parts = tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair)
        if len(parts) != 2 or not all(isinstance(part, str) and part for part in parts):
            raise ValueError(f"{source}: merge {number} is {pair!r:.60}; expected two tokens with a space between")
        pairs.append(parts)
    return pairs


def check_merges(merges: Sequence[tuple[str, str]], ids: Mapping[str, int], source: str) -> None:
    """Raises ValueError if a part or the result of a merge is no token."""
    for number, (left, right) in enumerate(merges):
        for token in (left, right, left + right):
            if token not in ids:
                raise ValueError(
                    f"merge {number} makes {left + right!r:.60} of {left!r:.60} and {right!r:.60}, but {source} has no "
                    f"{token!r:.60}; are the vocabulary and the merges of the same model?"
                )
