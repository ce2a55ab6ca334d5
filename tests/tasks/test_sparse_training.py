"""SPLADE's training: its loss beside formulas, its columns, its table."""

import numpy as np
import pytest

from keras_bert import BertSparseEncoder
from keras_bert.answers import tokens
from keras_bert.data.task_files import SparseFiles
from keras_bert.optimizers import AdamW, WarmupThenDecay
from keras_bert.tasks.losses import sentence_losses as losses
from keras_bert.training import evaluate, fine_tune, fine_tune_files

from ..support import small
from ..support.losses import assert_saved_compiled_and_learned_from
from ..support.messages import error_names, warning_names

BATCH, SIZE = 6, 12
QUERIES = ["good film", "bad film", "the bank", "cold river"]
LONG = ["good " * 24 + "film", *QUERIES[1:]]  # rows have 24 tokens, so a query's table does not see the last one
DOCUMENTS = ["a great movie", "dull movie and music", "river money", "warm story"]


def drawn(columns, seed=0):
    """Sparse vectors."""
    vectors = np.random.default_rng(seed).normal(size=(BATCH, columns, SIZE))
    return np.maximum(vectors, 0).astype(np.float32)


def flops(texts):
    return sum((sum(text[token] for text in texts) / len(texts)) ** 2 for token in range(SIZE))


def ranking():
    return losses.MultipleNegativesRankingLoss(1.0, normalize=False)


def new(**settings):
    return small.shaken(BertSparseEncoder(small.encoder(num_layers=1), small.preprocessor(), **settings), scale=0.1)


# -- The loss


@pytest.mark.parametrize("columns", [2, 4])
def test_products_and_flops(columns):
    vectors = drawn(columns)
    queries, documents = vectors[:, 0], np.concatenate([vectors[:, column] for column in range(1, columns)])
    products = queries @ documents.T
    cross_entropy = np.mean([np.logaddexp.reduce(row) - row[i] for i, row in enumerate(products)])
    expected = cross_entropy + 0.3 * flops(documents) + 0.2 * flops(queries)
    assert float(losses.SpladeLoss(ranking(), 0.3, 0.2)(np.zeros(BATCH), vectors)) == pytest.approx(expected, rel=1e-5)


def test_it_is_like_every_loss():
    assert_saved_compiled_and_learned_from(losses.SpladeLoss(ranking(), 0.3, 0.2, 0), np.zeros(BATCH), drawn(2))
    ramped = losses.SpladeLoss.from_config(losses.SpladeLoss(ranking(), ramp_updates=7).get_config())
    with error_names(ValueError, "ramp_updates is 7", "follow"):
        ramped(np.zeros(BATCH), drawn(2))
    texts = np.array([[0, 1], [0, 1]])
    assert not losses.SpladeLoss(ranking()).has_contrast(texts)
    for wrong in ((-1.0, 0.0), (0.0, float("nan")), (0.0, 0.0, -1)):
        with error_names(ValueError, "document_weight", "query_weight", "ramp_updates"):
            losses.SpladeLoss(ranking(), *wrong)


def test_its_weights_are_those_of_the_files(small_preset):
    files = SparseFiles(document_weight=0.3, query_weight=0.2)
    _, options = BertSparseEncoder.to_train(files, small_preset, None)
    vectors = drawn(2)
    base = losses.SpladeLoss(ranking(), 0, 0)(np.zeros(BATCH), vectors)
    expected = 0.3 * flops(vectors[:, 1]) + 0.2 * flops(vectors[:, 0])
    options["loss"].loss = ranking()
    assert float(options["loss"](np.zeros(BATCH), vectors) - base) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("ramp", "schedule", "shares"), [
    (4, 1e-3, [0, 1 / 16, 4 / 16, 9 / 16, 1, 1]),
    (None, WarmupThenDecay(1e-3, 0, 6), [0, 1 / 4, 1, 1]),
    (None, 1e-3, [1, 1]),
])  # fmt: skip
def test_flops_weigh_more_with_each_update(ramp, schedule, shares):
    model, loss, vectors = new(), losses.SpladeLoss(ranking(), 0.3, 0.2, ramp), drawn(2)
    whole, base = losses.SpladeLoss(ranking(), 0.3, 0.2), float(ranking()(np.zeros(BATCH), vectors))
    most = float(whole(np.zeros(BATCH), vectors)) - base
    model.compile(AdamW(schedule), loss, run_eagerly=True)
    for number, share in enumerate(shares):
        found = float(loss(np.zeros(BATCH), vectors)) - base
        assert found == pytest.approx(share * most, abs=1e-5), number
        model.optimizer.iterations.assign_add(1)


# -- Columns


@pytest.mark.parametrize("query_table", [False, True])
def test_columns_are_queries_and_documents(query_table, untraced):
    model = new(query_table=query_table)
    if query_table:
        model.query_weights.assign(np.arange(model.query_weights.shape[0]) % 5 + 1)
    vocabulary = model.preprocessor.tokenizer.vocabulary
    with warning_names("truncated to 24 tokens"):
        texts = [model.encode_query(LONG), model.encode(DOCUMENTS), model.encode(LONG)]
    if query_table:
        assert [*texts[0][0]] == ["good"]
    expected = np.array([[[weights.get(token, 0.0) for token in vocabulary] for weights in column] for column in texts])
    columns = (LONG, DOCUMENTS, LONG)
    np.testing.assert_allclose(model(columns), expected.swapaxes(0, 1), rtol=0, atol=1e-5)
    packed, numbers = model.batch(*model.examples(columns, None)[:2])
    np.testing.assert_allclose(model(packed), expected.swapaxes(0, 1), rtol=0, atol=1e-5)
    assert numbers.numpy().tolist() == [[0, 1, 0], [2, 3, 2], [4, 5, 4], [6, 7, 6]]


def test_measures_are_those_of_products(monkeypatch, untraced):
    """Of few queries at a time, too."""
    monkeypatch.setattr(tokens, "_QUERIES_AT_A_TIME", 3)
    model = new()
    rows = [*model.encode(QUERIES), {}], [*model.encode(DOCUMENTS), {}]
    arrays = [[np.array([*enumerate(range(0))], np.float32).reshape(0, 2) for _ in column] for column in rows]
    number = {token: i for i, token in enumerate(model.preprocessor.tokenizer.vocabulary)}
    for column, made in zip(rows, arrays, strict=True):
        made[:] = [np.array([(number[t], w) for t, w in each.items()], np.float32).reshape(-1, 2) for each in column]
    expected = [[sum(w * other.get(t, 0) for t, w in one.items()) for other in rows[1]] for one in rows[0]]
    np.testing.assert_allclose(tokens.dot_products(*arrays), expected, rtol=1e-5)
    products = np.array(expected)[:4, :4]
    ranks = [(row >= row[i]).sum() for i, row in enumerate(products)]
    assert evaluate(model, (QUERIES, DOCUMENTS), None)["mrr@10"] == pytest.approx(np.mean([1 / rank for rank in ranks]))


# -- Training


def texts_of(count=32):
    """Texts, and the same words in another order."""
    generator, words = np.random.default_rng(0), small.WORDS.split()
    queries = [" ".join(generator.choice(words, generator.integers(3, 8))) for _ in range(count)]
    return queries, [" ".join(generator.permutation(text.split())) for text in queries]


SETTINGS = {"epochs": 6, "batch_size": 8, "learning_rate": 3e-3, "progress": False}


@pytest.mark.slow
def test_it_learns_to_rank_with_fewer_tokens():
    pairs, found = texts_of(), []
    for weight in (0.0, 0.03):
        model = new()
        before = evaluate(model, pairs, None)["ndcg@10"]
        loss = losses.SpladeLoss(ranking(), weight, weight)
        history = fine_tune(model, (pairs, None), (pairs, None), loss=loss, **SETTINGS)
        assert max(epoch["val_ndcg@10"] for epoch in history) > before + 0.05, weight  # of the epoch that is kept
        weights = np.asarray(model(pairs[1]))
        found.append((np.square(weights.mean(axis=0)).sum(), np.count_nonzero(weights)))
    assert found[1][0] < 0.9 * found[0][0]
    assert found[1][1] < found[0][1]


@pytest.mark.slow
def test_a_table_stays_or_is_trained(untraced):
    for is_trained in (False, True):
        model = new(query_table=True)
        model.query_weights.assign(np.ones(model.query_weights.shape))
        model.query_weights.trainable = is_trained
        fine_tune(model, (texts_of(8), None), **SETTINGS | {"epochs": 1})
        assert bool(np.any(model.query_table != 1)) == is_trained


@pytest.mark.slow
def test_from_files(tmp_path):
    rows = ["query\tpositive\thard\ta\tb"]
    columns = zip(QUERIES, DOCUMENTS, DOCUMENTS[::-1], "1234", "0123", strict=True)
    rows += ["\t".join(each) for each in columns]
    (tmp_path / "train.tsv").write_text("\n".join(rows) + "\n")
    files = {
        "output": tmp_path / "model",
        "train": tmp_path / "train.tsv",
        "preset": "bert-books",
        "sequence_length": 8,
    }
    settings = {"epochs": 1, "batch_size": 4, "log": lambda line: None}
    with error_names(ValueError, "train_query_table", "query_table"):
        fine_tune_files("embed-sparse", **files, **settings, train_query_table=True)
    lists = {"negative_columns": ["hard"], "score_columns": ["a", "b"], "loss": "distill_kl_div"}
    table = {"query_table": True, "train_query_table": True, "document_weight": 0.0}
    fine_tune_files("embed-sparse", **files, **settings, **lists, **table, overwrite=True)
    model = BertSparseEncoder.from_preset(tmp_path / "model")
    assert np.count_nonzero(model.query_table != 1) > 3
