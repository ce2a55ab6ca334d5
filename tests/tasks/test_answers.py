"""BertQuestionAnswerer.answer: the best span of all windows, with its place in the text."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.tasks import question_answerer
from keras_bert.tasks.spans import rank_answers, read_contexts

from ..support import small
from ..support.answering import CONTEXTS, QUESTIONS, WEIRD, answers_by_hand, lookup, new
from ..support.reference import bytepair


@pytest.fixture(scope="module")
def model():
    return new(max_answer_length=3)


def byte_pairs():
    return small.byte_pairs(bytepair.train(["where is it", "it is there"], 20))


def test_logits(model):
    pairs = (["the film", "good"], ["the plot was dull", "she " * 30])
    packed = model.preprocessor(pairs)
    logits = model(pairs)
    assert logits.dtype == "float32"
    assert tuple(logits.shape) == (2, 3, 24, 2)
    for window in range(3):
        row = {name: each[:, window] for name, each in packed.items()}
        alone = model(row)
        assert tuple(alone.shape) == (2, 24, 2)
        np.testing.assert_allclose(logits[:, window], alone, atol=1e-5)
    is_token = row["input_mask"] == 1
    np.testing.assert_allclose(model.head(model.encoder(row)["sequence_output"])[is_token], alone[is_token], atol=1e-6)
    with pytest.raises(ValueError, match="takes pairs: a tuple of two"):
        model(["the film"])


def test_answers_are_those_of_run_squad(model):
    answers = model.answer(QUESTIONS, CONTEXTS, top_k=20)
    for question, context, ranked in zip(QUESTIONS, CONTEXTS, answers, strict=True):
        want, none = answers_by_hand(model, question, context)
        scores = [score for score, *_ in want]
        np.testing.assert_allclose([each["score"] for each in ranked], scores[:20], atol=1e-4)
        for each in ranked:
            assert any(
                abs(each["score"] - score) < 1e-4 and [each["start"], each["end"]] == place for score, *place in want
            )
            assert each["answer"] == context[each["start"] : each["end"]] != ""
            assert each["no_answer_score"] == pytest.approx(none - scores[0], abs=1e-4)
        share = np.exp(scores[:20]) / np.exp(scores[:20]).sum()
        np.testing.assert_allclose([each["probability"] for each in ranked], share, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "settings"),
    [({"stride": 1}, {}), ({"stride": 100}, {}), ({"max_sequence_length": 40}, {"max_answer_length": 99})],
)
def test_with_other_settings_as_well(text, settings):
    test_answers_are_those_of_run_squad(new(text, **settings))


def test_only_the_window_with_most_context_counts():
    model = lookup()
    generator = np.random.default_rng(0)
    model.by_token.assign(generator.normal(size=model.by_token.shape))
    model.by_place.assign(generator.normal(size=model.by_place.shape) * 3)
    context = " ".join(generator.choice(["green", "spotted", "giraffe", "word", "nothing", "it"], 90))
    (want, *others), _ = answers_by_hand(model, "who", context)
    assert others[0][0] < want[0] - 1e-3
    answer = model.answer("who", context)
    assert (answer["start"], answer["end"]) == want[1:]
    assert answer["score"] == pytest.approx(want[0], abs=1e-4)


def test_byte_pairs(untraced):
    """There are two separators in a row; and a token may be one byte of four: the answer is the whole character."""
    model = lookup(make_tokenizer=byte_pairs)
    model.by_token.assign(np.random.default_rng(0).normal(size=model.by_token.shape))
    context = "it is there where the river is, and it is where the film was"
    (want, *_), _ = answers_by_hand(model, "where", context)
    served = model.serve(tf.constant(["where"]), tf.constant([context]))
    assert (int(served["start"][0]), int(served["end"][0])) == want[1:]
    text = "it is 😀 there"
    tokenizer = model.preprocessor.tokenizer
    ids, starts, _ = (each.numpy().tolist() for each in tokenizer.tokenize_with_offsets(text))
    parts = [i for i, start in zip(ids, starts, strict=True) if 6 <= start < 10]
    assert len(parts) > 2
    lookup(make_tokenizer=byte_pairs).by_token[parts[1]].assign([9, 9])
    assert model.serve(tf.constant(["where"]), tf.constant([text]))["answer"].numpy()[0].decode() == "😀"


@pytest.mark.parametrize("word", ["Zoë", "cafe\u0301", "日", "語", "naïve\u200bté", "ﬁn", "A\u030angström", "o"])
def test_places_are_characters(word):
    model = lookup([word], [word])
    answer = model.answer("who", WEIRD)
    assert answer["answer"] == word
    assert (answer["start"], answer["end"]) == (WEIRD.rindex(word), WEIRD.rindex(word) + len(word))
    served = model.serve(tf.constant(["who"]), tf.constant([WEIRD]))
    assert served["answer"].numpy()[0].decode() == word
    assert [int(served["start"][0]), int(served["end"][0])] == [answer["start"], answer["end"]]


def test_tokens_without_text():
    """Where a character became several tokens, one may have its text: the others are no answer."""
    model = lookup(["green"], ["green"])
    context = tf.constant(["a green giraffe"])
    read = read_contexts(model.preprocessor, tf.constant(["who"]), context)
    found = model._find_spans(*read.segments)
    assert int(rank_answers(read, context, found, None, 1).start[0, 0]) == 2
    ends = tf.where(read.starts.values == 2, tf.constant(2, tf.int64), read.ends.values)
    ranked = rank_answers(read._replace(ends=read.ends.with_values(ends)), context, found, None, 20)
    exists = ranked.exists[0].numpy()
    tokens = len(ends)
    assert exists.sum() == tokens * (tokens + 1) / 2 - 1
    assert (ranked.end > ranked.start)[0].numpy()[exists].all()


def test_borders_of_windows_do_not_matter():
    """Wherever in a long context it is, at its end too."""
    model = lookup(["green"], ["giraffe"])
    contexts = ["😀 " * before + "green spotted giraffe" + " cafe\u0301" * (40 - before) for before in range(41)]
    answers = model.answer(["who is it"] * 41, contexts)
    for before, answer in enumerate(answers):
        assert (answer["answer"], answer["start"]) == ("green spotted giraffe", 2 * before)


def test_a_fixed_length_and_a_long_question_change_nothing():
    context = "it " * 50 + "green giraffe"
    for settings in ({"sequence_length": 24, "max_sequence_length": 30}, {}):
        model = lookup(["green"], ["giraffe"], **settings)
        served = model.serve(tf.constant(["who", "why " * 99]), tf.constant([context, context]))
        assert served["answer"].numpy().tolist() == [b"green giraffe"] * 2


def test_many_are_the_same_as_one(model, monkeypatch):
    one_by_one = [model.answer(*each) for each in zip(QUESTIONS, CONTEXTS, strict=True)]
    monkeypatch.setattr(question_answerer, "_QUESTIONS_AT_A_TIME", 2)
    for settings in ({"batch_tokens": 24}, {"progress": True}):
        answers = model.answer(QUESTIONS, CONTEXTS, **settings)
        for answer, alone in zip(answers, one_by_one, strict=True):
            assert answer == pytest.approx(alone, abs=1e-4)
    assert model.answer([], []) == []


@pytest.mark.parametrize("threshold", [None, -0.5])
def test_what_is_served(model, monkeypatch, threshold):
    monkeypatch.setattr(model, "no_answer_threshold", threshold)
    served = model.serve(tf.constant(QUESTIONS), tf.constant(CONTEXTS))
    served = {name: value.numpy() for name, value in served.items()}
    answers = model.answer(QUESTIONS, CONTEXTS)
    assert [answer["answer"].encode() for answer in answers] == served.pop("answer").tolist()
    for name, values in served.items():
        assert values.shape == (5,)
        np.testing.assert_allclose(values, [answer[name] for answer in answers], atol=1e-4)
    assert set(served) == {"start", "end", "score", "probability", "no_answer_score"}


def test_no_answer():
    model = lookup(["green"], ["giraffe"], none=4.0)
    questions, contexts = ["Who?"] * 3, ["a green giraffe", "a giraffe", "nothing"]
    always = model.answer(questions, contexts, top_k=3)
    assert [answers[0]["answer"] for answers in always] == ["green giraffe", "a giraffe", "nothing"]
    assert [answers[0]["no_answer_score"] for answers in always] == [-14, -5, 4]
    assert all(each["answer"] for answers in always for each in answers)
    assert [len(answers) for answers in always] == [3, 3, 1]

    model.no_answer_threshold = 3.0
    answers = model.answer(questions, contexts, top_k=3)
    assert [[each["answer"] for each in ranked] for ranked in answers][2] == ["", "nothing"]
    none = answers[2][0]
    assert (none["start"], none["end"], none["score"], none["no_answer_score"]) == (0, 0, 4.0, 4.0)
    assert none["probability"] == pytest.approx(np.e**4 / (np.e**4 + 1), abs=1e-6)
    for threshold, count in ((-20, 3), (-14, 2), (-5, 1), (3.99, 1), (4, 0)):
        model.no_answer_threshold = threshold
        assert [answer["answer"] for answer in model.answer(questions, contexts)].count("") == count
        served = model.serve(tf.constant(questions), tf.constant(contexts))
        assert served["answer"].numpy().tolist().count(b"") == count


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("who", ["a"]), TypeError, "one of question and context is a str, the other is not"),
        ((["who"], ["a", "b"]), ValueError, "there are 1 questions, but 2 contexts"),
        ((["who", " "], ["a", "b"]), ValueError, r"question 1 \(from 0\) is empty"),
        (("who", ""), ValueError, r"context 0 \(from 0\) is empty"),
        ((["who", "who"], ["a", None]), TypeError, r"context 1 \(from 0\) is None \(NoneType\), not a str"),
        (("who", "a", 0), ValueError, "top_k is 0; expected 1 to 20"),
        (("who", "a", 21), ValueError, "top_k is 21"),
        (("who", "\ud800"), ValueError, "lone surrogate"),
    ],
)
def test_bad_questions(model, arguments, error, message):
    with pytest.raises(error, match=message):
        model.answer(*arguments)


def test_a_context_of_which_nothing_is_left(model):
    answer = model.answer("Who?", "\u200b")
    assert (answer["answer"], answer["start"], answer["end"], answer["probability"]) == ("", 0, 0, 1.0)
    assert np.isfinite(answer["score"])
    assert 1e6 < answer["no_answer_score"] < np.inf
    assert model.answer("Who?", "\u200b", top_k=3) == [answer]
    json.dumps(answer)


def test_bad_settings(model):
    for text, settings, message in [
        ({"stride": None}, {}, "has no stride"),
        ({}, {"max_answer_length": 0}, "max_answer_length is 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            new(text, **settings)
