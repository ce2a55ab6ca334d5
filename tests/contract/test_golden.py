"""Our numbers against those that transformers and sentence-transformers gave (tests/golden/make_golden.py)."""

from pathlib import Path

import numpy as np
import pytest

from keras_bert import BertEncoder, BertPreprocessor, BertSentenceEncoder
from keras_bert.tasks import BertMaskedLM
from keras_bert.text import WordPieceTokenizer

from ..golden.summary import summary
from ..support.data import SHARED_DATA

GOLDEN = Path(__file__).parent.parent / "golden"
MODELS = {"minilm": "all-MiniLM-L6-v2", "bert-tiny-mlm": SHARED_DATA / "bert-tiny-mlm"}
FAMILIES = sorted(path.name for path in (GOLDEN / "families").iterdir())
NAMES = {"input_word_ids": "word_ids", "input_mask": "mask", "input_type_ids": "type_ids"}


def test_there_are_families():
    assert FAMILIES == ["albert", "distilbert", "electra", "roberta", "xlm-roberta"]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_number_of_each_family(family):
    golden = of(np.load(GOLDEN / "families.npz"), f"{family}_")
    model = BertMaskedLM.from_preset(GOLDEN / "families" / family)
    assert model.encoder.config.family == family
    real = golden["mask"].astype(bool)
    for got, want in zip(model.encoder(inputs(golden))["encoder_outputs"], golden["encoder_outputs"], strict=True):
        close(np.asarray(got)[real], want[real])
    positions = np.tile(np.arange(9, dtype="int32"), (2, 1))
    logits = np.asarray(model({**inputs(golden), "masked_lm_positions": positions}))
    close(logits[real], golden["logits"][real])


@pytest.mark.parametrize("names", ["tiny-bert", "tiny-bert-old-names"])
def test_every_number_of_a_small_bert(names):
    golden = np.load(GOLDEN / "tiny-bert.npz")
    outputs = BertEncoder.from_preset(GOLDEN / names)(inputs(golden))
    real = golden["mask"].astype(bool)
    for got, want in zip(outputs["encoder_outputs"], golden["encoder_outputs"], strict=True):
        close(np.asarray(got)[real], want[real])
    close(outputs["pooled_output"], golden["pooled_output"])


@pytest.mark.parametrize("name", ["minilm", pytest.param("bert-tiny-mlm", marks=pytest.mark.slow)])
def test_ids_of_real_vocabularies(request, name):
    """Both kinds are packed outside of a graph: this traces the tokenizer once."""
    golden = np.load(GOLDEN / f"{name}.npz")
    tokenizer = (
        request.getfixturevalue("tokenizer")
        if name == "minilm"
        else WordPieceTokenizer.from_preset(real(request, name))
    )
    preprocessor = BertPreprocessor(tokenizer, sequence_length=None)
    for kind, texts in (("single", [golden["texts"]]), ("pair", golden["pairs"].T)):
        packed = preprocessor.pack(tuple(tokenizer.tokenize(each.tolist()) for each in texts))
        for ours, theirs in NAMES.items():
            np.testing.assert_array_equal(packed[ours], golden[f"{kind}_{theirs}"])


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_outputs_of_real_models(request, name):
    encoder, stored = BertEncoder.from_preset(real(request, name)), np.load(GOLDEN / f"{name}.npz")
    for kind in ("single", "pair"):
        golden = of(stored, f"{kind}_")
        outputs = encoder(inputs(golden))
        hidden = np.stack([np.asarray(layer) for layer in outputs["encoder_outputs"]])
        close(summary(hidden, golden["mask"]), golden["encoder_outputs"])
        close(outputs["pooled_output"], golden["pooled_output"])
        np.testing.assert_array_equal(outputs["sequence_output"], hidden[-1])


@pytest.mark.slow
def test_sentence_vectors_of_a_real_model():
    golden = np.load(GOLDEN / "minilm.npz")
    vectors = BertSentenceEncoder.from_preset(MODELS["minilm"]).encode(golden["texts"].tolist())
    close(vectors, golden["sentence_vectors"])


def real(request, name):
    """The handle of a model, which may not be there."""
    if name != "minilm":
        request.getfixturevalue("shared_data")
    return MODELS[name]


def of(stored, prefix):
    """What is stored under names that begin so, without that beginning."""
    return {name.removeprefix(prefix): stored[name] for name in stored if name.startswith(prefix)}


def inputs(golden):
    return {ours: golden[theirs].astype(np.int32) for ours, theirs in NAMES.items() if theirs in golden}


def close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
