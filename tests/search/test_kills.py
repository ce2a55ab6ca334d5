"""Writers that are killed at any moment, beside readers: each finds one state of the index, whole."""

import contextlib
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
from keras_bert.search import TextIndex, building, neighbours, representations, text_index, token_vectors
from keras_bert.tasks import registry

ROWS, CHANGED = 120, 40  # rows of a state; the first of them change in each


def encode(texts):
    """Makes a vector of each text, at random."""
    vectors = [np.random.default_rng(zlib.crc32(text.encode())).standard_normal(16) for text in texts]
    vectors = np.array(vectors, np.float32).reshape(-1, 16)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def use_quick_model(patch, task, limit):
    """Puts a model of this task in place of all, and gives indexes of more than `limit` rows a file of neighbours."""

    def vectors_of(texts, *_, **__):
        return encode(texts) if task == "BertSentenceEncoder" else [encode([text, text[::-1]]) for text in texts]

    model = SimpleNamespace(
        vector_size=16,
        prompts=(),
        mean_maxsim=False,
        encode=vectors_of,
        encode_counted=lambda texts, *_, **__: (vectors_of(texts), 0),
    )
    patch(tasks, "BertSentenceEncoder", SimpleNamespace(to_compare=lambda preset: model))
    patch(registry, "load_as", lambda *_: model)
    patch(representations, "task_of", lambda *_: task)
    patch(building, "Preset", SimpleNamespace(open=contextlib.nullcontext))
    for module in (neighbours, token_vectors):
        patch(module, "EXACT_UP_TO", limit)
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
@pytest.mark.parametrize(
    ("task", "limit"), [("BertSentenceEncoder", 1000), ("BertSentenceEncoder", 50), ("BertMultiVectorEncoder", 50)]
)
def test_killed_writers_leave_whole_states(tmp_path, monkeypatch, task, limit):
    use_quick_model(monkeypatch.setattr, task, limit)
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
        program = "from tests.search.test_kills import *; from pathlib import Path\n"
        program += f"use_quick_model(setattr, {task!r}, {limit})\n"
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
