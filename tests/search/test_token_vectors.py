"""Indexes of vectors of tokens: what a search finds, beside loops over all texts; changes; what is refused."""

import json

import numpy as np
import pytest

from keras_bert import BertMultiVectorEncoder
from keras_bert.search import TextIndex, build_index, remove_rows, token_vectors
from keras_bert.tasks import registry

from ..support import small
from ..support.messages import error_names


@pytest.fixture(scope="module")
def model():
    dense = [{"units": 9}]  # an odd number of float16
    return small.shaken(BertMultiVectorEncoder(small.encoder(num_layers=1), small.preprocessor(), dense=dense))


@pytest.fixture(scope="module")
def preset(model, tmp_path_factory):
    directory = tmp_path_factory.mktemp("multi-vector")
    model.save_preset(directory)
    return directory


@pytest.fixture(autouse=True)
def _read_once(monkeypatch, model, preset):
    load = registry.load_as

    def load_once(task, handle):
        is_ours = getattr(handle, "handle", str(handle)) == str(preset)  # of an open preset, or of a path
        return model if is_ours else load(task, handle)

    monkeypatch.setattr(registry, "load_as", load_once)


def scores(model, query, texts):
    """MaxSim with the vectors of documents as float16, by loops."""
    documents = [each.astype(np.float16).astype(np.float32) for each in model.encode(texts)]
    return np.array([sum(max(q @ d for d in each) for q in model.encode_query(query)) for each in documents])


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("limit", [1000, 10])
def test_a_search_ranks_by_maxsim(corpus, tmp_path, preset, model, sentences, monkeypatch, limit):
    monkeypatch.setattr(token_vectors, "EXACT_UP_TO", limit)
    monkeypatch.setattr(token_vectors, "CANDIDATES", 20)
    monkeypatch.setattr(token_vectors, "_ROWS_AT_A_TIME", 7)
    counts = build_index(corpus, tmp_path / "index", preset)
    assert counts == {"texts": len(sentences), "encoded": len(sentences), "truncated": 0}
    index = TextIndex(tmp_path / "index", preset)
    assert (len(index), index.is_exact) == (len(sentences), limit == 1000)
    expected = scores(model, "good film", sentences)
    if limit == 10:  # the nearest means of the vectors
        means = np.stack([each.astype(np.float16).astype(np.float32).mean(axis=0) for each in model.encode(sentences)])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        near = np.argsort(-(means @ model.encode_query("good film").mean(axis=0)))[:20]
        expected[~np.isin(np.arange(len(sentences)), near)] = -np.inf
    hits, others = index.search(["good film", "bad"], top_k=5)
    order = np.argsort(-expected)[:5]
    assert [hit["text"] for hit in hits] == [sentences[number] for number in order]
    np.testing.assert_allclose([hit["similarity"] for hit in hits], expected[order], rtol=1e-5)
    assert len(others) == 5
    words = index.search("good film", top_k=5, hybrid=True)
    by_text = dict(zip(sentences, scores(model, "good film", sentences), strict=True))
    np.testing.assert_allclose([hit["similarity"] for hit in words], [by_text[hit["text"]] for hit in words], rtol=1e-5)


@pytest.mark.parametrize("limit", [1000, 10])
def test_a_changed_index_is_like_a_new_one(tmp_path, preset, model, sentences, monkeypatch, limit):
    monkeypatch.setattr(token_vectors, "EXACT_UP_TO", limit)
    rows = [{"id": number, "even": number % 2 == 0, "text": text} for number, text in enumerate(sentences)]
    directory = tmp_path / "index"
    build_index(write(tmp_path / "first.jsonl", rows[:30]), directory, preset)
    index = TextIndex(directory, preset)
    counts = build_index(write(tmp_path / "more.jsonl", rows[25:]), directory, preset, add=True)
    assert (counts["texts"], counts["encoded"]) == (len(rows), len(rows) - 30)
    assert remove_rows(directory, {"id": {"<": 3}}) == 3
    left, even = sentences[3:], sentences[4::2]
    assert len(index) == len(left)
    hits = index.search(left, top_k=1)
    tops = [left[int(scores(model, query, left).argmax())] for query in left[:5]]
    assert [each[0]["text"] for each in hits[:5]] == tops
    found = index.search("good film", top_k=3, where={"even": True})
    order = np.argsort(-scores(model, "good film", even))[:3]
    assert [hit["text"] for hit in found] == [even[number] for number in order]


def test_a_mean_of_maxima_is_the_similarity(corpus, tmp_path, model, sentences, monkeypatch):
    mean = BertMultiVectorEncoder(model.encoder, model.preprocessor, mean_maxsim=True)
    mean.save_preset(tmp_path / "mean")
    build_index(corpus, tmp_path / "index", tmp_path / "mean")
    (hit,) = TextIndex(tmp_path / "index").search(sentences[3], top_k=1)
    assert (hit["text"], hit["similarity"]) == (sentences[3], pytest.approx(1, abs=1e-3))


def test_what_cannot_be_indexed_is_refused(corpus, tmp_path, preset, model, small_preset, monkeypatch):
    with error_names(ValueError, "stored", "int8", "tokens"):
        build_index(corpus, tmp_path / "index", preset, stored="int8")
    build_index(corpus, tmp_path / "index", preset)
    with error_names(ValueError, "index of the model", str(small_preset)):
        build_index(corpus, tmp_path / "index", small_preset)
    monkeypatch.setattr(model, "encode_counted", lambda *_: ([np.full((2, 9), 1e5, "float32")], 0))
    with error_names(ValueError, "float16", "normalize"):
        build_index(corpus, tmp_path / "other", preset)
