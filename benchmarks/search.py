"""Rerankers beside sentence-transformers, indexes of texts, and searches on test collections: speed and quality.

python benchmarks/search.py rerank [--pairs 512] [--rounds 5] [--max-length 128]
python benchmarks/search.py index [--texts 100000]
python benchmarks/search.py candidates [--texts 20000] [--queries 200]
python benchmarks/search.py retrieval [--preset MODEL] [--sparse MODEL] [--queries 1000] [--trained PAIRS]
python benchmarks/search.py tokens [--pairs 512] [--rounds 3] [--max-length 64] [--texts 500] [--queries 300]
python benchmarks/search.py splade [--start bert-books] [--epochs 4] [--seeds 3] [--max-length 32]

`rerank`: the scores and the speed of a BertReranker and of CrossEncoder with the same weights, on questions of SQuAD
with their paragraphs. `index`: sentences of books and of the Brown corpus: time, size, and how many of the ten nearest
neighbours a search of each kind finds. `candidates`: the same of an index of vectors of tokens, whose candidates are
found by their means. `retrieval`: questions of SQuAD search for their paragraphs, sentences of MRPC
for their paraphrases: measures, the time of `keras-bert evaluate`, and the size of the index; with --trained, also of a
model of each kind, trained on so many other pairs. `tokens`: a vector for each token is learned from questions of SQuAD
and their paragraphs, here and by sentence-transformers, from the same weights and pairs, once for each of --rounds
seeds; then both are measured on other paragraphs. `splade`: a BertSparseEncoder and a SparseEncoder of
sentence-transformers, trained on the same questions and paragraphs. The data lies in ../shared/data beside the
repository, or in --data. It needs the extras `bench`, `search` and `train`.
"""

import argparse
import csv
import functools
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from _finetune_tasks import TASKS, some
from _measure import DATA, MINILM, heading, interleave, need, options, parse, ratios, run, table

from keras_bert import BertMultiVectorEncoder, BertReranker, BertSparseEncoder
from keras_bert.answers.token_vectors import KINDS
from keras_bert.data import RetrievalData
from keras_bert.pretraining.corpus import documents, parts_of
from keras_bert.search import TextIndex, build_index, evaluate_retrieval, token_vectors
from keras_bert.search.neighbours import EXACT_UP_TO, Neighbours, import_faiss
from keras_bert.tasks import MultipleNegativesRankingLoss, SpladeLoss
from keras_bert.training import fine_tune


class Speed(NamedTuple):
    """Pairs a second by the clock, and by the time of all cores, to which other work of the machine matters less."""

    wall: float
    cpu: float

    @classmethod
    def of(cls, work: Callable[[], object], pairs: int) -> "Speed":
        begin, begin_cpu = time.perf_counter(), time.process_time()
        work()
        return cls(pairs / (time.perf_counter() - begin), pairs / (time.process_time() - begin_cpu))


def rerank(arguments: argparse.Namespace) -> None:
    import sentence_transformers

    questions, contexts = some(TASKS["squad"].read(arguments.data, "train"), arguments.pairs).x
    pairs = list(zip(questions, contexts, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        keras.utils.set_random_seed(0)
        BertReranker.from_preset(arguments.preset, sequence_length=arguments.max_length).save_preset(folder)
        model = BertReranker.from_preset(folder)
        other = sentence_transformers.CrossEncoder(folder, device="cpu", max_length=arguments.max_length)
        score = {
            "keras_bert": lambda: model.score(questions, contexts, progress=False),
            "sentence-transformers": lambda: other.predict(pairs, show_progress_bar=False, batch_size=32),
        }
        mine, others = (work() for work in score.values())  # and both are warm
        print(f"{len(pairs):,} pairs; the scores differ by at most {np.abs(mine - others).max():.1e}")
        jobs = {name: functools.partial(Speed.of, work, len(pairs)) for name, work in score.items()}
        speeds = interleave(jobs, arguments.rounds)
    medians = {name: map(statistics.median, zip(*found, strict=True)) for name, found in speeds.items()}
    rows = [[name, *(f"{each:.1f}" for each in values)] for name, values in medians.items()]
    both = [list(zip(*found, strict=True)) for found in speeds.values()]
    rows.append(["ratio", *(ratios(list(one), list(other)) for one, other in zip(*both, strict=True))])
    table(("", *(f"pairs a second of {field} time" for field in Speed._fields)), rows)


def sentences(data: Path, count: int) -> list[str]:
    """Different sentences of books, then of the Brown corpus, whose words are written `the/at`."""
    found: dict[str, None] = {}
    for part in parts_of(sorted((data / "gutenberg").glob("*.txt"))):
        for document in documents(part):
            found.update(dict.fromkeys(" ".join(sentence.split()) for sentence in document))
    with zipfile.ZipFile(data / "brown/brown.zip") as brown:
        for name in brown.namelist():
            if re.fullmatch(r"brown/c[a-r]\d\d", name):
                for line in brown.read(name).decode().splitlines():
                    found[" ".join(word.rpartition("/")[0] for word in line.split())] = None
    long_enough = [sentence for sentence in found if len(sentence.split()) > 3]
    return long_enough[:count]


def index(arguments: argparse.Namespace) -> None:
    texts = sentences(arguments.data, arguments.texts)
    print(f"{len(texts):,} sentences")
    with tempfile.TemporaryDirectory() as folder:
        corpus, queries = Path(folder, "texts.txt"), [f"Who said: {text}" for text in texts[:: len(texts) // 200]][:200]
        corpus.write_text("\n".join(texts), encoding="utf-8")
        command = ["index", corpus, "--output", Path(folder, "index"), "--preset", arguments.preset]
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-m", "keras_bert.cli", *map(str, command)], check=True, capture_output=True)
        seconds, used = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"`keras-bert index`: {seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU time")
        made = TextIndex(Path(folder, "index"), arguments.preset)
        exact_search = made._state.kept._neighbours
        vectors, width = exact_search.vectors(np.arange(len(texts))), exact_search.vectors([0]).shape[1]
        extremes = np.stack([vectors.min(axis=0), vectors.max(axis=0)])
        searched = {
            "float32": Neighbours.empty(width, 1),
            "int8": Neighbours.empty(width, 1, extremes),
            "a graph of float32": Neighbours.empty(width, EXACT_UP_TO + 1),
            "binary": Neighbours.empty(width, 1, extremes, by_signs=True),
        }
        costs, _ = {}, import_faiss().omp_set_num_threads(1)  # of several, the CPU time is that of waiting, too
        for name, each in searched.items():
            begin = time.perf_counter()
            each.add(vectors)
            seconds = time.perf_counter() - begin
            each.write(Path(folder), 0)
            (path,) = Path(folder).glob("*.faiss")
            costs[name] = [f"{seconds:.1f}", f"{path.stat().st_size / 2**20:.1f}"]
        asked = made._model.encode(queries, progress=False)
        exact = np.argsort(-(asked @ vectors.T), axis=1, kind="stable")[:, :10]

        def row(name: str, found: Neighbours) -> list[str]:
            begin = time.process_time()
            numbers = [found.nearest(each[None], 10)[1][0] for each in asked]
            milliseconds = 1000 * (time.process_time() - begin) / len(asked)
            recall = np.mean([len(set(one) & set(other)) / 10 for one, other in zip(numbers, exact, strict=True)])
            return [name, *costs[name], f"{recall:.4f}", f"{milliseconds:.1f}"]

        columns = "s to add them, MiB of the file, recall@10, ms of CPU time a query without its encoding"
        table(["", *columns.split(", ")], (row(*each) for each in searched.items()))


def candidates(arguments: argparse.Namespace) -> None:
    texts = sentences(arguments.data, arguments.texts)
    queries = [f"Who said: {text}" for text in texts[:: max(1, len(texts) // arguments.queries)]][: arguments.queries]
    with tempfile.TemporaryDirectory() as folder:
        corpus, model, made = Path(folder, "texts.txt"), Path(folder, "model"), Path(folder, "index")
        corpus.write_text("\n".join(texts), encoding="utf-8")
        keras.utils.set_random_seed(0)
        new = {"dense": [{"units": 128}], "query_expansion": None}
        BertMultiVectorEncoder.from_preset(arguments.preset, **new).save_preset(model)
        begin, token_vectors.EXACT_UP_TO = time.process_time(), min(token_vectors.EXACT_UP_TO, len(texts) // 2)
        build_index(corpus, made, model, progress=False)
        seconds, size = time.process_time() - begin, sum(path.stat().st_size for path in made.glob("*"))
        print(f"{len(texts):,} sentences: {seconds:.0f} s of CPU time, {size / 2**20:.0f} MiB")
        exact, rows = None, []
        few = token_vectors.EXACT_UP_TO
        for name, limit in {"all rows": len(texts), f"{token_vectors.CANDIDATES:,} candidates": few}.items():
            token_vectors.EXACT_UP_TO = limit
            index, begin = TextIndex(made), time.process_time()
            found = [{hit["text"] for hit in hits} for hits in index.search(queries, top_k=10)]
            milliseconds = 1000 * (time.process_time() - begin) / len(queries)
            exact = exact or found
            recall = np.mean([len(one & other) / len(other) for one, other in zip(found, exact, strict=True)])
            rows.append([name, f"{recall:.4f}", f"{milliseconds:.0f}"])
        table(["MaxSim with", "recall@10", "ms of CPU time a query"], rows)


def squad_collection(data: Path) -> tuple[dict[str, str], list[tuple[str, str]], list[tuple[str, str]]]:
    """All paragraphs, the questions of the development set with their paragraphs, and those to train on."""
    read = TASKS["squad"].read
    dev, train = (list(zip(*read(data, part).x, strict=True)) for part in ("dev", "train"))
    return {text: str(i) for i, text in enumerate(dict.fromkeys(text for _, text in dev + train))}, dev, train


def mrpc_collection(data: Path) -> tuple[dict[str, str], list[tuple[str, str]], list[tuple[str, str]]]:
    """All sentences, and those that have a paraphrase among them, as the first of a pair: to search, or to train on."""
    with next((data / "mrpc").glob("*train*")).open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    texts = dict.fromkeys(row[name] for row in rows for name in ("#1 String", "#2 String"))
    pairs = [(row["#1 String"], row["#2 String"]) for row in rows if row["Quality"] == "1"]
    return {text: str(i) for i, text in enumerate(texts)}, pairs, pairs


def write_beir(folder: Path, documents: dict[str, str], pairs: dict[str, str], is_same: bool) -> None:
    """Writes a collection. Where queries are documents, too (`is_same`), their ids say so: a search leaves them out."""
    folder.mkdir()
    ids = {query: documents[query] if is_same else f"q{i}" for i, query in enumerate(pairs)}
    lines = {
        "corpus": [{"_id": identifier, "text": text} for text, identifier in documents.items()],
        "queries": [{"_id": identifier, "text": text} for text, identifier in ids.items()],
    }
    for name, rows in lines.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judged = [f"{ids[query]}\t{documents[text]}\t1" for query, text in pairs.items()]
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]) + "\n")


def command(*words: object) -> str:
    words = sys.executable, "-m", "keras_bert.cli", *map(str, words)
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


# Kind of model -> the command that trains it, its preset or None for --preset, and its options.
KINDS_TO_TRAIN = {
    "a vector a text": ("embed", None, "--positive-column positive --learning-rate 2e-5"),
    "weights of tokens": (
        "embed-sparse",
        "start",
        "--positive-column positive --learning-rate 2e-4 --document-weight 1e-3 --query-weight 1e-3",
    ),
    "vectors of tokens": ("embed-tokens", None, "--positive-column positive"),
    "reranker": ("rank", None, "--passage-column positive --negative-column negative --epochs 3 --batch-size 8"),
}


def train_kinds(folder: Path, pairs: list[tuple[str, str]], arguments: argparse.Namespace) -> dict[str, Path]:
    """Trains a model of each kind, on pairs of a query and its text; the reranker with negatives that are mined."""
    rows = [{"query": query, "positive": text} for query, text in pairs]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    mined = folder / "mined.jsonl"
    command("mine", folder / "pairs.jsonl", "--preset", arguments.preset, "--negatives", 1, "--output", mined)
    for kind, (task, start, settings) in KINDS_TO_TRAIN.items():
        train = mined if task == "rank" else folder / "pairs.jsonl"
        words = ["--train", train, "--query-column", "query", "--epochs", 1, *settings.split()]  # the last word holds
        words += ["--sequence-length", arguments.max_length, "--output", folder / kind]
        command("finetune", task, *words, "--preset", getattr(arguments, start or "preset"))
    return {kind: folder / kind for kind in KINDS_TO_TRAIN}


def retrieval(arguments: argparse.Namespace) -> None:
    for name, collection in {"SQuAD": squad_collection, "MRPC": mrpc_collection}.items():
        documents, pairs, more = collection(arguments.data)
        documents = dict(list(documents.items())[: arguments.texts])
        pairs = [pair for pair in pairs if pair[1] in documents and (name == "SQuAD" or pair[0] in documents)]
        chosen = dict(pairs[:: max(1, len(pairs) // arguments.queries)][: arguments.queries])
        rows, asked = [], {*chosen, *chosen.values()} if name == "MRPC" else {*chosen}
        with tempfile.TemporaryDirectory() as folder:
            write_beir(Path(folder, "beir"), documents, chosen, name == "MRPC")
            kept = ["--index", f"{folder}/index"]
            models = {"a vector a text": [arguments.preset, *kept], "with words": [arguments.preset, *kept, "--hybrid"]}
            if arguments.sparse:
                models["weights of tokens"] = [arguments.sparse]
            if arguments.trained:
                some = [pair for pair in more if asked.isdisjoint(pair)]
                some = some[:: max(1, len(some) // arguments.trained)][: arguments.trained]
                trained = train_kinds(Path(folder), some, arguments)
                dense, reranker = (trained.pop(each) for each in ("a vector a text", "reranker"))
                trained = {"a vector a text": dense, **trained}
                kept = {kind: ["--index", f"{folder}/index of {kind}"] for kind in trained}
                for kind, model in trained.items():
                    models[f"trained: {kind}"] = [model, *kept[kind]]
                    models[f"trained: {kind}, with words"] = [model, *kept[kind], "--hybrid"]
                models["trained: a vector a text, reranked"] = [dense, *kept["a vector a text"], "--rerank", reranker]
            for kind, words in models.items():
                begin = time.perf_counter()
                made = command("evaluate", words[0], f"{folder}/beir", *words[1:])
                seconds = time.perf_counter() - begin
                measures = [f"{100 * float(line.split()[1]):.1f}" for line in made.splitlines()]
                files = Path(words[2]).glob("*") if "--index" in words else ()
                size = sum(path.stat().st_size for path in files) / 2**20
                rows.append([kind, *measures, f"{seconds:.0f}", f"{size:.1f}" if size else ""])
                print(rows[-1], flush=True)
        print(f"\n{name}: {len(documents):,} documents, {len(chosen):,} queries\n")
        columns = ("nDCG@10", "MRR@10", "recall@100", "MAP@100", "s, with the start", "MiB of the index")
        table(["", *columns], rows)


_RATE, _ROWS, _WEIGHTS = 2e-4, 16, (1e-3, 1e-3)  # of documents and of queries


def splade(arguments: argparse.Namespace) -> None:
    documents, pairs, _ = squad_collection(arguments.data)
    questions, contexts = TASKS["squad"].read(arguments.data, "train").x
    rows = list(dict(zip(contexts, questions, strict=True)).items())[: arguments.texts]  # a question for each paragraph
    queries = dict(pairs[:: max(1, len(pairs) // arguments.queries)][: arguments.queries])
    collection = RetrievalData(
        {number: text for text, number in documents.items()},
        {f"q{number}": query for number, query in enumerate(queries)},
        {f"q{number}": {documents[text]: 1} for number, text in enumerate(queries.values())},
    )
    found = []
    with tempfile.TemporaryDirectory() as folder:
        BertSparseEncoder.from_preset(arguments.start, sequence_length=arguments.max_length).save_preset(folder)
        for seed in range(arguments.seeds):
            for name, train in {"keras_bert": _train_splade, "sentence-transformers": _train_their_splade}.items():
                begin, trained = time.process_time(), Path(folder, f"{name}-{seed}")
                train(folder, trained, rows, arguments.epochs, seed)
                seconds, model = time.process_time() - begin, BertSparseEncoder.from_preset(trained)
                ndcg = evaluate_retrieval(collection, trained, progress=False)["ndcg@10"]
                texts = (list(collection.documents.values()), list(collection.queries.values()))
                sizes = [np.mean([len(each) for each in model.encode(some, progress=False)]) for some in texts]
                found.append(
                    [name, str(seed), f"{100 * ndcg:.1f}", *(f"{each:.0f}" for each in sizes), f"{seconds:.0f}"]
                )
                print(found[-1], flush=True)
    print(f"\n{len(rows):,} pairs, {len(documents):,} documents, {len(queries):,} queries\n")
    table(("", "seed", "nDCG@10", "tokens of a document", "of a query", "s of processor time"), found)


def _train_splade(start: str, trained: Path, rows: list[tuple[str, str]], epochs: int, seed: int) -> None:
    keras.utils.set_random_seed(seed)
    model, (documents, queries) = BertSparseEncoder.from_preset(start), zip(*rows, strict=True)
    loss = SpladeLoss(MultipleNegativesRankingLoss(1.0, normalize=False), *_WEIGHTS)
    recipe = {"epochs": epochs, "batch_size": _ROWS, "learning_rate": _RATE, "seed": seed, "progress": False}
    fine_tune(model, ((list(queries), list(documents)), None), loss=loss, **recipe)
    model.save_preset(trained)


def _train_their_splade(start: str, trained: Path, rows: list[tuple[str, str]], epochs: int, seed: int) -> None:
    """Trains as their trainer does: AdamW, a linear schedule with warm-up, clipping, weights that rise for a third."""
    import torch
    import transformers
    from _finetune_theirs import adamw
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder import losses

    torch.manual_seed(seed)
    model = SparseEncoder(start, device="cpu").train()
    loss = losses.SpladeLoss(model, losses.SparseMultipleNegativesRankingLoss(model), *_WEIGHTS)
    generator, optimizer = np.random.default_rng(seed), adamw(model, _RATE, eps=1e-8)
    steps = -(-len(rows) // _ROWS) * epochs
    schedule, step = transformers.get_linear_schedule_with_warmup(optimizer, round(0.1 * steps), steps), 0
    for _ in range(epochs):
        order = generator.permutation(len(rows))
        for first in range(0, len(rows), _ROWS):
            share = min(1.0, step / (steps // 3)) ** 2
            loss.document_regularizer_weight, loss.query_regularizer_weight = (share * each for each in _WEIGHTS)
            documents, queries = zip(*(rows[i] for i in order[first : first + _ROWS]), strict=True)
            sum(loss([model.preprocess(list(each)) for each in (queries, documents)]).values()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            step += 1
    model.save_pretrained(str(trained))


_TOKENS_RATE = 1e-4  # of learning


def tokens(arguments: argparse.Namespace) -> None:
    found: dict[str, list[float]] = {"before": [], "keras_bert": [], "sentence-transformers": []}
    documents, judged, _ = squad_collection(arguments.data)
    judged = judged[:: max(1, len(judged) // arguments.queries)][: arguments.queries]
    chosen = {text: documents[text] for text in dict.fromkeys([*(text for _, text in judged), *documents])}
    documents = dict(list(chosen.items())[: arguments.texts])
    queries = {f"q{number}": query for number, (query, _) in enumerate(judged)}
    relevance = {f"q{number}": {documents[text]: 1} for number, (_, text) in enumerate(judged)}
    collection = RetrievalData({name: text for text, name in documents.items()}, queries, relevance)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.rounds):
            keras.utils.set_random_seed(seed)
            pairs = TASKS["squad"].read(arguments.data, "train").x
            rows = np.random.default_rng(seed).permutation(len(pairs[0]))[: arguments.pairs].tolist()
            columns = tuple([column[row] for row in rows] for column in pairs)
            new = {"dense": [{"units": 128}], "query_length": 32, "sequence_length": arguments.max_length}
            model = BertMultiVectorEncoder.from_preset(arguments.preset, **new)
            model.save_preset(f"{folder}/before", overwrite=True)
            recipe = {"epochs": 1, "batch_size": _ROWS, "learning_rate": _TOKENS_RATE, "seed": seed}
            fine_tune(model, (columns, None), progress=False, **recipe)
            model.save_preset(f"{folder}/keras_bert", overwrite=True)
            train_theirs(f"{folder}/before", f"{folder}/sentence-transformers", columns)
            for name, values in found.items():
                values.append(100 * evaluate_retrieval(collection, f"{folder}/{name}", progress=False)["ndcg@10"])
    print(f"{arguments.pairs:,} pairs; {len(documents):,} documents, {len(queries):,} queries\n")
    rows = [[name, *(f"{each:.1f}" for each in values), f"{np.mean(values):.1f}"] for name, values in found.items()]
    table(["nDCG@10", *(f"seed {seed}" for seed in range(arguments.rounds)), "mean"], rows)


def train_theirs(start: str, output: str, columns: tuple[list[str], ...]) -> None:
    import sentence_transformers
    import torch
    import transformers
    from _finetune_theirs import adamw
    from sentence_transformers.multi_vector_encoder.losses import MultiVectorMultipleNegativesRankingLoss

    model = sentence_transformers.MultiVectorEncoder(start, device="cpu")
    loss, optimizer = MultiVectorMultipleNegativesRankingLoss(model), adamw(model, _TOKENS_RATE, eps=1e-6)
    firsts = range(0, len(columns[0]), _ROWS)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, round(0.1 * len(firsts)), len(firsts))
    model.train()
    for first in firsts:
        texts = [(column[first : first + _ROWS], task) for column, task in zip(columns, KINDS, strict=True)]
        loss([{**model.preprocess(some, task=task), "task": task} for some, task in texts]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    model.save_pretrained(output)


def main() -> None:
    parser = options(__doc__, preset=MINILM, pairs=512, max_length=128, rounds=5, texts=100_000, data=DATA)
    works = {
        "rerank": rerank,
        "index": index,
        "candidates": candidates,
        "retrieval": retrieval,
        "tokens": tokens,
        "splade": splade,
    }
    parser.add_argument("--sparse", help="a BertSparseEncoder, for `retrieval`")
    parser.add_argument("--start", default="bert-books", help="a masked language model, for `splade` and `--trained`")
    for name, default in {"queries": 1000, "epochs": 4, "seeds": 3, "trained": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("what", nargs="?", choices=works, default="rerank")
    arguments = parse(parser, pairs=16, rounds=1, texts=400, queries=100, epochs=1, seeds=1)
    need(arguments.data)
    warnings.simplefilter("ignore")  # how many texts are truncated
    heading(["tensorflow", "keras", "torch", "transformers", "sentence-transformers", "faiss-cpu"])
    works[arguments.what](arguments)


if __name__ == "__main__":
    run(main)
