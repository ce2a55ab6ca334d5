"""evaluate: each task's answers, measured by its task's measures."""

import numpy as np
import pytest
from scipy import stats

from keras_bert import BertClassifier, BertTokenClassifier
from keras_bert.tasks.kinds.classes import Classes, Numbers, Several
from keras_bert.tasks.kinds.words import WordLabels
from keras_bert.tasks.multiple_choice import Choices
from keras_bert.tasks.next_sentence import NextSentence
from keras_bert.tasks.question_answerer import Spans
from keras_bert.tasks.reranker import Ranking
from keras_bert.training import evaluate

from ..support import small
from ..support.messages import warning_names
from ..support.reviews import classifier, examples

WORDS = ["the", "actor", "love", "good", "music", "and", "bad"]
pytestmark = pytest.mark.usefixtures("untraced")


def tagger(labels):
    """One whose labels differ from word to word."""
    learner = small.task(BertTokenClassifier, labels, config={"num_layers": 1})
    logits = learner(learner.preprocessor.pack([[5, 60, 70, 80, 90, 100, 110]]))
    learner.head.logits.bias.assign_sub(np.mean(logits, axis=(0, 1)))
    return learner


@pytest.fixture(scope="module")
def of_words():
    return tagger(["number", "colour"])


def test_parts_of_speech_are_counted_word_by_word(of_words):
    sentences = [WORDS[:3], WORDS[3:], ["red"]]
    given = [[answer["label"] for answer in answers] for answers in of_words.tag(sentences)]
    assert {label for labels in given for label in labels} == {"number", "colour"}
    wanted = [list(labels) for labels in given]
    wanted[1][0] = "colour" if wanted[1][0] == "number" else "number"
    assert evaluate(of_words, sentences, wanted) == {"accuracy": pytest.approx(7 / 8)}


def test_entities_are_counted_whole():
    learner = tagger(["O", "B-x", "I-x"])
    sentences = [WORDS, WORDS[::-1]]
    given = [[answer["label"] for answer in answers] for answers in learner.tag(sentences)]
    assert next(iter(evaluate(learner, sentences, given).items())) == ("f1", 1.0)
    assert evaluate(learner, sentences, [["O"] * 7] * 2)["f1"] == 0.0


def test_words_that_are_cut_off_count_as_wrong(of_words):
    sentence = ["good"] * 30  # of which 22 fit
    with warning_names("words", 8, "long_text='windows'"):
        label = of_words.tag([sentence])[0][0]["label"]
    with warning_names("words", 8, "long_text='windows'"):
        assert evaluate(of_words, [sentence], [[label] * 30])["accuracy"] <= 22 / 30


def test_classifiers():
    learner = classifier(scale=0.3)
    x, y = examples(8)
    given = [answer["label"] for answer in learner.classify(x)]
    right = np.mean([a == b for a, b in zip(given, y, strict=True)])
    assert evaluate(learner, x, y) == {"accuracy": pytest.approx(right)}
    numbers = [learner.labels.index(label) for label in y]
    assert evaluate(learner, x, numbers) == evaluate(learner, x, y)
    several = BertClassifier(learner.encoder, learner.preprocessor, ["a", "b"], problem_type=Several.PROBLEM_TYPE)
    given = [[each["label"] for each in answer] for answer in several.classify(x)]
    measures = evaluate(several, x, given)
    assert (next(iter(measures)), measures["accuracy"]) == ("micro_f1", 1.0)
    numbers = BertClassifier(learner.encoder, learner.preprocessor, ["a"], problem_type=Numbers.PROBLEM_TYPE)
    given = [-answer["a"] for answer in numbers.classify(x)]
    apart = 2 * np.array(given)  # each label is the answer with the other sign
    assert evaluate(numbers, x, given) == {
        **{"spearman": pytest.approx(-1), "pearson": pytest.approx(-1, abs=1e-5)},
        **{"mae": pytest.approx(np.abs(apart).mean()), "rmse": pytest.approx(np.sqrt(np.mean(apart**2)))},
        "rmse_baseline": pytest.approx(np.sqrt(np.mean((np.array(given) - np.mean(given)) ** 2)), rel=1e-5),
    }


def answer(label):
    return {"label": label, "probability": 0.75}


def span(text):
    return [{"answer": text, "start": 0, "end": 0, "score": 0.0, "probability": 0.5, "no_answer_score": -1.0}]


TAGS, SPANS = [["B-x", "O"], ["O", "O"]], [[("cat", 0)], [], []]


@pytest.mark.parametrize(
    ("kind", "answers", "labels", "baselines", "only"),
    [
        (Classes(["a", "b"]), [answer("a")] * 4, list("abbb"), {"accuracy": 0.75}, "a"),
        (Classes(["a", "b"]), [answer("a"), answer("b")] * 2, list("abbb"), {"accuracy": 0.75}, None),
        (Classes(["a", "b"]), [answer("a")] * 4, list("aaaa"), {"accuracy": 1.0}, None),  # as the examples are
        (Several(["a", "b"]), [[]] * 3, [["a"], [], []], {"accuracy": 2 / 3}, "no label"),
        (Several(["a", "b"]), [[answer("b")]] * 3, [["a", "b"], ["b", "a"], []], {"accuracy": 2 / 3}, "b"),
        (Numbers(["a"]), [{"a": 1.0}] * 4, [1, 2, 3, 6], {"mae": 1.5}, None),
        (WordLabels(["B-x", "O"]), [[answer("O")] * 2] * 2, TAGS, {"f1": 0.0}, "no entity"),
        (WordLabels(["B-x", "O"]), [[answer("O"), answer("B-x")]] * 2, TAGS, {"f1": 0.0}, None),
        (WordLabels(["c", "d"]), [[answer("c")] * 3], [["c", "d", "d"]], {"accuracy": 2 / 3}, "c"),
        (Spans(0.0), [span("")] * 3, SPANS, {"f1": 200 / 3, "exact": 200 / 3}, "no answer"),
        (Spans(-2.0), [span("cat")] * 3, SPANS, {"f1": 200 / 3, "exact": 200 / 3}, "no answer"),
        (Spans(0.0), [span("cat")] * 3, SPANS, {"f1": 200 / 3, "exact": 200 / 3}, None),
        (Choices(), [{"index": 1, "probability": 1}] * 3, [1, 0, 0], {"accuracy": 2 / 3}, "1"),
        (NextSentence(), [0.75] * 3, [1, 0, 0], {"accuracy": 2 / 3}, "0"),
        (Ranking(), [0.5, 0.5, 0.5, 0.5], [1, 0, 0, 0], {"average_precision": 0.25}, None),
    ],
)
def test_a_baseline_knows_only_the_labels(kind, answers, labels, baselines, only):
    score = kind.score(answers, labels)
    assert score.baselines == pytest.approx(baselines)
    assert set(baselines) <= set(score.measures)
    assert score.details.items() >= {f"{name}_baseline": score.baselines[name] for name in baselines}.items()
    assert score.only_answer == only
    assert (score.warning is None) == (only is None)


def test_several_numbers_are_measured_one_by_one():
    """A rating and a price: over both at once, even shuffled predictions correlate."""
    rng = np.random.default_rng(0)
    labels = np.stack([rng.uniform(0, 1, 400), rng.uniform(1000, 1010, 400)], axis=1)
    predictions = np.stack([rng.permutation(column) for column in labels.T], axis=1)
    predictions[7] = labels[7] + [1.5, 0]  # the worst, though other errors are larger numbers
    task = Numbers(["rating", "price"])
    answers = [dict(zip(task.labels, row, strict=True)) for row in predictions]
    columns = list(zip(labels.T, predictions.T, strict=True))
    root = np.sqrt(np.mean((labels - predictions) ** 2, axis=0))
    assert task.score(answers, labels).measures == pytest.approx({
        "spearman": np.mean([stats.spearmanr(*each)[0] for each in columns]),
        "pearson": np.mean([stats.pearsonr(*each)[0] for each in columns]),
        "mae": np.mean([np.abs(a - b).mean() for a, b in columns]),
        "rmse": root.mean(),
        "rmse_baseline": np.mean([np.std(a) for a, _ in columns]),
    }, rel=1e-4)  # fmt: skip
    is_wrong = (np.abs(labels - predictions) >= root).any(axis=1)
    score = task.score(answers, labels)
    assert sorted(score.mistakes) == np.flatnonzero(is_wrong).tolist()
    assert score.mistakes[0] == score.worst[0] == 7
