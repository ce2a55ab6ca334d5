"""Models of text under load, while versions take over from each other: every answer comes, and is right."""

import functools
import itertools
import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
import requests

from keras_bert import BertClassifier, BertReranker, BertSentenceEncoder
from keras_bert.runtimes import export_onnx
from keras_bert.saved_model import export_serving

from ..support import small
from ..support.texts import TEXTS
from .servers import HANGS, output

openai = pytest.importorskip("openai")

pytestmark = pytest.mark.timing

CLIENTS = 24
REQUESTS = 200  # of each version
LAST_VERSION = 3


def post(server, path, body, session):
    response = session.post(server.root + path, json=body, timeout=HANGS)
    if response.status_code == 503:
        raise requests.ConnectionError("the server stops")
    assert response.status_code == 200, response.text
    return response.json()


def vectors_over_grpc(server, texts, session):
    response = server.predict(text=np.array([text.encode() for text in texts], object))
    return output(response, "embedding"), response.model_spec.version.value


def vectors_over_rest(server, texts, session):
    return post(server, "/v1/models/small:predict", {"instances": texts}, session)["predictions"]


@functools.cache
def openai_client(root):
    return openai.OpenAI(base_url=f"{root}/v1", api_key="none is needed", max_retries=0)


def vectors_by_openai(server, texts, session):
    answer = openai_client(server.root).embeddings.create(model="small", input=texts)
    return [each.embedding for each in answer.data]


def scores(server, texts, session):
    ranked = post(server, "/rerank", {"query": TEXTS[0], "texts": texts}, session)
    return [each["score"] for each in sorted(ranked, key=lambda each: each["index"])]


def probabilities(server, texts, session):
    rows = post(server, "/v1/models/topics:predict", {"instances": texts}, session)["predictions"]
    return [row["probabilities"] for row in rows]


def ask(server, texts, expected, number, session=requests):
    """Asks for one to three texts, in one of the ways above, and checks the answer.

    Args:
        expected: by way, the answers to all texts: of each version, or of the only one.
    """
    rows = [(number * 7 + k) % len(texts) for k in range(1 + number % 3)]
    way = [*expected][number % len(expected)]
    found, versions = way(server, [texts[row] for row in rows], session), [*expected[way].values()]
    if way is vectors_over_grpc:  # the others do not say the version: it is the same for every row
        found, version = found
        versions = [expected[way][version]]
    assert any(np.allclose(found, each[rows], rtol=0, atol=1e-5) for each in versions), way


def is_answered(*arguments):
    """Asks, and returns whether the server is there."""
    try:
        ask(*arguments)
    except (requests.ConnectionError, openai.APIConnectionError):
        return False
    except openai.InternalServerError as error:
        if error.status_code != 503:
            raise
        return False
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.UNAVAILABLE:
            raise
        return False
    return True


def answered(server):
    """How many predictions Prometheus is told of."""
    samples = server.samples()
    counts = {tuple(labels): count for (name, *labels), count in samples.items() if name == "keras_bert_requests_total"}
    assert {code for code, *_ in counts} <= {"OK"}  # labels: code, method, model, protocol
    return sum(count for (_, _, model, _), count in counts.items() if model)


def scrape(server, stopped):
    """Is Prometheus, which asks while the others do, and never sees a count fall."""
    counts = [answered(server)]
    while not stopped.wait(0.05):
        counts.append(answered(server))
    assert counts == sorted(counts)
    assert len(set(counts)) > 2


@pytest.mark.slow
@pytest.mark.parametrize("form", ["SavedModels", "exports"])
def test_load(form, start_process, tmp_path):
    code, ways = None, [vectors_over_grpc, vectors_over_rest, vectors_by_openai]
    if form == "exports":
        pytest.importorskip("tf2onnx", reason="needs the extra runtimes")
        pytest.importorskip("onnxruntime")
        code, ways = "from keras_bert.cli.__main__ import main; main()", ways[1:]  # gRPC needs TensorFlow
    encoder, preprocessor = small.encoder(num_layers=1), small.preprocessor()
    models = [BertSentenceEncoder(encoder, preprocessor, pooling=pooling) for pooling in ("cls", "mean")]
    texts = [text[:300] for text in TEXTS] + [f"Sentence number {number} of many." for number in range(100)]
    by_pooling = [model.encode(texts, progress=False) for model in models]
    vectors = {version: by_pooling[version % 2] for version in range(1, LAST_VERSION + 1)}
    reranker = small.task(BertReranker, config={"num_layers": 1})
    classifier = small.task(BertClassifier, ["good", "bad"], config={"num_layers": 1})
    expected = dict.fromkeys(ways, vectors) | {
        scores: {1: reranker.score([TEXTS[0]] * len(texts), texts)},
        probabilities: {1: classifier.serve(texts)["probabilities"].numpy()},
    }
    named = {"exported0": models[0], "exported1": models[1], "ranks": reranker, "topics": classifier}
    for name, model in named.items():
        if code is None:
            export_serving(model, tmp_path / name)
        else:
            (tmp_path / name).mkdir()
            export_onnx(model, tmp_path / name / "1")
    directory = tmp_path / "small"

    def add(version):
        """As export_serving does: under another name until it is complete."""
        shutil.copytree(tmp_path / f"exported{version % 2}" / "1", directory / f".{version}.tmp")
        (directory / f".{version}.tmp").rename(directory / str(version))

    add(1)
    server = start_process(directory, str(tmp_path / "ranks"), str(tmp_path / "topics"), code=code)
    ports = r"REST port \d+" if code else r"gRPC port \d+, REST port \d+"
    served = "Serving small version 1, ranks version 1, topics version 1 at 127.0.0.1: "
    assert re.fullmatch(re.escape(served) + ports + "\n", server.ready)
    stopped = threading.Event()
    with ThreadPoolExecutor(CLIENTS + 1) as clients:
        prometheus = clients.submit(scrape, server, stopped)
        for version in range(2, LAST_VERSION + 1):
            asked = [clients.submit(ask, server, texts, expected, number) for number in range(REQUESTS)]
            asked[REQUESTS // 2].result()
            add(version)
            for each in asked:
                each.result()
            server.wait_for(**{f"v{version - 1}": "END", f"v{version}": "AVAILABLE"})
            assert answered(server) == REQUESTS * (version - 1)
        stopped.set()
        prometheus.result()

        def ask_until_refused(client):
            with requests.Session() as session:
                numbers = itertools.count(client, CLIENTS)
                asked = (is_answered(server, texts, expected, number, session) for number in numbers)
                return sum(1 for _ in itertools.takewhile(bool, asked))

        asking = [clients.submit(ask_until_refused, client) for client in range(CLIENTS)]
        time.sleep(1)
        assert server.terminate() == 0
        total = REQUESTS * (LAST_VERSION - 1) + sum(each.result() for each in asking)

    # TensorFlow 2.20 heeds no log level when it says that an optimization is off.
    log = [line for line in server.log if not re.match("WARNING: All log messages before|I0000 .*mlir", line)]

    def loading(name, version, warm_up):
        warm_up = 2 if code else warm_up
        steps = ("loading", f"loaded, {warm_up} warm-up requests answered", "serving")
        return [f"{name} version {version}: {step}" for step in steps]

    assert [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in log] == [
        *loading("small", 1, 6),
        *loading("ranks", 1, 6),
        *loading("topics", 1, 4),
        *loading("small", 2, 6),
        "small version 1: unloaded",
        *loading("small", 3, 6),
        "small version 2: unloaded",
        "stopping: accepted requests are answered first",
        *(f"{name}: unloaded" for name in ("small version 3", "ranks version 1", "topics version 1")),
        f"stopped; requests answered: {total}",  # as many as arrived
    ]
    assert server.process.stdout.read() == ""
