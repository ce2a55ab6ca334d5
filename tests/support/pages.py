"""Finds blocks of code in pages of markdown, and runs them as a reader would."""

from __future__ import annotations

import contextlib
import doctest
import io
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from . import forking
from .data import ROOT

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A comment after a print with its output: a number, a tuple of numbers, True, False, a list, a string.
_PROMISE = re.compile(
    r"^\s*print\(.*\)\s+# (\([\d, ]+\)|-?\d+(?:\.\d+)?|True|False|\[.*\]|'.*')(?:$|[,:;] )", re.MULTILINE
)
_PROGRAM = re.compile(r"\b(?:keras-bert|python) ")
_ERROR = re.compile(r"(?:\w*Error|RuntimeError|UserWarning|Error): ")
# Commands that run tf.functions eagerly: to trace them takes longer than to answer, or to train for a few steps.
_ANSWERS = "attention|duplicates|embed|encode|evaluate|fill|index|mine|predict|project"
_ANSWERS += "|search|senses|similarity|tokenize"
_UNTRACED = rf"(?!.*--precision)(({_ANSWERS}) |(distill|finetune) .*--epochs [1-3]\b)"  # low precision needs graphs
_SECONDS = 900  # far more than any block takes: a longer run hangs


class Block(NamedTuple):
    """A block of a page.

    Attributes:
        where: the page and the line, for messages.
        language: "python" or "sh".
        code: str.
        output: the content of the `text` block directly below it, or None.
    """

    where: str
    language: str
    code: str
    output: str | None


def blocks(path: Path) -> list[Block]:
    """The blocks of a page to run. Blocks only to be shown are `{code-block}` directives."""
    return blocks_of(path.read_text(encoding="utf-8"), path.name)


def blocks_of(page: str, name: str) -> list[Block]:
    """The blocks of a page's text to run."""
    found = [match for match in _FENCE.finditer(page) if match[1] in ("python", "sh", "text")]
    result = []
    for match, after in itertools.zip_longest(found, found[1:]):
        if match[1] == "text":
            continue
        is_output = after is not None and after[1] == "text" and not page[match.end() : after.start()].strip()
        line = page.count("\n", 0, match.start()) + 1
        result.append(Block(f"{name}:{line}", match[1], match[2], after[2] if is_output else None))
    return result


def run(block: Block, namespace: dict[str, Any], folder: Path) -> None:
    """Runs a block in the working directory, and compares its output with the page.

    A `text` block below it is its output, with `...` for anything; or, if it begins with `SomeError: ` or with a
    warning's name, the error or the warning.

    Args:
        block: the block.
        namespace: the variables of the Python blocks before it.
        folder: the working directory.

    Raises:
        AssertionError: the output or the error differs.
    """
    expected = block.output or ""
    fails = bool(_ERROR.match(expected))
    printed, failure = (_python if block.language == "python" else _shell)(block, namespace, folder, fails)
    if fails:
        assert failure is not None, f"{block.where} does not fail, but prints {printed!r}"
        printed = failure
    if block.output is not None:
        assert _same(expected, printed), f"{block.where} gives\n{printed}\nbut the page says\n{expected}"
    promised = _PROMISE.findall(block.code) if block.language == "python" else []
    lines = printed.splitlines()
    for each in promised:
        assert any(_same(each, line) for line in lines), f"{block.where} promises {each!r}, and prints {lines}"


def _python(block: Block, namespace: dict[str, Any], folder: Path, fails: bool) -> tuple[str, str | None]:
    """The output of a block, and the last line of its error or of the expected warning."""
    import warnings
    from unittest import mock

    python = forking.commands() / "python" if "sys.executable" in block.code else sys.executable
    code = compile(block.code, block.where, "exec")
    with (
        contextlib.redirect_stdout(io.StringIO()) as printed,
        warnings.catch_warnings(record=True) as warned,
        mock.patch.object(sys, "executable", str(python)),
    ):
        warnings.simplefilter("always")
        try:
            exec(code, namespace)
        except Exception as error:
            if not fails:
                raise
            return printed.getvalue(), f"{type(error).__name__}: {error}"
    told = [f"{each.category.__name__}: {each.message}" for each in warned]
    wanted = [each for each in told if each.startswith((block.output or "").split(":")[0])]
    as_on_page = (each for each in wanted if _same(block.output or "", each))
    return printed.getvalue(), next(as_on_page, wanted[-1] if wanted else None)


def _shell(block: Block, namespace: dict[str, Any], folder: Path, fails: bool) -> tuple[str, str | None]:
    """The standard output of a block, and its last line of standard error if it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where keras-bert is
    if _PROGRAM.search(block.code):
        path = f"{forking.commands()}{os.pathsep}{path}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "UNTRACED": _UNTRACED},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    failed = done.returncode != 0
    assert failed == fails, f"{block.where} ends with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout, done.stderr.strip().splitlines()[-1] if failed else None


def _same(expected: str, got: str) -> bool:
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(f"{expected.strip()}\n", f"{got.strip()}\n", options)


def commands(page: str) -> Iterator[list[str]]:
    """Yields the words of each `keras-bert` command in a page, and of each command that it launches."""
    in_line = re.findall(r"(?<!`)`keras-bert ([^`]+)`", page)  # also across lines
    in_blocks = re.findall(r"(?:^|[(|;&]) *keras-bert ((?:\\\n|[^\n`|;&])*)", page, re.MULTILINE)
    for command in in_line + in_blocks:
        words = re.split(r"[#<>]", command.replace("\\\n", " "))[0].split()
        while "--" in words:  # launch
            yield words[: words.index("--")]
            words = words[words.index("--") + 1 :]
        if words:
            yield words
