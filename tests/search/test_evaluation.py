"""Measures of searches on test collections: by trec_eval, beside formulas and loops over all documents."""

import json
import math

import numpy as np
import pytest

from keras_bert import BertMultiVectorEncoder, BertReranker, BertSparseEncoder
from keras_bert.data import RetrievalData, read_beir
from keras_bert.search import TextIndex, evaluate_retrieval, evaluation

from ..support import small
from ..support.messages import error_names, warning_names

pytestmark = pytest.mark.usefixtures("untraced_module")


def write(folder, name, rows):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def beir(tmp_path):
    """Three documents, two of them judged for one query."""
    folder = tmp_path / "beir"
    folder.mkdir()
    documents = [("d1", "good", "film"), ("d2", "", "bank money"), ("d3", None, "the cold river")]
    write(folder, "corpus.jsonl", [{"_id": name, "title": title, "text": text} for name, title, text in documents])
    write(folder, "queries.jsonl", [{"_id": "q1", "text": "money"}, {"_id": "q2", "text": "not judged"}])
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t2\nq1\td3\t0\n")
    return folder


@pytest.fixture
def collection(sentences):
    """Six queries among sixty sentences; one query is a document, too. Grades are 0, 1 and 2."""
    documents = {f"d{number}": sentence for number, sentence in enumerate(sentences)}
    queries = {"d3": sentences[3], **{f"q{number}": " ".join(sentences[number].split()[:2]) for number in range(5, 10)}}
    graded = {query: {f"d{(7 * i + 11 * j) % 60}": j % 3 for j in range(1, 9)} for i, query in enumerate(queries)}
    return RetrievalData(documents, queries, graded)


def by_formulas(run, relevance):
    """nDCG@10 with linear gains, MRR@10, recall@100 and MAP@100 of rankings without ties."""
    values = []
    for query, grades in relevance.items():
        found = sorted(run[query], key=lambda document: -run[query][document])[:100]
        gains = [grades.get(document, 0) for document in found]
        dcg = [
            sum(g / math.log2(i + 2) for i, g in enumerate(each[:10]))
            for each in (gains, sorted(grades.values())[::-1])
        ]
        ranks = [i for i, gain in enumerate(gains, start=1) if gain]
        count = sum(grade > 0 for grade in grades.values())
        first = ranks[0] if ranks else math.inf
        precisions = [number / rank for number, rank in enumerate(ranks, start=1)]
        values.append((dcg[0] / dcg[1], (first <= 10) / first, len(ranks) / count, sum(precisions) / count))
    return dict(zip(evaluation.MEASURES, np.mean(values, axis=0), strict=True))


def test_a_sentence_encoder(collection, small_preset, read_once):
    model = read_once(small_preset)
    similarities = model.encode(list(collection.queries.values())) @ model.encode(list(collection.documents.values())).T
    names = list(collection.documents)
    run = {
        query: {name: value for name, value in zip(names, row, strict=True) if name != query}
        for query, row in zip(collection.queries, similarities.tolist(), strict=True)
    }
    found = evaluate_retrieval(collection, small_preset)
    assert found == pytest.approx(by_formulas(run, collection.relevance), abs=1e-6)
    assert 0 < found["mrr@10"] < 1


def test_an_index_is_kept_merged_with_words_and_ranked_anew(collection, small_preset, tmp_path):
    kept = {"directory": tmp_path / "index", "preset": small_preset}
    reranker = BertReranker(small.encoder(num_layers=1), small.preprocessor())
    for settings in ({"hybrid": True}, {"reranker": reranker}, {"reranker": reranker, "hybrid": True}):
        found = evaluate_retrieval(collection, **kept, **settings)
        hits = TextIndex(tmp_path / "index", small_preset).search(collection.queries.values(), top_k=61, **settings)
        run = {
            query: {hit["row"]["_id"]: -rank for rank, hit in enumerate(each) if hit["row"]["_id"] != query}
            for query, each in zip(collection.queries, hits, strict=True)
        }
        assert found == pytest.approx(by_formulas(run, collection.relevance), abs=1e-6), settings


@pytest.mark.parametrize("query_table", [False, True])
def test_a_sparse_encoder(collection, tmp_path, query_table):
    model = small.shaken(BertSparseEncoder(small.encoder(num_layers=1), small.preprocessor(), query_table=query_table))
    model.save_preset(tmp_path)
    documents = dict(zip(collection.documents, model.encode(list(collection.documents.values())), strict=True))
    encoded = model.encode_query([*collection.queries.values()])
    run = {
        query: {
            name: score
            for name, weights in documents.items()
            if name != query and (score := sum(weight * weights.get(token, 0) for token, weight in found.items()))
        }
        for query, found in zip(collection.queries, encoded, strict=True)
    }
    for _ in range(2):  # the second call finds the index
        found = evaluate_retrieval(collection, tmp_path, directory=tmp_path / "index")
        assert found == pytest.approx(by_formulas(run, collection.relevance), abs=1e-4)


def test_vectors_of_tokens(collection, tmp_path):
    model = small.shaken(BertMultiVectorEncoder(small.encoder(num_layers=1), small.preprocessor()))
    model.save_preset(tmp_path)
    documents = dict(zip(collection.documents, model.encode_document([*collection.documents.values()]), strict=True))
    encoded = model.encode_query([*collection.queries.values()])
    run = {
        query: {
            name: float((found @ vectors.T).max(axis=1).sum()) for name, vectors in documents.items() if name != query
        }
        for query, found in zip(collection.queries, encoded, strict=True)
    }
    found = evaluate_retrieval(collection, tmp_path)
    assert found == pytest.approx(by_formulas(run, collection.relevance), abs=1e-3)
    kept = evaluate_retrieval(collection, tmp_path, directory=tmp_path / "index", hybrid=True)
    assert TextIndex(tmp_path / "index").is_exact
    assert kept != found


def test_a_query_that_finds_nothing_counts():
    measures = evaluation.measure({"a": {"d": 1.0}, "b": {}}, {"a": {"d": 1}, "b": {"d": 1}})
    assert measures == dict.fromkeys(evaluation.MEASURES, 0.5)


def test_beyond_rank_10_there_is_no_reciprocal_rank():
    run = {"a": {f"d{number:02}": 100 - number for number in range(100)}}
    ranks = {rank: evaluation.measure(run, {"a": {f"d{rank - 1:02}": 1}})["mrr@10"] for rank in (1, 10, 11)}
    assert ranks == {1: 1, 10: pytest.approx(0.1), 11: 0}


def test_layouts(beir, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    expected = RetrievalData(
        {"d1": "good film", "d2": "bank money", "d3": "the cold river"}, {"q1": "money"}, {"q1": {"d2": 2, "d3": 0}}
    )
    assert read_beir(beir) == expected
    nano = tmp_path / "nano"
    for part, file in (("corpus", "corpus.jsonl"), ("queries", "queries.jsonl"), ("qrels", "qrels/test.tsv")):
        table = pandas.read_json(beir / file, lines=True) if part != "qrels" else pandas.read_csv(beir / file, sep="\t")
        (nano / part).mkdir(parents=True)
        table.to_parquet(nano / part / "train-00000-of-00001.parquet")
    assert read_beir(nano, "train") == expected
    (beir / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\nq2\td1\n")
    assert read_beir(beir, "dev").relevance == {"q2": {"d1": 1}}


@pytest.mark.parametrize(
    ("file", "text", "error", "words"),
    [
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq3\td2\t2\n", ValueError, ["row 2", "q3", "queries"]),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td2\tbest\n", ValueError, ["row 2", "best", "number"]),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td2\tnan\n", ValueError, ["row 2", "nan", "number"]),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\nq1\td2\t1\nq1\td2\t1\n", ValueError, ["row 3", "twice"]),
        ("qrels/test.tsv", "query\tdocument\nq1\td2\n", ValueError, ["query-id"]),
        ("qrels/test.tsv", None, FileNotFoundError, ["qrels/test.tsv"]),
        (
            "corpus.jsonl",
            '{"_id": "d2", "text": "a"}\n{"_id": "d2", "text": "b"}\n',
            ValueError,
            ["row 2", "d2", "twice"],
        ),
        ("corpus.jsonl", '{"id": "d2", "text": "a"}\n', ValueError, ["_id"]),
        ("corpus.jsonl", '{"_id": "d2", "title": "", "text": ""}\n', ValueError, ["row 1", "text", "empty"]),
        ("corpus.jsonl", None, FileNotFoundError, ["corpus.jsonl"]),
    ],
)
def test_bad_files(beir, file, text, error, words):
    (beir / file).unlink() if text is None else (beir / file).write_text(text)
    with error_names(error, *words):
        read_beir(beir)


def test_a_document_may_be_its_title_alone(beir):
    with (beir / "corpus.jsonl").open("a") as file:
        file.write('{"_id": "d4", "title": "Cats", "text": ""}\n')
    assert read_beir(beir).documents["d4"] == "Cats"


def test_judged_documents_that_are_missing_are_counted(beir):
    write(beir, "corpus.jsonl", [{"_id": "d1", "text": "good film"}])
    with warning_names("2 judged documents", "d2"):
        read_beir(beir)
