"""Sentence encoders and rerankers beside sentence-transformers: what training gives, and how fast it all is.

python benchmarks/sentence_training.py train [--pairs N] [--seeds 3] [--max-length 128] [--shuffle-last-layers N]
python benchmarks/sentence_training.py shorter [--pairs N] [--seeds 3]
python benchmarks/sentence_training.py rerank [--pairs 512] [--rounds 5]
python benchmarks/sentence_training.py index [--texts 100000]

`train`: MiniLM learns to find SQuAD's paragraphs by their questions, by `fine_tune` and by SentenceTransformerTrainer
with the same recipe: the same pairs, multiple negatives ranking, AdamW, linear warmup over a tenth and linear decay.
Measured on articles that were not trained on, among the paragraphs of all. `--shuffle-last-layers N` takes the sentence
training away first: it shuffles the weights of the last N layers. `shorter`: MatryoshkaLoss on STS-B, then 128 of 384
values. `rerank`: the scores and the speed of a BertReranker and of CrossEncoder with the same weights. `index`:
sentences of books and of the Brown corpus: time, memory, and how many of the ten nearest neighbours a search finds. The
data lies in ../shared/data beside the repository, or in --data. It needs the extras `bench`, `search` and `train`, and
accelerate.
"""

from __future__ import annotations

import argparse
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
from _measure import DATA, heading, interleave, need, parse, ratios, run, table

from keras_bert import BertReranker, BertSentenceEncoder
from keras_bert.data import read_table
from keras_bert.pretraining.corpus import documents, parts_of
from keras_bert.search import TextIndex
from keras_bert.search.neighbours import EXACT_UP_TO, Neighbours
from keras_bert.tasks import vector_metrics
from keras_bert.tasks.metrics import correlation
from keras_bert.tasks.sentence_losses import CoSENTLoss, MatryoshkaLoss
from keras_bert.training import fine_tune

PEERS = ["tensorflow", "keras", "torch", "transformers", "sentence-transformers", "faiss-cpu"]
SHOWN = ("ndcg@10", "mrr@10")


def squad(path: Path) -> dict[str, list[tuple[str, str]]]:
    """Questions and their paragraphs, by article."""
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    return {
        article["title"]: [
            (question["question"].strip(), paragraph["context"])
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
        ]
        for article in articles
    }


class Search:
    """Pairs to train on, and questions of other articles that search for their paragraphs among all."""

    def __init__(self, data: Path, pairs: int | None) -> None:
        train, tested = squad(data / "squad/train-v1.1.json"), squad(data / "squad/dev-v1.1.json")
        tested = {title: found for title, found in tested.items() if title not in train}
        self.pairs = [pair for found in train.values() for pair in found]
        self.questions, wanted = zip(*dict(pair for found in tested.values() for pair in found).items(), strict=True)
        self.corpus = list(dict.fromkeys([*wanted, *(context for _, context in self.pairs)]))
        numbers = {text: number for number, text in enumerate(self.corpus)}
        self.wanted = [{numbers[text]} for text in wanted]
        drawn = np.random.default_rng(0).permutation(len(self.pairs))[: pairs or len(self.pairs)]
        self.pairs = [self.pairs[number] for number in drawn]

    def measured(self, encode) -> dict[str, float]:
        found = vector_metrics.retrieval(encode(self.questions), encode(self.corpus), self.wanted, at=[10])
        return {name: 100 * found[name] for name in SHOWN}


class Speed(NamedTuple):
    """Pairs a second by the clock, and by the time of all cores, to which other work of the machine matters less."""

    wall: float
    cpu: float

    @classmethod
    def of(cls, work: Callable[[], object], pairs: int) -> Speed:
        begin, begin_cpu = time.perf_counter(), time.process_time()
        work()
        return cls(pairs / (time.perf_counter() - begin), pairs / (time.process_time() - begin_cpu))


def start(directory: Path, arguments: argparse.Namespace) -> BertSentenceEncoder:
    """The model to begin with, also in a directory."""
    model = BertSentenceEncoder.from_preset(arguments.preset, sequence_length=arguments.max_length)
    generator = np.random.default_rng(0)
    for block in model.encoder.blocks[model.encoder.config.num_layers - arguments.shuffle_last_layers :]:
        for weight in block.weights:
            value = weight.numpy()
            weight.assign(generator.permutation(value.ravel()).reshape(value.shape))
    model.save_preset(directory)
    return model


def ours(directory: Path, task: Search, seed: int, arguments: argparse.Namespace) -> tuple[dict[str, float], Speed]:
    keras.utils.set_random_seed(seed)
    model = BertSentenceEncoder.from_preset(directory, sequence_length=arguments.max_length)
    questions, contexts = map(list, zip(*task.pairs, strict=True))
    recipe = {"epochs": arguments.epochs, "batch_size": arguments.batch_size, "learning_rate": arguments.learning_rate}
    speed = Speed.of(
        lambda: fine_tune(model, ((questions, contexts), None), seed=seed, progress=False, **recipe),
        arguments.epochs * len(questions),
    )
    return task.measured(lambda texts: model.encode(texts, progress=False)), speed


def theirs(directory: Path, task: Search, seed: int, arguments: argparse.Namespace) -> tuple[dict[str, float], Speed]:
    import datasets
    import sentence_transformers
    import transformers
    from sentence_transformers import sentence_transformer

    transformers.set_seed(seed)
    model = sentence_transformers.SentenceTransformer(str(directory), device="cpu")
    model.max_seq_length = arguments.max_length
    questions, contexts = map(list, zip(*task.pairs, strict=True))
    dataset = datasets.Dataset.from_dict({"anchor": questions, "positive": contexts})
    with tempfile.TemporaryDirectory() as output:
        settings = sentence_transformers.SentenceTransformerTrainingArguments(
            output,
            num_train_epochs=arguments.epochs,
            per_device_train_batch_size=arguments.batch_size,
            learning_rate=arguments.learning_rate,
            warmup_steps=0.1,  # a share of all
            weight_decay=0.01,
            batch_sampler="no_duplicates",
            seed=seed,
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
        )
        loss = sentence_transformer.losses.MultipleNegativesRankingLoss(model)
        trainer = sentence_transformers.SentenceTransformerTrainer(model, settings, train_dataset=dataset, loss=loss)
        speed = Speed.of(trainer.train, arguments.epochs * len(questions))
    encode = {"show_progress_bar": False, "batch_size": 32}
    return task.measured(lambda texts: model.encode(list(texts), **encode)), speed


def train(arguments: argparse.Namespace) -> None:
    task = Search(arguments.data, arguments.pairs)
    print(
        f"{len(task.pairs):,} pairs to train on, {arguments.epochs} epochs in batches of {arguments.batch_size}; "
        f"{len(task.questions):,} questions of other articles, {len(task.corpus):,} paragraphs"
    )
    columns = ("", *SHOWN, *(f"pairs a second of {field} time" for field in Speed._fields))
    table(columns, train_rows(task, arguments))


def train_rows(task: Search, arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yields a row for each run, for the means, and for the ratios of speeds."""
    with tempfile.TemporaryDirectory() as folder:
        untrained = start(Path(folder), arguments)
        yield row_of("untrained", task.measured(lambda texts: untrained.encode(texts, progress=False)))
        found: dict[str, list] = {"keras_bert": [], "sentence-transformers": []}
        for seed in range(arguments.seeds):
            for name, contestant in zip(found, (ours, theirs), strict=True):
                found[name].append(contestant(Path(folder), task, seed, arguments))
                yield row_of(f"{name}, seed {seed}", *found[name][-1])
    for name, results in found.items():
        means = {key: statistics.mean(measures[key] for measures, _ in results) for key in SHOWN}
        yield row_of(f"{name}, mean", means)
    both = [[speed for _, speed in results] for results in found.values()]
    yield ["keras_bert / sentence-transformers", *("" for _ in SHOWN), *speed_ratios(*both)]


def row_of(name: str, measures: dict[str, float], speed: Speed | None = None) -> list[str]:
    rates = [""] * len(Speed._fields) if speed is None else [f"{each:.1f}" for each in speed]
    return [name, *(f"{value:.2f}" for value in measures.values()), *rates]


def speed_ratios(ours: list[Speed], theirs: list[Speed]) -> list[str]:
    """Compares each field."""
    return [ratios(*([getattr(each, field) for each in side] for side in (ours, theirs))) for field in Speed._fields]


def shorter(arguments: argparse.Namespace) -> None:
    columns = {"text_column": 1, "text_pair_column": 2, "label_column": 3, "label_kind": "number", "header": False}
    learned, tested = (read_table(arguments.data / f"stsb/stsb-en-{name}.csv", **columns) for name in ("train", "dev"))

    drawn = np.random.default_rng(0).permutation(len(learned))[: arguments.pairs or len(learned)]
    first, second, scores = ([column[i] for i in drawn] for column in (*learned.x, learned.labels))
    print(f"{len(scores):,} pairs to train on, {len(tested):,} to measure with")

    def spearman(model: BertSentenceEncoder, size: int) -> float:
        first, second = (model.encode(texts, progress=False)[:, :size] for texts in tested.x)
        return 100 * correlation(tested.labels, vector_metrics.cosines(first, second))["spearman"]

    def trained(seed: int) -> list[object]:
        keras.utils.set_random_seed(seed)
        model = BertSentenceEncoder.from_preset(arguments.preset)
        before = [spearman(model, size) for size in (384, 128)]
        loss = MatryoshkaLoss(CoSENTLoss(), [384, 256, 128, 64])
        recipe = {"epochs": arguments.epochs, "batch_size": 32, "learning_rate": arguments.learning_rate}
        fine_tune(model, ((first, second), scores), loss=loss, seed=seed, progress=False, **recipe)
        after = [spearman(model, size) for size in (384, 128)]
        return [seed, *(f"{value:.2f}" for value in (*before, *after)), f"{after[1] / after[0]:.2%}"]

    columns = ("seed", "Spearman of 384 values, before", "of 128", "of 384, after", "of 128", "kept by 128")
    table(columns, map(trained, range(arguments.seeds)))


def rerank(arguments: argparse.Namespace) -> None:
    import sentence_transformers

    pairs = Search(arguments.data, arguments.pairs or 512).pairs
    questions, contexts = map(list, zip(*pairs, strict=True))
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
        speeds = interleave(
            {name: lambda work=work: Speed.of(work, len(pairs)) for name, work in score.items()}, arguments.rounds
        )
    rows = [
        [name, *(f"{statistics.median(each):.1f}" for each in zip(*found, strict=True))]
        for name, found in speeds.items()
    ]
    rows.append(["ratio", *speed_ratios(*speeds.values())])
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
        made, costs = {}, {}
        for stored in ("float32", "int8"):
            directory = Path(folder, stored)
            command = [
                "index",
                str(corpus),
                "--output",
                str(directory),
                "--stored",
                stored,
                "--preset",
                arguments.preset,
            ]
            begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-m", "keras_bert.cli", *command], check=True, capture_output=True)
            seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            size = sum(path.stat().st_size for path in directory.iterdir()) / 2**20
            costs[stored] = [f"{seconds:.0f}", f"{cpu:.0f}", f"{after.ru_maxrss / 2**20:.2f}", f"{size:.0f}"]
            made[stored] = TextIndex(directory, arguments.preset)
        searched = {stored: each._state.neighbours for stored, each in made.items()}
        vectors = searched["float32"].vectors(np.arange(len(texts)))
        graph = Neighbours.empty(vectors.shape[1], EXACT_UP_TO + 1)
        begin = time.perf_counter()
        graph.add(vectors)
        searched["a graph of the same vectors"] = graph
        costs["a graph of the same vectors"] = [f"{time.perf_counter() - begin:.0f}", "", "", ""]
        asked = made["float32"]._model.encode(queries, progress=False)
        exact = np.argsort(-(asked @ vectors.T), axis=1, kind="stable")[:, :10]

        def row(name: str, found: Neighbours) -> list[str]:
            begin = time.perf_counter()
            numbers = [found.nearest(each[None], 10)[1][0] for each in asked]
            milliseconds = 1000 * (time.perf_counter() - begin) / len(asked)
            recall = np.mean([len(set(one) & set(other)) / 10 for one, other in zip(numbers, exact, strict=True)])
            return [name, *costs[name], f"{recall:.4f}", f"{milliseconds:.1f}"]

        columns = "s, s of CPU time, GiB at most so far, MiB of files, recall@10, ms a query without its encoding"
        table(["", *columns.split(", ")], (row(*each) for each in searched.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("train", "shorter", "rerank", "index"), default="rerank")
    parser.add_argument("--preset", default="all-MiniLM-L6-v2")
    parser.add_argument("--pairs", type=int, help="the number of pairs; by default all, for `rerank` 512")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--shuffle-last-layers", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--data", type=Path, default=DATA)
    arguments = parse(parser, pairs=16, seeds=1, rounds=1, texts=400)
    need(arguments.data)
    warnings.simplefilter("ignore")  # how many texts are truncated
    heading(PEERS)
    {"train": train, "shorter": shorter, "rerank": rerank, "index": index}[arguments.what](arguments)


if __name__ == "__main__":
    run(main)
