"""What transformers says about small random models of every family, from files: without transformers."""

from pathlib import Path

import numpy as np
import pytest

from keras_bert.tasks import BertMaskedLM

GOLDEN = Path(__file__).parent.parent / "golden"
FAMILIES = sorted(path.name for path in (GOLDEN / "families").iterdir())


def test_there_are_families():
    assert FAMILIES == ["albert", "distilbert", "electra", "roberta", "xlm-roberta"]


@pytest.mark.parametrize("name", FAMILIES)
def test_hidden_states_and_logits(name):
    stored = np.load(GOLDEN / "families.npz")
    golden = {key.removeprefix(f"{name}_"): stored[key] for key in stored.files if key.startswith(f"{name}_")}
    inputs = {"input_word_ids": golden["word_ids"], "input_mask": golden["mask"]}
    if "type_ids" in golden:
        inputs["input_type_ids"] = golden["type_ids"]
    model = BertMaskedLM.from_preset(GOLDEN / "families" / name)
    assert model.encoder.config.family == name
    real = golden["mask"].astype(bool)
    outputs = model.encoder(inputs)
    for ours, theirs in zip(outputs["encoder_outputs"], golden["encoder_outputs"], strict=True):
        np.testing.assert_allclose(np.asarray(ours)[real], theirs[real], rtol=0, atol=1e-5)
    positions = np.tile(np.arange(9, dtype="int32"), (2, 1))
    logits = np.asarray(model({**inputs, "masked_lm_positions": positions}))
    np.testing.assert_allclose(logits[real], golden["logits"][real], rtol=0, atol=1e-5)
