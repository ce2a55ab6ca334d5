"""Our numbers against those that transformers and sentence-transformers gave (tests/golden/make_golden.py)."""

from pathlib import Path

import numpy as np
import pytest

from keras_bert import BertEncoder, BertPreprocessor, BertSentenceEncoder

from ..golden.summary import summary

GOLDEN = Path(__file__).parent.parent / "golden"
BERT_TINY_MLM = Path(__file__).parents[3] / "shared/data/bert-tiny-mlm"
MODELS = {"minilm": "all-MiniLM-L6-v2", "bert-tiny-mlm": BERT_TINY_MLM}
TOLERANCE = 1e-5


@pytest.fixture(params=MODELS, scope="module")
def model(request):
    """What transformers said about a model, and the handle of that model."""
    if request.param == "bert-tiny-mlm" and not BERT_TINY_MLM.is_dir():
        pytest.skip(f"bert-tiny-mlm is not part of this repository; looked for it in {BERT_TINY_MLM}")
    return np.load(GOLDEN / f"{request.param}.npz"), MODELS[request.param]


@pytest.mark.parametrize("kind", ["single", "pair"])
def test_same_ids(model, kind):
    golden, handle = model
    texts = golden["texts"].tolist() if kind == "single" else tuple(golden["pairs"].T.tolist())
    inputs = BertPreprocessor.from_preset(handle, sequence_length=None)(texts)
    for ours, theirs in {"input_word_ids": "word_ids", "input_mask": "mask", "input_type_ids": "type_ids"}.items():
        np.testing.assert_array_equal(inputs[ours], golden[f"{kind}_{theirs}"])


@pytest.mark.parametrize("kind", ["single", "pair"])
def test_same_outputs(model, kind):
    golden, handle = model
    outputs = BertEncoder.from_preset(handle)(_inputs(golden, f"{kind}_"))
    hidden = np.stack([np.asarray(layer) for layer in outputs["encoder_outputs"]])
    _close(summary(hidden, golden[f"{kind}_mask"]), golden[f"{kind}_encoder_outputs"])
    _close(outputs["pooled_output"], golden[f"{kind}_pooled_output"])
    np.testing.assert_array_equal(outputs["sequence_output"], hidden[-1])


def test_same_sentence_vectors():
    golden = np.load(GOLDEN / "minilm.npz")
    vectors = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2").encode(golden["texts"].tolist())
    _close(vectors, golden["sentence_vectors"])


@pytest.mark.parametrize("names", ["tiny-bert", "tiny-bert-old-names"])
def test_every_number_of_a_small_model(names):
    golden = np.load(GOLDEN / "tiny-bert.npz")
    outputs = BertEncoder.from_preset(GOLDEN / names)(_inputs(golden))
    real = golden["mask"].astype(bool)
    for ours, theirs in zip(outputs["encoder_outputs"], golden["encoder_outputs"], strict=True):
        _close(np.asarray(ours)[real], theirs[real])
    _close(outputs["pooled_output"], golden["pooled_output"])


def _inputs(golden, prefix=""):
    names = {"input_word_ids": "word_ids", "input_mask": "mask", "input_type_ids": "type_ids"}
    return {ours: golden[prefix + theirs].astype(np.int32) for ours, theirs in names.items()}


def _close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE)
