"""What only a real process shows: pipes, signals, terminals, and what is on standard error."""

import re
import select
import signal
import subprocess
import sys
import threading
import time

import pytest

from keras_bert.cli import main

from ..support.processes import ENVIRONMENT, HANGS, read_until, start_process, wait_for

pytestmark = pytest.mark.timing


@pytest.fixture
def big_file(tmp_path):
    """Hours of encoding."""
    path = tmp_path / "big.txt"
    path.write_text(("the film was good " * 4 + "\n") * 400_000)
    return path


def test_help_does_not_wait_for_tensorflow():
    code = (
        "import sys; from keras_bert.cli import main\n"
        "nested = [[name, each] for name in main.commands for each in getattr(main.commands[name], 'commands', ())]\n"
        "for arguments in [[], *([name] for name in main.commands), *nested]:\n"
        "    assert main([*arguments, '--help'], standalone_mode=False) == 0\n"
        "slow = {'tensorflow', 'keras', 'numpy', 'tqdm', 'grpc'} & set(sys.modules)\n"
        "sys.exit(f'imported {slow}' if slow else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Usage: ") > len(main.commands) + 10


@pytest.mark.slow
def test_a_pipeline_is_quiet_and_utf8_in_any_locale(start):
    latin = ENVIRONMENT | {"PYTHONIOENCODING": "latin-1"}
    tokenize = start("tokenize", "Naïve 日本", "a cat", env=latin)
    silenced = latin | {
        "TF_CPP_MIN_LOG_LEVEL": "2"
    }  # which alone hides neither what the import writes nor CUDA's errors
    similarity = start("similarity", "--format", "jsonl", stdin=tokenize.stdout, env=silenced)
    tokenize.stdout.close()
    out, error = similarity.communicate()
    assert out.decode().startswith('{"first": "naive 日 本", "second": "a cat", "similarity": ')
    assert out.count(b"\n") == 1
    assert error == tokenize.stderr.read() == b""
    assert similarity.wait() == tokenize.wait() == 0


def test_an_interrupt_takes_the_unfinished_file_with_it(tmp_path):
    code = (
        "import time; from keras_bert.cli import streams, terminal\n"
        "with terminal.end_the_command(), streams.open_output('vectors.txt', overwrite=False) as file:\n"
        "    file.write(b'half'); file.flush(); print('written', flush=True); time.sleep(600)\n"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    for number in (signal.SIGINT, signal.SIGTERM):
        process = start_process([sys.executable, "-c", code], cwd=tmp_path, **pipes)
        assert process.stdout.readline() == b"written\n"
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(number)
        assert process.communicate(timeout=HANGS) == (b"", b"Interrupted; no file was written.\n")
        assert process.returncode == 128 + number
        assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_ctrl_c_in_the_middle_leaves_nothing_behind(start, small_preset, big_file, tmp_path, terminal):
    folder = tmp_path / "results"
    folder.mkdir()
    user, stderr = terminal
    source = ("--preset", small_preset, "--file", big_file)
    process = start("encode", *source, "--output", folder / "vectors.npy", stderr=stderr)
    shown = read_until(r"\d+/\d+ .*texts/s", user)
    (unfinished,) = folder.iterdir()
    assert unfinished.stat().st_size > 100_000
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=HANGS) == 130
    shown += read_until(r"written", user)
    assert shown.splitlines()[-1] == "Interrupted; no file was written."
    assert len(shown.splitlines()) == 3  # "", the progress bar, and that
    assert process.stdout.read() == b""
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_a_terminal_shows_the_total_and_the_time_left(start, small_preset, tmp_path, terminal):
    path = tmp_path / "texts.txt"
    path.write_text("the film was good\n" * 50_000)
    user, stderr = terminal
    process = start("encode", "--preset", small_preset, "--file", path, stderr=stderr)
    drain = threading.Thread(target=process.stdout.read, daemon=True)
    drain.start()
    read_until(r"\d+/50000 .*<\d+:\d+", user)
    process.kill()
    process.wait()
    drain.join()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "output"),
    [(("export", "encoder"), "model"), (("convert",), "model"), (("encode", "a cat", "--output"), "vectors.jsonl")],
)
def test_a_file_that_cannot_be_written_to_its_end(start, untrained, tmp_path, command, output):
    place = str(tmp_path / output)
    arguments = {
        "export": ("--preset", untrained, "--output", place),
        "convert": (untrained, place),
        "encode": (place, "--preset", untrained),
    }[command[0]]
    code = "import resource, sys; from keras_bert.cli import main\n"
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); main(sys.argv[1:])"
    process = start_process(
        [sys.executable, "-c", code, *command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    out, error = process.communicate(timeout=HANGS)
    assert (process.returncode, out) == (1, b"")
    assert re.fullmatch(rf"Error: {re.escape(place)}[^:]*: File too large\n", error.decode()), error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("number", "seconds"), [(signal.SIGINT, 1.0), (signal.SIGTERM, 0.5)])
def test_ctrl_c_while_tensorflow_is_imported(start, tmp_path, number, seconds):
    process = start("encode", "a", "--output", tmp_path / "vectors.npy")
    wait_for(lambda: any(tmp_path.iterdir()), process)
    time.sleep(seconds)
    process.send_signal(number)
    assert process.communicate(timeout=HANGS) == (b"", b"Interrupted; no file was written.\n")
    assert process.returncode == 128 + number
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_reader_that_has_enough_ends_the_command_quietly(start, small_preset, big_file):
    process = start("tokenize", "--preset", small_preset, "--file", big_file)
    assert process.stdout.readline() == b"the film was good " * 3 + b"the film was good\n"
    process.stdout.close()
    assert process.wait(timeout=HANGS) == 1
    assert process.stderr.read() == b""


@pytest.mark.slow
def test_nobody_waits_for_the_next_line_and_only_an_interrupt_is_told(start, small_preset):
    process = start("tokenize", "--preset", small_preset, stdin=subprocess.PIPE)
    for line in (b"the film\n", b"good music\n"):
        process.stdin.write(line)
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], HANGS)
        assert ready
        assert process.stdout.readline() == line
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=HANGS) == (b"", b"Interrupted; no file was written.\n")
    assert process.returncode == 130


COMMANDS = [
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("encode", "detokenize", "similarity")),
    "tokenize",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_at_a_terminal_it_says_how_to_give_texts(start, command, terminal):
    _, stdin = terminal
    process = start(command, stdin=stdin)
    out, error = process.communicate(timeout=HANGS)
    assert (process.returncode, out) == (2, b"")
    expected = b"Error: nothing to read; give texts as arguments, in --file FILE, or through a pipe\n"
    assert error == expected
