"""BertTokenClassifier: words keep their labels on every way in and out, and transformers gives the same numbers."""

import json
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertEncoder, BertPreprocessor
from keras_bert.saved_model import export_serving
from keras_bert.saved_model.check import check_serving
from keras_bert.tasks import BertTokenClassifier
from keras_bert.tasks.entities import find_entities
from keras_bert.text import WordPieceTokenizer

from ..golden import make_golden_export as golden

LABELS = ["O", "B-X", "I-X"]
# film and movie begin an entity that the words behind them, up to a full stop, are in.
SENTENCES = [
    ["the", "film", "story", "."],
    ["good", "movie", "plot", "time", ".", "warm"],
    ["cold", "river", "."],
    ["film", "bank", ".", "the", "actorless", "movie"],
    ["you", "\u200b", "loving", "film", "."],
]
TAGS = [
    ["O", "B-X", "I-X", "O"],
    ["O", "B-X", "I-X", "I-X", "O", "O"],
    ["O", "O", "O"],
    ["B-X", "I-X", "O", "O", "O", "B-X"],
    ["O", "O", "O", "B-X", "O"],
]
TEXTS = ["The film story. 😀 Movié (plot time)!", "", " \t", "日本語の film", "e\u0301 movie, film"]


def new(labels=LABELS, seed=0, scale=0.3, **settings):
    keras.utils.set_random_seed(seed)
    settings = {"sequence_length": None, "max_sequence_length": 48, **settings}
    preprocessor = BertPreprocessor(WordPieceTokenizer(golden.VOCABULARY), **settings)
    model = BertTokenClassifier(BertEncoder(golden.CONFIG), preprocessor, labels, dropout=0.0)
    generator = np.random.default_rng(seed)  # far from 0, so that what is left out shows
    model.set_weights([weight + generator.normal(0, scale, weight.shape) for weight in model.get_weights()])
    return model


@pytest.fixture(scope="module")
def model():
    return new()


def labels_of(answers):
    return [[answer["label"] for answer in sentence] for sentence in answers]


def word_logits(model, words):
    """By hand: the logits of the words of one sentence, which fits, from its first pieces."""
    tokenizer = model.preprocessor.tokenizer
    pieces = [tokenizer.tokenize(word).numpy().tolist() or [tokenizer.unk_token_id] for word in words]
    first = np.cumsum([1, *map(len, pieces)])[:-1]
    ids = [[tokenizer.cls_token_id, *np.concatenate(pieces).astype(int), tokenizer.sep_token_id]]
    return np.asarray(model({"input_word_ids": np.array(ids, "int32")}))[0, first]


def test_logits_of_pieces(model):
    logits = model(["the film", "good"])
    assert logits.dtype == "float32"
    assert tuple(logits.shape) == (2, 4, 3)
    packed = model.preprocessor(["the film", "good"])
    np.testing.assert_allclose(model(packed), logits, atol=1e-6)
    hidden = model.encoder(packed)["sequence_output"]
    np.testing.assert_allclose(model.head(hidden), logits, atol=1e-6)


def test_tags_are_those_of_first_pieces(model):
    answers = model.tag(SENTENCES)
    for words, sentence in zip(SENTENCES, answers, strict=True):
        probabilities = tf.nn.softmax(word_logits(model, words)).numpy()
        assert [answer["word"] for answer in sentence] == words
        assert [answer["label"] for answer in sentence] == [LABELS[i] for i in probabilities.argmax(-1)]
        got = [answer["probability"] for answer in sentence]
        np.testing.assert_allclose(got, probabilities.max(-1), atol=1e-5)
    assert len({label for sentence in labels_of(answers) for label in sentence}) == 3  # else it would prove little


def test_nothing_to_tag(model):
    assert model.tag([]) == []
    assert model.tag([[], ["film"], []])[::2] == [[], []]
    assert model.entities([]) == []
    assert model.entities(["", "  "]) == [[], []]


@pytest.mark.parametrize(
    ("sentences", "message"),
    [("film", "sentence 0 .* is 'film'"), (["film"], "list of words"), ([["a"], ["b", 5]], "sentence 1 .from 0. is")],
)
def test_bad_sentences(model, sentences, message):
    with pytest.raises(TypeError, match=message):
        model.tag(sentences)
    with pytest.raises(TypeError, match="single str"):
        model.entities("film")


def test_what_is_cut_is_told():
    model = new(sequence_length=6)  # room for four pieces
    with pytest.warns(UserWarning, match="words cut off, which have no label: 3;"):
        answers = model.tag([SENTENCES[1], ["xylo", "film"], ["the"]])
    assert labels_of(answers)[0][4:] == [None, None]
    assert None not in labels_of(answers)[0][:4]
    assert answers[1][1] == {"word": "film", "label": None, "probability": None}  # x ##y ##l ##o
    with pytest.warns(UserWarning, match="cut off"):
        assert all(each["end"] <= 17 for each in model.entities(["the film plot the film film film"])[0])


@pytest.mark.slow
def test_windows_cut_nothing():
    long = [["film", "xylo", "the", "movie", "."] * 9, ["the"], []]
    model = new(sequence_length=10, stride=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        answers = model.tag(long)
    assert [len(sentence) for sentence in answers] == [45, 1, 0]
    assert None not in labels_of(answers)[0]
    assert labels_of(model.tag(long[1:])) == labels_of(answers)[1:]
    # In windows of 8 pieces, a piece has the most around it where it is closest to the middle.
    tokenizer = model.preprocessor.tokenizer
    pieces = [tokenizer.tokenize(word).numpy().tolist() for word in long[0]]
    flat, first = np.concatenate(pieces), np.cumsum([0, *map(len, pieces)])[:-1]
    for word in (20, 21, 22):
        place = first[word]
        start = min(range(0, len(flat), 3), key=lambda s: (abs(place - s - 3.5) if s <= place < s + 8 else 99, s))
        ids = [tokenizer.cls_token_id, *flat[start : start + 8], tokenizer.sep_token_id]
        logits = np.asarray(model({"input_word_ids": np.array([ids], "int32")}))[0, 1 + place - start]
        want = tf.nn.softmax(logits).numpy()
        assert answers[0][word]["label"] == LABELS[want.argmax()]
        assert answers[0][word]["probability"] == pytest.approx(want.max(), abs=1e-5)


@pytest.mark.slow
def test_windows_of_what_fits_change_nothing(model):
    windows = new(stride=5)
    assert windows.tag(SENTENCES) == model.tag(SENTENCES)
    assert windows.entities(TEXTS) == model.entities(TEXTS)


def test_head_and_tail_is_refused():
    with pytest.raises(ValueError, match="head_tail.*long_text='windows'"):
        new(truncation="head_tail")


@pytest.mark.parametrize(
    ("labels", "message"),
    [(["O"], "at least 2"), (["O", "O"], "there twice: O"), (["O", 1], "must be str"), ("OB", "a list")],
)
def test_bad_labels(labels, message):
    with pytest.raises((TypeError, ValueError), match=message):
        new(labels=labels)


def test_entities_have_their_places(model):
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
    assert len(starts) > 1


@pytest.mark.slow
def test_entities_of_plain_labels(model):
    text = ["film story good"]
    with_outside, without = new(labels=["O", "A", "B"]), new(labels=["C", "A", "B"])
    for plain in (with_outside, without):
        plain.set_weights(model.get_weights())
    bias = [0.0, 99.0, 0.0]  # all are A
    for plain in (with_outside, without):
        plain.head.logits.bias.assign(bias)
    assert [each["text"] for each in with_outside.entities(text)[0]] == text
    assert [each["text"] for each in without.entities(text)[0]] == ["film", "story", "good"]


# -- Training


def test_targets_stand_at_first_pieces(model):
    segments, targets, lengths = model.examples([["the", "xylo", "\u200b", "film"], []], [[0, "I-X", "O", 1], []])
    assert targets.to_list() == [[0, 2, -1, -1, -1, 0, 1], []]  # x ##y ##l ##o, and [UNK] for the lone space
    assert lengths.tolist() == [9, 2]
    x, y = model.batch(segments, targets)
    assert y.numpy().tolist() == [[-1, 0, 2, -1, -1, -1, 0, 1, -1], [-1] * 9]
    assert x["input_word_ids"].shape == y.shape
    short = new(sequence_length=5)
    x, y = short.batch(*short.examples([["the", "xylo", "film"], ["film"]], [[0, 2, 1], [1]])[:2])
    assert y.numpy().tolist() == [[-1, 0, 2, -1, -1], [-1, 1, -1, -1, -1]]
    assert x["input_word_ids"].numpy()[0, -1] == short.preprocessor.tokenizer.sep_token_id


def test_lengths_are_those_of_pieces(model):
    by_length = model._by_length  # batches are made by them
    assert by_length.lengths(by_length.tokenized([["the", "xylo"], []])).tolist() == [7, 2]


def test_in_windows_each_word_counts_once():
    model = new(sequence_length=6, stride=2)
    segments, targets, _ = model.examples(SENTENCES, TAGS)
    x, y = tf.function(model.batch)(segments, targets)
    assert x["input_word_ids"].shape == y.shape
    assert len(y.shape) == 3
    counted = [row[row >= 0].tolist() for row in y.numpy()]
    assert counted == [[LABELS.index(tag) for tag in tags] for tags in TAGS]
    pieces = x["input_mask"].numpy() - (x["input_word_ids"].numpy() == golden.VOCABULARY.index("[SEP]"))
    assert pieces[1].sum() - 2 == 8  # two windows of four, over six words


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (SENTENCES, [*TAGS[:2], TAGS[2][1:], *TAGS[3:]], r"sentence 2 \(from 0\) has 3 words, but 2 labels"),
        (SENTENCES, TAGS[1:], "there are 5 sentences, but labels of 4"),
        (
            SENTENCES[:1],
            [["O", "B-Y", "O", "O"]],
            r"sentence 0 \(from 0\): 'B-Y' is not one of the labels, which are O",
        ),
        (SENTENCES[:1], [[0, 1, 3, 0]], r"sentence 0 \(from 0\): 3 is not one of"),
        (SENTENCES[:1], [[0, 1, -1, 0]], "-1 is not one of"),
    ],
)
def test_examples_that_do_not_fit(model, x, y, message):
    with pytest.raises(ValueError, match=message):
        model.examples(x, y)


def test_the_loss_is_the_mean_over_words(model):
    sum_, count = 0.0, 0
    for words, tags in zip(SENTENCES, TAGS, strict=True):
        logits = tf.nn.log_softmax(word_logits(model, words)).numpy()
        sum_ -= sum(row[LABELS.index(tag)] for row, tag in zip(logits, tags, strict=True))
        count += len(tags)
    segments, targets, _ = model.examples(SENTENCES, TAGS)
    for padding in (None, 20, 40):  # as much as there may be
        padded = new(sequence_length=padding)
        x, y = padded.batch(segments, targets)
        for function in (padded, tf.function(padded, jit_compile=True)):
            assert float(model.training_loss()(y, function(x))) == pytest.approx(sum_ / count, rel=1e-4)
    nothing = model.training_loss()(tf.fill(y.shape, -1), padded(x))
    assert float(nothing) == 0.0
    with tf.GradientTape() as tape:
        loss = model.training_loss()(tf.fill(y.shape, -1), padded(x))
    gradients = tape.gradient(loss, padded.head.trainable_variables)
    assert all(np.all(np.asarray(gradient) == 0) for gradient in gradients)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"sequence_length": 8, "stride": 3}])
def test_it_learns(settings):
    model = new(scale=0.0, **settings)
    model.compile(keras.optimizers.Adam(3e-3), model.training_loss())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        history = model.fit(SENTENCES, TAGS, epochs=60, verbose=0, validation_data=(SENTENCES[:2], TAGS[:2])).history
    assert history["loss"][0] > 1
    assert history["val_loss"][-1] < 0.05
    assert labels_of(model.tag(SENTENCES)) == TAGS
    assert model.evaluate(SENTENCES, TAGS, verbose=0) < 0.05
    assert [each["text"] for each in model.entities(["good movie  plot time."])[0]] == ["movie  plot time"]


def test_predict(model):
    logits = model.predict(SENTENCES, verbose=0)
    assert logits.shape[0] == 5
    assert logits.shape[2] == 3
    np.testing.assert_allclose(logits[0, 1:5], word_logits(model, SENTENCES[0]), atol=1e-5)
    np.testing.assert_allclose(model.predict(["the film story ."], verbose=0)[0], logits[0, :6], atol=1e-5)


# -- Files


def test_preset(model, tmp_path):
    model.save_preset(tmp_path)
    again = BertTokenClassifier.from_preset(tmp_path)
    assert again.labels == LABELS
    assert again.dropout_rate == 0.0
    assert again.tag(SENTENCES) == model.tag(SENTENCES)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["BertForTokenClassification"]
    assert config["id2label"] == {"0": "O", "1": "B-X", "2": "I-X"}
    others = BertTokenClassifier.from_preset(tmp_path, labels=["A", "B"], long_text="windows", sequence_length=12)
    assert others.labels == ["A", "B"]
    assert others.preprocessor.stride == 6
    with pytest.raises(FileExistsError, match="overwrite=True"):
        model.save_preset(tmp_path)
    with pytest.raises(ValueError, match="head_tail"):
        BertTokenClassifier.from_preset(tmp_path, long_text="head_tail")


def test_windows_are_saved(tmp_path):
    model = new(sequence_length=10, stride=3)
    model.save_preset(tmp_path)
    assert BertTokenClassifier.from_preset(tmp_path).preprocessor.stride == 3


def test_a_preset_without_labels():
    with pytest.raises(ValueError, match="has no head of this task: say which labels there are, labels="):
        BertTokenClassifier.from_preset("all-MiniLM-L6-v2")


@pytest.mark.slow
def test_keras_file(model, tmp_path):
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.tag(SENTENCES) == model.tag(SENTENCES)
    model.save_weights(tmp_path / "model.weights.h5")
    other = new(seed=1)
    assert other.tag(SENTENCES) != model.tag(SENTENCES)
    other.load_weights(tmp_path / "model.weights.h5")
    assert other.tag(SENTENCES) == model.tag(SENTENCES)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"sequence_length": 9, "stride": 3}, {"sequence_length": 9}])
def test_a_server_answers_the_same(settings, tmp_path):
    pytest.importorskip("tensorflow_serving.apis")
    model = new(**settings)
    export_serving(model, tmp_path / "model")
    signature = tf.saved_model.load(tmp_path / "model" / "1").signatures["serving_default"]
    served = {name: value.numpy() for name, value in signature(text=tf.constant(TEXTS)).items()}
    assert {value.shape for value in served.values()} == {(5, 11)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is cut
        for row, text in enumerate(TEXTS):
            words = [word.decode() for word in served["words"][row] if word]
            count = len(words)
            places = list(zip(served["starts"][row], served["ends"][row], strict=True))
            assert [text[start:end] for start, end in places[:count]] == words
            assert set(places[count:]) <= {(-1, -1)}
            assert set(served["labels"][row][count:]) <= {b""}
            (answers,) = model.tag([words])
            labels = [label.decode() or None for label in served["labels"][row][:count]]
            assert labels == [answer["label"] for answer in answers]
            probabilities = [answer["probability"] or 0 for answer in answers]
            np.testing.assert_allclose(served["probabilities"][row][:count], probabilities, atol=1e-5)
            found = find_entities(labels)
            entities = model.entities([text])[0]
            ours = [(entity["start"], entity["end"]) for entity in entities]
            assert ours == [(places[each.first][0], places[each.end - 1][1]) for each in found]
    assert (b"" in served["labels"][0]) == (settings == {"sequence_length": 9})
    assert signature(text=tf.constant([], tf.string))["words"].shape == (0, 0)


@pytest.mark.slow
def test_tf_serving_has_its_operations(model, tmp_path):
    pytest.importorskip("tensorflow_serving.apis")
    export_serving(model, tmp_path)
    assert "TF Serving has them all" in check_serving(tmp_path)[0]


@pytest.mark.parity
@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "albert", "electra"])
def test_the_same_as_transformers(family, tmp_path, vocabulary_files):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "num_hidden_layers": 2}
    if family == "distilbert":
        sizes = {"dim": 32, "n_heads": 4, "hidden_dim": 64, "n_layers": 2}
    vocabulary = {"roberta": "roberta", "albert": "albert"}.get(family, "bert")
    size = vocabulary_files(vocabulary, tmp_path)
    config = transformers.AutoConfig.for_model(family, **sizes, vocab_size=size)
    config.id2label = dict(enumerate(LABELS))
    config.label2id = {label: i for i, label in enumerate(LABELS)}
    torch.manual_seed(0)
    theirs = transformers.AutoModelForTokenClassification.from_config(config).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(tmp_path)
    ours = BertTokenClassifier.from_preset(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path, add_prefix_space=True)
    words = ["Barack", "Obama", "saw", "unaffable", "naïveté", "in", "Paris", "."]
    _close_to(theirs, tokenizer, ours, words)

    # And back: what we save, they read.
    ours.save_preset(tmp_path / "ours")
    again = transformers.AutoModelForTokenClassification.from_pretrained(tmp_path / "ours").eval()
    assert again.config.id2label == dict(enumerate(LABELS))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours", add_prefix_space=True)
    _close_to(again, tokenizer, ours, words)


def _close_to(theirs, tokenizer, ours, words):
    torch = pytest.importorskip("torch")
    encoded = tokenizer(words, is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        logits = theirs(**encoded).logits[0].numpy()
    numbers = encoded.word_ids(0)
    first = [numbers.index(i) for i in range(len(words))]
    (answers,) = ours.tag([words])
    want = tf.nn.softmax(logits[first]).numpy()
    assert [answer["label"] for answer in answers] == [theirs.config.id2label[i] for i in want.argmax(-1)]
    np.testing.assert_allclose([answer["probability"] for answer in answers], want.max(-1), atol=2e-5)
    np.testing.assert_allclose(ours.predict([words], verbose=0)[0], logits, atol=2e-4, rtol=1e-5)


@pytest.fixture
def vocabulary_files(shared_data):
    """A function that writes the files of a tokenizer of a kind and gives its size."""
    from keras_bert.text import BytePairTokenizer, SentencePieceTokenizer

    vocabs = shared_data / "vocabs"

    def write(kind, directory):
        tokenizer = {
            "bert": lambda: WordPieceTokenizer(vocabs / "bert_uncased_vocab.txt"),
            "roberta": lambda: BytePairTokenizer(vocabs / "roberta_vocab.json", vocabs / "roberta_merges.txt"),
            "albert": lambda: SentencePieceTokenizer(vocabs / "albert_spiece.model"),
        }[kind]()
        tokenizer.save_preset(directory)
        return tokenizer.vocabulary_size

    return write


def test_a_head_over_the_whole_text_is_not_taken(tmp_path):
    """In a file, a classifier of texts and one of words have the same names."""
    from keras_bert import BertClassifier

    preprocessor = BertPreprocessor(WordPieceTokenizer(golden.VOCABULARY), sequence_length=None, max_sequence_length=48)
    BertClassifier(BertEncoder(BertConfig(**golden.CONFIG.to_dict())), preprocessor, LABELS).save_preset(tmp_path)
    with pytest.raises(ValueError, match="has no head of this task"):
        BertTokenClassifier.from_preset(tmp_path)
