"""A model of text under load, while versions take over from each other: every answer comes, and is right."""

import itertools
import shutil
import threading
import time

import grpc
import numpy as np
import pytest
import requests

from keras_bert import BertSentenceEncoder
from keras_bert.saved_model import export_serving

from ..support import small
from ..support.texts import TEXTS
from .servers import HANGS, output

pytestmark = pytest.mark.timing

CLIENTS = 24
REQUESTS = 200  # of each version
LAST_VERSION = 3


class Load:
    """Clients, half of them over gRPC and half over REST, who check every answer.

    Args:
        server: what they ask.
        texts: they ask for one to three of these at a time.
        vectors: by version, the vectors of the texts.
    """

    def __init__(self, server, texts, vectors):
        self.server = server
        self.texts = texts
        self.vectors = vectors
        self.answered = 0
        self.refused = 0
        self.errors = []
        self._lock = threading.Lock()

    def run(self, count, at_half=None):
        """Sends `count` requests; if it is None, until the server is gone."""
        numbers = itertools.count() if count is None else iter(range(count))
        self._at_half = (count // 2, at_half) if at_half else (None, None)
        threads = [
            threading.Thread(target=self._work, args=(client, numbers), daemon=True) for client in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        return threads

    def join(self, threads):
        for thread in threads:
            thread.join(HANGS)
            assert not thread.is_alive()
        assert self.errors == []

    def _work(self, client, numbers):
        session = requests.Session()
        while True:
            with self._lock:
                number = next(numbers, None)
            if number is None:
                return
            half, action = self._at_half
            if number == half:
                action()
            rows = [(number * 7 + k) % len(self.texts) for k in range(1 + number % 3)]
            try:
                if client % 2:
                    self._over_grpc(rows)
                else:
                    self._over_rest(session, rows)
            except (requests.ConnectionError, grpc.RpcError) as error:
                code = error.code() if isinstance(error, grpc.RpcError) else grpc.StatusCode.UNAVAILABLE
                if code != grpc.StatusCode.UNAVAILABLE:
                    self.errors.append(error)
                self.refused += 1
                return
            except Exception as error:
                self.errors.append(error)
                return

    def _over_grpc(self, rows):
        response = self.server.predict(text=np.array([self.texts[row].encode() for row in rows], object))
        version = response.model_spec.version.value
        np.testing.assert_allclose(output(response, "embedding"), self.vectors[version][rows], atol=2e-6)
        self._count()

    def _over_rest(self, session, rows):
        body = {"instances": [self.texts[row] for row in rows]}
        response = session.post(self.server.url + ":predict", json=body, timeout=HANGS)
        if response.status_code == 503:
            raise requests.ConnectionError(response.text)
        assert response.status_code == 200, response.text
        found = np.array(response.json()["predictions"])
        # The version is not said: it is one of those that are loaded, and the same for every row.
        assert any(np.allclose(found, vectors[rows], rtol=0, atol=2e-6) for vectors in self.vectors.values())
        self._count()

    def _count(self):
        with self._lock:
            self.answered += 1


@pytest.mark.slow
def test_load(start_process, tmp_path):
    encoder, preprocessor = small.encoder(), small.preprocessor()
    models = [BertSentenceEncoder(encoder, preprocessor, pooling=pooling) for pooling in ("cls", "mean")]
    texts = [text[:300] for text in TEXTS] + [f"Sentence number {number} of many." for number in range(100)]
    by_pooling = [model.encode(texts, progress=False) for model in models]
    vectors = {version: by_pooling[version % 2] for version in range(1, LAST_VERSION + 1)}
    for number, model in enumerate(models):
        export_serving(model, tmp_path / f"exported{number}")
    directory = tmp_path / "small"

    def add(version):
        """As export_serving does: under another name until it is complete."""
        shutil.copytree(tmp_path / f"exported{version % 2}" / "1", directory / f".{version}.tmp")
        (directory / f".{version}.tmp").rename(directory / str(version))

    add(1)
    server = start_process(directory)
    load = Load(server, texts, vectors)
    for version in range(2, LAST_VERSION + 1):
        load.join(load.run(REQUESTS, at_half=lambda version=version: add(version)))
        server.wait_for(**{f"v{version - 1}": "END", f"v{version}": "AVAILABLE"})
    assert load.answered == REQUESTS * (LAST_VERSION - 1)

    threads = load.run(None)
    time.sleep(1)
    assert server.terminate() == 0
    load.join(threads)
    assert load.refused == CLIENTS  # each client once, when the server was gone
    # The server's own count of answers is the number that arrived.
    assert server.log[-1].endswith(f" stopped; requests answered: {load.answered}")
