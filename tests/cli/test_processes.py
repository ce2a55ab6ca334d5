"""What only a real process shows: pipes, signals, terminals, and what is on standard error."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

COMMAND = [sys.executable, "-m", "keras_bert.cli"]
# As a user's shell has it: TensorFlow's messages not yet silenced, and Keras perhaps set to another backend.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"} | {
    "KERAS_BACKEND": "jax"
}


def start(*arguments: str, **settings) -> subprocess.Popen:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*COMMAND, *arguments], **{**pipes, "env": ENVIRONMENT, **settings})


@pytest.fixture
def big_file(tmp_path):
    """One chunk that takes a second, and hours of work behind it."""
    path = tmp_path / "big.txt"
    path.write_text("a\n" * 4096 + ("word " * 200 + "\n") * 100_000)
    return path


def test_help_does_not_wait_for_tensorflow():
    code = (
        "import sys; from keras_bert.cli import main\n"
        "for arguments in [], ['encode'], ['tokenize'], ['detokenize'], ['similarity']:\n"
        "    assert main([*arguments, '--help'], standalone_mode=False) == 0\n"
        "slow = {'tensorflow', 'keras', 'numpy', 'tqdm'} & set(sys.modules)\n"
        "sys.exit(f'imported {slow}' if slow else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Usage: ") == 5


def test_a_pipeline_is_quiet_and_utf8_in_any_locale():
    latin = ENVIRONMENT | {"PYTHONIOENCODING": "latin-1"}
    tokenize = start("tokenize", "--format", "jsonl", "Naïve 日本", "", env=latin)
    detokenize = start("detokenize", stdin=tokenize.stdout)
    tokenize.stdout.close()
    similarity = start("similarity", "a cat", "a kitten")
    assert detokenize.communicate() == ("naive 日本\n\n".encode(), b"")
    assert tokenize.stderr.read() == b""
    table, noise = similarity.communicate()
    assert len(table.splitlines()) == 3
    assert noise == b""
    assert [process.wait() for process in (tokenize, detokenize, similarity)] == [0, 0, 0]


def test_ctrl_c_at_a_terminal_leaves_nothing_behind(big_file, tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    terminal, stderr = pty.openpty()
    fcntl.ioctl(stderr, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    process = start("encode", "--file", str(big_file), "--output", str(folder / "vectors.npy"), stderr=stderr)
    os.close(stderr)
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size > 1_000_000 for path in folder.iterdir()):  # the first chunk is being written
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1)  # the second one is being computed
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    shown = os.read(terminal, 10_000).decode().splitlines()
    os.close(terminal)
    assert re.search(r"4096 texts .*texts/s", shown[-2])
    assert shown[-1] == "Interrupted; no file was written."
    assert process.stdout.read() == b""
    assert list(folder.iterdir()) == []


def test_a_reader_that_has_enough_ends_the_command_quietly(big_file):
    process = start("tokenize", "--file", str(big_file))
    assert process.stdout.readline() == b"a\n"
    process.stdout.close()
    assert process.wait(timeout=20) == 1
    assert process.stderr.read() == b""


@pytest.mark.parametrize("command", ["encode", "tokenize", "detokenize", "similarity"])
def test_at_a_terminal_it_says_how_to_give_texts(command):
    terminal, stdin = pty.openpty()
    process = start(command, stdin=stdin)
    out, error = process.communicate(timeout=20)
    os.close(terminal)
    os.close(stdin)
    assert (process.returncode, out) == (2, b"")
    expected = b"Error: nothing to read; give texts as arguments, in --file FILE, or through a pipe\n"
    assert error == expected
