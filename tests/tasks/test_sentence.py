"""BertSentenceEncoder: one vector a text, any number of texts, and back from every kind of file."""

import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertSentenceEncoder
from keras_bert.tasks.base import by_length

from ..support import small
from ..support.messages import error_names, warning_names

TEXTS = ["I love the film", "", "The bank is my story", "good movie, not bad, and a story", "Ein Café in Zürich"]


@pytest.fixture(scope="module")
def model():
    return BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor())


def hidden_states(model, text):
    """float32 [tokens, hidden], without any padding."""
    tokenizer = model.preprocessor.tokenizer
    ids = [tokenizer.cls_token_id, *tokenizer.tokenize(text).numpy(), tokenizer.sep_token_id]
    return model.encoder({"input_word_ids": np.array([ids])})["sequence_output"].numpy()[0, :24]


POOLINGS = {
    "mean": lambda hidden: hidden.mean(axis=0),
    "cls": lambda hidden: hidden[0],
    "max": lambda hidden: hidden.max(axis=0),
    "lasttoken": lambda hidden: hidden[-1],
    "mean_sqrt_len_tokens": lambda hidden: hidden.sum(axis=0) / len(hidden) ** 0.5,
    "weightedmean": lambda hidden: np.average(hidden, axis=0, weights=np.arange(1, len(hidden) + 1)),
}


@pytest.mark.parametrize("pooling", POOLINGS)
def test_each_vector_is_pooled_of_its_real_tokens(model, pooling, untraced):
    expected = np.array([POOLINGS[pooling](hidden_states(model, text)) for text in TEXTS])
    np.testing.assert_allclose(made(model, pooling=pooling, normalize=False)(TEXTS), expected, atol=1e-5)
    vectors = made(model, pooling=pooling).encode(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((5, small.CONFIG.hidden_size), np.float32)
    np.testing.assert_allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-5)


LONG = ["the bank is my story and the film was very good but the music not", "good", ""]


@pytest.mark.parametrize("settings", [
    {}, {"window_pooling": "max", "pooling": "max"}, {"normalize": False, "dense": {"units": 5}, "truncate_dim": 3},
    {"prompts": {"query": "you ask: "}, "default_prompt": "query", "include_prompt": False, "pooling": "cls"},
])  # fmt: skip
def test_a_long_text_has_the_pooled_vectors_of_its_windows(model, settings, untraced):
    windows = small.preprocessor(sequence_length=8, stride=4)
    whole = BertSentenceEncoder(model.encoder, windows, **settings)
    by_row = BertSentenceEncoder(model.encoder, model.preprocessor, **settings)
    if whole.dense:
        by_row.dense.set_weights(whole.dense.get_weights())
    prompt, tokenizer, vectors = by_row.prompt_text(None), model.preprocessor.tokenizer, []
    for text in LONG:
        tokens = tokenizer.tokenize(prompt + text).numpy().tolist()
        starts = range(0, max(len(tokens) - 6, 0) + 4, 4)  # 6 tokens fit beside [CLS] and [SEP]
        rows = [[tokenizer.cls_token_id, *tokens[each : each + 6], tokenizer.sep_token_id] for each in starts]
        skipped = by_row._count_skipped(prompt)
        packed = [{"input_word_ids": np.array([row]), "input_mask": np.ones((1, len(row)), "int32")} for row in rows]
        found = [by_row._encode_packed(row, 0 if number else skipped) for number, row in enumerate(packed)]
        pooled = getattr(np, settings.get("window_pooling", "mean"))(np.concatenate(found), axis=0)
        vectors.append(pooled / np.linalg.norm(pooled) if whole.normalize else pooled)
    np.testing.assert_allclose(whole.encode(LONG), vectors, atol=1e-5)
    np.testing.assert_allclose(whole.encode(LONG[0]), vectors[0], atol=1e-5)
    np.testing.assert_allclose(whole(LONG), vectors, atol=1e-5)


PROMPTS = {"query": "you ask: ", "story": "the story ", "none": ""}


@pytest.fixture(scope="module")
def prompted(model):
    dense = {"units": 12, "activation": "tanh", "use_bias": True}
    return small.shaken(made(model, dense=dense, prompts=PROMPTS, default_prompt="query"))


def made(model, **settings):
    return BertSentenceEncoder(model.encoder, model.preprocessor, **settings)


def test_prompts(prompted, untraced):
    def after(prompt):
        return prompted.encode([prompt + text for text in TEXTS], prompt="")

    np.testing.assert_allclose(prompted.encode(TEXTS), after("you ask: "), atol=1e-5)
    np.testing.assert_allclose(prompted.encode(TEXTS, prompt="story"), after("the story "), atol=1e-5)
    np.testing.assert_allclose(prompted.encode(text for text in TEXTS), after("you ask: "), atol=1e-5)
    np.testing.assert_allclose(prompted.encode("good"), prompted.encode("you ask: good", prompt="none"), atol=1e-5)
    np.testing.assert_allclose(prompted(TEXTS), after("you ask: "), atol=1e-5)
    assert np.abs(after("you ask: ") - after("")).max() > 0.01
    vectors, cut = prompted.encode_counted(["film " * 22, "film"])  # of which the prompt makes one too long
    assert (vectors.shape, cut) == ((2, 12), 1)


LONG_PROMPT = {"long": "long " * 11}


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda model: model.encode("good", prompt="passage"), ValueError, ("'passage'", "query, story, none")),
    (lambda model: model.encode(["good", "\ud800"]), ValueError, ("surrogate",)),
    (lambda model: model.encode(TEXTS, batch_tokens=0), ValueError, ("batch_tokens", "0", "1")),
    *(
        (lambda model, settings=settings, use=use: use(made(model, prompts=LONG_PROMPT, **settings)), ValueError, words)
        for words in [("'long long long", "44 tokens", "no room", "24")]
        for settings in ({}, {"include_prompt": False})
        for use in (lambda model: model.encode(TEXTS, prompt="long"), lambda model: made(
            model, prompts=model.prompts, column_prompts=["long"])((TEXTS, TEXTS)))
    ),
    (lambda model: made(model, pooling="sum"), ValueError, ("pooling", "'sum'", "mean, cls, max")),
    (lambda model: made(model, dense={"units": 3, "activation": "swish"}), ValueError, ("dense", "'swish'", "tanh")),
    (lambda model: made(model, default_prompt="query"), ValueError, ("'query'", "no prompts")),
    (lambda model: made(model, similarity="euclidean"), ValueError, ("similarity", "'euclidean'", "cosine", "dot")),
])  # fmt: skip
def test_texts_and_settings_that_cannot_be_are_refused(prompted, call, error, words):
    with error_names(error, *words):
        call(prompted)


@pytest.mark.slow
def test_keras_inputs_get_the_prompt(prompted):
    text = keras.Input(shape=(), dtype="string")
    functional = keras.Model(text, prompted(text))
    np.testing.assert_allclose(functional(tf.constant(TEXTS)), prompted.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_prompt_that_is_not_pooled(model, pooling, untraced):
    settings = {"prompts": PROMPTS, "default_prompt": "query", "include_prompt": False, "normalize": False}
    ours = made(model, pooling=pooling, **settings)
    for text, vector in zip(TEXTS, ours.encode(TEXTS), strict=True):
        hidden = hidden_states(model, "you ask: " + text)[6:]  # after [CLS] you a ##s ##k :
        np.testing.assert_allclose(vector, hidden[0] if pooling == "cls" else hidden.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(ours(TEXTS), ours.encode(TEXTS), atol=1e-5)
    plain = made(model, pooling=pooling, normalize=False)
    np.testing.assert_allclose(ours.encode(TEXTS, prompt=""), plain.encode(TEXTS), atol=1e-5)


def test_a_dense_layer_and_shorter_vectors(model, prompted, tmp_path, untraced):
    pooled = made(model, normalize=False, prompts=PROMPTS)
    dense = {weight.name: weight.numpy() for weight in prompted.dense.weights}
    expected = np.tanh(pooled.encode(TEXTS, prompt="query") @ dense["kernel"] + dense["bias"])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(prompted.encode(TEXTS), expected, atol=1e-5)
    assert prompted.vector_size == 12
    prompted.save_preset(tmp_path)
    short = BertSentenceEncoder.from_preset(tmp_path, truncate_dim=5)
    kept = expected[:, :5] / np.linalg.norm(expected[:, :5], axis=1, keepdims=True)
    np.testing.assert_allclose(short.encode(TEXTS), kept, atol=1e-5)
    assert (short.vector_size, short.encode([]).shape) == (5, (0, 5))
    with error_names(ValueError, "truncate_dim", "13", "12 values"):
        BertSentenceEncoder.from_preset(tmp_path, truncate_dim=13)
    new = BertSentenceEncoder.from_preset(tmp_path, dense={"units": 7}, default_prompt="")
    assert (new.vector_size, new.default_prompt) == (7, None)
    (tmp_path / "2_Dense" / "config.json").unlink()
    with error_names(FileNotFoundError, "2_Dense/config.json"):
        BertSentenceEncoder.from_preset(tmp_path)


def test_order_and_batches_do_not_matter(model, monkeypatch):
    texts = [f"{'very ' * (i * 7 % 11)}good film {i}" for i in range(60)]
    expected = model.encode(texts)
    np.testing.assert_allclose(model.encode(texts[::-1])[::-1], expected, atol=1e-5)
    np.testing.assert_allclose(model.encode(texts, batch_tokens=64), expected, atol=1e-5)
    np.testing.assert_allclose(model.encode(texts, batch_tokens=8), expected, atol=1e-5)  # some are longer
    monkeypatch.setattr("keras_bert.answers.by_length._TEXTS_AT_A_TIME", 7)
    np.testing.assert_allclose(model.encode(text for text in texts), expected, atol=1e-5)


@pytest.mark.timing
def test_texts_longer_than_a_batch_are_computed_one_by_one():
    """Others are computed several at a time; the memory of attention grows with the square of the length."""
    running, most = [], []

    def watched(ids):
        running.append(len(ids))
        time.sleep(0.02)
        most.append((ids.shape[1], len(running)))
        running.pop()
        return np.float32(ids[:, 0])

    def compute(segments):
        return tf.ensure_shape(tf.numpy_function(watched, [segments[0].to_tensor()], tf.float32), [None])

    run = by_length.GraphByLength(small.preprocessor(), compute, by_length.Graphs())
    texts = ["film " * 6] * 4 + ["film"] * 8
    found = run(texts, batch_tokens=7)  # a long text has 8 tokens, a short one 3
    assert len(found) == 12
    assert all(together == 1 for tokens, together in most if tokens == 6)
    assert any(together > 1 for tokens, together in most if tokens == 1)


def test_an_iterator_is_read_as_it_is_needed(monkeypatch):
    monkeypatch.setattr("keras_bert.answers.by_length._TEXTS_AT_A_TIME", 7)
    read, seen = [], set()

    def compute(segments):
        watched = lambda ids: seen.add(len(read)) or np.float32(ids[:, 0])  # noqa: E731
        return tf.ensure_shape(tf.numpy_function(watched, [segments[0].to_tensor()], tf.float32), [None])

    run = by_length.GraphByLength(small.preprocessor(), compute, by_length.Graphs())
    assert len(run((read.append(i) or f"film {i}" for i in range(21)), 1024)) == 21
    assert seen == {7, 14, 21}


@pytest.mark.slow
def test_tensorflow_has_nothing_to_say(model, caplog):
    """Though many batches begin while the graph is traced."""
    made(model).encode(TEXTS * 4, batch_tokens=24)
    assert caplog.messages == []


def test_cut_texts_are_counted_over_all_parts_of_many_texts(model, monkeypatch):
    monkeypatch.setattr("keras_bert.answers.by_length._TEXTS_AT_A_TIME", 2)
    with warning_names("texts truncated", "24 tokens", "3"):
        model.encode(["film " * 100, "good", "film " * 23, "film " * 30, "good"])


def test_cut_texts_are_counted_out_loud(model, recwarn):
    model.encode(["film " * 22])  # which just fits
    assert [str(warning.message) for warning in recwarn if "truncated" in str(warning.message)] == []
    with warning_names("texts truncated", "24 tokens", "2"):
        model.encode(["film " * 100, "good", "film " * 23])
    short = BertSentenceEncoder(model.encoder, small.preprocessor(sequence_length=8))
    with warning_names("texts truncated", "8 tokens", "1"):
        vectors = short.encode(["film " * 7, "film " * 6])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-5)
    vectors, cut = model.encode_counted(["film " * 100, "good", "film " * 23])
    assert (vectors.shape, cut) == ((3, small.CONFIG.hidden_size), 2)


def test_encode_sees_weights_that_changed(model):
    before, weights = model.encode(TEXTS), model.encoder.get_weights()
    model.encoder.set_weights([weight * 1.1 for weight in weights])
    changed = model.encode(TEXTS)
    model.encoder.set_weights(weights)
    assert np.abs(changed - before).max() > 0.01


# -- Files


def test_vectors_to_compare_have_length_1_unless_compared_by_dot_product(model, tmp_path):
    for similarity, normalize in (("dot", False), ("cosine", True)):
        made(model, normalize=False, similarity=similarity).save_preset(tmp_path / similarity)
        compared = BertSentenceEncoder.to_compare(tmp_path / similarity)
        assert (compared.similarity, compared.normalize) == (similarity, normalize)


def test_a_plain_bert_gets_mean_pooling(model, tmp_path):
    model.encoder.save_preset(tmp_path)
    model.preprocessor.save_preset(tmp_path)
    loaded = BertSentenceEncoder.from_preset(tmp_path)
    assert loaded.pooling == model.pooling == "mean"
    assert loaded.preprocessor.max_sequence_length == small.CONFIG.max_positions


def test_a_vocabulary_that_lost_its_end(model, tmp_path):
    model.save_preset(tmp_path)
    tokens = (tmp_path / "vocab.txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "vocab.txt").write_text("\n".join(tokens[:-9]), encoding="utf-8")
    with error_names(ValueError, "vocabulary", "tokens", "rows"):
        BertSentenceEncoder.from_preset(tmp_path)
