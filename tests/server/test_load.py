"""A model of text under load, while versions take over from each other: every answer comes, and is right."""

import itertools
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
import requests

from keras_bert import BertSentenceEncoder
from keras_bert.saved_model import export_serving

from ..support import small
from ..support.texts import TEXTS
from .servers import output

pytestmark = pytest.mark.timing

CLIENTS = 24
REQUESTS = 200  # of each version
LAST_VERSION = 3


def ask(server, texts, vectors, number, session=requests):
    """Asks for one to three texts, over gRPC or REST, and checks the answer. Returns whether the server is there.

    Args:
        vectors: by version, the vectors of the texts.
    """
    rows = [(number * 7 + k) % len(texts) for k in range(1 + number % 3)]
    try:
        if number % 2:
            response = server.predict(text=np.array([texts[row].encode() for row in rows], object))
            found, expected = output(response, "embedding"), [vectors[response.model_spec.version.value]]
        else:
            response = server.post(":predict", {"instances": [texts[row] for row in rows]}, session)
            if response.status_code == 503:
                return False
            assert response.status_code == 200, response.text
            # The version is not said: it is one of those that are loaded, and the same for every row.
            found, expected = np.array(response.json()["predictions"]), vectors.values()
    except requests.ConnectionError:
        return False
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.UNAVAILABLE:
            raise
        return False
    assert any(np.allclose(found, each[rows], rtol=0, atol=2e-6) for each in expected)
    return True


@pytest.mark.slow
def test_load(start_process, tmp_path):
    encoder, preprocessor = small.encoder(num_layers=1), small.preprocessor()
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
    assert re.fullmatch(r"Serving small version 1 at 127\.0\.0\.1: gRPC port \d+, REST port \d+\n", server.ready)
    with ThreadPoolExecutor(CLIENTS) as clients:
        for version in range(2, LAST_VERSION + 1):
            asked = [clients.submit(ask, server, texts, vectors, number) for number in range(REQUESTS)]
            asked[REQUESTS // 2].result()
            add(version)
            assert all(each.result() for each in asked)
            server.wait_for(**{f"v{version - 1}": "END", f"v{version}": "AVAILABLE"})

        def ask_until_refused(client):
            with requests.Session() as session:
                numbers = itertools.count(client, CLIENTS)
                return sum(
                    1 for _ in itertools.takewhile(lambda each: ask(server, texts, vectors, each, session), numbers)
                )

        asking = [clients.submit(ask_until_refused, client) for client in range(CLIENTS)]
        time.sleep(1)
        assert server.terminate() == 0
        answered = REQUESTS * (LAST_VERSION - 1) + sum(each.result() for each in asking)

    # TensorFlow 2.20 heeds no log level when it says that an optimization is off.
    log = [line for line in server.log if not re.match("WARNING: All log messages before|I0000 .*mlir", line)]
    loading = ["loading", "loaded, 4 warm-up requests answered", "serving"]
    assert [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in log] == [
        *(f"version 1: {line}" for line in loading),
        *(f"version 2: {line}" for line in loading),
        "version 1: unloaded",
        *(f"version 3: {line}" for line in loading),
        "version 2: unloaded",
        "stopping: accepted requests are answered first",
        "version 3: unloaded",
        f"stopped; requests answered: {answered}",  # as many as arrived
    ]
    assert server.process.stdout.read() == ""
