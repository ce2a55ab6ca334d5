"""Programs in tests/support/warm.py's processes do what they do in a Python of their own."""

import os
import subprocess
import sys

import pytest

from .support import warm
from .support.data import ROOT

pytestmark = pytest.mark.timing

SCRIPT = """
import os, sys
print(__name__, sys.argv, os.getcwd(), os.environ["NOTE"], sys.stdin.read(), sys.flags.interactive)
print("a note", file=sys.stderr)
"""


def outcome(command, **settings):
    done = subprocess.run(command, capture_output=True, text=True, input="piped", **settings)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_the_same_as_python(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    settings = {"cwd": tmp_path, "env": {**os.environ, "NOTE": "noted", "PYTHONPATH": str(ROOT)}}
    programs = [
        (tmp_path / "script.py", "a b", "-c"),
        ("-c", SCRIPT, "an argument"),
        ("-m", "script", "an argument"),
        ("-c", "import sys; sys.exit(3)"),
        ("-c", "import sys; sys.exit('a word at the end')"),
        ("-c", "import atexit; atexit.register(print, 'at the end')"),
        ("-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"),
    ]
    for program in programs:
        ours, pythons = (
            outcome([python, *program], **settings) for python in (warm.commands() / "python", sys.executable)
        )
        assert ours == pythons, program
    code = "import sys; print('keras' in sys.modules)"
    assert outcome([warm.commands() / "python", "-c", code], **settings) == (0, "True\n", "")
    assert outcome([warm.commands() / "python", "-"], **settings)[0] == 1  # "piped" is no program
    settings["env"]["KERAS_BACKEND"] = "jax"  # would be too late
    assert outcome([warm.commands() / "python", "-c", code], **settings) == (0, "False\n", "")


@pytest.mark.slow
@pytest.mark.parametrize(("send", "code"), [("kill $!", 143), ("kill -INT $!", 130)])
def test_signals_reach_the_program(send, code, tmp_path):
    program = "import time; print('ready', flush=True); time.sleep(600)"
    script = f"""set -m
    '{warm.commands()}/python' -c "{program}" > said 2> /dev/null &
    until grep -q ready said; do sleep 0.05; done
    {send}
    wait $! || echo $?"""
    assert outcome(["bash", "-c", script], cwd=tmp_path)[:2] == (0, f"{code}\n")
