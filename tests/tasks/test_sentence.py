"""BertSentenceEncoder: one vector a text, any number of texts, and back from every kind of file."""

import json
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertSentenceEncoder
from keras_bert.tasks import by_length

from ..support import small

TEXTS = [
    "I love the film",
    "",
    "The bank is my story",
    "good movie, not bad, and a story",
    "Ein Café in Zürich",
]


@pytest.fixture(scope="module")
def model():
    return BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor())


def hidden_states(model, text):
    """float32 [tokens, hidden], without any padding."""
    tokenizer = model.preprocessor.tokenizer
    ids = [tokenizer.cls_token_id, *tokenizer.tokenize(text).numpy(), tokenizer.sep_token_id]
    return model.encoder({"input_word_ids": np.array([ids])})["sequence_output"].numpy()[0, :24]


def test_each_vector_is_the_mean_over_its_real_tokens(model):
    vectors = model.encode(TEXTS)
    assert vectors.shape == (5, small.CONFIG.hidden_size)
    assert vectors.dtype == np.float32
    for text, vector in zip(TEXTS, vectors, strict=True):
        mean = hidden_states(model, text).mean(axis=0)
        np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-6)
    assert model.encode([]).shape == (0, small.CONFIG.hidden_size)


POOLINGS = {
    "cls": lambda hidden: hidden[0],
    "max": lambda hidden: hidden.max(axis=0),
    "lasttoken": lambda hidden: hidden[-1],
    "mean_sqrt_len_tokens": lambda hidden: hidden.sum(axis=0) / len(hidden) ** 0.5,
    "weightedmean": lambda hidden: np.average(hidden, axis=0, weights=np.arange(1, len(hidden) + 1)),
}


@pytest.mark.parametrize("pooling", POOLINGS)
def test_other_poolings(model, pooling):
    expected = np.array([POOLINGS[pooling](hidden_states(model, text)) for text in TEXTS])
    vectors = BertSentenceEncoder(model.encoder, model.preprocessor, pooling, normalize=False)(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    vectors = BertSentenceEncoder(model.encoder, model.preprocessor, pooling)(TEXTS)
    np.testing.assert_allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-5)


PROMPTS = {"query": "you ask: ", "story": "the story ", "none": ""}


@pytest.fixture(scope="module")
def prompted(model):
    dense = {"units": 12, "activation": "tanh", "use_bias": True}
    return small.shaken(
        BertSentenceEncoder(
            model.encoder, model.preprocessor, "mean", dense=dense, prompts=PROMPTS, default_prompt="query"
        )
    )


def test_prompts(prompted):
    def after(prompt):
        return prompted.encode([prompt + text for text in TEXTS], prompt="")

    np.testing.assert_allclose(prompted.encode(TEXTS), after("you ask: "), atol=1e-6)
    np.testing.assert_allclose(prompted.encode(TEXTS, prompt="story"), after("the story "), atol=1e-6)
    np.testing.assert_allclose(prompted.encode(text for text in TEXTS), after("you ask: "), atol=1e-6)
    np.testing.assert_allclose(prompted.encode("good"), prompted.encode("you ask: good", prompt="none"), atol=1e-6)
    np.testing.assert_allclose(prompted(TEXTS), after("you ask: "), atol=1e-6)
    np.testing.assert_allclose(prompted.serve(tf.constant(TEXTS))["embedding"], after("you ask: "), atol=1e-6)
    assert np.abs(after("you ask: ") - after("")).max() > 0.01
    vectors, cut = prompted.encode_counted(["film " * 22, "film"])  # of which the prompt makes one too long
    assert (vectors.shape, cut) == ((2, 12), 1)
    with pytest.raises(ValueError, match="there is no prompt 'passage'; this model has query, story, none"):
        prompted.encode("good", prompt="passage")
    with pytest.raises(TypeError, match="text 1 is 3"):
        prompted.encode(["good", 3])


def test_keras_inputs_get_the_prompt(prompted):
    text = keras.Input(shape=(), dtype="string")
    functional = keras.Model(text, prompted(text))
    np.testing.assert_allclose(functional(tf.constant(TEXTS)), prompted.encode(TEXTS), atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_prompt_that_is_not_pooled(model, pooling):
    settings = {"prompts": PROMPTS, "default_prompt": "query", "include_prompt": False, "normalize": False}
    ours = BertSentenceEncoder(model.encoder, model.preprocessor, pooling, **settings)
    for text, vector in zip(TEXTS, ours.encode(TEXTS), strict=True):
        hidden = hidden_states(model, "you ask: " + text)[6:]  # after [CLS] you a ##s ##k :
        np.testing.assert_allclose(vector, hidden[0] if pooling == "cls" else hidden.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(ours(TEXTS), ours.encode(TEXTS), atol=1e-5)
    plain = BertSentenceEncoder(model.encoder, model.preprocessor, pooling, normalize=False)
    np.testing.assert_allclose(ours.encode(TEXTS, prompt=""), plain.encode(TEXTS), atol=1e-6)


def test_a_dense_layer_and_shorter_vectors(model, prompted, tmp_path):
    pooled = BertSentenceEncoder(model.encoder, model.preprocessor, normalize=False, prompts=PROMPTS)
    dense = {weight.name: weight.numpy() for weight in prompted.dense.weights}
    expected = np.tanh(pooled.encode(TEXTS, prompt="query") @ dense["kernel"] + dense["bias"])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(prompted.encode(TEXTS), expected, atol=1e-5)
    assert prompted.vector_size == 12
    prompted.save_preset(tmp_path)
    again = BertSentenceEncoder.from_preset(tmp_path)
    assert small.same(again, prompted)
    with pytest.raises(FileExistsError, match=r"config_sentence_transformers\.json"):
        prompted.save_preset(tmp_path)

    short = BertSentenceEncoder.from_preset(tmp_path, truncate_dim=5)
    kept = expected[:, :5] / np.linalg.norm(expected[:, :5], axis=1, keepdims=True)
    np.testing.assert_allclose(short.encode(TEXTS), kept, atol=1e-5)
    assert (short.vector_size, short.encode([]).shape) == (5, (0, 5))
    with pytest.raises(ValueError, match="truncate_dim is 13, but this model's vectors have 12 values"):
        BertSentenceEncoder.from_preset(tmp_path, truncate_dim=13)

    new = BertSentenceEncoder.from_preset(tmp_path, dense={"units": 7}, default_prompt="")
    assert (new.vector_size, new.default_prompt) == (7, None)
    (tmp_path / "2_Dense" / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match="2_Dense/config.json"):
        BertSentenceEncoder.from_preset(tmp_path)


def test_calling_it_gives_the_same_as_encode(model):
    expected = model.encode(TEXTS)
    np.testing.assert_allclose(model(TEXTS), expected, atol=1e-6)
    np.testing.assert_allclose(model(tf.constant(TEXTS)), expected, atol=1e-6)
    np.testing.assert_allclose(model.serve(tf.constant(TEXTS))["embedding"], expected, atol=1e-6)
    dataset = tf.data.Dataset.from_tensor_slices(TEXTS).batch(5)
    np.testing.assert_allclose(model.predict(dataset, verbose=0), expected, atol=1e-6)


def test_order_and_batches_do_not_matter(model, monkeypatch):
    texts = [f"{'very ' * (i * 7 % 11)}good film {i}" for i in range(60)]
    expected = model.encode(texts)
    np.testing.assert_allclose(model.encode(texts[::-1])[::-1], expected, atol=1e-6)
    np.testing.assert_allclose(model.encode(texts, batch_tokens=64), expected, atol=1e-6)
    np.testing.assert_allclose(model.encode(texts, batch_tokens=8), expected, atol=1e-6)  # some are longer
    monkeypatch.setattr(by_length, "_TEXTS_AT_A_TIME", 7)
    np.testing.assert_allclose(model.encode(text for text in texts), expected, atol=1e-6)


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

    run = by_length.ByLength(small.preprocessor(), compute)
    texts = ["film " * 6] * 4 + ["film"] * 8
    (found,) = run(texts, batch_tokens=7)  # a long text has 8 tokens, a short one 3
    assert len(found) == 12
    assert all(together == 1 for tokens, together in most if tokens == 6)
    assert any(together > 1 for tokens, together in most if tokens == 1)


def test_an_iterator_is_read_as_it_is_needed(model, monkeypatch):
    monkeypatch.setattr(by_length, "_TEXTS_AT_A_TIME", 7)
    read = []
    results = model._by_length((read.append(i) or f"film {i}" for i in range(21)), 1024)
    for done in (7, 14, 21):
        assert len(next(results)) == 7
        assert len(read) == done


def test_tensorflow_has_nothing_to_say(model, caplog):
    """Though many batches begin while the graph is traced."""
    again = BertSentenceEncoder(model.encoder, model.preprocessor)
    again.encode(TEXTS * 4, batch_tokens=24)
    assert caplog.messages == []


def test_cut_texts_are_counted_out_loud(model, recwarn):
    model.encode(["film " * 22])  # which just fits
    assert [str(warning.message) for warning in recwarn if "cut" in str(warning.message)] == []
    with pytest.warns(UserWarning, match="texts cut to 24 tokens, the most that this model reads: 2$"):
        model.encode(["film " * 100, "good", "film " * 23])
    short = BertSentenceEncoder(model.encoder, small.preprocessor(sequence_length=8))
    with pytest.warns(UserWarning, match="texts cut to 8 tokens, the most that this model reads: 1$"):
        vectors = short.encode(["film " * 7, "film " * 6])
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)
    vectors, cut = model.encode_counted(["film " * 100, "good", "film " * 23])
    assert (vectors.shape, cut) == ((3, small.CONFIG.hidden_size), 2)


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        (b"bytes", TypeError, "text is a single bytes"),
        (["good", None], TypeError, "text 1 is None"),
        (["good", 3], TypeError, "text 1 is 3"),
        (["good", "\ud800"], ValueError, "lone surrogate"),
    ],
)
def test_bad_texts(model, texts, error, message):
    with pytest.raises(error, match=message):
        model.encode(texts)


def test_fit_takes_lists_of_str(small_preset):
    """As every task does; and packed inputs."""
    model = BertSentenceEncoder.from_preset(small_preset)
    wanted = np.eye(2, small.CONFIG.hidden_size, dtype=np.float32)
    model.compile("adam", "cosine_similarity", jit_compile=False)
    history = model.fit(["good film", "bad film"], wanted, epochs=3, verbose=0).history["loss"]
    assert history[-1] < history[0]
    vectors = model.predict(["good film", "bad film"], verbose=0)
    np.testing.assert_allclose(vectors, model.encode(["good film", "bad film"]), atol=1e-5)
    np.testing.assert_allclose(vectors, model(model.preprocessor(["good film", "bad film"])), atol=1e-5)


def test_one_text(model):
    one = model.encode("good film")
    assert (one.shape, one.dtype) == ((small.CONFIG.hidden_size,), np.float32)
    np.testing.assert_allclose(one, model.encode(["good film"])[0], atol=1e-6)


def test_bad_settings(model):
    with pytest.raises(ValueError, match="batch_tokens is 0; expected at least 1"):
        model.encode(TEXTS, batch_tokens=0)
    with pytest.raises(ValueError, match="pooling must be one of mean, cls, max, .*, not 'sum'"):
        BertSentenceEncoder(model.encoder, model.preprocessor, pooling="sum")
    with pytest.raises(ValueError, match="the activation of dense is 'swish'; expected tanh, linear, relu, gelu"):
        BertSentenceEncoder(model.encoder, model.preprocessor, dense={"units": 3, "activation": "swish"})
    with pytest.raises(ValueError, match="there is no prompt 'query'; this model has no prompts"):
        BertSentenceEncoder(model.encoder, model.preprocessor, default_prompt="query")


@pytest.mark.slow
def test_learns_from_strings(model):
    model = keras.models.clone_model(model)
    model.compile(keras.optimizers.Adam(1e-2), "mse")
    targets = np.eye(small.CONFIG.hidden_size, dtype="float32")[:5]
    losses = model.fit(tf.constant(TEXTS), targets, epochs=20, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]


def test_encode_sees_weights_that_changed(model):
    before, weights = model.encode(TEXTS), model.encoder.get_weights()
    model.encoder.set_weights([weight * 1.1 for weight in weights])
    changed = model.encode(TEXTS)
    model.encoder.set_weights(weights)
    assert np.abs(changed - before).max() > 0.01


# -- Files


def test_files(model, tmp_path):
    model.save(tmp_path / "model.keras")
    model.save_preset(tmp_path / "preset")
    for again in (
        keras.models.load_model(tmp_path / "model.keras"),
        BertSentenceEncoder.from_preset(tmp_path / "preset"),
    ):
        assert small.same(again, model)
        assert again.preprocessor.max_sequence_length == 24
    with pytest.raises(FileExistsError):
        model.save_preset(tmp_path / "preset")


def test_files_keep_the_similarity(model, tmp_path):
    made = BertSentenceEncoder(model.encoder, model.preprocessor, normalize=False, similarity="dot")
    made.save(tmp_path / "model.keras")
    made.save_preset(tmp_path / "preset")
    compared = BertSentenceEncoder.to_compare(tmp_path / "preset")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for again in (compared, loaded, BertSentenceEncoder.from_preset(tmp_path / "preset")):
        assert (again.similarity, again.normalize) == ("dot", False)
    cosine = BertSentenceEncoder(model.encoder, model.preprocessor, normalize=False)
    cosine.save_preset(tmp_path / "cosine")
    assert BertSentenceEncoder.to_compare(tmp_path / "cosine").normalize
    with pytest.raises(ValueError, match="similarity is 'euclidean'; expected cosine or dot"):
        BertSentenceEncoder(model.encoder, model.preprocessor, similarity="euclidean")


def test_a_preset_is_saved_as_a_whole_or_not_at_all(model, tmp_path):
    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(FileExistsError, match=r"already has modules\.json"):
        model.save_preset(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["modules.json"]


def test_settings_are_read_from_the_preset(model, tmp_path):
    model.save_preset(tmp_path)
    pooling = tmp_path / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps({"pooling_mode": "max"}))  # as sentence-transformers 6 writes it
    assert BertSentenceEncoder.from_preset(tmp_path).pooling == "max"
    pooling.write_text(json.dumps({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}))
    with pytest.raises(ValueError, match="expected one of mean, cls, max, "):
        BertSentenceEncoder.from_preset(tmp_path)
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules.append({"idx": 3, "name": "3", "path": "3_CNN", "type": "sentence_transformers.models.CNN"})
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match=r"modules.json asks for Transformer, Pooling, Normalize, CNN; supported are"):
        BertSentenceEncoder.from_preset(tmp_path)


def test_a_plain_bert_gets_mean_pooling(model, tmp_path):
    model.encoder.save_preset(tmp_path)
    model.preprocessor.save_preset(tmp_path)
    loaded = BertSentenceEncoder.from_preset(tmp_path)
    assert (loaded.pooling, loaded.preprocessor.max_sequence_length) == ("mean", small.CONFIG.max_positions)


def test_a_vocabulary_that_lost_its_end(model, tmp_path):
    model.save_preset(tmp_path)
    tokens = (tmp_path / "vocab.txt").read_text(encoding="utf-8").splitlines()
    (tmp_path / "vocab.txt").write_text("\n".join(tokens[:-9]), encoding="utf-8")
    with pytest.raises(ValueError, match="the vocabulary has .* tokens, but .* rows"):
        BertSentenceEncoder.from_preset(tmp_path)
