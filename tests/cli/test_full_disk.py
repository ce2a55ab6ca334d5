"""Commands whose disk is full, or fails: one line says so, what was there stays, and the same command ends well later.

The faults are the kernel's, by a limit on the size of files, or errors of the system calls that move a file.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator

import pytest

from ..support.commands import columns, contents, invoke
from ..support.disks import files_of_at_most

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def failing_moves(patch: pytest.MonkeyPatch) -> Iterator[None]:
    def fail(source: object, target: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(source), None, str(target))

    with patch.context() as patch:
        for name in ("replace", "rename"):
            patch.setattr(os, name, fail)
        yield


# A command; whether `--overwrite` replaces what it writes; and a file that a new run after a failure must write again,
# byte for byte, if two runs write the same.
COMMANDS = {
    "convert": (("convert", "PRESET", "OUT/model"), False, "model.safetensors"),
    "export": (("export", "encoder", "--preset", "PRESET", "--output", "OUT/model"), False, None),
    "encode": (("encode", "--preset", "PRESET", "--file", "TEXTS", "--output", "OUT/vectors.npy"), True, "vectors.npy"),
    "index": (("index", "TEXTS", "--preset", "PRESET", "--output", "OUT/index"), False, None),
    "vocab": (("vocab", "TEXTS", "--size", "60", "--output", "OUT/vocab"), False, "vocab.txt"),
    "finetune": (
        ("finetune", "classify", "TABLE", "--preset", "PRESET", "--output", "OUT/model", "--epochs", "2"),
        False,
        "model.safetensors",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_disk_that_is_full_or_fails(name, untrained, table, tmp_path, monkeypatch):
    command, replaces, file = COMMANDS[name]
    texts, out = tmp_path / "texts.txt", tmp_path / "out"
    texts.write_text("".join(f"the film {number} was very good\n" for number in range(300)))
    words = {"PRESET": [untrained], "TEXTS": [texts], "TABLE": columns(table)}

    def run(directory, *options, exit_code=0):
        arguments = [new for each in command for new in words.get(each, [each])]
        arguments = [str(each).replace("OUT", str(directory)) for each in arguments]
        return invoke(*arguments, *options, exit_code=exit_code)

    def fails(*options):
        *_, line = run(out, *options, exit_code=1).stderr.splitlines()
        assert line.startswith(f"Error: {out}/")
        assert any(os.strerror(each) in line for each in (errno.EFBIG, errno.EIO)) or "disk I/O error" in line

    (tmp_path / "whole").mkdir()
    run(tmp_path / "whole")
    whole = contents(tmp_path / "whole")
    sizes = sorted({len(content) for content in whole.values()} - {0})
    faults = lambda: (files_of_at_most(sizes[0] - 1), files_of_at_most(sizes[-1] - 1), failing_moves(monkeypatch))  # noqa: E731
    for fault in faults():
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        with fault:
            fails()
        assert not [*out.rglob("*.tmp"), *out.rglob("*.new")]
    run(out)  # goes on, or begins again
    if file:
        written, expected = (
            [each for path, each in found.items() if path.endswith(file)] for found in (contents(out), whole)
        )
        assert written == expected
    if replaces:
        for fault in faults():
            with fault:
                fails("--overwrite")
            assert contents(out) == whole
