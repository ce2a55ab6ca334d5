"""Exact match and F1 of questions: by hand, and as the official scripts give them."""

import json
import random

import pytest

from keras_bert.answers.metrics import squad_v1, squad_v2


@pytest.mark.parametrize(("answers", "prediction", "exact", "f1"), [
    (["the Old Bridge"], "old bridge!", 100, 100),
    (["A B"], "b, the", 100, 100),  # articles go
    (["B C"], "c b", 0, 100),  # F1 does not mind the order
    (["one two three"], "two three four five", 0, 100 * 2 * 2 / 7),
    (["one", "one two"], "one two", 100, 100),
    (["one one two"], "one", 0, 100 * 2 * 1 / 4),
    (["U.S."], "us", 100, 100),
    (["co-op"], "coop", 100, 100),
    (["x"], "", 0, 0),
    (["x"], "y", 0, 0),
    (["an"], "the", 100, 0),  # no words in either: equal, with no word in common
])  # fmt: skip
def test_version_1(answers, prediction, exact, f1):
    assert squad_v1([answers], [prediction]) == pytest.approx({"exact_match": exact, "f1": f1})


def test_means():
    scores = squad_v1([["one"], ["two"], ["three four"]], ["one", "x", "three"])
    assert scores == pytest.approx({"exact_match": 100 / 3, "f1": 100 * (1 + 0 + 2 / 3) / 3})


def test_version_2():
    answers = [["one"], ["two three", "four"], [], []]
    f1, has = 100 * (1 + 2 / 3 + 1 + 0) / 4, {"HasAns_exact": 50, "HasAns_f1": 100 * (1 + 2 / 3) / 2, "HasAns_total": 2}
    expected = {"exact": 50, "f1": f1, "total": 4, **has, "NoAns_exact": 50, "NoAns_f1": 50, "NoAns_total": 2}
    assert squad_v2(answers, ["one", "two", "", "five"]) == pytest.approx(expected)
    assert set(squad_v2([["one"]], ["one"])) == {"exact", "f1", "total", "HasAns_exact", "HasAns_f1", "HasAns_total"}
    assert squad_v2([["the", "one"]], [""])["f1"] == 0  # the empty answer is not one of two
    assert squad_v2([["the"]], [""])["exact"] == 100  # but is right where there is no other


def test_thresholds():
    answers, predictions = [["one"], ["two"], [], []], ["one", "two", "three", "four"]
    # Sure to have no answer: the third most, then the second, the fourth, the first.
    scores = squad_v2(answers, predictions, [0.1, 0.6, 0.9, 0.3], threshold=0.5)
    assert (scores["exact"], scores["HasAns_exact"], scores["NoAns_exact"]) == (50, 50, 50)
    # Answering the first only is best: 3 of 4. Answering the second too takes answering the fourth.
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (75, 0.1)
    assert (scores["best_f1"], scores["best_f1_thresh"]) == (75, 0.1)
    best = squad_v2(answers, predictions, [0.1, 0.6, 0.9, 0.3], threshold=scores["best_exact_thresh"])
    assert best["exact"] == 75
    at_the_threshold = squad_v2([["one"]], ["one"], [0.5], threshold=0.5)
    assert at_the_threshold["exact"] == 100  # refused only above it
    # An empty prediction is right for a question without an answer, above the threshold and below.
    scores = squad_v2([["one"], []], ["one", ""], [0.5, 0.1])
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (100, 0.5)
    for score in (0.5, 0.0, -7.5):  # to answer nothing is best
        measures = squad_v2([[]], ["one"], [score])
        assert squad_v2([[]], ["one"], [score], measures["best_exact_thresh"])["exact"] == measures["best_exact"] == 100
    assert squad_v2([[]], ["one"], [0.5])["best_exact_thresh"] == 0  # as in the official script


def predictions_like(questions, seed):
    """For every question something that is right, nearly right, wrong or empty."""
    rng = random.Random(seed)

    def one(context, answers):
        given = rng.choice(answers) if answers else "the"
        words = context.split()
        start = rng.randrange(len(words))
        stretch = " ".join(words[start : start + rng.randrange(8)])
        return rng.choice([given, given.upper() + ".", f"the {given} {stretch}", stretch, "", "a", "?", given[:-1]])

    return [one(context, answers) for context, answers in questions]


@pytest.mark.parity
@pytest.mark.parametrize(("version", "with_scores"), [("1.1", False), ("2.0", False), ("2.0", True)])
def test_same_as_the_official_scripts(shared_data, version, with_scores):
    """Model Garden has them among its tools. With scores that several questions share, as rounded ones do."""
    official = pytest.importorskip(f"official.nlp.tools.squad_evaluate_v{version.replace('.', '_')}")
    articles = json.loads((shared_data / "squad" / f"dev-v{version}.json").read_text("utf-8"))["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    asked = [(paragraph["context"], question) for paragraph in paragraphs for question in paragraph["qas"]]
    answers = [[answer["text"] for answer in question["answers"]] for _, question in asked]
    ids = [question["id"] for _, question in asked]
    for seed in range(3):
        predictions = predictions_like(list(zip((context for context, _ in asked), answers, strict=True)), seed)
        by_id = dict(zip(ids, predictions, strict=True))
        if version == "1.1":  # theirs are shares, not percent as the script of SQuAD's authors gives
            theirs = official.evaluate(articles, by_id)
            expected = {"exact_match": 100 * theirs["exact_match"], "f1": 100 * theirs["final_f1"]}
            assert squad_v1(answers, predictions) == pytest.approx(expected, rel=1e-12)
            continue
        rng = random.Random(seed)
        scores = [round(rng.random() * 1.2, 2) for _ in ids] if with_scores else None
        theirs = official.evaluate(articles, by_id, scores and dict(zip(ids, scores, strict=True)))
        ours = squad_v2(answers, predictions, scores)
        assert len(ours) == (13 if with_scores else 9)
        # Garden says final_exact for what the script of SQuAD's authors calls best_exact.
        expected = {name: theirs[name.replace("best_", "final_")] for name in ours}
        assert ours == pytest.approx(expected, rel=1e-12)
