"""The README of an export: a program that runs the model, from texts to answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keras_bert.encoder import BertEncoder
from keras_bert.tasks.task import BertTask
from keras_bert.text import BertPreprocessor

FILE = "README.md"
_ATTRIBUTES = ("ids", "attention_mask", "type_ids")  # of an encoding of `tokenizers`, in the order of the inputs

_TEXTS = ("I love pizza", "It rains")
_PAIRS = (("I love pizza", "pizza is food"), ("It rains", "the sun shines"))


def text(
    model: BertTask | BertEncoder,
    preprocessor: BertPreprocessor | None,
    names: Mapping[str, str],
    program: str,
    length: int | None,
) -> str:
    """The text of the README.

    Args:
        names: TF Hub's names of the inputs -> the runtime's.
        program: Python for the runtime: `inputs`, lists by name -> `outputs`, arrays by name.
        length: the length of the rows; None: any.
    """
    kind = type(model).__name__
    inputs = ", ".join(names.values())
    shape = f"[1, {length}]" if length else "[batch, seq_length]"
    lines = [
        f"# A {kind}",
        "",
        f"The inputs are {inputs}, `{shape}` each: ids, 1 for tokens, and 1 for second texts.",
        "",
    ]
    if prompts := getattr(model, "prompts", {}):
        lines += [f"Put the right prompt before each text: {', '.join(map(repr, prompts.values()))}.", ""]
    if preprocessor is not None:
        lines += ["```python", _program(model, preprocessor, names, program, length), "```", ""]
    return "\n".join(lines)


def _program(
    model: Any, preprocessor: BertPreprocessor, names: Mapping[str, str], program: str, length: int | None
) -> str:
    tokenizer = preprocessor.tokenizer
    longest = length or preprocessor.sequence_length or preprocessor.max_sequence_length
    texts = getattr(model, "ANSWERS_TEXTS", None)
    texts = texts or (_PAIRS if len(getattr(model, "text_names", ("text",))) > 1 else _TEXTS)
    attributes = dict(zip(names.values(), _ATTRIBUTES, strict=False))
    inputs = ", ".join(f'"{name}": [row.{each} for row in rows]' for name, each in attributes.items())
    padding = f"pad_id={tokenizer.pad_token_id}, pad_token={tokenizer.special_tokens['pad_token']!r}"
    return "\n".join(
        [
            "import numpy as np",
            program.partition("\n")[0],
            "from tokenizers import Tokenizer",
            "",
            'tokenizer = Tokenizer.from_file("tokenizer.json")',
            f"tokenizer.enable_truncation({longest})",
            f"tokenizer.enable_padding({padding}{f', length={length}' if length else ''})",
            f"texts = {list(texts)!r}",
            "rows = tokenizer.encode_batch(texts)",
            f"inputs = {{{inputs}}}",
            program.partition("\n")[2].strip("\n"),
            getattr(model, "ANSWERS_PROGRAM", BertTask.ANSWERS_PROGRAM),
        ]
    )
