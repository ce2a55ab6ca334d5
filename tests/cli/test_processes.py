"""What only a real process shows: pipes, signals, terminals, and what is on standard error."""

import os
import select
import shlex
import signal
import subprocess
import sys
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


CLOSED, FULL = "Error: standard output is closed\n", "Error: output: No space left on device\n"
NO_INPUT = "Error: nothing to read; give texts as arguments, in --file FILE, or through a pipe\n"


@pytest.mark.parametrize(
    ("command", "code", "error"),
    [
        ("--version >&-", 1, CLOSED),
        ("--help > /dev/full", 1, FULL),
        ("inspect nothing-there 2>&-", 2, ""),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in [
                ("inspect . >&-", 1, CLOSED),
                ("vocab a.txt --size 11 --output vocabulary >&-", 0, ""),
                ("inspect . > /dev/full", 1, FULL),
                ("inspect . 2>&-", 0, ""),
                ("inspect nothing-there 2> /dev/full", 2, ""),
                ("tokenize --file - <&-", 2, NO_INPUT),
            ]
        ),
    ],
)
def test_standard_streams_that_are_closed_or_full(command, code, error, tmp_path):
    (tmp_path / "a.txt").write_text("a cat")
    command = f"{shlex.quote(sys.executable)} -m keras_bert.cli {command}"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, error)


def test_a_command_that_runs_batches_side_by_side_gives_an_operation_one_thread(monkeypatch):
    name = "TF_NUM_INTRAOP_THREADS"  # TensorFlow reads it when it starts
    for cores, command, user, expected in [
        (2, "encode", None, "1"),
        (32, "predict", None, "4"),
        (32, "encode", "3", "3"),
        (2, "finetune", None, None),
    ]:
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        monkeypatch.setenv(name, user) if user else monkeypatch.delenv(name, raising=False)
        main([command, "--help"], standalone_mode=False)
        assert os.environ.get(name) == expected
    monkeypatch.setenv(name, "")  # put back at the end


@pytest.mark.slow
def test_keras_imports_no_library_that_no_command_needs(tmp_path, start, small_preset):
    for name in ("jax", "matplotlib", "pandas", "sklearn"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError(__name__)")
    environment = ENVIRONMENT | {"PYTHONPATH": str(tmp_path)}
    out, error = start("tokenize", "--preset", small_preset, "good film", env=environment).communicate()
    assert (out, error) == (b"good film\n", b"")
    code = "import sys, keras_bert.extras as e; sys.meta_path.insert(0, e.LighterImports); import sklearn"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert "RuntimeError: sklearn" in done.stderr  # which others import as ever


@pytest.mark.slow
def test_a_pipeline_is_quiet_and_utf8_in_any_locale(start, small_preset):
    latin = ENVIRONMENT | {"PYTHONIOENCODING": "latin-1"}
    tokenize = start("tokenize", "--preset", small_preset, "Naïve 日本", "a cat", env=latin)
    # The variable alone hides neither what the import writes nor CUDA's errors.
    silenced = latin | {"TF_CPP_MIN_LOG_LEVEL": "2"}
    command = ("similarity", "--preset", small_preset, "--format", "jsonl")
    similarity = start(*command, stdin=tokenize.stdout, env=silenced)
    tokenize.stdout.close()
    out, error = similarity.communicate()
    assert out.decode().startswith('{"first": "n ##a ##ive 日 本", "second": "a c ##a ##t", "similarity": ')
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
    shown = read_until(r"\d+/400000 .*<\d+:\d+, .*texts/s", user)  # the total, and the time left
    (unfinished,) = folder.iterdir()
    wait_for(lambda: unfinished.stat().st_size > 100_000, process)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=HANGS) == 130
    shown += read_until(r"written", user)
    *bars, last = shown.splitlines()
    assert last == "Interrupted; no file was written."
    assert all("texts/s" in line for line in bars if line)
    assert process.stdout.read() == b""
    assert list(folder.iterdir()) == []


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


def test_at_a_terminal_it_says_how_to_give_texts(start, terminal):
    _, stdin = terminal
    process = start("tokenize", stdin=stdin)
    out, error = process.communicate(timeout=HANGS)
    assert (process.returncode, out) == (2, b"")
    expected = b"Error: nothing to read; give texts as arguments, in --file FILE, or through a pipe\n"
    assert error == expected
