"""The protocols of vector clients, with models on engines in NumPy, whose answers are computed by hand."""

import base64
import functools

import numpy as np
import pytest
import requests

from keras_bert.engines.loading import MODELS, Reading
from keras_bert.engines.models import Engine
from keras_bert.server import exported, text_embeddings, vector_clients
from keras_bert.server.errors import ServingError
from keras_bert.server.model import Model
from keras_bert.text.arrays.preprocessor import ArrayPreprocessor

from ..runtimes.test_engines import CLASSES, ID, VECTORS, sigmoid, softmax, tokenizer, unit
from ..support.messages import assert_names, error_names
from .servers import HANGS, Thread, error, post, tei_error

pytestmark = pytest.mark.timing
TABLE = np.random.default_rng(1).normal(size=(len(ID), 32)).astype(np.float32)
LONGEST = 24

SETTINGS = {
    "vectors": {
        **VECTORS, "matryoshka_dimensions": [8], "prompts": {"query": "you ask: "}, "default_prompt": "query",
        "column_prompts": None, "normalize": False,
    },
    "ranks": {"activation": "sigmoid", "labels": None},
    "topics": {**CLASSES, "labels": ["good", "bad"], "window_pooling": "max"},
}  # fmt: skip


def sums(inputs):
    """The sums of the values of a row's tokens, twice those of a second text."""
    values = TABLE[inputs["input_ids"]] * (1 + inputs["token_type_ids"])[..., None]
    return (values * inputs["attention_mask"][..., None]).sum(axis=1)


OUTPUTS = {
    "vectors": ("BertSentenceEncoder", lambda rows: {"embedding": rows}),
    "ranks": ("BertReranker", lambda rows: {"logits": 9 * rows[:, :1] + 40}),
    "topics": ("BertClassifier", lambda rows: {"logits": rows[:, :2]}),
}


def load(directory):
    """In place of `engines.loading.load`: a model by the name of its directory."""
    task, outputs = OUTPUTS[directory.name]
    rows = ArrayPreprocessor(tokenizer(), None, max_sequence_length=LONGEST)
    return MODELS[task](Engine(lambda inputs: outputs(sums(inputs))), rows, SETTINGS[directory.name])


def by_hand(*texts):
    """The sum of a row of one or two texts, words of the vocabulary: those that fit in turn."""
    words = [text.split() for text in texts]
    while sum(map(len, words)) + 1 + len(words) > LONGEST:
        max(reversed(words), key=len).pop()
    first, *second = words
    total = sum(TABLE[ID[each]] for each in ["[CLS]", *first, "[SEP]"])
    return total + 2 * sum(TABLE[ID[each]] for words in second for each in [*words, "[SEP]"])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exported, "load", load)
        folder = tmp_path_factory.mktemp("served")
        for name in OUTPUTS:
            (folder / name / "onnx").mkdir(parents=True)
            (folder / name / "config.json").write_text("{}")
            (folder / name / "onnx/model.onnx").write_text("")
        server = Thread(*(folder / name for name in OUTPUTS))
        yield server
        server.close()


TEXTS = ["the film was good", "a cold river", "", "music " * 30]
PROMPT = ["you", "a", "##s", "##k", ":"]


def ask(server, path, **body):
    response = post(server, path, body)
    assert response.status_code == 200, response.text
    return response.json()


def close_to(values):
    return pytest.approx(np.array(values), rel=1e-5, abs=1e-5)


def vectors_of(texts):
    """The vectors after the prompt of the export."""
    rows = [[*PROMPT, *text.split()][: LONGEST - 2] for text in texts]
    return [sum(TABLE[ID[each]] for each in ["[CLS]", *row, "[SEP]"]) for row in rows], [len(row) + 2 for row in rows]


@pytest.mark.parametrize("path", ["/v1/embeddings", "/openai/deployments/vectors/embeddings"])
def test_openai(server, path):
    expected, counts = vectors_of(TEXTS)
    named = {} if "deployments" in path else {"model": "vectors"}
    answer = ask(server, path, input=TEXTS, user="me", **named)
    assert [each["index"] for each in answer["data"]] == [0, 1, 2, 3]
    assert {each["object"] for each in answer["data"]} == {"embedding"}
    assert np.array([each["embedding"] for each in answer["data"]]) == close_to(expected)
    assert (answer["object"], answer["model"]) == ("list", "vectors")
    assert answer["usage"] == {"prompt_tokens": sum(counts), "total_tokens": sum(counts)}
    (one,) = ask(server, path, input=TEXTS[1], encoding_format="base64", dimensions=8, **named)["data"]
    assert np.frombuffer(base64.b64decode(one["embedding"]), "<f4") == close_to(expected[1][:8])
    (one,) = ask(server, path, input=TEXTS[1], encoding_format="float", dimensions=32, **named)["data"]
    assert np.array(one["embedding"]) == close_to(expected[1])


def test_a_deployment_is_the_model_of_its_name(server):
    status, fields = error(post(server, "/openai/deployments/others/embeddings", {"input": "a", "model": "vectors"}))
    assert (status, fields["code"], fields["param"]) == (404, "model_not_found", "model")


def test_models_are_listed(server):
    listed = requests.get(f"{server.root}/v1/models", timeout=HANGS).json()
    assert [each["id"] for each in listed["data"]] == ["vectors", "ranks", "topics"]
    assert {each["object"] for each in listed["data"]} == {"model"}


QUERY = "was it good"
PASSAGES = ["she was warm", "dull music", "", "a cold bank", "river " * 40]
LOGITS = np.array([9 * by_hand(QUERY, each)[0] + 40 for each in PASSAGES])
BEST = sorted(range(len(PASSAGES)), key=lambda each: -LOGITS[each])
READ = [min(LONGEST, 3 + len(QUERY.split()) + len(each.split())) for each in PASSAGES]


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v2/rerank"])
def test_passages_are_ranked_by_logits(server, path):
    """Several scores are 1 in float32; their logits differ."""
    assert np.sum(sigmoid(np.float32(LOGITS)) == 1) > 1
    answer = ask(server, path, query=QUERY, documents=PASSAGES)
    assert [each["index"] for each in answer["results"]] == BEST
    assert np.array([each["relevance_score"] for each in answer["results"]]) == close_to(sigmoid(LOGITS[BEST]))
    assert {*answer["results"][0]} == {"index", "relevance_score"}
    assert (answer["model"], answer["usage"]) == ("ranks", {"prompt_tokens": sum(READ), "total_tokens": sum(READ)})
    documents = [{"text": PASSAGES[0], "number": 7}, *PASSAGES[1:]]
    best = ask(server, path, query=QUERY, documents=documents, top_n=4, return_documents=True)["results"]
    returned = [{"text": PASSAGES[0], "number": 7}, *({"text": each} for each in PASSAGES[1:])]
    assert [each["document"] for each in best] == [returned[each] for each in BEST[:4]]


def test_reranking_of_text_embeddings_inference(server):
    found = ask(server, "/rerank", query=QUERY, texts=PASSAGES, return_text=True, truncation_direction="Right")
    assert [(each["index"], each["text"]) for each in found] == [(each, PASSAGES[each]) for each in BEST]
    assert np.array([each["score"] for each in found]) == close_to(sigmoid(LOGITS[BEST]))
    found = ask(server, "/rerank", query=QUERY, texts=PASSAGES, raw_scores=True)
    assert np.array([each["score"] for each in found]) == close_to(LOGITS[BEST])
    assert {*found[0]} == {"index", "score"}


@pytest.mark.parametrize(("words", "path", "is_refused"), [
    (17, "/rerank", False), (18, "/rerank", True),  # a full row may have been longer
    (17, "/embed", False), (18, "/embed", True),
])  # fmt: skip
def test_what_is_too_long_is_refused_if_it_may_not_be_cut(server, words, path, is_refused):
    texts = ["dull", "film " * words]
    body = {"query": QUERY, "texts": texts} if path == "/rerank" else {"inputs": texts}
    response = post(server, path, {**body, "truncate": False})
    assert response.status_code == (422 if is_refused else 200)
    if is_refused:
        assert_names(tei_error(response)[2], f"{'texts' if path == '/rerank' else 'inputs'}[1]", LONGEST, "truncate")


def test_text_embeddings_inference(server):
    expected, _ = vectors_of(TEXTS)
    assert np.array(ask(server, "/embed", inputs=TEXTS, normalize=False)) == close_to(expected)
    units = [unit(each) for each in expected]
    assert np.array(ask(server, "/embed", inputs=TEXTS, prompt_name="query")) == close_to(units)
    assert np.array(ask(server, "/v1/models/vectors", inputs=TEXTS[0])) == close_to(units[:1])
    assert np.array(ask(server, "/embed", inputs=TEXTS, dimensions=8)) == close_to(
        [unit(each[:8]) for each in expected]
    )
    similar = {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}
    for path in ("/similarity", "/v1/models/vectors"):
        assert np.array(ask(server, path, inputs=similar)) == close_to([units[0] @ each for each in units[1:]])
    probabilities = [softmax(by_hand(text)[:2]) for text in TEXTS]
    sure = [
        [
            {"score": pytest.approx(float(each), rel=1e-5), "label": label}
            for each, label in sorted(zip(row, names, strict=True), reverse=True)
        ]
        for row, names in zip(probabilities, [["good", "bad"]] * 4, strict=True)
    ]
    assert ask(server, "/predict", inputs=[[text] for text in TEXTS]) == sure
    assert ask(server, "/predict", inputs=TEXTS[0]) == sure[0]
    assert ask(server, "/v1/models/topics", inputs=TEXTS[0], parameters={"top_k": 1}) == [sure[0][:1]]
    (row,) = ask(server, "/tokenize", inputs="good film", model="topics")
    assert [(each["text"], each["start"], each["special"]) for each in row] == [
        ("[CLS]", None, True), ("good", 0, False), ("film", 5, False), ("[SEP]", None, True),
    ]  # fmt: skip
    ids = [each["id"] for each in row]
    assert ids == [ID["[CLS]"], ID["good"], ID["film"], ID["[SEP]"]]
    assert ask(server, "/decode", ids=ids, model="topics") == ["good film"]
    info = requests.get(f"{server.root}/v1/models/topics/info", timeout=HANGS).json()
    assert info["model_type"]["classifier"]["id2label"] == {"0": "good", "1": "bad"}
    assert info["max_input_length"] == LONGEST


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


def test_answers_that_json_cannot_hold_are_errors():
    for value in (np.nan, np.inf):
        with error_names(ServingError, "text 1", "not finite"):
            vector_clients.finite(np.array([[1.0], [value]]))
