"""Vector clients: OpenAI's, Cohere's and others get from one server what the models answer in Python."""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import requests

from keras_bert import BertClassifier, BertReranker, BertSentenceEncoder
from keras_bert.formats.tensorflow import saved_model
from keras_bert.saved_model import export_serving

from ..support import small
from ..support.data import ROOT
from ..support.messages import assert_names
from .servers import HANGS, Thread, at_once, error, post, tei_error
from .test_vector_protocols import RANK, TEI

pytestmark = [pytest.mark.slow, pytest.mark.timing, pytest.mark.filterwarnings("ignore:texts truncated")]

TEXTS = [*small.TEXTS, "good " * 50]
KEY = "s3cret"
QUERY, PASSAGES = "was the film good?", ["She loved it.", "Dull music.", "A cold bank."]


@pytest.fixture(scope="module")
def models():
    parts = small.encoder(num_layers=1), small.preprocessor()
    ranks = small.task(BertReranker, config={"num_layers": 1})
    lowest, second, _ = np.sort(ranks.predict(([QUERY] * 3, PASSAGES), verbose=0).ravel())
    kernel, bias = ranks.head.logits.get_weights()  # so that two of the three have the score 1
    ranks.head.logits.set_weights([kernel * 18 / (second - lowest), (bias - lowest) * 18 / (second - lowest)])
    return {
        "vectors": BertSentenceEncoder(*parts, prompts={"query": "you ask: "}, default_prompt="query"),
        "ranks": ranks,
        "topics": small.task(BertClassifier, ["good", "bad"], config={"num_layers": 1}),
    }


@pytest.fixture(scope="module")
def exports(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    for name, model in models.items():
        export_serving(model, folder / name, dimensions=[8] if name == "vectors" else ())
    return [folder / name for name in models]


@pytest.fixture(scope="module")
def server(exports):
    server = Thread(*exports, log_requests=True)
    yield server
    server.close()


@pytest.fixture(scope="module")
def locked(exports):
    """A server that answers those that have its key."""
    server = Thread(*exports, api_key=KEY)
    yield server
    server.close()


@pytest.fixture
def vectors(models):
    return models["vectors"].encode(TEXTS, progress=False)


def tokens_read(model, *columns):
    packed = model.preprocessor(columns if len(columns) > 1 else columns[0])
    return int(packed["input_mask"].numpy().sum())


@pytest.fixture
def openai_client(server):
    openai = pytest.importorskip("openai")
    return openai.OpenAI(base_url=f"{server.root}/v1", api_key="none is needed", max_retries=0)


@pytest.mark.parametrize("form", [{}, {"encoding_format": "float"}, {"encoding_format": "base64"}])
def test_openai_gets_the_vectors_and_the_number_of_tokens(openai_client, models, vectors, form):
    answer = openai_client.embeddings.create(model="vectors", input=TEXTS, **form)
    found = [each.embedding for each in answer.data]
    if form.get("encoding_format") == "base64":
        found = [np.frombuffer(base64.b64decode(each), "<f4") for each in found]
    np.testing.assert_allclose(found, vectors, rtol=0, atol=1e-5)
    assert [each.index for each in answer.data] == [*range(len(TEXTS))]
    read = tokens_read(models["vectors"], ["you ask: " + text for text in TEXTS])
    assert (answer.model, answer.usage.prompt_tokens, answer.usage.total_tokens) == ("vectors", read, read)


def test_openai_gets_one_text_and_fewer_dimensions(openai_client, vectors):
    short = vectors[0, :8] / np.linalg.norm(vectors[0, :8])
    for settings, expected in (({}, vectors[0]), ({"dimensions": 32}, vectors[0]), ({"dimensions": 8}, short)):
        (answer,) = openai_client.embeddings.create(model="vectors", input=TEXTS[0], **settings).data
        np.testing.assert_allclose(answer.embedding, expected, rtol=0, atol=1e-5)


def test_openai_lists_models_and_raises_its_errors(openai_client):
    openai, root = pytest.importorskip("openai"), str(openai_client.base_url).removesuffix("/v1/")
    assert sorted(each.id for each in openai_client.models.list()) == ["ranks", "topics", "vectors"]
    assert openai_client.models.retrieve("ranks").id == "ranks"
    with pytest.raises(openai.NotFoundError, match="no such URL: POST /v1/completions; .*POST /v1/embeddings"):
        openai_client.completions.create(model="vectors", prompt="a")
    versioned = openai_client.with_options(default_query={"api-version": "2024-02-01"})
    assert len(versioned.embeddings.create(model="vectors", input="a").data) == 1
    azure = {"api_key": "none is needed", "api_version": "2024-02-01", "max_retries": 0}
    for place in (
        {"base_url": str(openai_client.base_url)},
        {"azure_endpoint": root},
        {"azure_endpoint": root, "azure_deployment": "vectors"},
    ):
        client = openai.AzureOpenAI(**place, **azure)
        assert len(client.embeddings.create(model="vectors", input="a").data) == 1
        assert len(client.models.list().data) == 3
    with pytest.raises(openai.NotFoundError) as caught:
        openai_client.embeddings.create(model="others", input="a")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.embeddings.create(model="vectors", input=[1, 2])
    assert (caught.value.type, caught.value.param) == ("invalid_request_error", "input")


@pytest.mark.parity
def test_langchain_gets_the_vectors(server, vectors):
    embeddings = pytest.importorskip("langchain_openai").OpenAIEmbeddings(
        model="vectors", base_url=f"{server.root}/v1", api_key="none is needed", check_embedding_ctx_length=False
    )
    np.testing.assert_allclose(embeddings.embed_documents(TEXTS), vectors, rtol=0, atol=1e-5)
    np.testing.assert_allclose(embeddings.embed_query(TEXTS[0]), vectors[0], rtol=0, atol=1e-5)


@pytest.mark.parity
def test_mteb_gets_vectors_and_scores(server, models, vectors):
    wrappers = pytest.importorskip("mteb.models.openai_wrappers")
    task = {"task_metadata": None, "hf_split": "test", "hf_subset": "default"}
    encoder = wrappers.OpenAIAPIEncodeWrapper(server.root, "vectors", use_chat_template=False)
    found = encoder.encode([{"text": TEXTS}], **task, show_progress_bar=False)
    np.testing.assert_allclose(found, vectors, rtol=0, atol=1e-5)
    reranker = wrappers.OpenAIAPIRerankWrapper(server.root, "ranks")
    queries = [{"text": [QUERY] * len(PASSAGES)}]
    found = reranker.predict(queries, [{"text": PASSAGES}], **task, show_progress_bar=False)
    expected = models["ranks"].score([QUERY] * len(PASSAGES), PASSAGES)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)  # its large weights magnify how one pair is rounded


def as_ranked(results, score="relevance_score"):
    return [(each["index"], pytest.approx(each[score], abs=1e-4)) for each in results]


@pytest.fixture
def ranked(models):
    scores = models["ranks"].score([QUERY] * len(PASSAGES), PASSAGES)
    assert sorted(scores) == [pytest.approx(0.5, abs=1e-4), 1, 1]
    return [(each["index"], each["score"]) for each in models["ranks"].rank(QUERY, PASSAGES)]


@pytest.mark.parity
def test_cohere_gets_the_ranking(server, ranked):
    cohere = pytest.importorskip("cohere")
    settings = {"model": "ranks", "query": QUERY, "top_n": 2}
    new = cohere.ClientV2("none is needed", base_url=server.root).rerank(documents=PASSAGES, **settings)
    old = cohere.Client("none is needed", base_url=server.root).rerank(
        documents=[{"text": text, "number": 7} for text in PASSAGES], return_documents=True, **settings
    )
    for answer in (new, old):
        assert as_ranked([each.model_dump() for each in answer.results]) == ranked[:2]
    assert [(each.document.text, each.document.number) for each in old.results] == [
        (PASSAGES[index], 7) for index, _ in ranked[:2]
    ]
    with pytest.raises(cohere.BadRequestError) as caught:
        cohere.ClientV2("none is needed", base_url=server.root).rerank(documents=[], **settings)
    assert caught.value.body["error"]["param"] == "documents"


def test_tokens_are_those_of_the_graph(server, models):
    tokenizer = models["vectors"].preprocessor.tokenizer
    for prompt in ("", "you ask: "):
        body = {"inputs": TEXTS, "model": "vectors", "add_special_tokens": bool(prompt)}
        rows = post(server, "/tokenize", body).json()
        ids, starts, ends = (each.to_list() for each in tokenizer.tokenize_with_offsets(TEXTS))
        if prompt:
            assert [(row[0]["text"], row[-1]["text"]) for row in rows] == [("[CLS]", "[SEP]")] * len(TEXTS)
            assert all(each["special"] and each["start"] is None for row in rows for each in (row[0], row[-1]))
            rows = [row[1:-1] for row in rows]
        for text, row, *expected in zip(TEXTS, rows, ids, starts, ends, strict=True):
            assert [[each[name] for each in row] for name in ("id", "start", "stop")] == expected
            spans = [text.encode()[start:end].decode() for start, end in zip(*expected[1:], strict=True)]
            assert [each["text"] for each in row] == spans
    words = "the film was watching you"
    (row,) = post(server, "/tokenize", {"inputs": words, "model": "vectors"}).json()
    ids = [each["id"] for each in row]
    assert post(server, "/decode", {"ids": ids, "model": "vectors"}).json() == [words]
    whole = {"ids": [ids], "skip_special_tokens": False, "model": "vectors"}
    assert post(server, "/decode", whole).json() == [f"[CLS] {words} [SEP]"]


def test_hugging_face_s_client_gets_what_the_models_answer(server, models, vectors):
    hub = pytest.importorskip("huggingface_hub")
    client = hub.InferenceClient(model=f"{server.root}/v1/models/vectors", token="none")
    np.testing.assert_allclose(client.feature_extraction(TEXTS, normalize=False), vectors, rtol=0, atol=1e-5)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similar = client.sentence_similarity(TEXTS[0], TEXTS[1:])
    np.testing.assert_allclose(similar, unit[1:] @ unit[0], rtol=0, atol=1e-5)
    for url in ("/predict", "/v1/models/topics"):
        best, other = hub.InferenceClient(model=f"{server.root}{url}").text_classification(TEXTS[0])
        answer = models["topics"].classify(TEXTS[0])
        assert (best.label, best.score) == (answer["label"], pytest.approx(answer["probability"], abs=1e-5))
        assert other.score == pytest.approx(1 - best.score, abs=1e-5)
    with pytest.raises(hub.errors.HfHubHTTPError, match="truncation_direction"):
        client.feature_extraction("a", truncation_direction="left")


@pytest.mark.parity
@pytest.mark.parametrize("client", ["langchain", "llama_index", "haystack"])
def test_clients_of_text_embeddings_inference(locked, vectors, ranked, client):
    python = ROOT / ".venv-clients/bin/python"
    if not python.exists():
        pytest.skip("needs .venv-clients, an environment that .ci/run makes")
    asked = {"vectors": f"{locked.root}/v1/models/vectors", "ranks": locked.root, "key": KEY}
    asked |= {"texts": TEXTS, "query": QUERY, "passages": PASSAGES}
    command = [python, Path(__file__).with_name("tei_clients.py"), client]
    settings = {"HAYSTACK_TELEMETRY_ENABLED": "False"}
    done = subprocess.run(
        command, input=json.dumps(asked), env=os.environ | settings, capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(found["texts"], unit, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found["text"], unit[0], rtol=0, atol=1e-5)
    if client != "langchain":  # which has no reranker
        assert found["ranked"] == [[PASSAGES[index], pytest.approx(score, abs=1e-4)] for index, score in ranked]


def test_a_request_without_a_model_gets_the_only_one_that_can_answer(server, toy_versions, start):
    assert len(post(server, "/v1/embeddings", {"input": "a"}).json()["data"]) == 1
    assert (
        post(server, "/embed", {"inputs": "a"}).json() == post(server, "", {"inputs": "a", "model": "vectors"}).json()
    )
    toy = start(toy_versions)
    _, fields = error(post(toy, "/rerank", RANK))
    assert_names(fields["message"], "names no model", "there is no reranker")
    assert_names(tei_error(post(toy, "/rerank", TEI))[2], "names no model", "there is no reranker")
    assert_names(tei_error(post(toy, "/tokenize", {"inputs": "a"}))[2], "toy", "export it again")
    assert post(toy, "/embed", {"inputs": ["7", "0"]}).json() == [[1.0], [0.0]]
    assert post(toy, "/embed", {"inputs": ["7", "0"], "normalize": False}).json() == [[7.0], [0.0]]
    assert_names(tei_error(post(server, "", {"inputs": "a"}))[2], "names no model", "vectors, topics")


def test_a_damaged_tokenizer_beside_a_graph_is_named(start, toy_model, tmp_path):
    texts = shutil.copytree(toy_model, tmp_path / "toy" / "1") / saved_model.TEXTS
    texts.mkdir(parents=True)
    (texts / "config.json").write_text("{")
    message = tei_error(post(start(tmp_path / "toy"), "/tokenize", {"inputs": "a"}))[2]
    assert message.startswith("the server cannot tokenize: config.json is not a JSON file")


def test_nothing_that_is_too_long_or_too_late_is_answered(start, toy_versions):
    server = start(toy_versions, timeout=0.7, queue=1, batching=False)
    status, fields = error(requests.post(f"{server.root}/v1/embeddings", b" " * (2**24 + 1), timeout=HANGS))
    assert (status, fields["message"]) == (413, "the body is larger than 16777216 bytes")
    answers = at_once([lambda: error(post(server, "/v1/embeddings", {"input": "100000000"}))] * 12)
    found = {(status, fields["type"]) for status, fields in answers}
    assert found == {(504, "server_error"), (429, "invalid_request_error")}


def test_prometheus_and_the_log_are_told_of_requests(start, toy_versions):
    server = start(toy_versions, log_requests=True)
    server.predict(x=np.zeros(3, np.float32))
    assert server.post(":predict", {"instances": [1]}).status_code == 200
    post(server, "/v1/embeddings", {"input": [1]})
    for path in ("/metrics", "/monitoring/prometheus/metrics"):
        samples = server.samples(path)
        # Labels in alphabetical order: code, method, model, protocol; model, state, version.
        for labels in (
            ("OK", "Predict", "toy", "grpc"),
            ("OK", "predict", "toy", "http"),
            ("INVALID_ARGUMENT", "embeddings", "", "http"),
        ):
            assert samples[("keras_bert_requests_total", *labels)] == 1
            assert samples[("keras_bert_request_seconds_count", *labels[1:])] == 1
        for name in ("keras_bert_batch_rows", "keras_bert_queue_seconds", "keras_bert_inference_seconds"):
            assert samples[f"{name}_count", "toy"] == 2
        assert samples["keras_bert_batch_rows_sum", "toy"] == 4
        assert samples["keras_bert_version", "toy", "AVAILABLE", "1"] == 1
    logged = [line.partition(",")[0] for line in server.log if " ms" in line]
    assert logged == ["grpc Predict toy: OK", "http predict toy: OK", "http embeddings -: INVALID_ARGUMENT"]
