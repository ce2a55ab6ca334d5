"""Sentence vectors beside those of sentence-transformers: each reads what the other writes, and computes the same."""

import json

import numpy as np
import pytest

from keras_bert import BertSentenceEncoder

from ..support import small

pytestmark = pytest.mark.parity
TEXTS = [*small.TEXTS, "good", "the river bank"]
PROMPTS = {"query": "you ask: ", "passage": "the story: ", "none": ""}
POOLINGS = ["mean", "cls", "max", "lasttoken", "mean_sqrt_len_tokens", "weightedmean"]


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def ours():
    return BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor())


@pytest.fixture(scope="module")
def transformer(library, ours, tmp_path_factory):
    directory = tmp_path_factory.mktemp("base")
    ours.save_preset(directory)
    return library.SentenceTransformer(str(directory), device="cpu")[0]


def close(vectors, expected):
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=2e-5)


def both_ways(library, theirs, directory, **encode):
    """Ours reads theirs, and theirs reads ours: all three give the same vectors."""
    theirs.save_pretrained(str(directory / "theirs"), create_model_card=False)
    ours = BertSentenceEncoder.from_preset(directory / "theirs")
    expected = theirs.encode(TEXTS, prompt_name=encode.get("prompt"))
    assert np.isfinite(expected).all()
    close(ours.encode(TEXTS, **encode), expected)
    ours.save_preset(directory / "ours")
    again = library.SentenceTransformer(str(directory / "ours"), device="cpu")
    close(again.encode(TEXTS, prompt_name=encode.get("prompt")), expected)
    assert small.same(BertSentenceEncoder.from_preset(directory / "ours"), ours)
    return ours, expected


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_poolings(library, transformer, tmp_path, pooling, normalize):
    modules = library.sentence_transformer.modules
    chain = [transformer, modules.Pooling(32, pooling), *[modules.Normalize()] * normalize]
    _, vectors = both_ways(library, library.SentenceTransformer(modules=chain, device="cpu"), tmp_path)
    lengths = np.linalg.norm(vectors, axis=1)
    assert np.allclose(lengths, 1, atol=1e-5) == normalize
    written = json.loads((tmp_path / "theirs" / "1_Pooling" / "config.json").read_text())
    assert written["pooling_mode"] == pooling  # the new dialect; ours writes the old one


@pytest.mark.parametrize(("activation", "bias"), [("Tanh", True), ("Identity", False), ("ReLU", True), ("GELU", True)])
def test_a_dense_layer(library, transformer, tmp_path, activation, bias):
    torch = pytest.importorskip("torch")
    modules = library.sentence_transformer.modules
    torch.manual_seed(0)
    dense = modules.Dense(32, 12, bias, getattr(torch.nn, activation)())
    chain = [transformer, modules.Pooling(32, "mean"), dense, *[modules.Normalize()] * bias]
    ours, vectors = both_ways(library, library.SentenceTransformer(modules=chain, device="cpu"), tmp_path)
    assert ours.vector_size == 12
    assert vectors.shape == (len(TEXTS), 12)


@pytest.mark.parametrize("include_prompt", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken", "weightedmean"])
def test_prompts(library, transformer, tmp_path, pooling, include_prompt):
    modules = library.sentence_transformer.modules
    chain = [transformer, modules.Pooling(32, pooling, include_prompt)]
    theirs = library.SentenceTransformer(
        modules=chain, device="cpu", prompts=PROMPTS, default_prompt_name="passage", similarity_fn_name="cosine"
    )
    ours, by_default = both_ways(library, theirs, tmp_path)
    close(ours.predict(TEXTS, verbose=0), by_default)
    for name in PROMPTS:
        close(ours.encode(TEXTS, prompt=name), theirs.encode(TEXTS, prompt_name=name))
    without = theirs.encode(TEXTS, prompt="")
    close(ours.encode(TEXTS, prompt=""), without)
    assert np.abs(by_default - without).max() > 0.01


@pytest.mark.parametrize("normalize", [True, False])
def test_shorter_vectors(library, transformer, tmp_path, normalize):
    """Theirs are as long as the cut left them, unless asked for length 1; ours as the model says."""
    modules = library.sentence_transformer.modules
    chain = [transformer, modules.Pooling(32, "mean"), *[modules.Normalize()] * normalize]
    theirs = library.SentenceTransformer(modules=chain, device="cpu")
    theirs.save_pretrained(str(tmp_path), create_model_card=False)
    ours = BertSentenceEncoder.from_preset(tmp_path, truncate_dim=8)
    close(ours.encode(TEXTS), theirs.encode(TEXTS, truncate_dim=8, normalize_embeddings=normalize))
