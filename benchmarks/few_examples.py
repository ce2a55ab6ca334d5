"""Classifiers from few examples: `few_shot`, fine-tuning as usual, frozen vectors, and SetFit's recipe.

python benchmarks/few_examples.py [--sets sst2,topics,genres] [--shots 8,16,32,64] [--draws 5] [--test 400]

Each row: the mean accuracy over the draws, and the processor time of a training. `frozen`: scikit-learn's logistic
regression on the vectors of MiniLM. `few_shot`: `fine_tune(few_shot=True)`, with the head on the mean of all tokens.
`fine_tune`: without `few_shot`, with the head of the paper. `setfit`: SetFit's recipe (Tunstall et al. 2022) in
sentence-transformers and scikit-learn: CosineSimilarityLoss, batches of 16 pairs, two pairs of each kind for each text
and iteration, AdamW at 2e-5; 20 iterations, or fewer if there would be more than MOST_PAIRS pairs.

`sst2`: sentiment of sentences. `topics`: to which of five articles of SQuAD a question belongs. `genres`: the genre
(news, religion, science, romance) of a sentence of the Brown corpus; its test sentences are from other texts. The data
lie in ../shared/data beside the repository, or in --data. It needs the extras `bench`, `train` and `peers`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import time
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import keras
import numpy as np
from _measure import DATA, heading, need, parse, run, table

from keras_bert import BertClassifier, BertSentenceEncoder, presets
from keras_bert.training import fine_tune

PRESET = "all-MiniLM-L6-v2"
GENRES = {"a": "news", "d": "religion", "j": "science", "p": "romance"}
MOST_PAIRS = 1280

Examples = list[tuple[str, str]]


def sst2(data: Path) -> tuple[Examples, Examples]:
    def read(name: str) -> Examples:
        lines = (data / "sst2" / name).read_text(encoding="utf-8").splitlines()[1:]
        return [(text, label) for label, text in (line.split("\t") for line in lines)]

    return read("train.tsv"), read("dev.tsv")


def topics(data: Path) -> tuple[Examples, Examples]:
    questions = {}
    for name in ("train-v1.1.json", "dev-v1.1.json"):
        for article in json.loads((data / "squad" / name).read_text(encoding="utf-8"))["data"]:
            all_questions = (each["question"].strip() for part in article["paragraphs"] for each in part["qas"])
            questions[article["title"]] = list(dict.fromkeys(all_questions))
    train, test = [], []
    for title in sorted(questions, key=lambda title: -len(questions[title]))[:5]:
        random.Random(0).shuffle(questions[title])
        labelled = [(question, title) for question in questions[title]]
        train, test = train + labelled[120:], test + labelled[:120]
    return train, test


def genres(data: Path) -> tuple[Examples, Examples]:
    texts = {genre: [] for genre in GENRES}
    with zipfile.ZipFile(data / "brown/brown.zip") as archive:
        for name in sorted(archive.namelist()):
            if (match := re.fullmatch(r"brown/c([a-r])\d\d", name)) and match[1] in GENRES:
                lines = archive.read(name).decode("latin1").splitlines()
                sentences = (" ".join(word.rpartition("/")[0] for word in line.split()) for line in lines)
                texts[match[1]].append([each for each in sentences if 8 <= len(each.split()) <= 40])
    train, test = [], []
    for genre, files in texts.items():
        count = len(files) // 4
        parts = [[(text, GENRES[genre]) for file in part for text in file] for part in (files[count:], files[:count])]
        random.Random(0).shuffle(parts[1])
        train, test = train + parts[0], test + parts[1][:120]
    return train, test


SETS = {"sst2": sst2, "topics": topics, "genres": genres}


def draw(train: Examples, shots: int, seed: int) -> tuple[list[str], list[str]]:
    generator = random.Random(seed)
    labels = sorted({label for _, label in train})
    chosen = [each for label in labels for each in generator.sample([row for row in train if row[1] == label], shots)]
    generator.shuffle(chosen)
    return [text for text, _ in chosen], [label for _, label in chosen]


def frozen(x: list[str], y: list[str], test: list[str], seed: int) -> list[str]:
    from sklearn.linear_model import LogisticRegression

    encoder = BertSentenceEncoder.from_preset(PRESET)
    model = LogisticRegression(max_iter=2000).fit(encoder.encode(x), y)
    return model.predict(encoder.encode(test)).tolist()


def classifier(x: list[str], y: list[str], test: list[str], seed: int, **settings: object) -> list[str]:
    pooling = "unit_mean" if settings["few_shot"] else None
    keras.utils.set_random_seed(seed)
    model = BertClassifier.from_preset(PRESET, labels=sorted(set(y)), pooling=pooling)
    fine_tune(model, (x, y), progress=False, seed=seed, **settings)
    return [answer["label"] for answer in model.classify(test)]


def setfit(x: list[str], y: list[str], test: list[str], seed: int) -> list[str]:
    import torch
    from sentence_transformers import SentenceTransformer, losses
    from sklearn.linear_model import LogisticRegression

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    generator, pairs = random.Random(seed), []
    for _ in range(min(20, max(1, MOST_PAIRS // (2 * len(x))))):
        for i, label in enumerate(y):
            for target in (1.0, 0.0):
                partner = generator.choice([j for j, other in enumerate(y) if (other == label) == (target == 1.0)])
                pairs.append((x[i], x[partner], target))
    generator.shuffle(pairs)
    model = SentenceTransformer(str(presets.resolve(PRESET)), device="cpu")
    loss = losses.CosineSimilarityLoss(model)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-5)
    steps = -(-len(pairs) // 16)
    warmup = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, (steps - step) / max(1, steps - warmup))
    )
    model.train()
    for start in range(0, len(pairs), 16):
        first, second, targets = zip(*pairs[start : start + 16], strict=True)
        features = [model.tokenize(list(texts)) for texts in (first, second)]
        optimizer.zero_grad()
        loss(features, torch.tensor(targets)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()
    head = LogisticRegression(max_iter=2000).fit(model.encode(x, show_progress_bar=False), y)
    return head.predict(model.encode(test, show_progress_bar=False)).tolist()


METHODS = {
    "frozen": frozen,
    "few_shot": lambda *arguments: classifier(*arguments, few_shot=True),
    "fine_tune": lambda *arguments: classifier(*arguments, few_shot=False),
    "setfit": setfit,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--shots", default="8,16,32,64")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--test", type=int, default=400)
    parser.add_argument("--methods", default=",".join(METHODS))
    arguments = parse(parser, sets="sst2", shots="4", draws=1, test=40, methods="frozen,few_shot")
    need(arguments.data)
    warnings.simplefilter("ignore")
    heading(["tensorflow", "keras", "torch", "sentence-transformers", "scikit-learn"])
    methods = arguments.methods.split(",")
    table(["set", "texts a class", *methods], rows_of(arguments, methods))


def rows_of(arguments: argparse.Namespace, methods: list[str]) -> Iterator[list[object]]:
    """Yields the rows of the table."""
    for name in arguments.sets.split(","):
        train, test = SETS[name](arguments.data)
        random.Random(0).shuffle(test)
        texts, labels = zip(*test[: arguments.test], strict=True)
        for shots in map(int, arguments.shots.split(",")):
            scores, seconds = {each: [] for each in methods}, {each: [] for each in methods}
            for seed in range(arguments.draws):
                x, y = draw(train, shots, seed)
                for method in methods:
                    begin = time.process_time()
                    answers = METHODS[method](x, y, list(texts), seed)
                    seconds[method].append(time.process_time() - begin)
                    scores[method].append(100 * np.mean([a == b for a, b in zip(answers, labels, strict=True)]))
            cells = (
                f"{statistics.mean(scores[each]):.1f} ({statistics.mean(seconds[each]):.0f} s)" for each in methods
            )
            yield [name, shots, *cells]


if __name__ == "__main__":
    run(main)
