"""Writers that are killed at any moment, beside readers: each finds one state of the index, whole."""

import json
import random
import signal
import subprocess
import sys
import threading
import zlib
from types import SimpleNamespace

import numpy as np
import pytest

from keras_bert import tasks
from keras_bert.search import TextIndex, building, representations, text_index

ROWS, CHANGED = 120, 40  # rows of a state; the first of them change in each


def encode(texts):
    """Makes a vector of each text, at random."""
    vectors = [np.random.default_rng(zlib.crc32(text.encode())).standard_normal(16) for text in texts]
    vectors = np.array(vectors, np.float32).reshape(-1, 16)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def use_quick_model(patch):
    model = SimpleNamespace(
        vector_size=16,
        prompts=(),
        encode=lambda texts, **_: encode(texts),
        encode_counted=lambda texts, **_: (encode(texts), 0),
    )
    patch(tasks, "BertSentenceEncoder", SimpleNamespace(to_compare=lambda preset: model))
    patch(representations, "task_of", lambda *_: "BertSentenceEncoder")
    for module in (building, text_index):
        patch(module, "compute_digest", lambda model: "digest")


def text_of(number, state):
    return f"text {number} of state{state}"


def write_states(folder, state):
    """Goes from state to state, in one change or another, until killed; the last 40 rows come and go."""
    path, directory = folder / "rows.jsonl", folder / "index"
    while True:
        state += 1
        rows = [{"id": n, "state": state, "text": text_of(n, state)} for n in range(CHANGED)]
        if state % 2:
            rows += [{"id": n, "state": 0, "text": text_of(n, 0)} for n in range(CHANGED, ROWS)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        building.build_index(path, directory, "preset", add=True, id_column="id", progress=False)
        print(state, flush=True)
        building.remove_rows(directory, {"id": {">=": ROWS - CHANGED}})


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.parametrize("limit", [1000, 50])
def test_killed_writers_leave_whole_states(tmp_path, monkeypatch, limit):
    use_quick_model(monkeypatch.setattr)
    chance, opened, wrong = random.Random(limit), [], []

    def check(index):
        hits = index.search("text", top_k=1000, hybrid=True)
        states = [hit["row"]["state"] for hit in hits]
        state = max(states)
        kept = sorted(hit["row"]["id"] for hit in hits)
        if kept not in (list(range(ROWS - CHANGED)), list(range(ROWS))) or states.count(state) != CHANGED:
            wrong.append(("rows", kept, states))
        if len(index.search("text", 1000, where={"state": state})) not in (0, CHANGED):  # 0: the next state is there
            wrong.append(("filter", state))
        texts = [text_of(number, state) for number in range(CHANGED)]
        found = [hits[0] for hits in index.search(texts, top_k=1)]
        if max(hit["row"]["state"] for hit in found) <= state and [hit["text"] for hit in found] != texts:
            wrong.append(("neighbours", state))
        opened.append(state)

    def start(state):
        program = "from tests.search.test_kills import *; from pathlib import Path; use_quick_model(setattr)\n"
        program += f"from keras_bert.search import neighbours; neighbours.EXACT_UP_TO = {limit}\n"
        program += f"write_states(Path({str(tmp_path)!r}), {state})"
        return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)

    ended = threading.Event()

    def read():
        index = TextIndex(tmp_path / "index")
        while not ended.is_set():
            check(index)

    state, reader = 0, None
    for _ in range(12):
        process = start(state)
        process.stdout.readline()
        if reader is None:
            reader = threading.Thread(target=read)
            reader.start()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0, 0.4))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        check(TextIndex(tmp_path / "index"))
        state = max(opened)
    ended.set()
    reader.join()
    print(f"{len(opened)} searches, {state} states")
    assert wrong == []
    assert state > 12
