"""Near-duplicates are the pairs of the whole matrix of similarities."""

import json

import numpy as np
import pytest

from keras_bert.data.tables import CorpusRow
from keras_bert.embedding import embed_files, file_embedding
from keras_bert.search import near_duplicates, neighbours
from keras_bert.search.near_duplicates import DuplicatePair, duplicate_groups

from ..support.messages import error_names


@pytest.mark.parametrize("is_exact", [True, False])
def test_pairs(corpus, small_preset, read_once, sentences, monkeypatch, is_exact):
    monkeypatch.setattr(neighbours, "EXACT_UP_TO", 1000 if is_exact else 10)
    vectors = read_once(small_preset).encode(sentences, progress=False)
    matrix = np.triu(vectors @ vectors.T, k=1)
    threshold = float(np.sort(matrix, axis=None)[-25:-23].mean())
    expected = [(int(i), int(j)) for i, j in zip(*np.nonzero(matrix > threshold), strict=True)]
    assert len(expected) == 24
    pairs = list(near_duplicates(corpus, threshold, small_preset))
    assert [(pair.first.line - 1, pair.second.line - 1) for pair in pairs] == expected
    np.testing.assert_allclose([pair.similarity for pair in pairs], [matrix[i] for i in expected], rtol=0, atol=1e-5)


def test_equal_texts_pair_with_the_first(tmp_path, small_preset):
    path = tmp_path / "films.jsonl"
    texts = ["good film", "cold river", "good film", "good film"]
    path.write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts)))
    pairs = list(near_duplicates(path, 1.0, small_preset))
    assert [(pair.first.line, pair.second.line, pair.similarity) for pair in pairs] == [(1, 3, 1.0), (1, 4, 1.0)]
    assert pairs[0].second.columns == {"id": 2, "text": "good film"}


def test_a_chain_of_pairs_is_a_group_however_its_pairs_are_ordered():
    rows = {line: CorpusRow(line, {}, str(line)) for line in range(1, 10)}
    lines = [(1, 2), (4, 5), (4, 6), (1, 4), (2, 7), (8, 9)]  # the fourth joins two groups, the fifth finds both as one
    groups = duplicate_groups([DuplicatePair(rows[one], rows[other], 0.95) for one, other in lines])
    assert [[row.line for row in group] for group in groups] == [[1, 2, 4, 5, 6, 7], [8, 9]]


def test_pairs_of_a_model_that_compares_by_dot_product(untraced, corpus, dot_preset, read_once, sentences):
    vectors = read_once(dot_preset).encode(sentences, progress=False)
    matrix = np.triu(vectors @ vectors.T, k=1)
    threshold = float(np.sort(matrix, axis=None)[-6:-4].mean())
    expected = [(int(i), int(j)) for i, j in zip(*np.nonzero(matrix > threshold), strict=True)]
    corpus.write_text(f"{corpus.read_text()}{sentences[3]}\n")
    equal, *pairs = near_duplicates(corpus, threshold, dot_preset)
    assert (equal.first.line, equal.second.line) == (4, len(sentences) + 1)
    assert equal.similarity == pytest.approx(float(vectors[3] @ vectors[3]), rel=1e-5)  # not 1
    assert [(pair.first.line - 1, pair.second.line - 1) for pair in pairs] == expected
    with error_names(ValueError, "dot product", "threshold"):
        next(near_duplicates(corpus, preset=dot_preset))


@pytest.mark.slow
def test_vectors_that_embed_wrote_need_no_model(tmp_path, small_preset, monkeypatch):
    """The pairs are those of the texts; other vectors, of any length, count as they are."""
    texts = ["good film", "cold river", "good film", "the good film"]
    source, rows = tmp_path / "films.jsonl", [{"id": i, "text": text} for i, text in enumerate(texts)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = list(near_duplicates(source, 0.5, small_preset))
    embed_files([source], tmp_path / "vectors", small_preset)
    monkeypatch.setattr(file_embedding, "load", lambda *_, **__: pytest.fail("a model is loaded"))
    found = list(near_duplicates(tmp_path / "vectors/films.jsonl", 0.5, vectors=True))
    assert [pair[:2] for pair in found] == [pair[:2] for pair in expected]
    np.testing.assert_allclose([pair[2] for pair in found], [pair[2] for pair in expected], atol=1e-5)
    table = tmp_path / "table.csv"
    table.write_text('text,vector\na,"[3, 4]"\nb,"[4, 3]"\nc,"[-1, 1]"\n')
    ((first, second, similarity),) = near_duplicates(table, 0.9, vectors=True)
    assert (first.columns, second.columns, similarity) == ({"text": "a"}, {"text": "b"}, pytest.approx(24 / 25))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("text\na\n", ["line 2", "no 'vector'"]),
        ("text,vector\na,[1\n", ["line 2", "'[1'", "list of numbers"]),
        ("text,vector\na,[0]\n", ["line 2", "'[0]'", "not all zero"]),
        ('text,vector\na,[1]\nb,"[1, 2]"\n', ["line 3", "2 numbers", "first row 1"]),
    ],
)
def test_vectors_that_cannot_be_compared(tmp_path, text, words):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with error_names(ValueError, path, *words):
        list(near_duplicates(path, vectors=True))


def test_a_wrong_threshold_and_a_missing_file_are_refused(corpus, small_preset, tmp_path):
    with error_names(ValueError, "threshold", 1.5, "-1 to 1"):
        list(near_duplicates(corpus, 1.5, small_preset))
    with error_names(FileNotFoundError, tmp_path / "none.txt"):
        list(near_duplicates(tmp_path / "none.txt", 0.5, small_preset))
