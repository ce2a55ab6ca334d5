"""What only a real process shows: pipes, signals, terminals, and what is on standard error."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

from keras_bert.cli import main

from ..processes import start_process

COMMAND = [sys.executable, "-m", "keras_bert.cli"]
# As a user's shell has it: TensorFlow's messages not yet silenced, and Keras perhaps set to another backend.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"} | {
    "KERAS_BACKEND": "jax"
}


# Not a measure of speed: what takes this long hangs.
HANGS = 600


@pytest.fixture
def start():
    """Starts the command in a process, which does not outlive the test."""
    processes = []

    def start_command(*arguments: str, **settings) -> subprocess.Popen:
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT}
        processes.append(start_process([*COMMAND, *arguments], **{**pipes, **settings}))
        return processes[-1]

    yield start_command
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def big_file(tmp_path):
    """Hours of encoding."""
    path = tmp_path / "big.txt"
    path.write_text(("a lot of words " * 4 + "\n") * 400_000)
    return path


def test_help_does_not_wait_for_tensorflow():
    code = (
        "import sys; from keras_bert.cli import main\n"
        "for arguments in [[], *([name] for name in main.commands), ['export', 'serving']]:\n"
        "    assert main([*arguments, '--help'], standalone_mode=False) == 0\n"
        "slow = {'tensorflow', 'keras', 'numpy', 'tqdm'} & set(sys.modules)\n"
        "sys.exit(f'imported {slow}' if slow else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Usage: ") == len(main.commands) + 2


@pytest.mark.slow
def test_a_pipeline_is_quiet_and_utf8_in_any_locale(start):
    latin = ENVIRONMENT | {"PYTHONIOENCODING": "latin-1"}
    tokenize = start("tokenize", "Naïve 日本", "a cat", env=latin)
    silenced = latin | {"TF_CPP_MIN_LOG_LEVEL": "3"}  # which alone does not hide what the import writes
    similarity = start("similarity", "--format", "jsonl", stdin=tokenize.stdout, env=silenced)
    tokenize.stdout.close()
    out, error = similarity.communicate()
    assert out.decode().startswith('{"first": "naive 日 本", "second": "a cat", "similarity": ')
    assert out.count(b"\n") == 1
    assert error == tokenize.stderr.read() == b""
    assert similarity.wait() == tokenize.wait() == 0


@pytest.fixture
def terminal():
    """The two ends of a terminal of 80 columns: what the user sees, and what the process has as its own."""
    user, process = pty.openpty()
    fcntl.ioctl(process, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    yield user, process
    os.close(user)
    os.close(process)


def read_until(pattern: str, terminal: int, seconds: float = HANGS) -> str:
    shown = ""
    deadline = time.monotonic() + seconds
    while not re.search(pattern, shown):
        ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"only this came: {shown!r}"
        shown += os.read(terminal, 4096).decode()
    return shown


def test_ctrl_c_in_the_middle_leaves_nothing_behind(start, big_file, tmp_path, terminal):
    folder = tmp_path / "results"
    folder.mkdir()
    user, stderr = terminal
    process = start("encode", "--file", str(big_file), "--output", str(folder / "vectors.npy"), stderr=stderr)
    shown = read_until(r"\d+ texts .*texts/s", user)
    (unfinished,) = folder.iterdir()
    assert unfinished.stat().st_size > 1_000_000
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=HANGS) == 130
    shown += read_until(r"written", user)
    assert shown.splitlines()[-1] == "Interrupted; no file was written."
    assert len(shown.splitlines()) == 3  # "", the progress bar, and that
    assert process.stdout.read() == b""
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0.5, 1.0])
def test_ctrl_c_while_tensorflow_is_imported(start, tmp_path, number, seconds):
    process = start("encode", "a", "--output", str(tmp_path / "vectors.npy"))
    while not list(tmp_path.iterdir()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    time.sleep(seconds)
    process.send_signal(number)
    assert process.communicate(timeout=HANGS) == (b"", b"Interrupted; no file was written.\n")
    assert process.returncode == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_has_enough_ends_the_command_quietly(start, big_file):
    process = start("tokenize", "--file", str(big_file))
    assert process.stdout.readline() == b"a lot of words " * 3 + b"a lot of words\n"
    process.stdout.close()
    assert process.wait(timeout=HANGS) == 1
    assert process.stderr.read() == b""


def test_nobody_waits_for_the_next_line(start):
    process = start("tokenize", stdin=subprocess.PIPE)
    for line in (b"a lot of words\n", b"more words\n"):
        process.stdin.write(line)
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], HANGS)
        assert ready
        assert process.stdout.readline() == line
    assert process.communicate(timeout=HANGS) == (b"", b"")


@pytest.mark.parametrize("command", ["encode", "tokenize", "detokenize", "similarity"])
def test_at_a_terminal_it_says_how_to_give_texts(start, command, terminal):
    _, stdin = terminal
    process = start(command, stdin=stdin)
    out, error = process.communicate(timeout=HANGS)
    assert (process.returncode, out) == (2, b"")
    expected = b"Error: nothing to read; give texts as arguments, in --file FILE, or through a pipe\n"
    assert error == expected
