"""Vector clients: OpenAI's, Cohere's and others get from one server what the models answer in Python."""

import base64
import functools
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import requests

from keras_bert import BertClassifier, BertReranker, BertSentenceEncoder
from keras_bert.engines.loading import Reading
from keras_bert.formats.tensorflow import saved_model
from keras_bert.saved_model import export_serving
from keras_bert.server import text_embeddings, vector_clients
from keras_bert.server.errors import ServingError
from keras_bert.server.model import Model
from keras_bert.server.saved_model import SavedModel

from ..support import small
from ..support.data import ROOT
from ..support.messages import assert_names, error_names
from .servers import HANGS, Thread, at_once

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


def post(server, path, body):
    return requests.post(server.root + path, json.dumps(body), timeout=HANGS)  # `json=` would refuse NaN


def error(response):
    """The status and the fields of an error of OpenAI's form."""
    (fields,) = response.json().values()
    assert list(response.json()) == ["error"]
    assert sorted(fields) == ["code", "message", "param", "type"]
    return response.status_code, fields


def tei_error(response):
    """The status and the fields of an error of text-embeddings-inference's form."""
    assert list(response.json()) == ["error", "error_type"]
    return response.status_code, response.json()["error_type"], response.json()["error"]


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


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v2/rerank"])
def test_forms_of_reranking(server, models, ranked, path):
    answer = post(server, path, {"query": QUERY, "documents": PASSAGES, "return_documents": True}).json()
    assert as_ranked(answer["results"]) == ranked
    assert [each["document"] for each in answer["results"]] == [{"text": PASSAGES[index]} for index, _ in ranked]
    read = tokens_read(models["ranks"], [QUERY] * len(PASSAGES), PASSAGES)
    assert (answer["model"], answer["usage"]["total_tokens"]) == ("ranks", read)
    settings = {"return_text": True, "truncate": False, "truncation_direction": "Right", "raw_scores": False}
    results = post(server, path, {"query": QUERY, "texts": PASSAGES, **settings}).json()
    assert as_ranked(results, "score") == ranked
    assert [each["text"] for each in results] == [PASSAGES[index] for index, _ in ranked]


EMBED, RANK = {"model": "vectors", "input": "a"}, {"query": "a", "documents": ["b"]}
TEI = {"query": "a", "texts": ["b"]}
RETURN, NAN = RANK | {"return_documents": True}, float("nan")
DEEP = functools.reduce(lambda inner, _: [inner], range(150), [])


@pytest.mark.parametrize(
    ("path", "body", "status", "param", "words"),
    [
        ("embeddings", [], 400, None, ["JSON object"]),
        ("embeddings", {"model": "vectors"}, 400, "input", ["input"]),
        ("embeddings", EMBED | {"input": []}, 400, "input", ["at least one text"]),
        ("embeddings", EMBED | {"input": 1}, 400, "input", ["1", "a list of strings"]),
        ("embeddings", EMBED | {"input": [1, 2]}, 400, "input", ["token ids", "check_embedding_ctx_length=False"]),
        ("embeddings", EMBED | {"input": [[1], [2]]}, 400, "input", ["token ids"]),
        ("embeddings", EMBED | {"input": ["a", None]}, 400, "input[1]", ["null", "a string"]),
        ("embeddings", EMBED | {"input": "a\ud800"}, 400, None, ["surrogate"]),
        ("embeddings", EMBED | {"input": ["a"] * 70_000}, 400, None, ["70000", "65536"]),
        ("embeddings", EMBED | {"encoding_format": "int8"}, 400, "encoding_format", ["int8", "base64"]),
        ("embeddings", EMBED | {"dimensions": 16}, 400, "dimensions", ["16", "8", "32", "export_serving"]),
        ("embeddings", EMBED | {"dimensions": True}, 400, "dimensions", ["true", "a whole number"]),
        ("embeddings", EMBED | {"model": 1}, 400, "model", ["1", "string"]),
        ("embeddings", EMBED | {"model": "others"}, 404, "model", ["others", "vectors", "ranks", "topics"]),
        ("embeddings", EMBED | {"model": "\ud800"}, 404, "model", ["no model", "vectors"]),
        ("embeddings", EMBED | {"model": "topics"}, 400, "model", ["topics", "sentence encoder", "with_token_count"]),
        ("embeddings", EMBED | {"model": "ranks"}, 400, "model", ["ranks", "sentence encoder"]),
        ("embeddings", EMBED | {"input_type": "query"}, 400, "input_type", ["not supported", "dimensions"]),
        ("rerank", RANK | {"model": "vectors"}, 400, "model", ["vectors", "reranker", "text_pair"]),
        ("rerank", {"documents": ["b"]}, 400, "query", ["query"]),
        ("rerank", {"query": "a"}, 400, "documents", ["documents"]),
        ("rerank", RANK | {"query": ["a"]}, 400, "query", ["a list", "a string"]),
        ("rerank", RANK | {"documents": [{"title": "b"}]}, 400, "documents[0]", ["an object", "a string"]),
        ("rerank", RETURN | {"documents": [{"text": "b", "x": [NAN]}]}, 400, "documents", ["NaN"]),
        ("rerank", RETURN | {"documents": [{"text": "b", "x": DEEP}]}, 400, "documents", ["100 levels"]),
        ("rerank", RETURN | {"documents": [{"text": "b", "\ud800": 1}]}, 400, None, ["surrogate"]),
        ("rerank", RANK | {"top_n": 0}, 400, "top_n", ["0", "1 or more"]),
        ("rerank", RANK | {"query": "a" * 2**18, "documents": ["b"] * 65}, 400, "query", ["65", "16777216"]),
        (
            "rerank",
            TEI | {"truncate": False, "texts": ["b", "b " * 99]},
            400,
            "truncate",
            ["texts[1]", "truncate: true"],
        ),
        ("rerank", TEI | {"truncation_direction": "Left"}, 400, "truncation_direction", ["Left", "Right"]),
        ("rerank", TEI | {"top_n": 1}, 400, "top_n", ["return_text"]),
    ],
)
def test_requests_that_are_wrong(server, path, body, status, param, words):
    found, fields = error(post(server, f"/v1/{path}", body))
    assert (found, fields["type"], fields["param"]) == (status, "invalid_request_error", param)
    assert_names(fields["message"], *words)


NAMES = ["", "/v1/models/vectors", "/v1/models/topics", "/v1/models/ranks"]
CODES = {"validation": 422, "empty": 400, "backend": 424}
PAIR, SIMILAR, IDS = ["a", "b"], {"source_sentence": "a", "sentences": ["b"]}, {"ids": [5]}


@pytest.mark.parametrize(
    ("name", "path", "body", "kind", "words"),
    [
        (0, "embed", [], "validation", ["JSON object"]),
        (0, "embed", {}, "validation", ["lacks inputs"]),
        (0, "embed", {"inputs": []}, "empty", ["inputs", "at least one"]),
        (0, "embed", {"inputs": {}}, "validation", ["inputs is an object", "list of strings"]),
        (0, "embed", {"inputs": [[1, 2]]}, "validation", ["token ids"]),
        (0, "embed", {"inputs": "\ud800"}, "validation", ["surrogate"]),
        (0, "embed", {"inputs": "a", "model": 1}, "validation", ["model is 1"]),
        (0, "embed", {"inputs": "a", "input_type": "query"}, "validation", ["input_type", "normalize"]),
        (0, "embed", {"inputs": "a", "normalize": 1}, "validation", ["normalize is 1", "true or false"]),
        (0, "embed", {"inputs": "a", "dimensions": 7}, "validation", ["dimensions is 7", "8", "32"]),
        (0, "embed", {"inputs": "a", "prompt_name": "story"}, "validation", ['"story"', "query"]),
        (0, "embed", {"inputs": "a", "truncation_direction": "left"}, "validation", ["left", "Right"]),
        (0, "embed", {"inputs": ["a", "b " * 99], "truncate": False}, "validation", ["inputs[1]", "24", "truncate"]),
        (2, "embed", {"inputs": "a"}, "backend", ["topics is no sentence encoder"]),
        (2, "embed_sparse", {"inputs": "a"}, "backend", ["topics is no sparse encoder"]),
        (3, "", {"inputs": "a"}, "backend", ["ranks is no sentence encoder or sparse encoder or classifier"]),
        (0, "similarity", {"inputs": "a"}, "validation", ["inputs", "an object"]),
        (0, "similarity", {"inputs": SIMILAR | {"sentences": []}}, "empty", ["sentences"]),
        (0, "similarity", {"inputs": SIMILAR | {"sentences": [1]}}, "validation", ["sentences[0] is 1"]),
        (0, "similarity", {"inputs": SIMILAR, "parameters": {"normalize": True}}, "validation", ["normalize"]),
        (0, "predict", {"inputs": []}, "empty", ["inputs"]),
        (0, "predict", {"inputs": PAIR}, "validation", ["inputs is a list", "one string"]),
        (0, "predict", {"inputs": [["a"], PAIR]}, "validation", ["inputs[1] is a list", "one string"]),
        (0, "predict", {"inputs": [["a"], "b"]}, "validation", ['inputs[1] is "b"', "is a batch"]),
        (0, "predict", {"inputs": [["a"], [1]]}, "validation", ["inputs[1][0] is 1"]),
        (0, "predict", {"inputs": "a", "raw_scores": True}, "validation", ["raw_scores", "probabilities only"]),
        (0, "predict", {"inputs": "a", "parameters": {"top_k": 0}}, "validation", ["top_k is 0"]),
        (0, "predict", {"inputs": "a", "parameters": {"x": 0}}, "validation", ["x is not supported", "top_k"]),
        (0, "rerank", TEI | {"texts": []}, "empty", ["texts"]),
        (0, "rerank", TEI | {"texts": ["b " * 99], "truncate": False}, "validation", ["texts[0]", "truncate: true"]),
        (3, "rerank", {"query": "a"}, "validation", ["lacks"]),
        (0, "tokenize", {"inputs": "a"}, "validation", ["names no model", "vectors, ranks, topics"]),
        (1, "tokenize", {"inputs": "a", "add_special_tokens": "no"}, "validation", ["add_special_tokens"]),
        (1, "decode", {"ids": []}, "empty", ["ids"]),
        (1, "decode", {"ids": [1, 99_999]}, "validation", ["ids is 99999", "0 to 167"]),
        (1, "decode", {"ids": [[1], True]}, "validation", ["ids[1] is true", "a batch"]),
        (1, "decode", {"ids": [[1], [True]]}, "validation", ["ids is true"]),
    ],
)
def test_requests_of_text_embeddings_inference_that_are_wrong(server, name, path, body, kind, words):
    status, found, message = tei_error(post(server, f"{NAMES[name]}/{path}", body))
    assert (status, found) == (CODES[kind], kind)
    assert_names(message, *words)


def test_text_embeddings_inference(server, models, vectors):
    def ask(path, name="vectors", **body):
        return post(server, f"/v1/models/{name}/{path}", body).json()

    def scored(predictions):
        return {each["label"]: pytest.approx(each["score"], abs=1e-5) for each in predictions}

    np.testing.assert_allclose(ask("embed", inputs=TEXTS, normalize=False), vectors, rtol=0, atol=1e-5)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(ask("embed", inputs=TEXTS, prompt_name="query"), unit, rtol=0, atol=1e-5)
    np.testing.assert_allclose(ask("", inputs=TEXTS[0]), unit[:1], rtol=0, atol=1e-5)
    short = vectors[:, :8] / np.linalg.norm(vectors[:, :8], axis=1, keepdims=True)
    np.testing.assert_allclose(ask("embed", inputs=TEXTS, dimensions=8, truncate=True), short, rtol=0, atol=1e-5)
    asked = {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}
    for path in ("similarity", ""):
        np.testing.assert_allclose(ask(path, inputs=asked, parameters={}), unit[1:] @ unit[0], rtol=0, atol=1e-5)

    probabilities = models["topics"].predict(TEXTS, verbose=0)
    expected = [dict(zip(["good", "bad"], row, strict=True)) for row in np.exp(probabilities)]
    expected = [{label: value / sum(row.values()) for label, value in row.items()} for row in expected]
    assert [scored(row) for row in ask("predict", "topics", inputs=[[text] for text in TEXTS])] == expected
    assert scored(found := ask("predict", "topics", inputs=TEXTS[0])) == expected[0]
    assert found == sorted(found, key=lambda each: -each["score"])
    assert ask("", "topics", inputs=TEXTS[0], parameters={"top_k": 1}) == [found[:1]]

    logits = models["ranks"].predict(([QUERY] * 3, PASSAGES), verbose=0).ravel()
    results = post(server, "/rerank", {"query": QUERY, "texts": PASSAGES, "raw_scores": True}).json()
    np.testing.assert_allclose([each["score"] for each in results], sorted(logits, reverse=True), atol=1e-4)
    assert results[0]["score"] > 1

    info = requests.get(f"{server.root}/v1/models/topics/info", timeout=HANGS).json()
    assert info["model_type"]["classifier"]["id2label"] == {"0": "good", "1": "bad"}
    assert (info["model_id"], info["max_input_length"], info["max_batch_requests"]) == ("topics", 24, 16)


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


PROMPTS = {"prompts": {"query": "you ask: ", "": ""}}


@pytest.mark.parametrize(
    ("settings", "name", "expected"),
    [
        (PROMPTS, None, ""),
        (PROMPTS, "query", "you ask: "),
        (PROMPTS | {"default_prompt": "query"}, "query", ""),
        (PROMPTS | {"default_prompt": "query"}, "", ["prompt_name", "query", "default_prompt=''"]),
        (PROMPTS | {"include_prompt": False}, "query", ["prompt_name", "none", "default_prompt='query'"]),
        (PROMPTS, "story", ["story", "query"]),
        ({"prompts": None}, "story", ["story", "no prompts"]),
    ],
)
def test_a_prompt_is_put_before_texts_if_the_export_puts_none(settings, name, expected):
    model = Model()
    model.reading = Reading(settings, None, None)
    if isinstance(expected, str):
        assert text_embeddings._prompt(model, name) == expected
    else:
        with error_names(ServingError, *expected):
            text_embeddings._prompt(model, name)


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


def test_answers_that_json_cannot_hold_are_errors(toy_model):
    model = SavedModel(toy_model, "toy")
    prediction = vector_clients._parse_embeddings(model, {"input": ["1", "2"]})
    model.close()
    with error_names(ServingError, "text 1", "not finite"):
        prediction.to_document({"embedding": np.array([[1.0], [np.nan]]), "token_count": np.array([1, 1])})


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
