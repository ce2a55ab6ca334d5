"""Files and directories: written whole or not at all."""

import contextlib
import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_bert import files
from keras_bert.embedding.file_embedding import VectorStore
from keras_bert.formats.tensorflow.bundle import write_tensorflow
from keras_bert.training.run import save_state
from keras_bert.training.run_of_files import RunOfFiles

from .support.messages import error_names


def test_an_interrupted_write_changes_nothing(tmp_path):
    path = tmp_path / "x"
    path.write_text("old")

    def write():
        with files.written_whole(path) as unfinished:
            unfinished.write_text("ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


_HOLDS = """
import sys, time
from pathlib import Path
from keras_bert import files
with files.only_writer(Path(sys.argv[1])):
    print("in", flush=True)
    time.sleep(600)
"""


@pytest.mark.timing
def test_one_process_writes_at_a_time(tmp_path):
    directory = tmp_path / "results"
    other = subprocess.Popen([sys.executable, "-c", _HOLDS, directory], stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == b"in\n"
        with error_names(BlockingIOError, "another process", directory), files.only_writer(directory):
            pass
    finally:
        other.kill()
        other.communicate()
    with files.only_writer(directory):  # a killed process holds nothing
        (directory / "a").touch()
        with pytest.raises(BlockingIOError), files.only_writer(directory):
            pass
    assert [path.name for path in directory.iterdir()] == ["a"]


@pytest.mark.parametrize("target", ["file", "pipe", "nothing"])
def test_a_lock_that_leads_elsewhere_is_refused(tmp_path, target):
    """Whoever made the directory may have made it: neither is the target emptied, nor is a pipe waited for."""
    mine, lock = tmp_path / "mine", tmp_path / "theirs/.lock"
    mine.write_text("precious")
    lock.parent.mkdir()
    os.mkfifo(lock) if target == "pipe" else lock.symlink_to(mine if target == "file" else tmp_path / "new")
    with error_names(OSError, lock.parent), files.only_writer(lock.parent):
        pass
    assert mine.read_text() == "precious"
    assert not (tmp_path / "new").exists()
    lock.unlink()
    os.link(mine, lock)  # another name of the same file
    with files.only_writer(lock.parent):
        pass
    assert mine.read_text() == "precious"


def _write_ours(directory):
    files.write_texts(directory, {"config.json": "{}", "1_Pooling/config.json": "{}"})


def _write_checkpoint(directory):
    write_tensorflow(directory / "bert", {"a": np.zeros(3, "f4")}.items())


def _write_run(directory):
    run = RunOfFiles(directory / "run", overwrite=False)
    save_state(run.directory / "state.safetensors", [], {})


@pytest.mark.parametrize(
    ("write", "links"),
    [
        (_write_ours, ["config.json", f".config.json.{os.getpid()}.tmp"]),
        (_write_ours, ["1_Pooling/"]),
        (_write_ours, ["1_Pooling/config.json", f"1_Pooling/.config.json.{os.getpid()}.tmp"]),
        (_write_run, ["run/training/"]),
        (_write_run, ["run/training/logs/", "run/training/records/"]),
        (_write_run, ["run/training/state.safetensors"]),
        (_write_checkpoint, [f".bert.{os.getpid()}.tmp.index", f".bert.{os.getpid()}.tmp.data-00000-of-00001"]),
        (_write_checkpoint, [f".bert.{os.getpid()}.tmp.folder/"]),
        (lambda directory: VectorStore(directory / "vectors").write(0, np.zeros([1, 1]), 0), ["vectors/"]),
    ],
)  # fmt: skip
def test_nothing_is_written_through_links_in_a_directory(tmp_path, write, links):
    """A link to a file is replaced; where one leads to a directory, it is refused. What they lead to stays as it is."""
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    mine.mkdir()
    for name in ("config.json", "state.safetensors", "0.npz"):
        (mine / name).write_text("precious")
    for name in links:
        (theirs / name).parent.mkdir(parents=True, exist_ok=True)
        (theirs / name.rstrip("/")).symlink_to(mine if name.endswith("/") else mine / "config.json")
    is_refused = write is _write_run or (links[0].endswith("/") and write is not _write_checkpoint)
    with error_names(OSError, theirs, "is a link", "remove it") if is_refused else contextlib.nullcontext():
        write(theirs)
    assert sorted(path.name for path in mine.iterdir()) == ["0.npz", "config.json", "state.safetensors"]
    assert {path.read_text() for path in mine.iterdir()} == {"precious"}


def test_where_there_can_be_no_lock():
    with pytest.raises(OSError, match="/proc") as raised, files.only_writer(Path("/proc")):
        pass
    assert raised.value.filename == "/proc"


@pytest.mark.parametrize(
    "write",
    [
        files.only_writer,
        lambda directory: files.written_whole(directory / "file"),
        lambda directory: files.directory_written_whole(directory / "1", "mark", overwrite=False),
    ],
)
def test_a_directory_in_which_nothing_was_written_is_not_left(write, tmp_path):
    (tmp_path / "old").mkdir()
    for name in ("new", "new/deep", "old"):
        with error_names(ValueError, "no"), write(tmp_path / name):
            raise ValueError("no")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert not list((tmp_path / "old").iterdir())


def test_a_full_disk_is_told_with_the_name_that_was_asked_for(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space") as raised, files.written_whole(tmp_path / "x.npy"):
        raise full
    assert (raised.value.filename, raised.value.errno) == (str(tmp_path / "x.npy"), errno.ENOSPC)

    def write():
        with files.directory_written_whole(tmp_path / "x", "", False) as folder, files.written_whole(folder / "part"):
            raise full

    with pytest.raises(OSError, match="No space") as raised:
        write()
    assert raised.value.filename == str(tmp_path / "x" / "part")


def test_so_is_a_place_where_there_can_be_no_file():
    def write(block):
        with block as unfinished:
            unfinished.touch()

    for block in (files.written_whole(Path("/proc/x")), files.directory_written_whole(Path("/proc/x"), "", False)):
        with pytest.raises(FileNotFoundError) as raised:
            write(block)
        assert raised.value.filename == "/proc/x"


def test_another_error_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as raised, files.written_whole(tmp_path / "x"):
        (tmp_path / "source").read_text()
    assert raised.value.filename == str(tmp_path / "source")
    with pytest.raises(BrokenPipeError) as raised, files.written_whole(tmp_path / "x"):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")
    assert raised.value.filename is None


def test_what_is_temporary_can_be_removed_at_any_time(tmp_path):
    """As before an exit that runs no `finally`."""
    (tmp_path / "of another process").touch()

    def write():
        with (
            files.only_writer(tmp_path),
            files.written_whole(tmp_path / "a") as file,
            files.directory_written_whole(tmp_path / "b", "", False) as directory,
        ):
            file.touch()
            (directory / "part").touch()
            files.remove_temporary()
            assert [path.name for path in tmp_path.iterdir()] == ["of another process"]

    with pytest.raises(FileNotFoundError):
        write()
    assert [path.name for path in tmp_path.iterdir()] == ["of another process"]


def test_refuse_to_overwrite(tmp_path):
    files.refuse_to_overwrite(tmp_path, ["a", "b"], overwrite=False)
    (tmp_path / "b").touch()
    files.refuse_to_overwrite(tmp_path, ["a", "b"], overwrite=True)
    with error_names(FileExistsError, tmp_path, "b", "overwrite"):
        files.refuse_to_overwrite(tmp_path, ["a", "b"], overwrite=False)


@pytest.mark.parametrize("has_proc", [True, False])
def test_what_killed_processes_left_is_removed(tmp_path, monkeypatch, has_proc):
    if not has_proc:  # as on a Mac
        exists = Path.exists
        monkeypatch.setattr(Path, "exists", lambda path: "/proc" not in str(path) and exists(path))
    (tmp_path / "a").mkdir()
    stay = ["x.txt", ".y.txt.4194399.tmp", ".x.txt.1.tmp", ".x.txt.tmp", "x.txt.4194399.tmp", "a/x.txt"]
    for name in (
        *stay,
        ".x.txt.4194399.tmp",
        f".x.txt.{os.getpid()}.tmp",
        f".x.txt.{'9' * 30}.tmp",
        "a/.x.txt.4194399.tmp",
    ):
        (tmp_path / name).touch()
    with files.written_whole(tmp_path / "a/x.txt") as unfinished:
        unfinished.touch()
        files.remove_leftovers(tmp_path)
        assert unfinished.exists()
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")) == sorted(stay)


_DIES = """
import os, signal, sys
from pathlib import Path
from keras_bert import files
path = Path(sys.argv[1])
whole = files.directory_written_whole(path / "d", "mark", True)
with files.written_whole(path / "x[1].bin") as file, whole as folder:
    file.write_bytes(b"half")
    (folder / "mark").touch()
    if sys.argv[2] == "moved":
        os.rename(path / "d", path / f".d.{os.getpid()}.old")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("state", ["written", "moved"])
def test_the_next_process_removes_what_a_killed_one_left(tmp_path, state):
    """Also what it had moved away: that is put back, for it is the only whole one."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "mark").write_text("old")
    others = ["x[1].bin.1.tmp", ".x1.bin.4194399.tmp", ".d.4194399.tmp", ".x[1].bin.tmp"]
    for name in others:
        (tmp_path / name).touch()
    subprocess.run([sys.executable, "-c", _DIES, tmp_path, state])
    assert len(list(tmp_path.iterdir())) == len(others) + 3
    with files.written_whole(tmp_path / "x[1].bin") as file:
        file.write_bytes(b"whole")
    with pytest.raises(FileExistsError), files.directory_written_whole(tmp_path / "d", "mark", False):
        pass
    assert (tmp_path / "d" / "mark").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, "d", "x[1].bin"])
