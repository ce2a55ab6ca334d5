"""Losses of rerankers beside those of sentence-transformers' CrossEncoder: the same loss, and the same gradients."""

import keras
import numpy as np
import pytest

from keras_bert import BertReranker
from keras_bert.tasks.losses import ranking_losses as losses

from ..support import small

pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("untraced_module")]
WORDS = small.WORDS.split()
QUERIES = [" ".join(WORDS[i : i + 3]) for i in range(4)]
PASSAGES = [[" ".join(WORDS[i + 5 * j : i + 5 * j + 4 + j]) for i in range(4)] for j in range(1, 4)]
GRADES = np.array([[2, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 3]], np.float32)
SCORES = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("sentence_transformers")


@pytest.mark.parametrize(
    ("ours", "theirs", "labels"),
    [
        (losses.MarginMSELoss(), lambda kinds, model: kinds.MarginMSELoss(model), SCORES),
        (losses.MarginMSELoss(), lambda kinds, model: kinds.MarginMSELoss(model), SCORES[:, :1] - SCORES[:, 1:]),
        (losses.LambdaLoss(), lambda kinds, model: kinds.LambdaLoss(model), GRADES),
        (losses.LambdaLoss(), lambda kinds, model: kinds.LambdaLoss(model), SCORES),
        (losses.LambdaLoss(k=1), lambda kinds, model: kinds.LambdaLoss(model, k=1), GRADES),
        (losses.ListNetLoss(), lambda kinds, model: kinds.ListNetLoss(model), GRADES),
        (losses.ListNetLoss(), lambda kinds, model: kinds.ListNetLoss(model), SCORES),
    ],
)
def test_losses_and_gradients(library, tmp_path, ours, theirs, labels):
    torch = pytest.importorskip("torch")
    model = small.task(BertReranker, config={"num_layers": 1}, scale=0.1)
    model.save_preset(tmp_path)
    other = library.CrossEncoder(str(tmp_path), device="cpu")
    loss = theirs(library.cross_encoder.losses, other)
    targets = [torch.tensor(row) for row in labels]
    is_margin = isinstance(ours, losses.MarginMSELoss)
    inputs = [QUERIES, *PASSAGES] if is_margin else [QUERIES, [list(row) for row in zip(*PASSAGES, strict=True)]]
    found = loss(inputs, targets)
    found.backward()
    torch.optim.SGD(other.parameters(), 1.0).step()
    other.save_pretrained(str(tmp_path / "after"))

    before = BertReranker.from_preset(tmp_path).saved().weights
    expected = BertReranker.from_preset(tmp_path / "after").saved().weights
    model.compile(keras.optimizers.SGD(1.0), ours)
    columns = tuple(np.array(column, dtype=object) for column in (QUERIES, *PASSAGES))
    assert float(model.train_on_batch(columns, labels)) == pytest.approx(float(found.detach()), rel=1e-5, abs=1e-5)
    for part, weights in model.saved().weights.items():
        for name, value in weights.items():
            np.testing.assert_allclose(value, expected[part][name], rtol=0, atol=1e-5, err_msg=name)
    moved = [np.abs(expected["sequence"][name] - before["sequence"][name]).max() for name in before["sequence"]]
    assert max(moved) > 1e-3
