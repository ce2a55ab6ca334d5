"""Measures searches on test collections, by trec_eval: what others report for BEIR."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_bert.data.beir import RetrievalData, read_beir
from keras_bert.extras import import_extra
from keras_bert.search.building import build_index
from keras_bert.search.text_index import TextIndex

if TYPE_CHECKING:
    from keras_bert.tasks import BertReranker

_DEPTH = 100  # documents of each query that are measured
_TREC = {"ndcg@10": "ndcg_cut_10", "mrr@10": "recip_rank", "recall@100": "recall_100", "map@100": "map_cut_100"}
MEASURES = tuple(_TREC)
Run = dict[str, dict[str, float]]  # scores of the documents found, by query and document


def evaluate_retrieval(
    collection: str | Path | RetrievalData,
    preset: str | Path = "all-MiniLM-L6-v2",
    *,
    hybrid: bool = False,
    reranker: BertReranker | None = None,
    directory: str | Path | None = None,
    split: str = "test",
    batch_tokens: int = 1024,
    progress: bool | None = None,
) -> dict[str, float]:
    """Measures how well a model finds the documents that answer a query, on a test collection such as BEIR's.

    Each query searches an index of the whole corpus, and its 100 best documents are measured by trec_eval, as the
    tables of BEIR are: ties are ordered by the documents' ids, and a document with the query's own id is left out.

    Args:
        collection: a directory in BEIR's layout, or what `keras_bert.data.read_beir` returns.
        preset: a model of one of these classes. Its prompts for queries and documents are used.
        hybrid: merges the ranking with that of words (BM25), see `TextIndex.search`.
        reranker: ranks the 100 best documents anew.
        directory: keeps the index, so that the next call encodes nothing again; by default it is temporary.
        split: see `read_beir`.
        batch_tokens, progress: see `build_index`.

    Returns:
        The means over the queries: `ndcg@10`, `mrr@10`, `recall@100` and `map@100`.

    Raises:
        FileNotFoundError, ValueError, ImportError: as `read_beir` and `build_index`.

    Example:
        >>> collection = RetrievalData(
        ...     documents={"a": "Cats purr when they are content.", "b": "Taxes are due in May."},
        ...     queries={"1": "When must I pay my taxes?"},
        ...     relevance={"1": {"b": 1}},
        ... )
        >>> evaluate_retrieval(collection)
        {'ndcg@10': 1.0, 'mrr@10': 1.0, 'recall@100': 1.0, 'map@100': 1.0}
    """
    import_extra("pytrec_eval", "pytrec-eval-terrier", "search")
    if not isinstance(collection, RetrievalData):
        collection = read_beir(collection, split)
    with tempfile.TemporaryDirectory() as temporary:
        corpus = Path(temporary, "corpus.jsonl")
        directory = Path(temporary, "index") if directory is None else directory
        rows = ({"_id": identifier, "text": text} for identifier, text in collection.documents.items() if text)
        corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        build_index(corpus, directory, preset, batch_tokens=batch_tokens, progress=progress)
        index = TextIndex(directory, preset)
        found = index.search(collection.queries.values(), top_k=_DEPTH + 1, reranker=reranker, hybrid=hybrid)
    run: Run = {}
    for query, hits in zip(collection.queries, found, strict=True):
        scores: Sequence[float] = [hit["similarity"] for hit in hits]
        if hybrid or reranker is not None:  # the order is that of two rankings, or of logits, whose scores may be equal
            scores = range(len(hits), 0, -1)
        scored = [(hit["row"]["_id"], float(score)) for hit, score in zip(hits, scores, strict=True)]
        run[query] = dict([(document, score) for document, score in scored if document != query][:_DEPTH])
    return measure(run, collection.relevance)


def measure(run: Run, relevance: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    """Measures rankings by trec_eval: the scores of documents by query, with their grades."""
    pytrec_eval = import_extra("pytrec_eval", "pytrec-eval-terrier", "search")
    names = {name.replace("_1", ".1", 1) for name in _TREC.values()}
    by_query = pytrec_eval.RelevanceEvaluator(relevance, names).evaluate(run).values()
    values = {name: np.array([each[trec] for each in by_query]) for name, trec in _TREC.items()}
    values["mrr@10"] = np.where(values["mrr@10"] > 1 / 11, values["mrr@10"], 0)  # trec_eval looks at all ranks
    return {name: float(each.sum() / len(relevance)) for name, each in values.items()}
