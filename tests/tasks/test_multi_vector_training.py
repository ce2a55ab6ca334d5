"""BertMultiVectorEncoder learns: its losses beside loops over what it encodes."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertMultiVectorEncoder
from keras_bert.data.task_files import TokenVectorFiles
from keras_bert.tasks.losses import sentence_losses as losses
from keras_bert.training import fine_tune

from ..support.messages import error_names
from .test_gradient_cache import ANCHORS, MEAN, NEGATIVES, POSITIVES
from .test_multi_vector import CLASSIC, new

COLUMNS = (ANCHORS, [f"{text}, and; more" for text in POSITIVES], NEGATIVES)
SCORES = np.random.default_rng(0).normal(size=(len(ANCHORS), 2)).astype("float32")
LOSSES = {
    "ranking": (losses.MultipleNegativesRankingLoss(1.5), np.zeros(7)),
    "kl": (losses.DistillKLDivLoss(2.0), SCORES),
    "margins": (losses.MarginMSELoss(), SCORES),
}


def score(query, document):
    return sum(max(float(one @ other) for other in document) for one in query)


def softmax(values):
    return np.exp(values - np.logaddexp.reduce(values))


@pytest.mark.parametrize("settings", [CLASSIC, pytest.param(MEAN, marks=pytest.mark.slow)])
def test_losses_are_those_of_what_is_encoded(settings, untraced):
    model = new(**settings)
    queries = model.encode_query(ANCHORS)
    documents = [model.encode_document(column) for column in COLUMNS[1:]]
    length = [len(query) if settings is MEAN else 1 for query in queries]
    all_documents = [*documents[0], *documents[1]]
    scores = np.array([[score(q, d) / n for d in all_documents] for q, n in zip(queries, length, strict=True)])
    of_rows = np.stack([np.diag(scores[:, :7]), np.diag(scores[:, 7:])], axis=1)
    vectors = model(tuple(map(tf.constant, COLUMNS)))
    ranking = np.mean([np.logaddexp.reduce(1.5 * row) - 1.5 * row[i] for i, row in enumerate(scores)])
    wanted = softmax(SCORES[0] / 2)
    kl = 4 * sum(wanted * np.log(wanted / softmax(of_rows[0] / 2)))
    margins = np.mean((of_rows[:, 0] - of_rows[:, 1] - (SCORES[:, 0] - SCORES[:, 1])) ** 2)
    found = {name: loss(y, vectors) for name, (loss, y) in LOSSES.items()}
    assert float(found["ranking"]) == pytest.approx(ranking, rel=1e-5)
    assert float(LOSSES["kl"][0](SCORES[:1], vectors[:1])) == pytest.approx(kl, rel=1e-4)
    assert float(found["margins"]) == pytest.approx(margins, rel=1e-4)
    for values in (vectors, tf.pad(vectors, [(0, 0), (0, 0), (0, 5), (0, 0)])):  # padding counts not
        compiled = tf.function(LOSSES["ranking"][0], jit_compile=True).get_concrete_function(tf.zeros([7]), values)
        assert float(compiled(tf.zeros([7]), values)) == pytest.approx(ranking, rel=1e-5)


@pytest.mark.slow
def test_it_learns_and_is_measured():
    model = new(**CLASSIC)
    settings = {"epochs": 15, "batch_size": 4, "learning_rate": 3e-3, "mini_batch_size": 4, "progress": False}
    with pytest.warns(UserWarning, match="queries truncated to 12 tokens: 1 of 7"):
        history = fine_tune(model, ((["bad " * 20, *ANCHORS[1:]], *COLUMNS[1:]), None), **settings)
    assert history[-1]["loss"] < history[0]["loss"] / 2
    columns = COLUMNS[:2]
    measured = model.kind.score(model.answers(columns), None).measures
    scores = model.similarity(model.encode_query(ANCHORS), model.encode_document(columns[1]))
    ranks = [(row > row[i]).sum() for i, row in enumerate(scores)]
    assert measured["mrr@10"] == pytest.approx(np.mean([1 / (1 + rank) for rank in ranks]))
    again = model.kind.score(model.answers(COLUMNS), SCORES).measures
    others = model.similarity(model.encode_query(ANCHORS), model.encode_document(NEGATIVES))
    margins = np.diag(scores) - np.diag(others)
    assert again["pearson"] == pytest.approx(np.corrcoef(margins, SCORES[:, 0] - SCORES[:, 1])[0, 1], abs=1e-5)


@pytest.mark.parametrize(("settings", "scale"), [(CLASSIC, 1.0), (MEAN, 20.0)])
def test_ranking_from_files_has_the_scale_of_the_scores(settings, scale, tmp_path, untraced):
    new(**settings).save_preset(tmp_path / "saved")
    files = TokenVectorFiles(loss="multiple_negatives_ranking")
    model, compiled = BertMultiVectorEncoder.to_train(files, tmp_path / "saved", None)
    assert (compiled["loss"].scale, model.training_loss().scale) == (scale, scale)


def test_what_vectors_of_tokens_cannot_learn_is_refused():
    vectors = np.ones((2, 2, 3, 5), "float32")
    for loss in (losses.CoSENTLoss(), losses.MatryoshkaLoss(losses.MultipleNegativesRankingLoss(), [2])):
        with error_names(ValueError, "vectors of tokens", "DistillKLDivLoss"):
            loss(np.zeros(2), vectors)
    with error_names(ValueError, "vectors of tokens"):
        losses.VectorMSELoss()(np.ones((2, 5)), vectors)
    kind = new(**CLASSIC).kind
    for labels, columns in (([0.5, 1.0], 2), (np.ones((2, 9)), 3)):
        with error_names(ValueError, "vectors of tokens", "scores of two or more"):
            kind.loss_for(np.asarray(labels, "float32"), columns)
