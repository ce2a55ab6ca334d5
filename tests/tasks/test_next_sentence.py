"""BertNextSentence: which label says that it follows, on every way in and out, and beside transformers."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertEncoder, BertPreprocessor
from keras_bert.saved_model import export_serving
from keras_bert.saved_model.check import check_serving
from keras_bert.tasks import BertNextSentence
from keras_bert.text import SentencePieceTokenizer, WordPieceTokenizer

from ..golden import make_golden_export as golden

A = ["The film was good.", "", "She loved it", "the bank"]
B = ["It was very good!", "plot", "", "He hated the acting, the story and the music."]


def new(seed=0):
    keras.utils.set_random_seed(seed)
    preprocessor = BertPreprocessor(WordPieceTokenizer(golden.VOCABULARY), None, max_sequence_length=48)
    model = BertNextSentence(BertEncoder(golden.CONFIG), preprocessor)
    generator = np.random.default_rng(seed)
    model.set_weights([weight + generator.normal(0, 0.3, weight.shape) for weight in model.get_weights()])
    return model


@pytest.fixture(scope="module")
def model():
    return new()


def test_label_0_is_that_it_follows(model):
    logits = np.asarray(model((A, B)))
    assert logits.shape == (4, 2)
    assert logits.dtype == np.float32
    pooled = model.encoder(model.preprocessor((A, B)))["pooled_output"]
    np.testing.assert_allclose(model.head(pooled), logits, atol=1e-6)
    scores = model.score(A, B)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(logits[:, 1] - logits[:, 0])), atol=1e-5)
    assert np.ptp(scores) > 0.01
    assert np.abs(model.score(B, A) - scores).max() > 0.01  # the order matters
    assert model.score([], []).shape == (0,)
    one = model.score(A[0], B[0])
    assert isinstance(one, float)
    assert one == pytest.approx(float(scores[0]), abs=1e-6)


@pytest.mark.parametrize(
    ("a", "b", "error", "message"),
    [
        ("a", ["b"], TypeError, "single str"),
        (["a"], "b", TypeError, "single str"),
        (["a", "b"], ["c"], ValueError, "2 first texts, but 1 second"),
        (["a", "b"], ["c", 5], TypeError, "text 1 is 5"),
    ],
)
def test_bad_texts(model, a, b, error, message):
    with pytest.raises(error, match=message):
        model.score(a, b)


def test_texts_alone(model):
    with pytest.raises(ValueError, match="takes pairs"):
        model(tf.constant(["a", "b"]))


def test_no_windows():
    preprocessor = BertPreprocessor(WordPieceTokenizer(golden.VOCABULARY), 20, stride=3)
    with pytest.raises(ValueError, match="stride is 3"):
        BertNextSentence(BertEncoder(golden.CONFIG), preprocessor)


@pytest.mark.slow
def test_it_learns():
    model = new()
    follows = np.array([0, 1, 0, 1])
    model.compile(keras.optimizers.Adam(3e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit((A, B), follows, epochs=40, verbose=0)
    np.testing.assert_array_equal(model.score(A, B) < 0.5, follows)


def test_files(model, tmp_path):
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "model.keras").score(A, B), model.score(A, B))
    model.save_preset(tmp_path / "preset")
    config = json.loads((tmp_path / "preset" / "config.json").read_text())
    assert config["architectures"] == ["BertForNextSentencePrediction"]
    again = BertNextSentence.from_preset(tmp_path / "preset")
    np.testing.assert_array_equal(again.score(A, B), model.score(A, B))


def test_a_preset_without_the_head(model, tmp_path):
    with pytest.raises(ValueError, match="no head that says whether a text follows"):
        BertNextSentence.from_preset("all-MiniLM-L6-v2")
    BertClassifier(model.encoder, model.preprocessor, ["a", "b"], pairs=True).save_preset(tmp_path)
    with pytest.raises(ValueError, match="no head that says whether a text follows"):
        BertNextSentence.from_preset(tmp_path)


@pytest.mark.slow
def test_a_server_answers_the_same(model, tmp_path):
    export_serving(model, tmp_path)
    assert "TF Serving has them all" in check_serving(tmp_path)[0]
    signature = tf.saved_model.load(tmp_path / "1").signatures["serving_default"]
    served = signature(text=tf.constant(A), text_pair=tf.constant(B))
    np.testing.assert_allclose(served["probability"], model.score(A, B), atol=1e-5)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("family", "head", "output"),
    [
        ("bert", "BertForNextSentencePrediction", "logits"),
        ("bert", "BertForPreTraining", "seq_relationship_logits"),
        ("albert", "AlbertForPreTraining", "sop_logits"),
    ],
)
def test_the_same_as_transformers(family, head, output, shared_data, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    if family == "albert":
        tokenizer = SentencePieceTokenizer(shared_data / "vocabs/albert_spiece.model")
    else:
        tokenizer = WordPieceTokenizer(shared_data / "vocabs/bert_uncased_vocab.txt")
    tokenizer.save_preset(tmp_path)
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "num_hidden_layers": 2}
    config = transformers.AutoConfig.for_model(family, **sizes, vocab_size=tokenizer.vocabulary_size)
    torch.manual_seed(0)
    theirs = getattr(transformers, head)(config).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    theirs.save_pretrained(tmp_path)
    packed = BertPreprocessor(tokenizer, None)((A, B))
    names = {"input_ids": "input_word_ids", "attention_mask": "input_mask", "token_type_ids": "input_type_ids"}
    encoded = {name: torch.tensor(packed[ours].numpy()) for name, ours in names.items()}
    with torch.no_grad():
        # next_sentence_label and sentence_order_label, in the documentation of these classes: 0 is "follows".
        want = getattr(theirs(**encoded), output).softmax(-1)[:, 0].numpy()
    ours = BertNextSentence.from_preset(tmp_path)
    np.testing.assert_allclose(ours.score(A, B), want, atol=1e-5)
    ours.save_preset(tmp_path / "ours")
    (named,) = json.loads((tmp_path / "ours" / "config.json").read_text())["architectures"]
    assert named == {"bert": "BertForNextSentencePrediction", "albert": "AlbertForPreTraining"}[family]
    again = getattr(transformers, named).from_pretrained(tmp_path / "ours").eval()
    encode = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    theirs = encode(A, B, padding=True, return_tensors="pt")
    assert {name: each.tolist() for name, each in theirs.items()} == {
        name: each.tolist() for name, each in encoded.items()
    }
    logits = {"bert": "logits", "albert": "sop_logits"}[family]
    with torch.no_grad():
        np.testing.assert_allclose(getattr(again(**theirs), logits).softmax(-1)[:, 0], want, atol=1e-5)
