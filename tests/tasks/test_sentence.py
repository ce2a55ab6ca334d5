"""BertSentenceEncoder on a real model: one vector a text, any number of texts, and back from every kind of file."""

import json
import tracemalloc

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertEncoder, BertPreprocessor, BertSentenceEncoder
from keras_bert.tasks import by_length

TEXTS = [
    "I love pizza",
    "",
    "India is my country",
    "The quick brown fox jumps over the lazy dog, again and again, until it is tired of it.",
    "Ein Café in Zürich",
]


@pytest.fixture(scope="module")
def model():
    return BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")


@pytest.fixture(scope="module")
def small(model):
    """A model with the real vocabulary and a tiny random encoder."""
    keras.utils.set_random_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "hidden_dropout": 0.0, "attention_dropout": 0.0}
    encoder = BertEncoder(BertConfig.tiny(initializer_range=0.5, **sizes))
    tokenizer = model.preprocessor.tokenizer
    return BertSentenceEncoder(encoder, BertPreprocessor(tokenizer, sequence_length=None, max_sequence_length=64))


def hidden_states(model, text):
    """float32 [pieces, hidden], without any padding."""
    ids = model.preprocessor.tokenizer.tokenize(text).numpy()
    return model.encoder({"input_word_ids": np.array([[101, *ids, 102]])})["sequence_output"].numpy()[0]


def test_each_vector_is_the_mean_over_its_real_pieces(model):
    vectors = model.encode(TEXTS)
    assert vectors.shape == (5, 384)
    assert vectors.dtype == np.float32
    for text, vector in zip(TEXTS, vectors, strict=True):
        mean = hidden_states(model, text).mean(axis=0)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-6)


def test_calling_it_gives_the_same_as_encode(model):
    expected = model.encode(TEXTS)
    np.testing.assert_allclose(model(TEXTS), expected, atol=1e-6)
    np.testing.assert_allclose(model(tf.constant(TEXTS)), expected, atol=1e-6)
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(2)
    np.testing.assert_allclose(model.predict(dataset, verbose=0), expected, atol=1e-6)


def test_order_and_batches_do_not_matter(model, monkeypatch):
    texts = [f"{'very ' * (i * 7 % 11)}good number {i}" for i in range(60)]
    expected = model.encode(texts)
    np.testing.assert_allclose(model.encode(texts[::-1])[::-1], expected, atol=1e-6)
    np.testing.assert_allclose(model.encode(texts, batch_tokens=256), expected, atol=1e-6)
    monkeypatch.setattr(by_length, "_TEXTS_AT_A_TIME", 7)
    np.testing.assert_allclose(model.encode(text for text in texts), expected, atol=1e-6)


def test_tensorflow_has_nothing_to_say(small, caplog):
    for _ in range(4):  # each time many batches, of which several begin while the graph is traced
        again = BertSentenceEncoder(small.encoder, small.preprocessor)
        again.encode(TEXTS * 4, batch_tokens=64)
    assert caplog.messages == []


def test_similar_texts_are_close(model):
    pizza, food, tax = model.encode(["I love pizza", "Pizza is my favourite food", "Income tax is due in April"])
    assert pizza @ food > 0.7
    assert pizza @ tax < 0.2


def test_no_texts(model):
    assert model.encode([]).shape == (0, 384)


def test_memory_is_flat_for_an_iterator(small):
    def peak(count):
        tracemalloc.start()
        small.encode((f"sentence number {i}" for i in range(count)), progress=False)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(100)  # tracing, once
    one, four = peak(16384), peak(4 * 16384)
    results = 3 * 16384 * 16 * 4
    assert four - one < 2 * results + 2**20  # the results themselves, and their concatenation


def test_cut_texts_are_counted_out_loud(small):
    with pytest.warns(UserWarning, match="texts cut to 64 pieces, the most that this model is meant for: 2$"):
        small.encode(["long " * 100, "short", "long " * 63])


def test_a_preprocessor_of_fixed_length_cuts_out_loud_too(small):
    short = BertPreprocessor(small.preprocessor.tokenizer, sequence_length=8, max_sequence_length=64)
    with pytest.warns(UserWarning, match="texts cut to 8 pieces, the most that this model is meant for: 1$"):
        vectors = BertSentenceEncoder(small.encoder, short).encode(["long " * 7, "long " * 6])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)


def test_texts_that_just_fit_are_not_cut(small, recwarn):
    small.encode(["long " * 62])
    assert [str(warning.message) for warning in recwarn if "cut" in str(warning.message)] == []


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        ("a single text", TypeError, r"texts is a single str; pass a list: \[text\]"),
        (["good", None], TypeError, "text 1 is None"),
        (["good", 3], TypeError, "text 1 is 3"),
        (["good", "\ud800"], ValueError, "lone surrogate"),
    ],
)
def test_bad_texts(small, texts, error, message):
    with pytest.raises(error, match=message):
        small.encode(texts)


def test_bad_settings(model):
    with pytest.raises(ValueError, match="batch_tokens is 100, less than one text of 256 pieces"):
        model.encode(TEXTS, batch_tokens=100)
    with pytest.raises(ValueError, match="pooling must be one of mean, cls, max, not 'sum'"):
        BertSentenceEncoder(model.encoder, model.preprocessor, pooling="sum")


@pytest.mark.parametrize("pooling", ["cls", "max"])
def test_other_poolings(small, pooling):
    other = BertSentenceEncoder(small.encoder, small.preprocessor, pooling)
    vectors = other.encode(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        hidden = hidden_states(small, text)
        expected = hidden[0] if pooling == "cls" else hidden.max(axis=0)
        np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-5)


@pytest.mark.slow
def test_learns_from_strings(small):
    model = keras.models.clone_model(small)
    model.compile(keras.optimizers.Adam(1e-2), "mse")
    texts, targets = tf.constant(TEXTS), np.eye(16, dtype="float32")[:5]
    losses = model.fit(texts, targets, epochs=40, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]


def test_encode_sees_weights_that_changed(small):
    model = keras.models.clone_model(small)
    before = model.encode(TEXTS)
    model.encoder.set_weights([weight + 0.1 for weight in model.encoder.get_weights()])
    assert np.abs(model.encode(TEXTS) - before).max() > 0.01


def test_keras_file(small, tmp_path):
    small.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.encode(TEXTS), small.encode(TEXTS))


def test_preset(small, tmp_path):
    small.save_preset(tmp_path)
    loaded = BertSentenceEncoder.from_preset(tmp_path)
    np.testing.assert_array_equal(loaded.encode(TEXTS), small.encode(TEXTS))
    assert loaded.preprocessor.max_sequence_length == 64
    with pytest.raises(FileExistsError):
        small.save_preset(tmp_path)


def test_a_preset_is_saved_as_a_whole_or_not_at_all(small, tmp_path):
    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(FileExistsError, match=r"already has modules\.json"):
        small.save_preset(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["modules.json"]


def test_settings_are_read_from_the_preset(small, tmp_path):
    small.save_preset(tmp_path)
    pooling = tmp_path / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps({"pooling_mode": "max"}))  # as sentence-transformers 6 writes it
    assert BertSentenceEncoder.from_preset(tmp_path).pooling == "max"
    pooling.write_text(json.dumps({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}))
    with pytest.raises(ValueError, match="supported is one of mean, cls, max"):
        BertSentenceEncoder.from_preset(tmp_path)
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules.append({"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"})
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match="asks for Dense, which is not supported"):
        BertSentenceEncoder.from_preset(tmp_path)


def test_a_plain_bert_gets_mean_pooling(small, tmp_path):
    small.encoder.save_preset(tmp_path)
    small.preprocessor.save_preset(tmp_path)
    loaded = BertSentenceEncoder.from_preset(tmp_path)
    assert (loaded.pooling, loaded.preprocessor.max_sequence_length) == ("mean", 512)


def test_a_vocabulary_that_lost_its_end(small, tmp_path):
    small.save_preset(tmp_path)
    pieces = (tmp_path / "vocab.txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "vocab.txt").write_text("\n".join(pieces[:-1]), encoding="utf-8")
    with pytest.raises(ValueError, match="the vocabulary has 30521 pieces, but .* has 30522 rows"):
        BertSentenceEncoder.from_preset(tmp_path)
