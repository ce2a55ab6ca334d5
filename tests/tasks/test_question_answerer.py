"""BertQuestionAnswerer: the best span of all windows, with its place in the text, on every way in and out."""

import dataclasses
import json
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertEncoder, BertPreprocessor, BertQuestionAnswerer
from keras_bert.data import Answer
from keras_bert.saved_model import export_serving
from keras_bert.saved_model.check import check_serving
from keras_bert.tasks import question_answerer
from keras_bert.tasks.answers import rank_answers
from keras_bert.tasks.contexts import read_contexts
from keras_bert.text import WordPieceTokenizer
from keras_bert.training import evaluate, fine_tune

from ..golden import make_golden_export as golden
from ..text import reference_bytepair
from ..text.test_bytepair import make
from .test_token_classifier import vocabulary_files  # noqa: F401

QUESTIONS = ["Where is the film?", "movie plot time", "Is it good?", "日本語?", "What is cold?"]
CONTEXTS = [
    "The film was very good! " + "She loved the bank by the river. " * 9,
    "Naïve plots 😀, dull music & a cold river-bank (1987).",
    "😀",
    "日本語の映画は good 🙂 e\u0301",
    "\u200b the plot, not the actor \u200b " * 7,
]
SQUAD_CONTEXT = (
    "The Normans (Norman: Nourmands; French: Normands; Latin: Normanni) were the people who in the 10th and 11th "
    "centuries gave their name to Normandy, a region in France. They were descended from Norse raiders and pirates "
    "from Denmark, Iceland and Norway who, under their leader Rollo, agreed to swear fealty to King Charles III of "
    "West Francia. Through generations of assimilation and mixing with the native Frankish and Roman-Gaulish "
    "populations, their descendants would gradually merge with the Carolingian-based cultures of West Francia."
)


def new(seed=0, scale=0.3, tokenizer=None, kind=BertQuestionAnswerer, config=golden.CONFIG, **settings):
    keras.utils.set_random_seed(seed)
    names = ("max_answer_length", "no_answer_threshold")
    given = {name: settings.pop(name) for name in names if name in settings}
    settings = {"sequence_length": None, "max_sequence_length": 24, "stride": 5, **settings}
    tokenizer = tokenizer or WordPieceTokenizer(golden.VOCABULARY)
    encoder = BertEncoder(dataclasses.replace(config, vocab_size=tokenizer.vocabulary_size))
    model = kind(encoder, BertPreprocessor(tokenizer, **settings), dropout=0.0, **given)
    generator = np.random.default_rng(seed)
    model.set_weights([weight + generator.normal(0, scale, weight.shape) for weight in model.get_weights()])
    return model


def at(context, text):
    return Answer(text, context.index(text))


@pytest.fixture(scope="module")
def model():
    return new()


class Lookup(BertQuestionAnswerer):
    """Its logits of start and end are in a table, by piece; and in another one, by place in the row."""

    by_piece = np.zeros((1, 2), "float32")
    by_place = np.zeros((512, 2), "float32")

    def call(self, inputs, training=None):
        ids = inputs["input_word_ids"]
        return tf.gather(self.by_piece, ids) + tf.constant(self.by_place)[: tf.shape(ids)[-1]]


def lookup(tokenizer, starts=(), ends=(), none=-1.0, **settings):
    """A model that looks for what starts and ends with certain words."""
    model = new(tokenizer=tokenizer, kind=Lookup, **{"max_sequence_length": 64, "stride": 16, **settings})
    model.by_piece = np.zeros((tokenizer.vocabulary_size, 2), "float32")
    model.by_piece[tokenizer.cls_token_id] = none / 2
    for word in starts:
        model.by_piece[tokenizer.tokenize(word)[0], 0] = 9
    for word in ends:
        model.by_piece[tokenizer.tokenize(word)[-1], 1] = 9
    return model


def windows_by_hand(model, question, context):
    """(begin, pieces) of each window and the row before it, as run_squad.py has them; and the offsets of all pieces."""
    preprocessor = model.preprocessor
    tokenizer, longest = preprocessor.tokenizer, preprocessor.max_sequence_length
    pieces, starts, ends = (each.numpy().tolist() for each in tokenizer.tokenize_with_offsets(context))
    separators = [tokenizer.sep_token_id] * tokenizer.pair_format.separators
    room = longest - 2 - len(separators)
    asked = tokenizer.tokenize(question).numpy().tolist()[: room // 2]
    room -= len(asked)
    cut, begin = [], 0
    while True:
        cut.append((begin, pieces[begin : begin + room]))
        if begin + room >= len(pieces):
            return cut, [tokenizer.cls_token_id, *asked, *separators], starts, ends
        begin += min(room, preprocessor.stride)


def has_most_context(cut, window, piece):
    """`_check_is_max_context` of run_squad.py."""
    best_score, best = None, None
    for number, (begin, pieces) in enumerate(cut):
        last = begin + len(pieces) - 1
        if begin <= piece <= last:
            score = min(piece - begin, last - piece) + 0.01 * len(pieces)
            if best_score is None or score > best_score:
                best_score, best = score, number
    return best == window


def answers_by_hand(model, question, context):
    """All of them: (score, start, end), best first; and the score of no answer."""
    tokenizer = model.preprocessor.tokenizer
    cut, before, starts, ends = windows_by_hand(model, question, context)
    found, none = [], np.inf
    for number, (begin, pieces) in enumerate(cut):
        ids = np.array([[*before, *pieces, tokenizer.sep_token_id]], "int32")
        types = np.where(np.arange(ids.shape[1]) < len(before), 0, tokenizer.pair_format.second_type_id)[None]
        row = {"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": types.astype("int32")}
        logits = np.asarray(model(row))[0]
        none = min(none, logits[0].sum())
        for start in range(len(pieces)):
            if has_most_context(cut, number, begin + start):
                for end in range(start, min(start + model.max_answer_length, len(pieces))):
                    score = logits[len(before) + start, 0] + logits[len(before) + end, 1]
                    place = starts[begin + start], ends[begin + end]
                    place = tuple(len(context.encode()[:offset].decode()) for offset in place)
                    found.append((score, *place))
    return sorted(found, key=lambda each: -each[0]), none


# -- Answers


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
    np.testing.assert_allclose(tf.function(model, jit_compile=True)(row), alone, atol=1e-4)
    with pytest.raises(ValueError, match="takes pairs: a tuple of two"):
        model(["the film"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"stride": 1, "max_answer_length": 3},
        {"stride": 100},
        {"max_sequence_length": 40},
        {"max_answer_length": 99},
    ],
)
def test_answers_are_those_of_run_squad(settings):
    model = new(**settings)
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


def test_only_the_window_with_most_context_counts(tokenizer):
    model = lookup(tokenizer, max_sequence_length=20, stride=4)
    generator = np.random.default_rng(0)
    model.by_piece = generator.normal(size=model.by_piece.shape).astype("float32")
    model.by_place = generator.normal(size=model.by_place.shape).astype("float32") * 3
    context = " ".join(generator.choice(["one", "two", "three", "four", "five", "six", "seven"], 90))
    (want, *others), _ = answers_by_hand(model, "who", context)
    assert others[0][0] < want[0] - 1e-3
    answer = model.answer("who", context)
    assert (answer["start"], answer["end"]) == want[1:]
    assert answer["score"] == pytest.approx(want[0], abs=1e-4)


@pytest.mark.slow
def test_families_with_two_separators():
    model = lookup(make(reference_bytepair.train(["where is it", "it is there"], 20)), max_sequence_length=20, stride=4)
    model.by_piece = np.random.default_rng(0).normal(size=model.by_piece.shape).astype("float32")
    context = "it is there where the river is, and it is where the film was"
    (want, *_), _ = answers_by_hand(model, "where", context)
    answer = model.answer("where", context)
    assert (answer["start"], answer["end"]) == want[1:]
    found, _ = taught(model, "where", context, [at(context, "river")])
    assert set(found) == {"river", None}


WEIRD = "😀 Zoë's cafe\u0301, 👩‍👩‍👧 日本語 naïve\u200bté \t ﬁn \U0001f1e9\U0001f1ea A\u030angström o"


@pytest.mark.parametrize("word", ["Zoë", "cafe\u0301", "日", "語", "naïve\u200bté", "ﬁn", "A\u030angström", "o"])
def test_places_are_characters(tokenizer, word):
    model = lookup(tokenizer, [word], [word])
    answer = model.answer("who", WEIRD)
    assert answer["answer"] == word
    assert (answer["start"], answer["end"]) == (WEIRD.rindex(word), WEIRD.rindex(word) + len(word))
    served = model.serve(tf.constant(["who"]), tf.constant([WEIRD]))
    assert served["answer"].numpy()[0].decode() == word
    assert [int(served["start"][0]), int(served["end"][0])] == [answer["start"], answer["end"]]


@pytest.mark.slow
def test_parts_of_characters():
    """A piece of byte pairs may be one byte of four: the answer is the whole character."""
    tokenizer = make(reference_bytepair.train(["where is it", "it is there"], 20))
    text = "it is 😀 there"
    ids, starts, _ = (each.numpy().tolist() for each in tokenizer.tokenize_with_offsets(text))
    parts = [i for i, start in zip(ids, starts, strict=True) if 6 <= start < 10]
    assert len(parts) > 2
    for part in parts[1:-1]:
        model = lookup(tokenizer)
        model.by_piece[part] = 9
        assert model.answer("where", text)["answer"] == "😀"
        assert model.serve(tf.constant(["where"]), tf.constant([text]))["answer"].numpy()[0].decode() == "😀"


def test_pieces_without_text(tokenizer):
    """Where a character became several pieces, one may have its text: the others are no answer."""
    model = lookup(tokenizer, ["green"], ["green"])
    context = tf.constant(["a green giraffe"])
    read = read_contexts(model.preprocessor, tf.constant(["who"]), context)
    found = model._found(*read.segments)
    assert int(rank_answers(read, context, found, None, 1).start[0, 0]) == 2
    ends = tf.where(read.starts.values == 2, tf.constant(2, tf.int64), read.ends.values)
    ranked = rank_answers(read._replace(ends=read.ends.with_values(ends)), context, found, None, 20)
    exists = ranked.exists[0].numpy()
    pieces = len(ends)
    assert exists.sum() == pieces * (pieces + 1) / 2 - 1
    assert (ranked.end > ranked.start)[0].numpy()[exists].all()


def test_an_answer_at_the_end_of_a_long_context(tokenizer):
    model = lookup(tokenizer, ["green"], ["giraffe"], max_sequence_length=384, stride=128)
    context = "word " * 2000 + "the green spotted giraffe."
    answer = model.answer("Who?", context)
    assert answer["answer"] == "green spotted giraffe"
    assert answer["start"] == 10004
    short = lookup(tokenizer, ["green"], ["giraffe"], max_sequence_length=384, stride=128, max_answer_length=2)
    assert short.answer("Who?", context)["answer"] != "green spotted giraffe"


def test_borders_of_windows_do_not_matter(tokenizer):
    model = lookup(tokenizer, ["green"], ["giraffe"], max_sequence_length=24, stride=5)
    for before in range(60):
        context = "😀 " * before + "green spotted giraffe" + " é" * (70 - before)
        answer = model.answer("Who is it?", context)
        assert (answer["answer"], answer["start"]) == ("green spotted giraffe", 2 * before)


def test_a_fixed_length_and_a_long_question_change_nothing(tokenizer):
    words = ["green"], ["giraffe"]
    context = "it " * 50 + "green giraffe"
    for settings in ({"sequence_length": 24, "max_sequence_length": 30}, {"max_sequence_length": 24}):
        model = lookup(tokenizer, *words, **settings)
        answers = model.answer(["Who?", "why " * 99], [context, context])
        assert [answer["answer"] for answer in answers] == ["green giraffe"] * 2


def test_many_are_the_same_as_one(model, monkeypatch):
    one_by_one = [model.answer(*each) for each in zip(QUESTIONS, CONTEXTS, strict=True)]
    monkeypatch.setattr(question_answerer, "_QUESTIONS_AT_A_TIME", 2)
    for settings in ({}, {"batch_tokens": 24}, {"progress": True}):
        answers = model.answer(QUESTIONS, CONTEXTS, **settings)
        for answer, alone in zip(answers, one_by_one, strict=True):
            assert answer == pytest.approx(alone, abs=1e-4)
    assert model.answer([], []) == []


def test_no_answer(tokenizer):
    model = lookup(tokenizer, ["green"], ["giraffe"], none=4.0)
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
    for threshold, count in ((-20, 3), (-14, 2), (-5, 1), (3.99, 1), (4, 0), (float("inf"), 0)):
        model.no_answer_threshold = threshold
        assert [answer["answer"] for answer in model.answer(questions, contexts)].count("") == count
        served = model.serve(tf.constant(questions), tf.constant(contexts))
        assert served["answer"].numpy().tolist().count(b"") == count


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("who", ["a"]), TypeError, "one is a single str and the other is not"),
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


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"stride": None}, "has no stride"), ({"max_answer_length": 0}, "max_answer_length is 0")],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        new(**settings)


# -- Training


def taught(model, question, context, answers):
    """By hand: the rows, and in each the text from the target's start to its end, None where it is [CLS]."""
    segments, targets, lengths = model.examples(([question], [context]), [answers])
    x, y = model.batch(segments, targets)
    cut, before, starts, ends = windows_by_hand(model, question, context)
    found = []
    sep = [model.preprocessor.tokenizer.sep_token_id]
    for (begin, pieces), ids, (start, end), length in zip(
        cut, x["input_word_ids"].numpy(), y.numpy().tolist(), lengths, strict=True
    ):
        row = [*before, *pieces, *sep]
        assert ids.tolist() == row + [model.preprocessor.tokenizer.pad_token_id] * (len(ids) - len(row))
        assert length == len(row)
        begin -= len(before)
        place = (starts[begin + start], ends[begin + end]) if start else None
        assert (start == 0) == (end == 0)
        found.append(context.encode()[place[0] : place[1]].decode() if place else None)
    return found, (cut, before, starts, ends)


@pytest.mark.parametrize("stride", [1, 5, 30])
def test_targets(tokenizer, stride):
    model = new(tokenizer=tokenizer, stride=stride)
    text = f"{WEIRD} {WEIRD[::-1]} {WEIRD}"
    for start in range(0, len(text), 7):
        for length in (1, 7):
            answer = text[start : start + length]
            first, last = (len(text[:place].encode()) for place in (start, start + len(answer)))
            _, offsets, ends = (each.numpy().tolist() for each in tokenizer.tokenize_with_offsets(text))
            inside = [i for i, (a, b) in enumerate(zip(offsets, ends, strict=True)) if a < last and b > first]
            if not inside:
                with pytest.raises(ValueError, match="leaves nothing of its answer"):
                    model.examples((["who"], [text]), [[(answer, start)]])
                continue
            found, (cut, *_) = taught(model, "who is it", text, [Answer(answer, start), Answer("no", 0)])
            want = text.encode()[offsets[inside[0]] : ends[inside[-1]]].decode()
            assert found == [
                want if begin <= inside[0] and inside[-1] < begin + len(pieces) else None for begin, pieces in cut
            ]


def test_targets_of_many(model, monkeypatch):
    answers = [[at(CONTEXTS[0], "bank")], [], (Answer("😀", 0),), [at(CONTEXTS[3], "good"), Answer("日本", 0)], []]
    x, y, lengths = (*(one := model.examples((QUESTIONS, CONTEXTS), answers))[:2], one.lengths)
    assert len(lengths) == y.shape[0] == x[0].nrows() > 10
    alone = [
        model.examples(([question], [context]), [given])
        for question, context, given in zip(QUESTIONS, CONTEXTS, answers, strict=True)
    ]
    np.testing.assert_array_equal(y, np.concatenate([each.targets for each in alone]))
    np.testing.assert_array_equal(lengths, np.concatenate([each.lengths for each in alone]))
    monkeypatch.setattr(question_answerer, "_QUESTIONS_AT_A_TIME", 2)
    again = model.examples((QUESTIONS, CONTEXTS), answers)
    assert again.segments[1].to_list() == x[1].to_list()
    np.testing.assert_array_equal(again.targets, y)
    assert len(model.examples(([], []), []).lengths) == 0


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ((["who"], ["the film"]), [[("film", 3)]], r"question 0 \(from 0\): its answer 'film' is not at character 3"),
        ((["who"], ["the film"]), [[("film", -4)]], "is not at character -4"),
        ((["who"], ["the film"]), [[("", 4)]], "its answer '' is not"),
        ((["who"], ["the film"]), [Answer("film", 4)], r"answers to question 0 \(from 0\) are Answer"),
        ((["who"], ["the film"]), ["film"], "are 'film'; expected"),
        ((["who"], ["a \u200b b"]), [[("\u200b", 2)]], "leaves nothing of its answer '.u200b'"),
        ((["who"], ["the film"]), [[], []], "there are 1 questions, but answers to 2"),
        ((["who"], ["a", "b"]), [[], []], "there are 1 questions, but 2 contexts"),
        ((["who"], [""]), [[]], r"context 0 \(from 0\) is empty"),
        (["who"], [[]], "x is a list; expected a tuple of two lists"),
    ],
)
def test_examples_that_cannot_be(model, x, y, message):
    with pytest.raises(ValueError, match=message):
        model.examples(x, y)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_padding_changes_no_loss(model, jit_compile):
    row = {name: each[:, 0] for name, each in model.preprocessor((["the film"], ["she loved the bank"])).items()}
    padded = {name: tf.pad(each, [[0, 0], [0, 9]]) for name, each in row.items()}
    loss = tf.function(
        lambda inputs: model.training_loss()(tf.constant([[4, 5]]), model(inputs)), jit_compile=jit_compile
    )
    np.testing.assert_allclose(loss(padded), loss(row), rtol=1e-5)


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
def test_it_learns():
    config = dataclasses.replace(golden.CONFIG, hidden_dropout=0.0, attention_dropout=0.0)
    model = new(scale=0.0, no_answer_threshold=0.0, config=config)
    assert evaluate(model, TAUGHT, ANSWERS)["f1"] < 50
    history = fine_tune(model, (TAUGHT, ANSWERS), epochs=25, batch_size=2, learning_rate=5e-3, progress=False)
    assert history[-1]["loss"] < 0.2 < 1 < history[0]["loss"]
    answers = model.answer(*TAUGHT)
    found = [[(answer["answer"], answer["start"])] if answer["answer"] else () for answer in answers]
    assert found == ANSWERS


@pytest.mark.slow
def test_the_best_epoch_is_that_of_the_best_f1():
    model = new(scale=0.0, no_answer_threshold=0.0)
    x = tuple(column[:2] for column in TAUGHT)
    examples = (x, ANSWERS[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # that the pooler has no gradients
        history = fine_tune(model, examples, examples, epochs=6, batch_size=2, learning_rate=5e-3, progress=False)
    assert len({epoch["f1"] for epoch in history}) > 1
    assert evaluate(model, x, ANSWERS[:2])["f1"] == max(epoch["f1"] for epoch in history)


@pytest.mark.slow
def test_keras_fit_evaluate_predict():
    model = new(scale=0.0)
    model.compile(keras.optimizers.Adam(5e-3), model.training_loss())
    given = (TAUGHT, ANSWERS)
    history = model.fit(*given, epochs=15, verbose=0, batch_size=4, validation_data=given).history
    assert history["loss"][0] > 1
    assert history["val_loss"][-1] < history["val_loss"][0] / 2
    assert model.evaluate(*given, verbose=0) == pytest.approx(history["val_loss"][-1], abs=1e-4)
    np.testing.assert_allclose(model.predict(TAUGHT, verbose=0), model(TAUGHT), atol=1e-4)


# -- Measures


def test_measures(tokenizer):
    model = lookup(tokenizer, ["green"], ["giraffe"], none=4.0)
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


# -- Files


def same(one, other):
    ours, theirs = (each.answer(QUESTIONS, CONTEXTS, top_k=3) for each in (one, other))
    for ranked, again in zip(ours, theirs, strict=True):
        assert [dict(each) for each in ranked] == [pytest.approx(each, abs=1e-5) for each in again]


def test_preset(tmp_path):
    model = new(no_answer_threshold=-1.5, max_answer_length=4)
    model.save_preset(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["BertForQuestionAnswering"]
    again = BertQuestionAnswerer.from_preset(tmp_path)
    assert (again.no_answer_threshold, again.max_answer_length, again.dropout_rate) == (-1.5, 4, 0.0)
    assert (again.preprocessor.max_sequence_length, again.preprocessor.stride) == (24, 5)
    same(again, model)
    other = BertQuestionAnswerer.from_preset(tmp_path, sequence_length=30, no_answer_threshold=2.0)
    assert (other.preprocessor.max_sequence_length, other.preprocessor.stride) == (30, 5)
    assert (other.no_answer_threshold, other.max_answer_length) == (2.0, 4)
    assert BertQuestionAnswerer.from_preset(tmp_path, stride=3).preprocessor.max_sequence_length == 24
    with pytest.raises(ValueError, match="sequence_length is 49, but this model has 48 positions"):
        BertQuestionAnswerer.from_preset(tmp_path, sequence_length=49)
    with pytest.raises(ValueError, match="stride is 0"):
        BertQuestionAnswerer.from_preset(tmp_path, stride=0)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        model.save_preset(tmp_path)


def test_a_preset_without_a_head(tmp_path):
    model = BertQuestionAnswerer.from_preset("all-MiniLM-L6-v2")
    assert (model.preprocessor.max_sequence_length, model.preprocessor.stride) == (384, 128)
    assert model.preprocessor.sequence_length is None
    # What a classifier saved of itself is not for us.
    preprocessor = BertPreprocessor(WordPieceTokenizer(golden.VOCABULARY), 12, stride=3, max_sequence_length=48)
    BertClassifier(BertEncoder(golden.CONFIG), preprocessor, ["a", "b"]).save_preset(tmp_path)
    model = BertQuestionAnswerer.from_preset(tmp_path)
    assert (model.preprocessor.max_sequence_length, model.preprocessor.stride) == (48, 128)
    assert model.max_answer_length == 30


@pytest.mark.slow
def test_keras_file(tmp_path):
    model = new(no_answer_threshold=-1.5, max_answer_length=4)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert (loaded.no_answer_threshold, loaded.max_answer_length) == (-1.5, 4)
    same(loaded, model)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"sequence_length": 24}, {"no_answer_threshold": -0.5}])
def test_a_server_answers_the_same(settings, tmp_path):
    model = new(**settings)
    export_serving(model, tmp_path)
    signature = tf.saved_model.load(tmp_path / "1").signatures["serving_default"]
    asked = {"question": tf.constant(QUESTIONS), "context": tf.constant(CONTEXTS)}
    served = {name: value.numpy() for name, value in signature(**asked).items()}
    answers = model.answer(QUESTIONS, CONTEXTS)
    assert [answer["answer"].encode() for answer in answers] == served.pop("answer").tolist()
    for name, values in served.items():
        assert values.shape == (5,)
        np.testing.assert_allclose(values, [answer[name] for answer in answers], atol=1e-4)
    assert set(served) == {"start", "end", "score", "probability", "no_answer_score"}
    nothing = signature(question=tf.constant(["", "Who?"]), context=tf.constant(["", ""]))
    assert nothing["answer"].numpy().tolist() == [b"", b""]
    assert signature(question=tf.constant([], tf.string), context=tf.constant([], tf.string))["answer"].shape == (0,)
    assert "TF Serving has them all" in check_serving(tmp_path)[0]


# -- transformers


@pytest.mark.parity
@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "albert", "electra"])
def test_the_same_as_transformers(family, tmp_path, vocabulary_files):  # noqa: F811
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "num_hidden_layers": 2}
    if family == "distilbert":
        sizes = {"dim": 32, "n_heads": 4, "hidden_dim": 64, "n_layers": 2}
    size = vocabulary_files(family if family in ("roberta", "albert") else "bert", tmp_path)
    config = transformers.AutoConfig.for_model(family, **sizes, vocab_size=size)
    torch.manual_seed(0)
    theirs = transformers.AutoModelForQuestionAnswering.from_config(config).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(tmp_path)
    ours = BertQuestionAnswerer.from_preset(tmp_path, sequence_length=64, stride=20)
    _close_to(theirs, transformers.AutoTokenizer.from_pretrained(tmp_path), ours)

    # And back: what we save, they read.
    ours.save_preset(tmp_path / "ours")
    again = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "ours").eval()
    _close_to(again, transformers.AutoTokenizer.from_pretrained(tmp_path / "ours"), ours)


def _close_to(theirs, tokenizer, ours):
    torch = pytest.importorskip("torch")
    question = "In what country is Normandy located?"
    asked = tokenizer(question, add_special_tokens=False)["input_ids"]
    room = 64 - len(asked) - ours.preprocessor.tokenizer.pair_format.special_tokens(2)
    encoded = tokenizer(
        question,
        SQUAD_CONTEXT,
        truncation="only_second",
        max_length=64,
        stride=room - 20,  # theirs is how many pieces two windows share
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding="max_length",
        return_tensors="pt",
    )
    places = encoded.pop("offset_mapping")
    encoded.pop("overflow_to_sample_mapping")
    packed = ours.preprocessor(([question], [SQUAD_CONTEXT]))
    np.testing.assert_array_equal(packed["input_word_ids"][0], encoded["input_ids"])
    np.testing.assert_array_equal(packed["input_mask"][0], encoded["attention_mask"])
    if "token_type_ids" in encoded:
        np.testing.assert_array_equal(packed["input_type_ids"][0], encoded["token_type_ids"])
    elif type(theirs).__name__.startswith("Albert"):  # whose tokenizer leaves them out
        encoded["token_type_ids"] = torch.tensor(packed["input_type_ids"][0].numpy())
    with torch.no_grad():
        output = theirs(**encoded)
    logits = np.stack([output.start_logits, output.end_logits], axis=-1)
    real = encoded["attention_mask"].numpy() > 0
    assert len(real) > 3
    np.testing.assert_allclose(ours(([question], [SQUAD_CONTEXT]))[0].numpy()[real], logits[real], atol=2e-4, rtol=1e-5)

    # Their loss, on targets that they find with their offsets; without padding, which they let an answer start in.
    answer = Answer("Denmark, Iceland and Norway", SQUAD_CONTEXT.index("Denmark"))
    end = answer.start + len(answer.text)
    x, y = ours.batch(*ours.examples(([question], [SQUAD_CONTEXT]), [[answer]])[:2])
    want = []
    for row in range(len(real)):
        context = [i for i, sequence in enumerate(encoded.sequence_ids(row)) if sequence == 1]
        inside = [i for i in context if places[row, i, 0] < end and places[row, i, 1] > answer.start]
        whole = places[row, context[0], 0] <= answer.start and places[row, context[-1], 1] >= end
        want.append([inside[0], inside[-1]] if inside and whole else [0, 0])
    assert y.numpy().tolist() == want
    assert len({tuple(row) for row in want}) > 2
    possible = [
        torch.where(encoded["attention_mask"] > 0, each, -torch.inf)
        for each in (output.start_logits, output.end_logits)
    ]
    losses = map(torch.nn.functional.cross_entropy, possible, torch.tensor(want).T)
    loss = sum(losses) / 2
    assert float(ours.training_loss()(y, ours(x))) == pytest.approx(float(loss), rel=1e-4)
