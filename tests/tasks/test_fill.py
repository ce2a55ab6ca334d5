"""BertMaskedLM.fill: the surest mask first, by hand; texts as they were; files and exports."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertPreprocessor
from keras_bert.saved_model import export_serving
from keras_bert.saved_model.check import check_serving
from keras_bert.tasks import BertMaskedLM
from keras_bert.tasks.masked_lm import Candidates, TokenTexts
from keras_bert.text import WordPieceTokenizer

from ..support import small

TEXTS = ["The [MASK] was Good! 😀", "[MASK] and  [MASK]\tplot [MASK].", "[MASK]"]

ROWS = -(-len(small.VOCABULARY) // 64) * 64  # rounded up


@pytest.fixture(scope="module")
def model():
    tokenizer = small.tokenizer(special_tokens_in_text=True)
    preprocessor = small.preprocessor(tokenizer=tokenizer, max_sequence_length=48)
    return BertMaskedLM(small.encoder(num_layers=1), preprocessor)


@pytest.fixture
def wider(model):
    """The same with more rows of embeddings."""
    return BertMaskedLM(small.encoder(num_layers=1, vocab_size=ROWS), model.preprocessor)


def by_hand(model, text):
    """One text, one mask at a time, by calls on ids: {number of the mask: (ids in order, probabilities)}, in order."""
    tokenizer = model.preprocessor.tokenizer
    ids = model.preprocessor.pack(tokenizer.tokenize([text]))["input_word_ids"].numpy()
    places = np.flatnonzero(ids[0] == tokenizer.mask_token_id)
    found = {}
    while len(found) < len(places):
        logits = np.asarray(model({"input_word_ids": ids, "masked_lm_positions": places[None]}))[0]
        probabilities = tf.nn.softmax(logits).numpy()
        left = [i for i in range(len(places)) if i not in found]
        surest = max(left, key=lambda i: probabilities[i].max())
        order = np.argsort(-probabilities[surest])
        found[surest] = order, probabilities[surest][order]
        ids[0, places[surest]] = order[0]
    return found


def test_the_surest_is_filled_first(model):
    for text, answer in zip(TEXTS, model.fill(TEXTS), strict=True):
        want = by_hand(model, text)
        assert len(answer["masks"]) == len(want) == text.count("[MASK]")
        for number, (order, probabilities) in want.items():
            got = answer["masks"][number]
            assert [each["token"] for each in got] == [small.VOCABULARY[i] for i in order[:5]]
            np.testing.assert_allclose([each["probability"] for each in got], probabilities[:5], atol=1e-5)
    assert list(by_hand(model, TEXTS[1])) != [0, 1, 2]  # else the order would not show


def test_rows_without_a_token_are_no_candidates(model, wider):
    """An embedding table may have more rows than there are tokens, here the most probable ones."""
    for ours, theirs in zip(wider.weights, model.weights, strict=True):
        value = np.zeros(ours.shape, np.float32)
        value[tuple(slice(size) for size in theirs.shape)] = theirs.numpy()
        if value.shape != theirs.shape:
            value[len(small.VOCABULARY) :] = 100.0
        ours.assign(value)
    for answer, want in zip(wider.fill(TEXTS), model.fill(TEXTS), strict=True):
        assert [[each["token"] for each in mask] for mask in answer["masks"]] == [
            [each["token"] for each in mask] for mask in want["masks"]
        ]


def test_top_k(model):
    every = len(small.VOCABULARY)
    for top_k in (0, every + 1):
        with pytest.raises(ValueError, match=f"top_k is {top_k}; expected 1 to {every}"):
            model.fill(["[MASK]"], top_k=top_k)
    for top_k in (1, every):  # the next thing that is wrong
        with pytest.raises(ValueError, match="batch_tokens is 0"):
            model.fill(["[MASK]"], top_k=top_k, batch_tokens=0)
    candidates = model._candidates(model.preprocessor.pack([[small.VOCABULARY.index("[MASK]")]]), every)
    assert float(tf.reduce_sum(candidates.probabilities)) == pytest.approx(1, abs=1e-4)


def test_the_rest_of_the_text_stays(model, untraced):
    assert model.fill([]) == []
    answers = model.fill(TEXTS)
    for text, answer in zip(TEXTS, answers, strict=True):
        want = text
        for candidates in answer["masks"]:
            assert len(candidates) == 5
            before, after = want.split("[MASK]", 1)
            token = candidates[0]["token"]
            want = (before.rstrip() if token.startswith("##") else before) + token.removeprefix("##") + after
        assert answer["text"] == want
        one = model.fill(text)
        assert one["text"] == want
        for masks in zip(one["masks"], answer["masks"], strict=True):
            first, second = ([each["probability"] for each in mask] for mask in masks)
            np.testing.assert_allclose(first, second, atol=1e-6)
    served = {name: value.numpy() for name, value in model.serve(tf.constant([*TEXTS, "none", ""])).items()}
    assert [text.decode() for text in served["filled"]] == [*(each["text"] for each in answers), "none", ""]
    assert served["tokens"].shape == served["probabilities"].shape == (5, 3, 5)
    for row, answer in enumerate(answers):
        for mask, candidates in enumerate(answer["masks"]):
            assert [each["token"] for each in candidates] == [token.decode() for token in served["tokens"][row, mask]]
            want = [each["probability"] for each in candidates]
            np.testing.assert_allclose(served["probabilities"][row, mask], want, atol=1e-5)
        assert set(served["tokens"][row, len(answer["masks"]) :].ravel()) <= {b""}
    assert not served["probabilities"][3:].any()
    (cut,) = model.serve(tf.constant(["[MASK] " + "the " * 50 + "[MASK]"]))["filled"].numpy()
    assert cut.count(b"[MASK]") == 1
    assert cut.endswith(b"the [MASK]")


def filled(tokenizer, text, tokens):
    """`text` with these tokens, by name, as the likeliest."""
    ids = tf.constant([tokenizer.vocabulary.index(token) for token in tokens], tf.int32)[None, :, None]
    texts = TokenTexts(tokenizer)
    candidates = Candidates(ids, tf.ones(ids.shape))
    names = [name.decode() for name in texts.decode(candidates).numpy()[0, :, 0]]
    return texts.fill(tf.constant([text]), candidates).numpy()[0].decode(), names


def test_wordpieces_in_a_text():
    tokenizer = small.tokenizer(special_tokens_in_text=True)
    assert filled(tokenizer, "A [MASK] [MASK]\n([MASK])", ["good", "##ness", "film"]) == (
        "A goodness\n(film)",
        ["good", "##ness", "film"],
    )
    assert filled(tokenizer, "[MASK]ly [MASK]", ["##ed", "[SEP]"])[0] == "edly [SEP]"
    assert filled(tokenizer, "[MASK] [MASK]", ["good"])[0] == "good [MASK]"  # the second one was cut off
    assert filled(tokenizer, "none", [])[0] == "none"


def test_byte_pairs_in_a_text():
    """Which have the space before them; a token may be a part of a character."""
    tokenizer = small.byte_pairs([("Ġ", "P"), ("ĠP", "a"), ("Ġ", "a"), ("Ġ", "Ã")], special_tokens_in_text=True)
    text, names = filled(tokenizer, "<mask> is <mask>\u3000 <mask><mask>.", ["ĠPa", "Ġa", "s", "Ġ"])
    assert (text, names) == ("Pa is as .", [" Pa", " a", "s", " "])
    assert filled(tokenizer, "  <mask> (<mask>", ["ĠPa", "Ġa"])[0] == "Pa ( a"
    assert filled(tokenizer, "<mask>a <mask>", ["</s>", "ĠÃ"])[0].startswith("</s>a ")  # half of a character


@pytest.mark.slow
def test_real_tokens_in_a_text(real_tokenizer):
    tokenizer = real_tokenizer("roberta")
    text, names = filled(tokenizer, "<mask> is <mask>\u3000 <mask><mask>.", ["ĠParis", "Ġa", "s", "Ġcity"])
    assert (text, names) == ("Paris is as city.", [" Paris", " a", "s", " city"])
    assert filled(tokenizer, "<mask>a <mask>", ["</s>", "Ġæ"])[0].startswith("</s>a ")  # a third of a character
    assert filled(real_tokenizer("albert"), "[MASK] is [MASK] [MASK].", ["▁paris", "▁a", "s"]) == (
        "paris is as.",
        [" paris", " a", "s"],
    )


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        (b"[MASK]", TypeError, "text is a single bytes"),
        ("a", ValueError, r"text 0 \(from 0\) has no \[MASK\]: 'a'"),
        (["a [MASK]", 5], TypeError, r"text 1 \(from 0\) is 5"),
        (["a [MASK]", "b"], ValueError, r"text 1 \(from 0\) has no \[MASK\]: 'b'"),
        (["[MASK] " + "the " * 50 + "[MASK]"], ValueError, r"\[MASK\] 2 times, but only 1 in the 48 tokens"),
    ],
)
@pytest.mark.filterwarnings("ignore:texts cut")
def test_bad_texts(model, texts, error, message):
    with pytest.raises(error, match=message):
        model.fill(texts)


def test_preprocessors_that_cannot_be_used():
    encoder = small.encoder(num_layers=1)
    for settings, options, message in [
        ({}, {}, r"reads \[MASK\] as ordinary text"),
        ({"special_tokens_in_text": True}, {"stride": 3}, "stride is 3"),
    ]:
        tokenizer = small.tokenizer(**settings)
        with pytest.raises(ValueError, match=message):
            BertMaskedLM(encoder, BertPreprocessor(tokenizer, sequence_length=20, **options))
    large = WordPieceTokenizer([*small.VOCABULARY, "##zzz"], special_tokens_in_text=True)
    with pytest.raises(ValueError, match="vocabulary"):
        BertMaskedLM(encoder, BertPreprocessor(large, sequence_length=20))


def test_without_a_preprocessor(tmp_path):
    model = BertMaskedLM(small.encoder(num_layers=1))
    with pytest.raises(ValueError, match="no preprocessor"):
        model.fill(["[MASK]"])
    with pytest.raises(TypeError, match="expected a model that takes strings"):
        export_serving(model, tmp_path / "served")
    model.save_preset(tmp_path / "bare")
    assert {path.name for path in (tmp_path / "bare").iterdir()} == {"config.json", "model.safetensors", "README.md"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert BertMaskedLM.from_preset(tmp_path / "bare").preprocessor is None
    (tmp_path / "bare" / "vocab.txt").write_text("\n".join([*small.VOCABULARY, "##zzz"]) + "\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="packed inputs only, because of its tokenizer"):
        assert BertMaskedLM.from_preset(tmp_path / "bare").preprocessor is None


def test_files(model, tmp_path):
    model.save(tmp_path / "model.keras")
    model.save_preset(tmp_path / "preset")
    for again in (keras.models.load_model(tmp_path / "model.keras"), BertMaskedLM.from_preset(tmp_path / "preset")):
        assert small.same(again, model)
        assert again.preprocessor.tokenizer.special_tokens_in_text
    with pytest.raises(FileExistsError, match="pass overwrite"):
        model.save_preset(tmp_path / "preset")


@pytest.mark.slow
def test_a_server_answers_the_same(model, tmp_path):
    pytest.importorskip("tensorflow_serving.apis")
    export_serving(model, tmp_path)
    assert "TF Serving has all of them" in check_serving(tmp_path)[0]
    signature = tf.saved_model.load(tmp_path / "1").signatures["serving_default"]
    texts = tf.constant([*TEXTS, "none", ""])
    served, expected = signature(text=texts), model.serve(texts)
    assert served["filled"].numpy().tolist() == expected["filled"].numpy().tolist()
    assert served["tokens"].numpy().tolist() == expected["tokens"].numpy().tolist()
    np.testing.assert_allclose(served["probabilities"], expected["probabilities"], atol=1e-5)
