"""transformers, live: the losses of pre-training and their gradients, from the same weights and the same batch."""

import keras
import numpy as np
import pytest

pytestmark = [pytest.mark.parity, pytest.mark.usefixtures("untraced_module")]
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from keras_bert import BertConfig, BertEncoder, BertPreprocessor  # noqa: E402
from keras_bert.pretraining import BertPretrainer, MaskedLMMasking  # noqa: E402

from ..support.texts import TEXTS  # noqa: E402

NO_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
FIRST, SECOND = TEXTS, TEXTS[::-1]
FOLLOWS = np.arange(len(TEXTS), dtype="int32") % 2


@pytest.mark.parametrize("size", ["bert-tiny", "albert-base"])
def test_losses_and_gradients(tmp_path, size):
    keras.utils.set_random_seed(0)
    small = {"num_layers": 2, "hidden_size": 128, "num_heads": 2, "intermediate_size": 256, "initializer_range": 0.1}
    preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=32)
    config = BertConfig.named(size, **small, **NO_DROPOUT, vocab_size=preprocessor.tokenizer.vocabulary_size)
    ours = BertPretrainer(BertEncoder(config), preprocessor)
    batch = MaskedLMMasking(preprocessor.tokenizer, 5)(preprocessor((FIRST, SECOND)), [0, 1])
    batch = {name: value.numpy() for name, value in batch.items()}
    ours.save_preset(tmp_path / "before")
    theirs = transformers.AutoModelForPreTraining.from_pretrained(tmp_path / "before")
    if size.startswith("albert"):  # whose config.json has a dropout for this head alone
        theirs.sop_classifier.dropout.p = 0.0

    labels = np.full(batch["input_word_ids"].shape, -100)
    rows, columns = np.nonzero(batch["masked_lm_weights"])
    labels[rows, batch["masked_lm_positions"][rows, columns]] = batch["masked_lm_ids"][rows, columns]
    second = "sentence_order_label" if size.startswith("albert") else "next_sentence_label"
    output = theirs.train()(
        input_ids=torch.tensor(batch["input_word_ids"]),
        attention_mask=torch.tensor(batch["input_mask"]),
        token_type_ids=torch.tensor(batch["input_type_ids"]),
        labels=torch.tensor(labels),
        **{second: torch.tensor(FOLLOWS, dtype=torch.long)},
    )
    output.loss.backward()

    ours.compile(keras.optimizers.SGD(1.0), ours.training_loss(), jit_compile=False)
    targets = {"masked_lm": batch.pop("masked_lm_ids"), "next_sentence": FOLLOWS}
    weights = {"masked_lm": batch.pop("masked_lm_weights"), "next_sentence": np.ones(len(TEXTS), "float32")}
    loss = ours.train_on_batch(batch, targets, sample_weight=weights)
    assert float(np.ravel(loss)[0]) == pytest.approx(output.loss.item(), abs=1e-5)

    # A step of gradient descent with rate 1 leaves the weights less the gradients.
    ours.save_preset(tmp_path / "after")
    after = dict(transformers.AutoModelForPreTraining.from_pretrained(tmp_path / "after").named_parameters())
    compared = 0
    for name, before in theirs.named_parameters():
        gradient = before.grad.numpy()
        ours_moved = (before - after[name]).detach().numpy()
        np.testing.assert_allclose(ours_moved, gradient, atol=1e-5, err_msg=name)
        compared += np.abs(gradient).max() > 1e-4
    assert compared > 20
