"""Records that several processes write: the same files, the same errors, and nothing left of an interruption."""

import json
import os
import pickle
import signal
import sys
import time

import pytest

from keras_bert.pretraining import Records, write_records
from keras_bert.pretraining.beam_records import write_records_with_beam
from keras_bert.pretraining.record_writing import RecordsWork
from keras_bert.pretraining.records import SETTINGS

from ..support import corpus as small_corpus
from ..support.processes import HANGS, start_process

WRITTEN = {**small_corpus.WRITTEN, "copies": 2}


def files_of(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_what_writes_can_be_sent(tmp_path, corpus, preprocessor, written):
    """To another process, where it writes the same file."""
    settings = {"objective": "next_sentence", "predictions": None, "unit": "token", "pack": False, "seed": 0}
    work = pickle.loads(pickle.dumps(RecordsWork(corpus, tmp_path, preprocessor, **settings, **WRITTEN)))
    name, counts = work.write(1)
    assert (tmp_path / name).read_bytes() == (written[0] / name).read_bytes()
    assert json.loads((written[0] / SETTINGS).read_text())["shards"][name] == counts


@pytest.mark.slow
def test_the_same_files(tmp_path, corpus, preprocessor, written, capfd):
    counts = write_records(corpus, tmp_path, preprocessor, **WRITTEN, processes=2, progress=True)
    assert counts == written[1]
    assert files_of(tmp_path) == files_of(written[0])
    shown = capfd.readouterr()
    assert shown.out == ""
    (bar,) = shown.err.strip().split("\n")  # and no word of TensorFlow's
    assert f"{len(Records(tmp_path).files)}/{len(Records(tmp_path).files)}" in bar


def test_what_is_done_is_not_written_again(tmp_path, corpus, preprocessor, written):
    records = tmp_path / "records"
    write_records(corpus, records, preprocessor, **WRITTEN, progress=False)
    names = sorted(path.name for path in records.glob("*.tfrecord"))
    notes = json.loads((records / SETTINGS).read_text())
    for name in names[1:3]:  # lost
        del notes["shards"][name]
        (records / name).write_bytes(b"half")
    (records / SETTINGS).write_text(json.dumps(notes))
    (records / names[0]).write_bytes(b"left alone")
    write_records(corpus, records, preprocessor, **WRITTEN, progress=False)
    assert files_of(records) == files_of(written[0]) | {names[0]: b"left alone"}


@pytest.mark.slow
def test_an_error_is_the_same(tmp_path, corpus, preprocessor):
    text = tmp_path / "text.txt"
    text.write_bytes(corpus[0].read_bytes() + b"\n\n\xff no UTF-8\n")
    messages = []
    for processes in (1, 2):
        directory = tmp_path / str(processes)
        with pytest.raises(ValueError, match=f"{text} is not UTF-8 text: byte 0xff") as error:
            write_records([text], directory, preprocessor, **WRITTEN, processes=processes, progress=False)
        messages.append(str(error.value))
        assert not list(directory.glob("*.tmp"))
    assert messages[0] == messages[1]


_SCRIPT = """
import sys
from keras_bert import BertPreprocessor
from keras_bert.pretraining import write_records

if __name__ == "__main__":
    preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=64)
    try:
        write_records([sys.argv[1]], sys.argv[2], preprocessor, layout="sentences", copies=5000, processes=2)
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.slow
@pytest.mark.parametrize("by", ["Ctrl-C", "kill -9"])
def test_an_interruption(tmp_path, corpus, by):
    """All processes end, and what they were writing disappears; what is noted is there."""
    (tmp_path / "script.py").write_text(_SCRIPT)
    records = tmp_path / "records"
    process = start_process(
        [sys.executable, tmp_path / "script.py", corpus[0], records], start_new_session=True, stdout=-1, stderr=-1
    )
    while not (records / SETTINGS).exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    if by == "Ctrl-C":  # a terminal sends it to all of them
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.kill()
    out, err = process.communicate(timeout=HANGS)  # until no process has its standard output
    assert out.decode() == ("interrupted\n" if by == "Ctrl-C" else "")
    assert b"Traceback" not in err
    notes = json.loads((records / SETTINGS).read_text())
    assert 0 < len(notes["shards"]) < 5000
    assert set(notes["shards"]) <= set(files_of(records))
    assert not list(records.glob("*.tmp"))


def test_a_pipeline(tmp_path, corpus, preprocessor, written):
    pytest.importorskip("apache_beam", reason="needs Apache Beam, which holds back numpy and protobuf")
    assert write_records_with_beam(corpus, tmp_path, preprocessor, **WRITTEN) == written[1]
    assert files_of(tmp_path) == files_of(written[0])
    first = min(tmp_path.glob("*.tfrecord"))
    first.write_bytes(b"left alone")
    for write in (write_records, write_records_with_beam):  # nothing is left to do
        assert write(corpus, tmp_path, preprocessor, **WRITTEN) == written[1]
    assert files_of(tmp_path) == files_of(written[0]) | {first.name: b"left alone"}


def test_a_pipeline_that_fails(tmp_path, corpus, preprocessor):
    pytest.importorskip("apache_beam", reason="needs Apache Beam, which holds back numpy and protobuf")
    text, records = tmp_path / "text.txt", tmp_path / "records"
    good = corpus[0].read_bytes()
    text.write_bytes(good[:-1] + b"\xff")
    with pytest.raises(Exception, match="is not UTF-8 text"):
        write_records_with_beam([text], records, preprocessor, **WRITTEN)
    text.write_bytes(good)
    counts = write_records([text], records, preprocessor, **WRITTEN)  # goes on
    assert counts["examples"] == Records(records).count


def test_without_beam(tmp_path, corpus, preprocessor, monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(ImportError, match=r"needs Apache Beam: pip install 'keras-bert-models\[beam\]'"):
        write_records_with_beam(corpus, tmp_path, preprocessor)
