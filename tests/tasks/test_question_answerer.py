"""BertQuestionAnswerer: the best span of all windows, with its place in the text; where answers to learn from are."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertQuestionAnswerer
from keras_bert.data import Answer
from keras_bert.tasks import question_answerer
from keras_bert.tasks.heads.spans import rank_answers, read_contexts
from keras_bert.training import evaluate, fine_tune

from ..support import small
from ..support.answering import CONTEXTS, QUESTIONS, WEIRD, answers_by_hand, lookup, new
from ..support.messages import error_names
from ..support.reference import bytepair, squad


@pytest.fixture(scope="module")
def model():
    return new(max_answer_length=3)


def byte_pairs():
    return small.byte_pairs(bytepair.train(["where is it", "it is there"], 20))


def test_logits(model, untraced):
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
    np.testing.assert_allclose(model.head(model.encoder(row)["sequence_output"])[is_token], alone[is_token], atol=1e-5)
    with error_names(ValueError, "pairs", "tuple of two"):
        model(["the film"])


def test_answers_are_those_of_run_squad(model, untraced):
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


def test_white_space_is_no_answer(untraced):
    """It has tokens in byte pairs."""
    model = small.task(BertQuestionAnswerer, text={"tokenizer": byte_pairs(), "stride": 16}, max_answer_length=2)
    ranked = model.answer("where is it", "it \n\u3000 is   there", top_k=20)
    assert len(ranked) > 5
    assert all(each["answer"].strip() for each in ranked)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "settings"), [
    ({"stride": 1}, {}), ({"stride": 100, "max_sequence_length": 40}, {"max_answer_length": 99}),
])  # fmt: skip
def test_with_other_settings_as_well(text, settings, untraced):
    test_answers_are_those_of_run_squad(new(text, **settings), untraced)


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_places_are_characters(untraced):
    for word in ("Zoë", "cafe\u0301", "日", "語", "naïve\u200bté", "ﬁn", "A\u030angström", "o"):
        answer = lookup([word], [word]).answer("who", WEIRD)
        found = answer["answer"], answer["start"], answer["end"]
        assert found == (word, WEIRD.rindex(word), WEIRD.rindex(word) + len(word))


def test_tokens_without_text(untraced):
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


def test_borders_of_windows_do_not_matter(untraced):
    """Wherever in a long context it is, at its end too."""
    model = lookup(["green"], ["giraffe"])
    contexts = ["😀 " * before + "green spotted giraffe" + " cafe\u0301" * (40 - before) for before in range(41)]
    answers = model.answer(["who is it"] * 41, contexts)
    for before, answer in enumerate(answers):
        assert (answer["answer"], answer["start"]) == ("green spotted giraffe", 2 * before)


def test_a_fixed_length_and_a_long_question_change_nothing(untraced):
    context = "it " * 50 + "green giraffe"
    for settings in ({"sequence_length": 24, "max_sequence_length": 30}, {}):
        model = lookup(["green"], ["giraffe"], **settings)
        served = model.serve(tf.constant(["who", "why " * 99]), tf.constant([context, context]))
        assert served["answer"].numpy().tolist() == [b"green giraffe"] * 2


@pytest.mark.slow
def test_many_are_the_same_as_one(model, monkeypatch):
    one_by_one = [model.answer(*each) for each in zip(QUESTIONS, CONTEXTS, strict=True)]
    monkeypatch.setattr("keras_bert.answers.spans.QUESTIONS_AT_A_TIME", 2)
    for settings in ({"batch_tokens": 24}, {"progress": True}):
        answers = model.answer(QUESTIONS, CONTEXTS, **settings)
        for answer, alone in zip(answers, one_by_one, strict=True):
            assert answer == pytest.approx(alone, abs=1e-4)
    assert model.answer([], []) == []


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
    assert none["probability"] == pytest.approx(np.e**4 / (np.e**4 + 1), abs=1e-5)
    for threshold, count in ((-20, 3), (-14, 2), (-5, 1), (3.99, 1), (4, 0)):
        model.no_answer_threshold = threshold
        assert [answer["answer"] for answer in model.answer(questions, contexts)].count("") == count
        served = model.serve(tf.constant(questions), tf.constant(contexts))
        assert served["answer"].numpy().tolist().count(b"") == count


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda model: model.answer("who", ["a"]), TypeError, ("question", "context", "str")),
    (lambda model: model.answer(["who"], ["a", "b"]), ValueError, ("1 question", "2 contexts")),
    (lambda model: model.answer(["who", " "], ["a", "b"]), ValueError, ("question 1", "empty")),
    (lambda model: model.answer("who", ""), ValueError, ("context 0", "empty")),
    (lambda model: model.answer("who", "a", 0), ValueError, ("top_k", "0", "1 to 20")),
    (lambda model: model.answer("who", "a", 21), ValueError, ("top_k", "21")),
    (lambda model: model.answer("who", "\ud800"), ValueError, ("surrogate",)),
    (lambda _: new({"stride": None}), ValueError, ("stride", "lost")),
    (lambda _: new(max_answer_length=0), ValueError, ("max_answer_length", "0")),
])  # fmt: skip
def test_questions_and_settings_without_an_answer_are_refused(model, call, error, words):
    with error_names(error, *words):
        call(model)


@pytest.mark.slow
def test_a_context_of_which_nothing_is_left_has_no_answer(model):
    nothing = model.serve(tf.constant(["", "Who?"]), tf.constant(["", ""]))
    assert nothing["answer"].numpy().tolist() == [b"", b""]
    answer = model.answer("Who?", "\u200b")
    assert (answer["answer"], answer["start"], answer["end"], answer["probability"]) == ("", 0, 0, 1.0)
    assert np.isfinite(answer["score"])
    assert 1e6 < answer["no_answer_score"] < np.inf
    assert model.answer("Who?", "\u200b", top_k=3) == [answer]
    json.dumps(answer)


# -- Settings


def test_settings_given_to_from_preset_replace_the_saved_ones(model, tmp_path):
    model.save_preset(tmp_path)
    other = BertQuestionAnswerer.from_preset(tmp_path, sequence_length=30, no_answer_threshold=2.0, max_answer_length=7)
    assert (other.preprocessor.max_sequence_length, other.preprocessor.stride) == (30, 5)
    assert (other.no_answer_threshold, other.max_answer_length) == (2.0, 7)
    other = BertQuestionAnswerer.from_preset(tmp_path, stride=3, dropout=0.2)
    assert (other.preprocessor.max_sequence_length, other.preprocessor.stride, other.dropout_rate) == (24, 3, 0.2)
    for settings, words in (({"sequence_length": 49}, ("49", "48 positions")), ({"stride": 0}, ("0",))):
        with error_names(ValueError, *settings, *words):
            BertQuestionAnswerer.from_preset(tmp_path, **settings)


def test_presets_of_others_give_the_defaults_of_squad(small_preset, tmp_path):
    """What a classifier saved of itself is not for us; and rows are no longer than the model's positions."""
    text = {"sequence_length": 12, "stride": 3, "max_sequence_length": 40}
    classifier = small.task(BertClassifier, ["a", "b"], text=text, config={"num_layers": 1, "max_positions": 500})
    classifier.save_preset(tmp_path)
    for preset, longest in ((tmp_path, 384), (small_preset, 48)):
        model = BertQuestionAnswerer.from_preset(preset)
        assert (model.preprocessor.max_sequence_length, model.preprocessor.stride) == (longest, 128)
        assert (model.preprocessor.sequence_length, model.max_answer_length) == (None, 30)


# -- Training


def at(context, text):
    return Answer(text, context.index(text))


@pytest.mark.parametrize("stride", [1, 30])
def test_targets(stride, untraced):
    """Of answers anywhere in a text, against the rows and the places of run_squad.py."""
    model = new({"stride": stride})
    tokenizer = model.preprocessor.tokenizer
    question, text = "who is it", f"{WEIRD} {WEIRD[::-1]}"
    cut, before, starts, ends = squad.windows(model.preprocessor, question, text)
    want, answers = [], []
    for place in range(0, len(text), 4):
        answer = text[place : place + 1 + place % 7]
        first, last = (len(text[:each].encode()) for each in (place, place + len(answer)))
        inside = [i for i, (a, b) in enumerate(zip(starts, ends, strict=True)) if a < last and b > first]
        if not inside:
            with error_names(ValueError, "answer", "no tokens"):
                model.examples((["who"], [text]), [[(answer, place)]])
            continue
        answers.append([Answer(answer, place), Answer("no", 0)])
        for begin, tokens in cut:
            is_here = begin <= inside[0] and inside[-1] < begin + len(tokens)
            want.append([len(before) + i - begin if is_here else 0 for i in (inside[0], inside[-1])])
    segments, targets, lengths = model.examples(([question] * len(answers), [text] * len(answers)), answers)
    x, y = model.batch(segments, targets)
    assert y.numpy().tolist() == want
    assert 0 < len({*map(tuple, want)} - {(0, 0)}) < len(want)
    rows = [[*before, *tokens, tokenizer.sep_token_id] for _, tokens in cut]
    assert lengths.tolist() == [*map(len, rows)] * len(answers)
    longest = max(map(len, rows))
    rows = [row + [tokenizer.pad_token_id] * (longest - len(row)) for row in rows]
    np.testing.assert_array_equal(x["input_word_ids"], rows * len(answers))


def test_targets_of_many(model, monkeypatch, untraced):
    answers = [[at(CONTEXTS[0], "bank")], [], (Answer("😀", 0),), [at(CONTEXTS[3], "good"), Answer("日本", 0)], []]
    x, y, lengths = (*(one := model.examples((QUESTIONS, CONTEXTS), answers))[:2], one.lengths)
    assert len(lengths) == y.shape[0] == x[0].nrows() > 9
    alone = [
        model.examples(([question], [context]), [given])
        for question, context, given in zip(QUESTIONS, CONTEXTS, answers, strict=True)
    ]
    np.testing.assert_array_equal(y, np.concatenate([each.targets for each in alone]))
    np.testing.assert_array_equal(lengths, np.concatenate([each.lengths for each in alone]))
    monkeypatch.setattr(question_answerer, "QUESTIONS_AT_A_TIME", 2)
    again = model.examples((QUESTIONS, CONTEXTS), answers)
    assert again.segments[1].to_list() == x[1].to_list()
    np.testing.assert_array_equal(again.targets, y)
    assert len(model.examples(([], []), []).lengths) == 0


@pytest.mark.parametrize(("x", "y", "words"), [
    ((["who"], ["the film"]), [[("film", 3)]], ("question 0", "'film'", "character 3")),
    ((["who"], ["the film"]), [[("film", -4)]], ("character -4",)),
    ((["who"], ["the film"]), [[("", 4)]], ("answer ''",)),
    ((["who"], ["the film"]), [Answer("film", 4)], ("question 0", "Answer")),
    ((["who"], ["the film"]), ["film"], ("'film'", "expected")),
    ((["who"], ["a \u200b b"]), [[("\u200b", 2)]], ("u200b", "tokens")),
    ((["who"], ["the film"]), [[], []], ("1 question", "answers to 2")),
    ((["who"], ["a", "b"]), [[], []], ("1 question", "2 contexts")),
    ((["who"], [""]), [[]], ("context 0", "empty")),
    (["who"], [[]], ("x", "list", "tuple of two lists")),
])  # fmt: skip
def test_examples_that_cannot_be_are_refused(model, x, y, words):
    with error_names(ValueError, *words):
        model.examples(x, y)


def test_padding_changes_no_loss(model, untraced):
    row = {name: each[:, 0] for name, each in model.preprocessor((["the film"], ["she loved the bank"])).items()}
    padded = {name: tf.pad(each, [[0, 0], [0, 9]]) for name, each in row.items()}
    losses = [model.training_loss()(tf.constant([[4, 5]]), model(inputs)) for inputs in (padded, row)]
    np.testing.assert_allclose(*losses, rtol=1e-5)


TAUGHT = (
    ["Where is the film?", "movie plot time", "Is it good?", "日本語?"],
    [
        "The film was very good! She loved the bank by the river, and not the bank he loved.",
        "Naïve plots 😀, dull music & a cold river-bank (1987).",
        "😀 She hated it",
        "日本語の映画は good 🙂 e\u0301",
    ],
)
ANSWERS = [[at(TAUGHT[1][0], "the bank")], [at(TAUGHT[1][1], "river-bank")], (), [at(TAUGHT[1][3], "good")]]


@pytest.mark.slow
@pytest.mark.filterwarnings("error:Gradients do not exist")  # for the pooler
def test_it_learns_and_keeps_the_epoch_of_the_best_f1():
    model, examples = new(scale=0.1, no_answer_threshold=0.0), (TAUGHT, ANSWERS)
    assert evaluate(model, *examples)["f1"] < 50
    settings = {"epochs": 10, "batch_size": 1, "learning_rate": 5e-3, "progress": False}
    history = fine_tune(model, examples, examples, **settings)
    assert history[-1]["loss"] < 0.2 < 1 < history[0]["loss"]
    assert len({epoch["val_f1"] for epoch in history}) > 1
    assert evaluate(model, *examples)["f1"] == max(epoch["val_f1"] for epoch in history)
    answers = model.answer(*TAUGHT)
    found = [[(answer["answer"], answer["start"])] if answer["answer"] else () for answer in answers]
    assert found == ANSWERS


ANSWERED = tuple(column[:2] for column in TAUGHT), ANSWERS[:2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("train", "validation", "given", "chosen"),
    [
        ((TAUGHT, ANSWERS), (TAUGHT, ANSWERS), None, "best"),
        ((TAUGHT, ANSWERS), (TAUGHT, ANSWERS), 1e6, 1e6),
        ((TAUGHT, ANSWERS), ANSWERED, None, 0.0),
        ((TAUGHT, ANSWERS), None, None, 0.0),
        (ANSWERED, ANSWERED, None, None),
    ],
)
def test_training_chooses_a_threshold_if_questions_have_no_answer(train, validation, given, chosen, untraced):
    model = new(scale=0.1, no_answer_threshold=given)
    settings = {"epochs": 3, "batch_size": 4, "learning_rate": 5e-3, "frozen_layers": 1}
    history = fine_tune(model, train, validation, progress=False, **settings)
    if chosen == "best":
        best = max(history, key=lambda epoch: epoch["val_f1"])
        chosen = best["val_no_answer_threshold"]
        assert all(epoch["val_f1"] == epoch["val_best_f1"] for epoch in history)
    else:
        assert all("val_no_answer_threshold" not in epoch for epoch in history)
    assert model.no_answer_threshold == chosen
    if validation is not None:
        assert evaluate(model, *validation)["f1"] == max(epoch["val_f1"] for epoch in history)


def test_the_chosen_threshold_refuses_all_if_that_is_best(untraced):
    x = (["Who?"] * 3, ["a green giraffe", "a giraffe", "nothing"])
    model = lookup(["green"], ["giraffe"], none=4.0)
    labels = [(), (), [Answer("nothing", 0)]]
    chosen = model.kind.choose(labels, model.answers(x))
    assert model.kind.with_settings(chosen).score(model.answers(x), labels).measures["f1"] == pytest.approx(200 / 3)
    assert model.kind.choose([[Answer("a", 0)]], model.answers(x)[:1]) == {}


def test_measures(untraced):
    model = lookup(["green"], ["giraffe"], none=4.0)
    x = (["Who?"] * 3, ["a green giraffe", "a giraffe", "nothing"])
    some = [[Answer("a green giraffe", 0), Answer("green", 2)], [Answer("a giraffe", 0)], [Answer("nothing", 0)]]
    assert list(evaluate(model, x, some).items()) == [("f1", 100.0), ("exact_match", 100.0)]
    some[2] = []
    measures = evaluate(model, x, some)
    assert next(iter(measures)) == "f1"
    assert measures["f1"] == pytest.approx(200 / 3)
    assert (measures["best_f1"], measures["best_f1_thresh"]) == (100.0, -5.0)
    model.no_answer_threshold = measures["best_f1_thresh"]
    assert evaluate(model, x, some)["f1"] == 100.0
    model.no_answer_threshold = -14.0
    measures = evaluate(model, x, some)
    assert measures["f1"] == pytest.approx(200 / 3)
    assert measures["best_f1"] == 100.0  # found though nothing is answered
    some[2] = [Answer("nothing", 0)]
    assert evaluate(model, x, some)["f1"] == pytest.approx(100 / 3)
