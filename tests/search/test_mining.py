"""Hard negatives are those of sentence-transformers, and never an answer."""

import numpy as np
import pytest

from keras_bert import BertReranker
from keras_bert.search import NegativeRules, mine_negatives

from ..support import small
from ..support.messages import error_names


@pytest.fixture
def pairs(sentences):
    """Queries with one positive or two."""
    queries = [f"{text} ?" for text in sentences[:10]]
    return [*queries, *queries[:3]], sentences[20:33]


def mined(pairs, sentences, preset, **rules):
    found = mine_negatives(*pairs, sentences[20:], preset, NegativeRules(**rules), progress=False)
    return [tuple(each[:3]) for each in found]


RULES = [
    {},
    {"negatives": 2, "range_min": 3},
    {"negatives": 2, "range_min": 2, "range_max": 5},
    {"relative_margin": 0.05},
    {"absolute_margin": 0.02, "negatives": 4},
    {"max_score": 0.95, "min_score": 0.2},
]


@pytest.mark.parity
@pytest.mark.parametrize("rules", RULES, ids=["plain", "later", "range", "relative", "absolute", "limits"])
def test_the_negatives_of_sentence_transformers(pairs, sentences, small_preset, rules):
    library = pytest.importorskip("sentence_transformers")
    datasets = pytest.importorskip("datasets")
    theirs = library.SentenceTransformer(str(small_preset), device="cpu")
    dataset = datasets.Dataset.from_dict({"query": pairs[0], "positive": pairs[1]})
    settings = {"num_negatives": rules.get("negatives", 3), **rules}
    settings.pop("negatives", None)
    expected = library.util.mine_hard_negatives(dataset, theirs, corpus=sentences[20:], verbose=False, **settings)
    expected = [(row["query"], row["positive"], row["negative"]) for row in expected]
    found = mined(pairs, sentences, small_preset, **rules)
    assert sorted(found) == sorted(expected)
    assert found


def test_a_model_that_compares_by_dot_product(untraced, pairs, sentences, dot_preset, read_once):
    model = read_once(dot_preset)
    candidates = [text for text in sentences[20:] if text not in pairs[1]]
    products = model.encode(pairs[0][4], progress=False) @ model.encode(candidates, progress=False).T
    found = [triplet for triplet in mine_negatives(*pairs, candidates, dot_preset) if triplet.query == pairs[0][4]]
    of_candidates = [each for each in found if each.negative in candidates]
    for each in of_candidates:
        assert each.negative_score == pytest.approx(float(products[candidates.index(each.negative)]), rel=1e-4)
    assert of_candidates


def test_rules():
    scores = np.float32([[0.9, 0.8, 0.7, -np.inf, 0.1], [0.5, 0.4, 0.3, 0.2, 0.1]])
    of_positives = np.float32([0.85, -0.2])

    def chosen(**rules):
        return [each.tolist() for each in NegativeRules(**rules).choose(scores, of_positives)]

    assert NegativeRules(negatives=2, range_min=1).looked_at(positives=3) == 6
    assert chosen(negatives=2) == [[0, 1], [0, 1]]
    assert chosen(negatives=2, range_min=1) == [[1, 2], [1, 2]]
    assert chosen(negatives=2, range_min=3, range_max=5) == [[4], [3, 4]]
    assert chosen(absolute_margin=0.1, negatives=1) == [[2], []]
    assert chosen(relative_margin=0.5, negatives=1) == [[4], []]  # -0.2 - 0.1: nothing is as low
    below_zero = NegativeRules(relative_margin=0.5, negatives=1)  # the limit is -0.3, not -0.1
    assert below_zero.choose(np.float32([[-0.25, -0.35]]), np.float32([-0.2]))[0].tolist() == [1]
    assert chosen(max_score=0.75, min_score=0.3) == [[2], [0, 1, 2]]
    ones, logits = np.ones([1, 3], np.float32), (np.float32([[20, 30, 25]]), np.float32([26]))
    for settings, expected in (({}, [1, 2, 0]), ({"absolute_margin": 0.0}, [2, 0]), ({"relative_margin": 0.0}, [2, 0])):
        (found,) = NegativeRules(negatives=3, **settings).choose(ones, np.float32([1]), logits=logits)
        assert found.tolist() == expected  # of a reranker whose scores are all 1
    several = [NegativeRules(negatives=2, range_max=3, sample=True, seed=seed) for seed in range(30)]
    drawn = [rules.choose(scores, of_positives) for rules in several]
    assert {tuple(each[0].tolist()) for each in drawn} == {(0, 1), (0, 2), (1, 2)}
    assert {len(each[1]) for each in drawn} == {2}


def test_negatives_score_less_than_the_lowest_of_several_positives(pairs, sentences, small_preset):
    rules = NegativeRules(negatives=30, absolute_margin=0.0)
    triplets = list(mine_negatives(*pairs, sentences[20:], small_preset, rules, progress=False))
    for query in pairs[0][:3]:  # with two positives
        of_query = [each for each in triplets if each.query == query]
        lowest, highest = (chosen(each.positive_score for each in of_query) for chosen in (min, max))
        assert lowest < highest
        assert max(each.negative_score for each in of_query) <= lowest


def test_neither_a_positive_nor_the_query(pairs, sentences, small_preset):
    queries, corpus = pairs[0], {*pairs[0], *sentences}
    rules = NegativeRules(negatives=100)
    found = list(mine_negatives(*pairs, sorted(corpus), small_preset, rules, progress=False))
    answers = {query: {text for other, text in zip(*pairs, strict=True) if other == query} for query in queries}
    assert len(found) == sum(len(corpus) - 1 - len(answers[query]) for query in queries)
    for each in found:
        assert each.negative not in answers[each.query] | {each.query}
        assert each.positive in answers[each.query]


def test_a_query_that_is_in_the_corpus_takes_no_place(sentences, small_preset):
    pair, settings = ([sentences[0]], [sentences[20]]), {"negatives": 3, "range_max": 3}
    first, second, _ = mine_negatives(*pair, sentences[20:], small_preset, NegativeRules(**settings), progress=False)
    settings["max_score"] = (first.negative_score + second.negative_score) / 2  # leaves out one of those looked at
    found = mined(pair, sentences, small_preset, **settings)
    assert found == mined(pair, [*sentences, sentences[0]], small_preset, **settings)
    assert found[0][2] == second.negative


@pytest.mark.slow
def test_scores_of_a_reranker(untraced, pairs, sentences, small_preset):
    reranker = small.task(BertReranker, config={"num_layers": 1})
    rules = NegativeRules(negatives=2, range_max=8)
    found = list(mine_negatives(*pairs, sentences[20:], small_preset, rules, reranker, progress=False))
    assert len(found) == 2 * len(pairs[0])
    columns = list(zip(*found, strict=True))
    np.testing.assert_allclose(columns[3], reranker.score(columns[0], columns[1], progress=False), atol=1e-5)
    np.testing.assert_allclose(columns[4], reranker.score(columns[0], columns[2], progress=False), atol=1e-5)
    by_vectors = mined(pairs, sentences, small_preset, negatives=2, range_max=8)
    assert [each[:3] for each in found] != by_vectors
    hardest, others = (np.array([each.negative_score for each in some]) for some in (found[::2], found[1::2]))
    assert (hardest >= others).all()


def test_what_was_encoded_is_not_encoded_again(pairs, sentences, small_preset, read_once, tmp_path, monkeypatch):
    path = tmp_path / "vectors.bin"
    expected = mined(pairs, sentences, small_preset)
    first = list(mine_negatives(*pairs, sentences[20:], small_preset, progress=False, encoded=path))

    def fails(*_, **__):
        raise AssertionError

    monkeypatch.setattr(read_once(small_preset), "encode_counted", fails)
    again = list(mine_negatives(*pairs, sentences[20:], small_preset, progress=False, encoded=path))
    assert again == first
    assert [each[:3] for each in again] == expected


@pytest.mark.parametrize(
    ("texts", "error", "words"),
    [
        ((["a", "b"], ["c"]), ValueError, ["2 queries", "1 positive"]),
        (("a", "b"), TypeError, ["queries", "single str", "[query]"]),
        ((["a"], ["b"], ["c", None]), TypeError, ["text 1", None, "str"]),
    ],
)
def test_texts_that_are_no_pairs_are_refused(small_preset, texts, error, words):
    with error_names(error, *words):
        list(mine_negatives(*texts, preset=small_preset))


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({"negatives": 0}, ["negatives", 0, "1 or more"]),
        ({"range_min": -1}, ["range_min", -1, "0 or more"]),
        ({"range_min": 2, "range_max": 4}, ["range_max is 4", "range_min 2", "3 negatives", "5 or more"]),
    ],
)
def test_rules_that_leave_no_negatives_are_refused(rules, words):
    with error_names(ValueError, *words):
        NegativeRules(**rules)
