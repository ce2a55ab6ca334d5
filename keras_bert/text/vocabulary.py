"""Reads a WordPiece vocabulary file, and checks it, with messages that name the bad line."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

_ASCII_SPACE = re.compile(r"[ \t\r\v\f\n]")  # U+2028 is a token of BERT's Chinese vocabulary, and no mistake
_LONGEST_TOKEN_BYTES = 256  # the limit of TensorFlow Text's FastWordpieceTokenizer


def read_vocabulary(path: str | Path) -> list[str]:
    """The tokens of a `vocab.txt`: UTF-8, one a line, the line number (from 0) is the id.

    Args:
        path: the file. A missing last newline and Windows line ends are fine.

    Returns:
        One str a token, not checked; see `check_vocabulary`.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the file is empty, or not UTF-8.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no vocabulary file at {path}; expected a vocab.txt with one token a line")
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(f"{path} is not a UTF-8 vocabulary: bad byte {data[error.start]:#x} in line {line}") from None
    if not text.strip():
        raise ValueError(f"the vocabulary file {path} is empty")
    # Not str.splitlines(), which also splits at U+2028 and the like.
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def check_vocabulary(tokens: Sequence[str], special_tokens: Mapping[str, str], source: str = "the vocabulary") -> None:
    """Raises unless `tokens` is a valid vocabulary.

    Args:
        tokens: the tokens; the index is the id.
        special_tokens: `{"unk_token": "[UNK]", ...}`, all of which must be in `tokens`.
        source: the vocabulary's name in messages, such as a path.

    Raises:
        TypeError: a token is not a str.
        ValueError: no tokens, an empty, duplicated or overlong token, white space in one, or a special token missing.
    """
    if not tokens:
        raise ValueError(f"{source} is empty")
    first_line: dict[str, int] = {}
    for line, token in enumerate(tokens, start=1):
        if not isinstance(token, str):
            raise TypeError(f"{source}: a token must be a str, but line {line} is {token!r}")
        if not token:
            raise ValueError(f"{source} is damaged: line {line} is empty")
        if _ASCII_SPACE.search(token) or "\0" in token:
            raise ValueError(f"{source} is damaged: line {line} has white space or a NUL inside, {token[:60]!r}")
        if len(token.encode("utf-8", "replace")) > _LONGEST_TOKEN_BYTES:
            raise ValueError(
                f"{source} is damaged: line {line} is over {_LONGEST_TOKEN_BYTES} bytes, {token[:60]!r}..."
            )
        if token in first_line:
            raise ValueError(f"{source} has {token!r} twice, in lines {first_line[token]} and {line}")
        first_line[token] = line
    for name, token in special_tokens.items():
        if token not in first_line:
            raise ValueError(f"{source} has no {token}; add it, or pass {name}= with the name that it has there")
