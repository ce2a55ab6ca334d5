"""Indexes of weights of tokens: what a search finds, beside dot products in loops, through all changes."""

import json

import numpy as np
import pytest

from keras_bert import BertSparseEncoder
from keras_bert.search import TextIndex, build_index, database, postings, remove_rows

from ..support import small
from ..support.messages import error_names


def made(query_table=False):
    """A model whose texts share some tokens, and lack most."""
    model = BertSparseEncoder(small.encoder(num_layers=1), small.preprocessor(), query_table=query_table)
    small.shaken(model)
    model.head.bias.assign(model.head.bias - 4.0)
    if query_table:
        model.query_weights.assign(np.arange(model.query_weights.shape[0]) % 5)
    return model


@pytest.fixture(scope="module", params=[False, True])
def sparse(request, tmp_path_factory):
    directory, model = tmp_path_factory.mktemp("sparse"), made(request.param)
    model.save_preset(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings.Postings, "load", lambda preset: model)
        yield directory, model


def test_truncated_texts_of_all_parts_are_counted(monkeypatch):
    monkeypatch.setattr(database, "TEXTS_AT_A_TIME", 2)
    with database.writing(None) as file:
        texts = {bytes([i]): "a" for i in range(5)}
        counts = file.encode(texts, lambda some: (np.ones((len(some), 2), np.float32), len(some)), False)
    assert counts == {"encoded": 5, "truncated": 5}


def by_loops(model, query, texts):
    """The dot products that are not 0, by text, the highest first, then in the texts' order."""
    weights, products = model.encode_query(query), {}
    for text, tokens in zip(texts, model.encode(texts), strict=True):
        products[text] = sum(weight * tokens.get(token, 0.0) for token, weight in weights.items())
    return sorted(((text, value) for text, value in products.items() if value), key=lambda each: -each[1])


def found(hits):
    return {hit["text"]: hit["similarity"] for hit in hits}


def write(path, rows):
    path.write_text("".join(json.dumps(dict(zip(("id", "text"), row, strict=True))) + "\n" for row in rows))
    return path


def test_a_changed_index_finds_what_loops_find(sparse, sentences, tmp_path, monkeypatch):
    directory, model = sparse
    monkeypatch.setattr(postings, "_WEIGHTS_AT_A_TIME", 100)
    rows, index = dict(enumerate(sentences[:40])), tmp_path / "index"
    counts = build_index(write(tmp_path / "rows.jsonl", rows.items()), index, directory, progress=False)
    assert counts == {"texts": 40, "encoded": 40, "truncated": 0}
    opened = TextIndex(index)
    assert opened.is_exact

    def check():
        query = "good film music"
        expected = by_loops(model, query, list(rows.values()))
        assert len(expected) > 0
        hits = opened.search(query, top_k=100)
        assert found(hits) == pytest.approx(dict(expected), rel=1e-5)
        assert [hit["text"] for hit in hits[:5]] == [text for text, _ in expected[:5]]
        some = sorted(rows)[::3]
        kept = dict(by_loops(model, query, [rows[each] for each in some]))
        assert found(opened.search(query, top_k=100, where={"id": some})) == pytest.approx(kept, rel=1e-5)
        assert [each["text"] for each in opened.search([query, "river"], top_k=2)[0]] == [
            text for text, _ in expected[:2]
        ]

    check()
    more = {**dict(enumerate(sentences[40:], start=40)), 3: sentences[20] + " river"}
    build_index(write(tmp_path / "more.jsonl", more.items()), index, add=True, id_column="id", preset=directory)
    rows |= more
    check()
    remove_rows(index, {"id": {">=": 50}})
    rows = {number: text for number, text in rows.items() if number < 50}
    check()
    with pytest.warns(UserWarning, match="leave the index"):
        build_index(write(tmp_path / "rows.jsonl", list(rows.items())[:30]), index, directory)
    rows = dict(list(rows.items())[:30])
    check()
    with database.reading(index, whole=True) as (opened_database, _):
        fresh = tmp_path / "fresh"
        build_index(write(tmp_path / "rows.jsonl", rows.items()), fresh, directory)
        with database.reading(fresh, whole=True) as (other, _):
            for token in range(model.preprocessor.tokenizer.vocabulary_size):
                weights = [np.sort(each.weights_of(token)[1]) for each in (opened_database, other)]
                np.testing.assert_allclose(*weights, rtol=0, atol=1e-5)


def test_words_too(sparse, sentences, tmp_path):
    """A hybrid search merges the rankings of weights and of words by their reciprocal ranks."""
    directory, model = sparse
    corpus = write(tmp_path / "rows.jsonl", enumerate(sentences))
    build_index(corpus, tmp_path / "index", directory)
    query = "film bank"
    hits = TextIndex(tmp_path / "index").search(query, top_k=60, hybrid=True)
    assert {text for text in sentences if {"film", "bank"} & {*text.split()}} <= {hit["text"] for hit in hits}
    products = dict(by_loops(model, query, sentences))
    assert found(hits) == pytest.approx({hit["text"]: products.get(hit["text"], 0.0) for hit in hits}, rel=1e-5)


def test_an_interrupted_build_goes_on(sparse, sentences, tmp_path, monkeypatch):
    directory, _ = sparse
    corpus, index, encode = write(tmp_path / "rows.jsonl", enumerate(sentences)), tmp_path / "index", []

    def fail(self, texts, **options):
        encode.append(len(texts))
        if len(encode) == 3:  # the first call has no texts
            raise KeyboardInterrupt
        return whole(self, texts, **options)

    whole = BertSparseEncoder.encode_counted
    with monkeypatch.context() as patch:
        patch.setattr(BertSparseEncoder, "encode_counted", fail)
        with pytest.raises(KeyboardInterrupt):
            build_index(corpus, index, directory)
    with error_names(FileNotFoundError, "complete"):
        TextIndex(index)
    assert build_index(corpus, index, directory)["encoded"] == len(sentences) - database.TEXTS_AT_A_TIME


def test_what_a_sparse_index_has_not(sparse, sentences, tmp_path, small_preset):
    directory, _ = sparse
    corpus = write(tmp_path / "rows.jsonl", enumerate(sentences))
    with error_names(ValueError, "'int8'", "weights"):
        build_index(corpus, tmp_path / "index", directory, stored="int8")
    build_index(corpus, tmp_path / "index", directory)
    with error_names(ValueError, "is an index of the model"):
        build_index(corpus, tmp_path / "index", small_preset)
