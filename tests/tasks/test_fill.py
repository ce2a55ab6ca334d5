"""BertMaskedLM.fill: the surest mask first, by hand and beside transformers; texts as they were; exports."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertEncoder, BertPreprocessor
from keras_bert.saved_model import export_serving
from keras_bert.saved_model.check import check_serving
from keras_bert.tasks import BertMaskedLM
from keras_bert.tasks.mask_filling import Candidates, PieceTexts
from keras_bert.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer

from ..golden import make_golden_export as golden
from .test_masked_lm import BERT_TINY_MLM

TEXTS = ["The [MASK] was Good! 😀", "[MASK] and  [MASK]\tplot [MASK].", "[MASK]"]


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tiny-bert")
    golden.write_preset(directory)
    return directory


@pytest.fixture(scope="module")
def model(preset):
    return BertMaskedLM.from_preset(preset)


def by_hand(model, text):
    """One text, one mask at a time, by calls on ids: {number of the mask: (ids in order, probabilities)}, in order."""
    tokenizer = model.preprocessor.tokenizer
    ids = model.preprocessor([text])["input_word_ids"].numpy()
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
    answers = model.fill(TEXTS, top_k=4)
    for text, answer in zip(TEXTS, answers, strict=True):
        want = by_hand(model, text)
        assert len(answer["masks"]) == len(want) == text.count("[MASK]")
        for number, (order, probabilities) in want.items():
            got = answer["masks"][number]
            assert [each["token"] for each in got] == [golden.VOCABULARY[i] for i in order[:4]]
            np.testing.assert_allclose([each["probability"] for each in got], probabilities[:4], atol=1e-5)
    assert list(by_hand(model, TEXTS[1])) != [0, 1, 2]  # else the order would not show


def test_the_rest_of_the_text_stays(model):
    for text, answer in zip(TEXTS, model.fill(TEXTS), strict=True):
        want = text
        for candidates in answer["masks"]:
            assert len(candidates) == 5
            before, after = want.split("[MASK]", 1)
            token = candidates[0]["token"]
            want = (before.rstrip() if token.startswith("##") else before) + token.removeprefix("##") + after
        assert answer["text"] == want


def filled(tokenizer, text, pieces):
    """`text` with these pieces, by name, as the likeliest."""
    ids = tf.constant([tokenizer.vocabulary.index(piece) for piece in pieces], tf.int32)[None, :, None]
    texts = PieceTexts(tokenizer)
    candidates = Candidates(ids, tf.ones(ids.shape))
    names = [name.decode() for name in texts.of(candidates).numpy()[0, :, 0]]
    return texts.fill(tf.constant([text]), candidates).numpy()[0].decode(), names


def test_wordpieces_in_a_text():
    tokenizer = WordPieceTokenizer(golden.VOCABULARY, special_tokens_in_text=True)
    assert filled(tokenizer, "A [MASK] [MASK]\n([MASK])", ["good", "##ness", "film"]) == (
        "A goodness\n(film)",
        ["good", "##ness", "film"],
    )
    assert filled(tokenizer, "[MASK]ly [MASK]", ["##ed", "[SEP]"])[0] == "edly [SEP]"
    assert filled(tokenizer, "[MASK] [MASK]", ["good"])[0] == "good [MASK]"  # the second one was cut off
    assert filled(tokenizer, "none", [])[0] == "none"


def test_byte_pairs_in_a_text(shared_data):
    vocabs = shared_data / "vocabs"
    tokenizer = BytePairTokenizer(vocabs / "roberta_vocab.json", vocabs / "roberta_merges.txt")
    text, names = filled(tokenizer, "<mask> is <mask>\u3000 <mask><mask>.", ["ĠParis", "Ġa", "s", "Ġcity"])
    assert (text, names) == ("Paris is as city.", [" Paris", " a", "s", " city"])
    assert filled(tokenizer, "  <mask> (<mask>", ["ĠParis", "Ġa"])[0] == "Paris ( a"
    assert filled(tokenizer, "<mask>a <mask>", ["</s>", "Ġæ"])[0].startswith("</s>a ")  # a third of a character


def test_sentencepieces_in_a_text(shared_data):
    tokenizer = SentencePieceTokenizer(shared_data / "vocabs/albert_spiece.model")
    assert filled(tokenizer, "[MASK] is [MASK] [MASK].", ["▁paris", "▁a", "s"]) == (
        "paris is as.",
        [" paris", " a", "s"],
    )


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        (b"[MASK]", TypeError, "single bytes"),
        ("a", ValueError, r"text 0 \(from 0\) has no \[MASK\]: 'a'"),
        (["a [MASK]", 5], TypeError, "text 1 is 5"),
        (["a [MASK]", "b"], ValueError, r"text 1 \(from 0\) has no \[MASK\]: 'b'"),
        (["[MASK] " + "the " * 50 + "[MASK]"], ValueError, r"2 times \[MASK\], but only 1 in the 48 pieces"),
    ],
)
@pytest.mark.filterwarnings("ignore:texts cut")
def test_bad_texts(model, texts, error, message):
    with pytest.raises(error, match=message):
        model.fill(texts)


def test_other_arguments(model):
    assert model.fill([]) == []
    for text, answer in zip(TEXTS, model.fill(TEXTS), strict=True):
        one = model.fill(text)
        assert one["text"] == answer["text"]
        np.testing.assert_allclose(
            [each["probability"] for mask in one["masks"] for each in mask],
            [each["probability"] for mask in answer["masks"] for each in mask],
            atol=1e-6,
        )
    every = model.fill(["[MASK]"], top_k=len(golden.VOCABULARY))[0]["masks"][0]
    assert sum(each["probability"] for each in every) == pytest.approx(1, abs=1e-4)
    for top_k in (0, len(golden.VOCABULARY) + 1):
        with pytest.raises(ValueError, match=f"top_k is {top_k}; expected 1 to "):
            model.fill(["[MASK]"], top_k=top_k)


def test_preprocessors_that_cannot_be_used():
    encoder = BertEncoder(golden.CONFIG)
    for settings, options, message in [
        ({}, {}, r"takes \[MASK\] in a text for text"),
        ({"special_tokens_in_text": True}, {"stride": 3}, "stride is 3"),
    ]:
        tokenizer = WordPieceTokenizer(golden.VOCABULARY, **settings)
        with pytest.raises(ValueError, match=message):
            BertMaskedLM(encoder, BertPreprocessor(tokenizer, sequence_length=20, **options))
    large = WordPieceTokenizer([*golden.VOCABULARY, "##zzz"], special_tokens_in_text=True)
    with pytest.raises(ValueError, match="vocabulary"):
        BertMaskedLM(encoder, BertPreprocessor(large, sequence_length=20))


def test_without_a_preprocessor(preset, tmp_path):
    model = BertMaskedLM(BertEncoder(golden.CONFIG))
    with pytest.raises(ValueError, match="no preprocessor"):
        model.fill(["[MASK]"])
    with pytest.raises(TypeError, match="starts from strings"):
        export_serving(model, tmp_path / "served")
    model.save_preset(tmp_path / "bare")
    assert {path.name for path in (tmp_path / "bare").iterdir()} == {"config.json", "model.safetensors", "README.md"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert BertMaskedLM.from_preset(tmp_path / "bare").preprocessor is None
    (tmp_path / "bare" / "vocab.txt").write_text("\n".join([*golden.VOCABULARY, "##zzz"]) + "\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="packed inputs only, because of its tokenizer"):
        assert BertMaskedLM.from_preset(tmp_path / "bare").preprocessor is None


def test_files(model, tmp_path):
    model.save(tmp_path / "model.keras")
    assert keras.models.load_model(tmp_path / "model.keras").fill(TEXTS) == model.fill(TEXTS)
    model.save_preset(tmp_path / "preset")
    assert BertMaskedLM.from_preset(tmp_path / "preset").fill(TEXTS) == model.fill(TEXTS)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        model.save_preset(tmp_path / "preset")
    config = model.get_config()
    del config["preprocessor"]  # as earlier versions wrote it
    assert BertMaskedLM.from_config(config).preprocessor is None


@pytest.mark.slow
def test_a_server_answers_the_same(model, tmp_path):
    pytest.importorskip("tensorflow_serving.apis")
    export_serving(model, tmp_path)
    assert "TF Serving has them all" in check_serving(tmp_path)[0]
    signature = tf.saved_model.load(tmp_path / "1").signatures["serving_default"]
    served = {name: value.numpy() for name, value in signature(text=tf.constant([*TEXTS, "none", ""])).items()}
    assert [text.decode() for text in served["filled"]] == [*(each["text"] for each in model.fill(TEXTS)), "none", ""]
    assert served["tokens"].shape == served["probabilities"].shape == (5, 3, 5)
    for row, answer in enumerate(model.fill(TEXTS)):
        for mask, candidates in enumerate(answer["masks"]):
            assert [each["token"] for each in candidates] == [token.decode() for token in served["tokens"][row, mask]]
            want = [each["probability"] for each in candidates]
            np.testing.assert_allclose(served["probabilities"][row, mask], want, atol=1e-5)
        assert set(served["tokens"][row, len(answer["masks"]) :].ravel()) <= {b""}
    assert not served["probabilities"][3:].any()
    cut = signature(text=tf.constant(["[MASK] " + "the " * 50 + "[MASK]"]))["filled"].numpy()[0]
    assert cut.count(b"[MASK]") == 1
    assert cut.endswith(b"the [MASK]")


@pytest.mark.parity
def test_the_same_as_transformers():
    transformers = pytest.importorskip("transformers")
    if not BERT_TINY_MLM.is_dir():
        pytest.skip(f"bert-tiny-mlm is not part of this repository; looked for it in {BERT_TINY_MLM}")
    texts = ["The capital of France is [MASK].", "[MASK] was Born in Paris", "He [MASK]ed, naïvely: 😀", "[MASK]"]
    theirs = transformers.pipeline("fill-mask", model=str(BERT_TINY_MLM), top_k=7)
    ours = BertMaskedLM.from_preset(BERT_TINY_MLM)
    for text, answer in zip(texts, ours.fill(texts, top_k=7), strict=True):
        want = theirs(text)
        assert [each["token"] for each in answer["masks"][0]] == [each["token_str"] for each in want]
        got = [each["probability"] for each in answer["masks"][0]]
        np.testing.assert_allclose(got, [each["score"] for each in want], rtol=1e-4)


@pytest.mark.parity
@pytest.mark.parametrize("family", ["roberta", "albert"])
def test_other_families_as_in_transformers(family, shared_data, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    vocabs = shared_data / "vocabs"
    if family == "roberta":
        tokenizer = BytePairTokenizer(vocabs / "roberta_vocab.json", vocabs / "roberta_merges.txt")
    else:
        tokenizer = SentencePieceTokenizer(vocabs / "albert_spiece.model")
    tokenizer.save_preset(tmp_path)
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "num_hidden_layers": 2}
    special = {"pad_token_id": tokenizer.pad_token_id, "vocab_size": tokenizer.vocabulary_size}
    torch.manual_seed(0)
    theirs = transformers.AutoModelForMaskedLM.from_config(
        transformers.AutoConfig.for_model(family, **sizes, **special)
    )
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    theirs.eval().save_pretrained(tmp_path)
    mask = tokenizer.special_tokens["mask_token"]
    texts = [f"The capital of France is {mask}.", f"{mask} was Born in Paris", f"He {mask}ed, naïvely: 😀"]
    auto = transformers.AutoTokenizer.from_pretrained(tmp_path)
    pipeline = transformers.pipeline("fill-mask", model=theirs, tokenizer=auto, top_k=5)
    for text, answer in zip(texts, BertMaskedLM.from_preset(tmp_path).fill(texts), strict=True):
        want = pipeline(text)
        got = [each["token"] for each in answer["masks"][0]]
        assert [token.strip() for token in got] == [each["token_str"].strip() for each in want]
        probabilities = [each["probability"] for each in answer["masks"][0]]
        np.testing.assert_allclose(probabilities, [each["score"] for each in want], rtol=1e-3)
