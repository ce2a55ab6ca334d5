"""Damages files, and runs programs that read damaged files: processes of their own, as a native library could end one.

Such a program, `python -m MODULE ROUNDS SEED KIND...`, prints a line before every round, and one after all of a kind,
so that whoever runs it knows which did not end.
"""

import collections
import copy
import json
import random
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from typing import Any

from .data import ROOT

CORPORA = ROOT / "tests/corpora"

# Values that stand in for others in a JSON file.
VALUES = [None, True, 0, -1, 7, 10**12, 10**400, 0.5, 1e308, float("nan"), "", "a", "512", "[MASK]", "../x", "a\0b"]
VALUES += ["\ud800", [], [1], [[]], {}, {"0": "a"}, "DEEP"]
DEEP = "[" * 900 + "]" * 900


def damaged(content: bytes, is_json: bool, chance: random.Random) -> bytes:
    """The content of a file with bytes changed, cut short, or, if it is JSON, with another value somewhere."""
    if is_json and chance.random() < 0.6:
        return with_another_value(content, chance)
    return content[: chance.randrange(len(content))] if chance.random() < 0.2 else with_other_bytes(content, chance)


def with_other_bytes(content: bytes, chance: random.Random) -> bytes:
    """One to four bytes changed: a bit flipped, or another byte altogether; often near the start, where lengths are."""
    result = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 4])):
        place = chance.randrange(min(len(result), chance.choice([64, 2000, len(result), len(result)])))
        result[place] = chance.choice([result[place] ^ 1 << chance.randrange(8), chance.randrange(256), 0, 255])
    return bytes(result)


def with_another_value(content: bytes, chance: random.Random) -> bytes:
    """A JSON file with a value of another type or size somewhere, or with a key less; often near the top."""
    tree = node = json.loads(content)
    while True:
        key = chance.choice([*node] if isinstance(node, dict) else range(len(node)))
        if not (node[key] and isinstance(node[key], dict | list)) or chance.random() < 0.3:
            break
        node = node[key]
    if chance.random() < 0.2:
        del node[key]
    else:
        node[key] = copy.deepcopy(chance.choice(VALUES))
    text = json.dumps(tree)
    return (text.replace('"DEEP"', DEEP) if chance.random() < 0.9 else "[" * 100_000).encode()


def run(kind: str, rounds: int, seed: int, attempt: Callable[[random.Random], str]) -> None:
    """Runs `attempt`, which says what came of a damage, as often as `rounds` says."""
    counts = collections.Counter()
    for number in range(seed, seed + rounds):
        print(kind, "round", number, flush=True)
        counts[attempt(random.Random(number))] += 1
    print(kind, "done", dict(counts), flush=True)


def corpus(kind: str) -> dict[str, bytes]:
    """What tests/guided.py found for a kind: files that take ways through the reader that no others take."""
    with tarfile.open(CORPORA / f"{kind}.tar.xz") as archive:
        files = {member.name: archive.extractfile(member) for member in archive if member.isfile()}
        return {name: file.read() for name, file in files.items() if file is not None}


def check_lines(lines: Sequence[str], kinds: Sequence[str], rounds: int) -> None:
    """Checks that every round of every kind ended, and that some files of every kind were refused."""
    done = [line for line in lines if " done " in line]
    assert [line.split()[0] for line in done] == [*kinds], [*lines[-1:]]
    assert len(lines) == (rounds + 1) * len(kinds)
    assert all("'refused'" in line for line in done), done


def check_program(module: str, rounds: int, kinds: Sequence[str]) -> None:
    """Runs a program, with other damage than `seed` 0 has."""
    command = [sys.executable, "-m", module, str(rounds), "1000", *kinds]
    # An hour stands for ever: nothing here takes so long, unless it hangs.
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3600)
    assert result.returncode == 0, f"{result.stdout[-200:]}: {result.returncode}\n{result.stderr[-2000:]}"
    check_lines(result.stdout.splitlines(), kinds, rounds)


def main(run_kind: Callable[[str, int, int], Any]) -> None:
    """The program itself."""
    for kind in sys.argv[3:]:
        run_kind(kind, int(sys.argv[1]), int(sys.argv[2]))
