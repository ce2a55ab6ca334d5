"""BertTokenClassifier: words keep their labels on every way in and out."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertTokenClassifier
from keras_bert.answers.entities import find_entities
from keras_bert.tasks.kinds.words import WordLabels

from ..support import small
from ..support.messages import error_names, warning_names

LABELS = ["O", "B-X", "I-X"]
# film and movie begin an entity that the words behind them, up to a full stop, are in.
SENTENCES = [sentence.split(" ") for sentence in (
    "the film story .", "good movie plot time . warm", "cold river .", "film bank . the actorless movie",
    "you \u200b loving film .",
)]  # fmt: skip
TAGS = [tags.split() for tags in ("O B-X I-X O", "O B-X I-X I-X O O", "O O O", "B-X I-X O O O B-X", "O O O B-X O")]
TEXTS = ["The film story. 😀 Movié (plot time)!", "", " \t", "日本語の film", "e\u0301 movie, film"]


def new(labels=LABELS, text=None, **settings):
    text = {"max_sequence_length": 48, **(text or {})}
    return small.task(BertTokenClassifier, labels, text=text, config={"num_layers": 1}, **settings)


@pytest.fixture(scope="module")
def model():
    return new()


def labels_of(answers):
    return [[answer["label"] for answer in sentence] for sentence in answers]


def word_logits(model, words):
    """By hand: the logits of the words of one sentence, which fits, from its first tokens."""
    tokenizer = model.preprocessor.tokenizer
    tokens = [tokenizer.tokenize(word).numpy().tolist() or [tokenizer.unk_token_id] for word in words]
    first = np.cumsum([1, *map(len, tokens)])[:-1]
    ids = [[tokenizer.cls_token_id, *np.concatenate(tokens).astype(int), tokenizer.sep_token_id]]
    return np.asarray(model({"input_word_ids": np.array(ids, "int32")}))[0, first]


def test_tags_are_those_of_first_tokens(model, untraced):
    answers = model.tag(SENTENCES)
    for words, sentence in zip(SENTENCES, answers, strict=True):
        probabilities = tf.nn.softmax(word_logits(model, words)).numpy()
        assert [answer["word"] for answer in sentence] == words
        assert [answer["label"] for answer in sentence] == [LABELS[i] for i in probabilities.argmax(-1)]
        got = [answer["probability"] for answer in sentence]
        np.testing.assert_allclose(got, probabilities.max(-1), atol=1e-5)
    assert len({label for sentence in labels_of(answers) for label in sentence}) > 1  # else it would prove little


@pytest.mark.slow
def test_nothing_to_tag(model):
    assert model.tag([[], ["film"], []])[::2] == [[], []]
    assert model.entities([]) == []
    assert model.entities("a film") == model.entities(["a film"])[0]
    assert model.entities(["", "  "]) == [[], []]


def test_bilou_labels_are_measured_and_joined_as_entities(untraced):
    model = new(["O", "B-X", "I-X", "L-X", "U-X"])
    tags = ["B-X", "I-X", "L-X", "O", "U-X"]
    words = ["film", "movie", "bank", ".", "river"]
    answers = [{"word": word, "label": tag, "probability": 1.0} for word, tag in zip(words, tags, strict=True)]
    assert model.kind.score([answers], [tags]).measures == {"f1": 1, "precision": 1, "recall": 1}
    kinds = ["precision", "recall", "f1"]
    assert list(model.kind.score([answers], [tags]).details) == [
        *(f"macro_{kind}" for kind in kinds), *(f"{kind} of X" for kind in [*kinds, "support"]), "f1_baseline"
    ]  # fmt: skip
    cut = [{**each, "label": None} for each in answers[2:]]
    assert model.kind.score([[*answers[:2], *cut]], [tags]).measures["f1"] == 0  # X ends a word too early
    found = model.entities(" ".join(words))
    known = {each["label"] for each in found}
    assert known <= {"X"}
    assert model.serve(tf.constant(["film"]))["labels"].numpy()[0, 0].decode() in model.labels  # per word, as trained


def test_what_is_cut_is_warned_of(untraced):
    model = new(text={"sequence_length": 6})  # room for four tokens
    with warning_names("truncated words", "3"):
        answers = model.tag([SENTENCES[1], ["xylo", "film"], ["the"]])
    assert labels_of(answers)[0][4:] == [None, None]
    assert None not in labels_of(answers)[0][:4]
    assert answers[1][1] == {"word": "film", "label": None, "probability": None}  # x ##y ##l ##o
    with warning_names("truncated words"):
        assert all(each["end"] <= 17 for each in model.entities(["the film plot the film film film"])[0])


@pytest.mark.filterwarnings("error::UserWarning")
def test_windows_cut_nothing(untraced):
    """In windows of 8 tokens, a token has the most around it where it is closest to the middle."""
    long = [["film", "xylo", "the", "movie", "."] * 5, ["the"], []]
    model = new(text={"sequence_length": 10, "stride": 3})
    answers = model.tag(long)
    assert [len(sentence) for sentence in answers] == [25, 1, 0]
    assert None not in labels_of(answers)[0]
    assert labels_of(model.tag(long[1:])) == labels_of(answers)[1:]
    tokenizer = model.preprocessor.tokenizer
    tokens = [tokenizer.tokenize(word).numpy().tolist() for word in long[0]]
    flat, first = np.concatenate(tokens), np.cumsum([0, *map(len, tokens)])[:-1]
    for word in (10, 11, 12):
        place = first[word]
        start = min(range(0, len(flat), 3), key=lambda s: (abs(place - s - 3.5) if s <= place < s + 8 else 99, s))
        ids = [tokenizer.cls_token_id, *flat[start : start + 8], tokenizer.sep_token_id]
        logits = np.asarray(model({"input_word_ids": np.array([ids], "int32")}))[0, 1 + place - start]
        want = tf.nn.softmax(logits).numpy()
        assert answers[0][word]["label"] == LABELS[want.argmax()]
        assert answers[0][word]["probability"] == pytest.approx(want.max(), abs=1e-5)


def test_windows_of_what_fits_change_nothing(model, untraced):
    windows = new(text={"stride": 5})
    assert windows.tag(SENTENCES) == model.tag(SENTENCES)
    assert windows.entities(TEXTS) == model.entities(TEXTS)


def test_entities_have_their_places(model, untraced):
    found = model.entities(TEXTS)
    assert len(found) == len(TEXTS)
    assert found[1] == found[2] == []
    for text, entities in zip(TEXTS, found, strict=True):
        for entity in entities:
            assert text[entity["start"] : entity["end"]] == entity["text"] != ""
            assert set(entity) == {"label", "start", "end", "text", "probability"}
    words = ["The", "film", "story", ".", "😀", "Movié", "(", "plot", "time", ")", "!"]
    tagged = model.tag([words])[0]
    want = find_entities([word["label"] for word in tagged])
    starts = [TEXTS[0].index(words[entity.first]) for entity in want]
    assert [entity["start"] for entity in found[0]] == starts
    assert starts


def test_words_are_served_with_their_places(model, untraced):
    served = {name: value.numpy() for name, value in model.serve(tf.constant(TEXTS)).items()}
    assert {value.shape for value in served.values()} == {(5, 11)}
    for row, (text, found) in enumerate(zip(TEXTS, model.entities(TEXTS), strict=True)):
        words = [word.decode() for word in served["words"][row] if word]
        places = list(zip(served["starts"][row], served["ends"][row], strict=True))
        assert [text[start:end] for start, end in places[: len(words)]] == words
        assert set(places[len(words) :]) <= {(-1, -1)}
        assert set(served["labels"][row][len(words) :]) <= {b""}
        labels = [label.decode() for label in served["labels"][row][: len(words)]]
        ours = [(entity["start"], entity["end"]) for entity in found]
        assert ours == [(places[each.first][0], places[each.end - 1][1]) for each in find_entities(labels)]


def test_entities_of_plain_labels(model, monkeypatch, untraced):
    """A run of words is one where some are outside; else each is one."""
    bias, text = model.head.logits.bias.numpy(), ["film story good"]
    model.head.logits.bias.assign([0.0, 99.0, 0.0])  # all are A
    try:
        for labels, want in ((["O", "A", "B"], text), (["C", "A", "B"], ["film", "story", "good"])):
            monkeypatch.setattr(model, "labels", labels)
            monkeypatch.setattr(model, "kind", WordLabels(labels))
            assert [(each["label"], each["text"]) for each in model.entities(text)[0]] == [("A", each) for each in want]
    finally:
        model.head.logits.bias.assign(bias)


# -- Training


def test_targets_stand_at_first_tokens(model):
    segments, targets, lengths = model.examples([["the", "xylo", "\u200b", "film"], []], [[0, "I-X", "O", 1], []])
    assert targets.to_list() == [[0, 2, -1, -1, -1, 0, 1], []]  # x ##y ##l ##o, and [UNK] for the lone space
    assert lengths.tolist() == [9, 2]
    x, y = model.batch(segments, targets)
    assert y.numpy().tolist() == [[-1, 0, 2, -1, -1, -1, 0, 1, -1], [-1] * 9]
    assert x["input_word_ids"].shape == y.shape
    short = new(text={"sequence_length": 5})
    x, y = short.batch(*short.examples([["the", "xylo", "film"], ["film"]], [[0, 2, 1], [1]])[:2])
    assert y.numpy().tolist() == [[-1, 0, 2, -1, -1], [-1, 1, -1, -1, -1]]
    assert x["input_word_ids"].numpy()[0, -1] == short.preprocessor.tokenizer.sep_token_id


def test_in_windows_each_word_counts_once():
    model = new(text={"sequence_length": 6, "stride": 2})
    segments, targets, _ = model.examples(SENTENCES, TAGS)
    x, y = model.batch(segments, targets)
    assert x["input_word_ids"].shape == y.shape
    assert len(y.shape) == 3
    counted = [row[row >= 0].tolist() for row in y.numpy()]
    assert counted == [[LABELS.index(tag) for tag in tags] for tags in TAGS]
    tokens = x["input_mask"].numpy() - (x["input_word_ids"].numpy() == small.VOCABULARY.index("[SEP]"))
    assert tokens[1].sum() - 2 == 8  # two windows of four, over six words


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda model: model.tag("film"), TypeError, ("str", "list of words")),
    (lambda model: model.tag([["a"], ["b", 5]]), TypeError, ("sentence 1",)),
    (lambda model: model.examples(SENTENCES, [*TAGS[:4], []]), ValueError, ("sentence 4", "5 words", "0 labels")),
    (lambda model: model.examples(SENTENCES, TAGS[1:]), ValueError, ("5 sentences", "labels for 4")),
    (lambda model: model.examples([["a"]], [["B-Y"]]), ValueError, ("sentence 0", "'B-Y'", "labels", "O")),
    (lambda model: model.examples([["a"]], [[3]]), ValueError, ("sentence 0", "3", "labels")),
    (lambda model: model.examples([["a"]], [[-1]]), ValueError, ("-1", "labels")),
    (lambda model: model.kind.check([[["a", "b"]]], [["X-B", "X-I"]]), ValueError, ("'X-B', 'X-I'", "entities")),
    (lambda model: new(["O", "B_X", "I_X"]), ValueError, ("'B_X', 'I_X'", "entities")),
    (lambda model: new(["O"]), ValueError, ("2",)),
    (lambda model: new(["O", "O"]), ValueError, ("twice", "O")),
    (lambda model: new(["O", 1]), TypeError, ("str",)),
    (lambda model: new("OB"), TypeError, ("list",)),
    (lambda model: new(text={"truncation": "head_tail"}), ValueError, ("head_tail", "long_text='windows'")),
])  # fmt: skip
def test_words_and_labels_that_cannot_be_are_refused(model, call, error, words):
    with error_names(error, *words):
        call(model)


def test_the_loss_is_the_mean_over_words(model):
    sum_, count = 0.0, 0
    for words, tags in zip(SENTENCES, TAGS, strict=True):
        logits = tf.nn.log_softmax(word_logits(model, words)).numpy()
        sum_ -= sum(row[LABELS.index(tag)] for row, tag in zip(logits, tags, strict=True))
        count += len(tags)
    segments, targets, _ = model.examples(SENTENCES, TAGS)
    for padding in (None, 40):
        padded = BertTokenClassifier(
            model.encoder, small.preprocessor(sequence_length=padding, max_sequence_length=48), LABELS
        )
        padded.head.set_weights(model.head.get_weights())
        x, y = padded.batch(segments, targets)
        assert float(model.training_loss()(y, padded(x))) == pytest.approx(sum_ / count, rel=1e-4)
    with tf.GradientTape() as tape:
        loss = model.training_loss()(tf.fill(y.shape, -1), padded(x))
    assert float(loss) == 0.0
    gradients = tape.gradient(loss, [each.value for each in padded.head.trainable_variables])
    assert all(np.all(np.asarray(gradient) == 0) for gradient in gradients)


@pytest.mark.slow
@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("text", [{}, {"sequence_length": 8, "stride": 3}])
def test_it_learns(text):
    model = new(text=text, scale=0.1)
    model.compile(keras.optimizers.Adam(1e-2), model.training_loss())
    history = model.fit(SENTENCES, TAGS, epochs=30, verbose=0, validation_data=(SENTENCES[:2], TAGS[:2])).history
    assert history["loss"][0] > 0.8
    assert history["val_loss"][-1] < 0.05
    assert labels_of(model.tag(SENTENCES)) == TAGS
    assert model.evaluate(SENTENCES, TAGS, verbose=0) < 0.05
    assert [each["text"] for each in model.entities(["good movie  plot time."])[0]] == ["movie  plot time"]
