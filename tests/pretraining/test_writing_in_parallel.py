"""Records that several processes write: the same files, the same errors, and nothing left of an interruption."""

import json
import os
import signal
import sys
import time

import pytest

from keras_bert.pretraining import Records, documents, records, write_records
from keras_bert.pretraining.records import SETTINGS
from keras_bert.processes import in_processes

from ..support import corpus as small_corpus
from ..support.messages import assert_names, error_names
from ..support.processes import HANGS, shout, start_process

WRITTEN = {**small_corpus.WRITTEN, "copies": 2}


def files_of(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.slow
def test_the_same_files(tmp_path, corpus, preprocessor, written, capfd):
    counts = write_records(corpus, tmp_path, preprocessor, **WRITTEN, processes=2, progress=True)
    assert counts == written[1]
    assert files_of(tmp_path) == files_of(written[0])
    shown = capfd.readouterr()
    assert shown.out == ""
    (bar,) = shown.err.strip().split("\n")  # and no word of TensorFlow's
    assert f"{len(Records(tmp_path).files)}/{len(Records(tmp_path).files)}" in bar


@pytest.mark.slow
def test_an_error_is_the_same(tmp_path, corpus, preprocessor):
    text = tmp_path / "text.txt"
    text.write_bytes(corpus[0].read_bytes() + b"\n\n\xff no UTF-8\n")
    messages = []
    for processes in (1, 2):
        directory = tmp_path / str(processes)
        directory.mkdir()
        (directory / ".examples-00003-of-00006.tfrecord.4194399.tmp").touch()  # what a process opened at its very end
        with pytest.raises(ValueError) as error:  # noqa: PT011
            write_records([text], directory, preprocessor, **WRITTEN, processes=processes, progress=False)
        messages.append(str(error.value))
        assert not list(directory.glob("*.tmp"))
    assert messages[0] == messages[1]
    assert_names(messages[0], text, "UTF-8", "0xff")


_SCRIPT = """
import gc, sys
from keras_bert import BertPreprocessor
from keras_bert.pretraining import write_records

if __name__ == "__main__":
    preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=64)
    gc.callbacks.clear()  # JAX's, if it is installed: a KeyboardInterrupt that is raised in it is lost
    try:
        write_records([sys.argv[1]], sys.argv[2], preprocessor, layout="sentences", copies=5000, processes=2)
    except KeyboardInterrupt:
        print("interrupted")
"""

_UNGUARDED = """
import functools
from keras_bert.processes import in_processes

def count(large, item):
    return [len(large) + item]

print(list(in_processes(functools.partial(count, bytes(1_000_000)), range(3), 2)))
"""


def test_a_script_that_starts_itself_again(tmp_path):
    """Its processes die before they read what they are sent; here, more than a pipe holds."""
    (tmp_path / "script.py").write_text(_UNGUARDED)
    process = start_process([sys.executable, tmp_path / "script.py"], stdout=-1, stderr=-1)
    _, err = process.communicate(timeout=HANGS)
    assert process.returncode == 1
    assert b"__name__ == '__main__'" in err  # Python's own words


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.parametrize("by", ["Ctrl-C", "kill -9"])
def test_an_interruption(tmp_path, corpus, by):
    """All processes end, and what they were writing disappears; what is noted is there."""
    (tmp_path / "script.py").write_text(_SCRIPT)
    records = tmp_path / "records"
    command = [sys.executable, tmp_path / "script.py", corpus[0], records]
    process = start_process(command, start_new_session=True, stdout=-1, stderr=-1)
    while not list(records.glob("*.tfrecord")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    if by == "Ctrl-C":  # a terminal sends it to all of them
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.kill()
    out, err = process.communicate(timeout=HANGS)  # until no process has its standard output
    assert out.decode() == ("interrupted\n" if by == "Ctrl-C" else ""), (process.returncode, err)
    assert b"Traceback" not in err
    notes = json.loads((records / SETTINGS).read_text())
    complete = {name for name, counts in notes["files"].items() if counts}
    assert len(complete) < 5000
    assert complete <= set(files_of(records))
    assert not list(records.glob("*.tmp"))


def test_a_second_run_is_refused_while_the_first_lives(tmp_path, corpus, preprocessor, written, monkeypatch):
    second = []

    def run(*part):
        if not second:
            with pytest.raises(BlockingIOError) as refused:
                write_records(corpus, tmp_path, preprocessor, **WRITTEN, progress=False)
            second.append(refused.value.filename)
            assert_names(str(refused.value), "another process", tmp_path)
        return documents(*part)

    monkeypatch.setattr(records, "documents", run)
    assert write_records(corpus, tmp_path, preprocessor, **WRITTEN, progress=False) == written[1]
    assert second == [str(tmp_path)]
    assert files_of(tmp_path) == files_of(written[0])


def test_a_pipeline(tmp_path, corpus, preprocessor, written):
    options = pytest.importorskip(
        "apache_beam.options.pipeline_options", reason="needs Apache Beam, which holds back numpy and protobuf"
    )
    beam = {"pipeline_options": options.PipelineOptions()}
    directory, text, good = tmp_path / "records", tmp_path / "text.txt", corpus[0].read_bytes()
    text.write_bytes(good[:-1] + b"\xff")
    with error_names(Exception, text, "UTF-8"):
        write_records([text], directory, preprocessor, **WRITTEN, **beam)
    text.write_bytes(good)
    counts = write_records([text], directory, preprocessor, **WRITTEN)  # goes on
    assert counts["examples"] == Records(directory).count
    whole = tmp_path / "whole"
    assert write_records(corpus, whole, preprocessor, **WRITTEN, **beam) == written[1]
    assert files_of(whole) == files_of(written[0])
    first = min(whole.glob("*.tfrecord"))
    first.write_bytes(b"left alone")
    for settings in ({}, beam):  # nothing is left to do
        assert write_records(corpus, whole, preprocessor, **WRITTEN, **settings) == written[1]
    assert files_of(whole) == files_of(written[0]) | {first.name: b"left alone"}


def test_each_item_is_worked_on_once(capfd):
    assert sorted(in_processes(shout, ["a", "b", "c"], 2)) == ["A", "B", "C"]
    assert capfd.readouterr() == ("", "")
