"""The split patterns of byte-level byte pairs, as `tokenizer.json` spells them."""

import reprlib
from pathlib import Path
from typing import Any

from keras_bert.formats.hugging_face_tokenizers import refuse, types_of

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SIGNS_AND_SPACES = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_BEFORE_LETTERS = r"[^\r\n\p{L}\p{N}]?"
# Our name of a pattern -> the regular expression: GPT-2's (Radford et al. 2019), and that of cl100k_base and Llama 3
# (EuroBERT's).
_EXPRESSIONS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": rf"{_CONTRACTIONS}|{_BEFORE_LETTERS}\p{{L}}+|\p{{N}}{{1,3}}|{_SIGNS_AND_SPACES}",
}
# The pattern covers all text, so both behaviors make its matches words.
_WHOLE = (("Isolated", False), ("Removed", True))


def split_of_file(path: Path, steps: list[dict[str, Any]]) -> str:
    """Our name of the pattern of some pre-tokenizers, a ByteLevel, or a Split with a regular expression before it.

    Raises:
        ValueError: it is another pattern.
    """
    found, last = types_of(steps), steps[-1] if steps else {}
    if found != "Split, ByteLevel":
        refuse(path, ("splits text with", found, "ByteLevel"))
        refuse(path, ("splits text by another pattern than GPT-2's, use_regex:", last.get("use_regex", True), True))
        return "gpt2"
    split = steps[0]
    refuse(
        path,
        ("splits text once more, use_regex:", last.get("use_regex", True), False),
        ("puts a space before each word, add_prefix_space:", bool(last.get("add_prefix_space")), False),
    )
    if (split.get("behavior"), bool(split.get("invert"))) not in _WHOLE:
        raise ValueError(
            f"{path} splits text with the behavior {split.get('behavior')!r}, invert: {split.get('invert')}, where the "
            "tokenizer here has 'Isolated', invert: False: ids would differ"
        )
    pattern = split.get("pattern") or {}
    for name, expression in _EXPRESSIONS.items():
        if pattern == {"Regex": expression}:
            return name
    raise ValueError(
        f"{path} splits text by {reprlib.repr(pattern)}, a pattern that is not supported "
        f"(supported are {', '.join(_EXPRESSIONS)})"
    )


def pre_tokenizer_of(split: str, add_prefix_space: bool) -> dict[str, Any]:
    """The `pre_tokenizer` of a `tokenizer.json`."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True}
    if split == "gpt2":
        return {**byte_level, "use_regex": True}
    expression = {"Regex": _EXPRESSIONS[split]}
    steps = [
        {"type": "Split", "pattern": expression, "behavior": "Isolated", "invert": False},
        {**byte_level, "use_regex": False},
    ]
    return {"type": "Sequence", "pretokenizers": steps}
