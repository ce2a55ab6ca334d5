"""Fine-tuning of sentence vectors: they become better, and an interrupted run ends as one that was not."""

import numpy as np
import pytest

from keras_bert import BertReranker, BertSentenceEncoder
from keras_bert.tasks.losses.ranking_losses import LambdaLoss
from keras_bert.tasks.losses.sentence_losses import (
    CoSENTLoss,
    CosineSimilarityLoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
    TripletLoss,
)
from keras_bert.training import evaluate, fine_tune
from keras_bert.training.fine_tune import _check_contrast
from keras_bert.training.run import RunError

from ..support import small
from ..support.messages import error_names
from ..support.stopping import Stop, StopAt

SETTINGS = {"epochs": 2, "batch_size": 8, "learning_rate": 1e-3, "progress": False, "checkpoint_seconds": 0}
pytestmark = pytest.mark.usefixtures("untraced_module")


def new():
    prompts = {"prompts": {"query": "you ask: "}, "column_prompts": ["query", ""]}
    return BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor(), **prompts)


def pairs(count=32):
    """Texts, and the same words in another order; some positives belong to two anchors."""
    generator, words = np.random.default_rng(0), small.WORDS.split()
    anchors = [" ".join(generator.choice(words, generator.integers(3, 8))) for _ in range(count)]
    positives = [" ".join(generator.permutation(text.split())) for text in anchors]
    return anchors, [positives[i // 4 * 4] if i % 4 == 1 else positive for i, positive in enumerate(positives)]


@pytest.mark.slow
def test_a_run_is_resumed_bit_for_bit(tmp_path):
    whole, train = new(), (pairs(), None)
    before = evaluate(whole, *train)
    history = fine_tune(whole, train, train, **SETTINGS)
    assert history[-1]["val_ndcg@10"] > before["ndcg@10"] + 0.05
    assert history[1]["loss"] < history[0]["loss"]
    with pytest.raises(Stop):
        fine_tune(new(), train, train, tmp_path, callbacks=[StopAt(6)], **SETTINGS)
    resumed = new()
    assert fine_tune(resumed, train, train, tmp_path, **SETTINGS) == history
    np.testing.assert_equal(resumed.get_weights(), whole.get_weights())
    with error_names(RunError, tmp_path, "finished", "loss"):
        fine_tune(new(), train, train, tmp_path, loss=MultipleNegativesRankingLoss(5.0), **SETTINGS)


@pytest.mark.slow
def test_scores_triplets_and_shorter_vectors():
    anchors, positives = pairs()
    generator = np.random.default_rng(1)
    scores = generator.random(len(anchors))
    scored = fine_tune(new(), ((anchors, positives), scores), validation_split=0.25, **SETTINGS)
    assert set(scored[-1]) == {"epoch", "loss", "val_spearman", "val_pearson"}
    triplets = (anchors, positives, generator.permutation(positives).tolist())
    loss = MatryoshkaLoss(MultipleNegativesRankingLoss(), [32, 8])
    short = fine_tune(new(), (triplets, None), (triplets, None), loss=loss, **SETTINGS)
    assert short[-1]["val_triplet_accuracy"] > 0.6
    assert short[1]["loss"] < short[0]["loss"]


TWO = ["a", "b"], ["c", "d"]
EQUAL = ("compares", "equal", "differ")
ONE_ROW = ("each batch has one", "batch_size, now 1")


@pytest.mark.parametrize(("x", "y", "settings", "name", "words"), [
    (TWO, None, {"batch_size": 1}, "multiple_negatives_ranking", ONE_ROW),
    (TWO, None, {"batch_size": None, "batch_tokens": 3}, "multiple_negatives_ranking", ("batch_tokens, now 3",)),
    (TWO, [0.0, 1.0], {"batch_size": 1}, "cosent", ONE_ROW),
    ((["a", "a"], ["c", "d"]), None, {}, "multiple_negatives_ranking", EQUAL),  # each is a positive of both
    ((["a", "b"], ["c", "c"]), None, {}, "multiple_negatives_ranking", EQUAL),
    (TWO, [0.5, 0.5], {}, "cosent", EQUAL),
    ((*TWO, TWO[1]), None, {"loss": TripletLoss()}, "triplet", EQUAL),
    ((["a"] * 2, ["c"] * 2), None, {"loss": MatryoshkaLoss(MultipleNegativesRankingLoss(), [8])}, "matryoshka", EQUAL),
])  # fmt: skip
def test_batches_from_which_nothing_can_be_learned_are_refused(x, y, settings, name, words):
    with error_names(ValueError, f"loss {name}", *words):
        fine_tune(new(), (x, y), **{**SETTINGS, **settings})


@pytest.mark.parametrize(("loss", "y_true"), [
    (MultipleNegativesRankingLoss(), [[0, 1, 2]]),  # one row, with a negative
    (MultipleNegativesRankingLoss(), [[0, 0], [1, 1]]),  # each text is its own positive, as in SimCSE
    (MultipleNegativesRankingLoss(), [[0, 1], [0, 1], [2, 3]]),
    (TripletLoss(), [[0, 1, 2]]),
    (CoSENTLoss(), [0.0, 0.0, 0.5]),
    (MatryoshkaLoss(CosineSimilarityLoss(), [8]), [0.5]),
    (LambdaLoss(), [[0.0, 0.0], [1.0, 0.0]]),
])  # fmt: skip
def test_others_have_something_to_compare(loss, y_true):
    assert loss.has_contrast(np.array(y_true))


def test_one_batch_with_a_contrast_is_enough():
    scores, batches = [0.5, 0.5, 0.0, 1.0], [np.array([0, 1]), np.array([2, 3])]
    _check_contrast(CoSENTLoss(), scores, [batches], None)
    _check_contrast(CoSENTLoss(), scores, [batches[:1], batches[1:]], None)
    with error_names(ValueError, "loss cosent", *EQUAL):
        _check_contrast(CoSENTLoss(), scores, [batches[:1]], None)


def test_lists_of_passages_with_equal_labels_are_refused():
    model = BertReranker(small.encoder(num_layers=1), small.preprocessor())
    train = (["a", "b"], ["c", "d"], ["e", "f"]), [[1, 1], [0, 0]]
    with error_names(ValueError, "loss lambda", *EQUAL):
        fine_tune(model, train, **SETTINGS)
