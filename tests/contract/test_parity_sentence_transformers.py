"""Sentence vectors beside those of sentence-transformers: each reads what the other writes, and computes the same."""

import json

import numpy as np
import pytest

from keras_bert import BertSentenceEncoder
from keras_bert.answers import metrics, vector_metrics

from ..support import small
from ..support.messages import error_names

pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("untraced_module")]
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


@pytest.mark.parametrize(("pooling", "normalize"), [*((pooling, True) for pooling in POOLINGS), ("max", False)])
def test_poolings(library, transformer, tmp_path, pooling, normalize):
    modules = library.sentence_transformer.modules
    chain = [transformer, modules.Pooling(32, pooling), *[modules.Normalize()] * normalize]
    _, vectors = both_ways(library, library.SentenceTransformer(modules=chain, device="cpu"), tmp_path)
    lengths = np.linalg.norm(vectors, axis=1)
    assert np.allclose(lengths, 1, atol=1e-5) == normalize
    written = json.loads((tmp_path / "theirs" / "1_Pooling" / "config.json").read_text())
    assert written["pooling_mode"] == pooling  # the new dialect; ours writes the old one


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_similarities(library, transformer, tmp_path, similarity):
    modules = library.sentence_transformer.modules
    chain = [transformer, modules.Pooling(32, "mean")]
    theirs = library.SentenceTransformer(modules=chain, similarity_fn_name=similarity, device="cpu")
    ours, vectors = both_ways(library, theirs, tmp_path)
    assert ours.similarity == similarity
    again = library.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    assert again.similarity_fn_name == similarity
    compared = BertSentenceEncoder.to_compare(tmp_path / "ours").encode(TEXTS)
    np.testing.assert_allclose(compared @ compared.T, again.similarity(vectors, vectors), rtol=1e-4)


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


@pytest.mark.parametrize(
    ("pooling", "include_prompt"),
    [("mean", True), *((pooling, False) for pooling in ("mean", "cls", "lasttoken", "weightedmean"))],
)
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
    theirs = library.SentenceTransformer(modules=chain, device="cpu", truncate_dim=8)
    theirs.save_pretrained(str(tmp_path / "theirs"), create_model_card=False)
    ours = BertSentenceEncoder.from_preset(tmp_path / "theirs")
    expected = theirs.encode(TEXTS, normalize_embeddings=normalize)
    close(ours.encode(TEXTS), expected)
    ours.similarity = "dot"  # of vectors of length 1, it is the cosine
    ours.save_preset(tmp_path / "ours")
    again = library.SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    vectors = again.encode(TEXTS)
    assert vectors.shape == expected.shape
    close(again.similarity(vectors, vectors).numpy(), expected @ expected.T)
    close(BertSentenceEncoder.from_preset(tmp_path / "ours").encode(TEXTS), expected)


def test_the_dot_product_of_vectors_that_are_scaled_before_they_are_truncated(library, transformer, tmp_path):
    modules = library.sentence_transformer.modules
    chain = [transformer, modules.Pooling(32, "mean"), modules.Normalize()]
    theirs = library.SentenceTransformer(modules=chain, device="cpu", truncate_dim=8, similarity_fn_name="dot")
    theirs.save_pretrained(str(tmp_path), create_model_card=False)
    with error_names(ValueError, tmp_path / "config_sentence_transformers.json", "truncate_dim is 8", "dot", "cosine"):
        BertSentenceEncoder.from_preset(tmp_path)


# -- Measures


SIZE = 16


@pytest.fixture(scope="module")
def evaluation():
    return pytest.importorskip("sentence_transformers.sentence_transformer.evaluation")


@pytest.fixture
def fixed(library):
    """A model of theirs whose vectors are given: a text is the number of its row."""
    import torch

    vectors = np.random.default_rng(0).normal(size=(90, SIZE)).astype(np.float32)
    vectors[70:] = vectors[10:30]  # some are equal

    class Fixed:
        similarity_fn_name = "cosine"
        similarity = staticmethod(library.util.cos_sim)
        model_card_data = None

        def encode(self, texts, convert_to_tensor=False, **_):
            found = vectors[[int(text) for text in texts]]
            return torch.tensor(found) if convert_to_tensor else found

        encode_query = encode_document = encode

    return vectors, Fixed()


def theirs_on(evaluator, model):
    evaluator.store_metrics_in_model_card_data = lambda *_: None
    return evaluator(model)


def test_retrieval(evaluation, fixed):
    vectors, model = fixed
    generator = np.random.default_rng(1)
    queries = {str(i): str(i) for i in range(10)}
    # Their order among equal cosines is that of the names: of three digits, so that it is the order of the corpus.
    corpus = {f"{i:03}": str(i) for i in range(10, 90)}
    relevant = {i: {f"{j:03}" for j in generator.choice(80, 1 + int(i) % 6, replace=False) + 10} for i in queries}
    at = [1, 3, 5, 10, 40]
    evaluator = evaluation.InformationRetrievalEvaluator(
        queries, corpus, relevant, mrr_at_k=at, ndcg_at_k=at, accuracy_at_k=at, precision_recall_at_k=at, map_at_k=at
    )
    expected = theirs_on(evaluator, model)
    rows = [{int(name) - 10 for name in names} for names in relevant.values()]
    found = vector_metrics.retrieval(vectors[:10], vectors[10:], rows, at)
    assert {f"cosine_{name}": value for name, value in found.items()} == pytest.approx(expected, rel=1e-9)
    assert len(found) == 6 * len(at)


def test_pairs_and_triplets(evaluation, fixed):
    vectors, model = fixed
    first, second = [str(i) for i in range(30)], [str(i) for i in range(30, 60)]
    labels = np.random.default_rng(1).integers(0, 2, 30)
    labels[3], labels[4] = 1, 0
    expected = theirs_on(evaluation.BinaryClassificationEvaluator(first, second, labels.tolist()), model)
    found = vector_metrics.pair_classification(labels, vector_metrics.cosines(vectors[:30], vectors[30:60]))
    for name, value in found.items():
        theirs = "ap" if name == "average_precision" else name
        assert value == pytest.approx(expected[f"cosine_{theirs}"], abs=1e-6), name

    grades = np.random.default_rng(2).random(30)
    expected = theirs_on(evaluation.EmbeddingSimilarityEvaluator(first, second, grades.tolist()), model)
    found = metrics.correlation(grades, vector_metrics.cosines(vectors[:30], vectors[30:60]))
    assert {f"{name}_cosine": value for name, value in found.items()} == pytest.approx(expected, abs=1e-6)

    third = [str(i) for i in range(60, 90)]
    expected = theirs_on(evaluation.TripletEvaluator(first, second, third), model)
    found = vector_metrics.triplet_accuracy(vectors[:30], vectors[30:60], vectors[60:])
    assert found["triplet_accuracy"] == pytest.approx(expected["cosine_accuracy"])
