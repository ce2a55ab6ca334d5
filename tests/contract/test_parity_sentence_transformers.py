"""Sentence vectors beside those of sentence-transformers: each reads what the other writes, and computes the same."""

import json

import numpy as np
import pytest

from keras_bert import BertSentenceEncoder
from keras_bert.answers import metrics, vector_metrics
from keras_bert.tasks.losses import sentence_losses as losses
from keras_bert.tasks.steps.gradient_cache import by_mini_batches

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


# -- Losses

BATCH, SIZE = 7, 16


def drawn(columns):
    return np.random.default_rng(0).normal(size=(BATCH, columns, SIZE)).astype(np.float32)


def loss_of(theirs, vectors, labels):
    torch = pytest.importorskip("torch")
    columns = [torch.tensor(vectors[:, column]) for column in range(vectors.shape[1])]
    return float(theirs.compute_loss_from_embeddings(columns, None if labels is None else torch.tensor(labels)))


GRADES = np.array([0.2, 0.2, 1.0, 0.0, 0.7, 0.5, 0.9], np.float32)
LABELS = np.array([1, 0, 0, 1, 1, 0, 1], np.float32)


def test_losses(library):
    theirs = library.sentence_transformer.losses
    ranking, their_ranking = losses.MultipleNegativesRankingLoss, theirs.MultipleNegativesRankingLoss
    both = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
    pairs = [
        (ranking(), their_ranking(None), 2, None),
        (ranking(7.0), their_ranking(None, 7.0), 3, None),
        (ranking(symmetric=True), their_ranking(None, **both), 2, None),
        (ranking(symmetric=True), their_ranking(None, **both), 4, None),
        (losses.MultipleNegativesSymmetricRankingLoss(), theirs.MultipleNegativesSymmetricRankingLoss(None), 2, None),
        (losses.CoSENTLoss(), theirs.CoSENTLoss(None), 2, GRADES),
        (losses.AnglELoss(), theirs.AnglELoss(None), 2, GRADES),
        (losses.CosineSimilarityLoss(), theirs.CosineSimilarityLoss(None), 2, GRADES),
        (losses.ContrastiveLoss(), theirs.ContrastiveLoss(None), 2, LABELS),
        (losses.TripletLoss(5.0), theirs.TripletLoss(None), 3, None),
    ]
    for ours, other, columns, labels in pairs:
        vectors = drawn(columns)
        found = float(ours(np.zeros(BATCH) if labels is None else labels, vectors))
        assert found == pytest.approx(loss_of(other, vectors, labels), rel=1e-5), ours.name


@pytest.mark.parametrize("negatives", [1, 3])
def test_margins(library, negatives):
    vectors, scores = drawn(2 + negatives), np.random.default_rng(1).normal(size=(BATCH, 1 + negatives))
    theirs = library.sentence_transformer.losses.MarginMSELoss(None)
    margins = (scores[:, :1] - scores[:, 1:]).astype(np.float32)
    for labels in (scores.astype(np.float32), margins, *[margins[:, 0]] * (negatives == 1)):
        expected = loss_of(theirs, vectors, labels)
        assert float(losses.MarginMSELoss()(labels, vectors)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_divergence_from_a_better_models_scores(library, temperature):
    vectors, scores = drawn(4), np.random.default_rng(1).normal(size=(BATCH, 3)).astype(np.float32)
    theirs = library.sentence_transformer.losses.DistillKLDivLoss(None, temperature=temperature)
    expected = loss_of(theirs, vectors, scores)
    assert float(losses.DistillKLDivLoss(temperature)(scores, vectors)) == pytest.approx(expected, rel=1e-5)


@pytest.fixture(scope="module")
def guided(library, ours, tmp_path_factory):
    """A model and its guide, of theirs."""
    guide, folder = BertSentenceEncoder(small.encoder(seed=1, num_layers=1), small.preprocessor()), []
    for model in (ours, guide):
        folder.append(tmp_path_factory.mktemp("guided"))
        model.save_preset(folder[-1])
    return [library.SentenceTransformer(str(each), device="cpu").eval() for each in folder]


@pytest.mark.parametrize(
    ("columns", "settings"),
    [(2, {}), (3, {"margin": -0.05}), (3, {"contrast_anchors": False}), (2, {"contrast_positives": False})],
)
def test_a_guide_masks_negatives(library, guided, columns, settings):
    model, guide = guided
    theirs = library.sentence_transformer.losses.GISTEmbedLoss(model, guide, temperature=0.1, **settings)
    texts = [[f"{word} {other}" for word in small.WORDS.split()[:7]] for other in ("film", "good", "music")[:columns]]
    vectors, wanted = (np.stack([each.encode(column) for column in texts], axis=1) for each in guided)
    expected = float(theirs([model.preprocess(column) for column in texts], None))
    found = float(losses.GISTEmbedLoss(0.1, **settings)(wanted, vectors))
    assert found == pytest.approx(expected, rel=1e-5)
    unmasked = losses.GISTEmbedLoss(0.1, **settings | {"margin": -9.0})
    assert 0.01 < found < float(unmasked(wanted, vectors)) - 0.01


def test_vectors_of_a_better_model(library):
    torch = pytest.importorskip("torch")
    theirs = library.sentence_transformer.losses.MSELoss(None)
    vectors, wanted = drawn(2), np.random.default_rng(1).normal(size=(BATCH, 2, SIZE)).astype(np.float32)
    columns = [torch.tensor(vectors[:, column]) for column in range(2)]
    for labels in (wanted, wanted[:, 0]):
        targets = [torch.tensor(labels[:, column] if labels.ndim == 3 else labels) for column in range(2)]
        expected = float(theirs.compute_loss_from_embeddings(columns, targets))
        assert float(losses.VectorMSELoss()(labels, vectors)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("is_cut", [False, True])
def test_gradients_by_mini_batches(library, tmp_path, is_cut):
    """One step of gradient descent with their CachedMultipleNegativesRankingLoss comes to the same weights."""
    torch = pytest.importorskip("torch")
    import keras

    model = BertSentenceEncoder(small.encoder(num_layers=1, scale=0.1), small.preprocessor())
    model.save_preset(tmp_path)
    words = small.WORDS.split()
    columns = tuple([" ".join(words[i + 3 * j : i + 4 + i % 3 + 3 * j]) for i in range(8)] for j in range(3))

    theirs = library.SentenceTransformer(str(tmp_path), device="cpu")
    kinds = library.sentence_transformer.losses
    loss = kinds.CachedMultipleNegativesRankingLoss(theirs, mini_batch_size=3)
    if is_cut:
        loss = kinds.MatryoshkaLoss(theirs, loss, [32, 8])
    features = [theirs.preprocess(column) for column in columns]
    theirs.train()
    found = loss(features, torch.zeros(8))
    found.backward()
    ours = losses.MultipleNegativesRankingLoss()
    model.compile(keras.optimizers.SGD(1.0), losses.MatryoshkaLoss(ours, [32, 8]) if is_cut else ours)
    before = BertSentenceEncoder.from_preset(tmp_path).saved().weights["encoder"]
    with model.training_with(by_mini_batches(3)):
        got = float(model.train_on_batch(tuple(map(np.array, columns)), np.zeros(8)))
    assert got == pytest.approx(float(found), rel=1e-5)
    after = model.saved().weights["encoder"]
    gradients = {name: each.grad for name, each in theirs[0].auto_model.named_parameters()}
    for ours_name, name in {
        "embeddings/word": "embeddings.word_embeddings.weight",
        "embeddings/position": "embeddings.position_embeddings.weight",
        "embeddings/norm/gamma": "embeddings.LayerNorm.weight",
    }.items():
        [key] = [each for each in before if ours_name in each]
        step = before[key] - after[key]
        assert np.abs(step).max() > 1e-3
        np.testing.assert_allclose(step, gradients[name].numpy(), rtol=0, atol=1e-5, err_msg=name)


def test_the_loss_of_shorter_vectors(library):
    torch = pytest.importorskip("torch")

    class Vectors(torch.nn.Module):
        """A model whose inputs are vectors already."""

        def forward(self, features):
            return {"sentence_embedding": features["vectors"]}

        def get_embedding_dimension(self):
            return SIZE

    theirs, model, vectors = library.sentence_transformer.losses, Vectors(), drawn(3)
    dims, weights = [16, 8, 3], [1.0, 0.5, 2.0]
    matryoshka = theirs.MatryoshkaLoss(model, theirs.MultipleNegativesRankingLoss(model), dims, weights)
    features = [{"vectors": torch.tensor(vectors[:, column])} for column in range(3)]
    expected = float(matryoshka(features, None))
    ours = losses.MatryoshkaLoss(losses.MultipleNegativesRankingLoss(), dims, weights)
    assert float(ours(np.zeros(BATCH), vectors)) == pytest.approx(expected, rel=1e-5)


# -- Measures


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
