"""Which head a task has whose labels are given: the preset's, or a new one, and that the latter is told."""

import json
import warnings

import numpy as np
import pytest

from keras_bert import (
    BertClassifier,
    BertConfig,
    BertEncoder,
    BertPreprocessor,
    BertSentenceEncoder,
    BertTokenClassifier,
)

from ..checkpoints import test_keras_hub as keras_hub_weights
from ..checkpoints.models import CONFIGS
from ..text.test_keras_hub import PIECES, write_wordpiece

TASKS = [BertClassifier, BertTokenClassifier]
FIRST = ["A", "B", "C"]


@pytest.fixture(params=TASKS, ids=lambda task: task.HEAD)
def saved(request, tokenizer, tmp_path):
    """A task, where it is saved, and its head's kernel."""
    task = request.param
    config = BertConfig(hidden_size=16, num_layers=1, num_heads=2, intermediate_size=16, max_positions=16)
    model = task(BertEncoder(config), BertPreprocessor(tokenizer, sequence_length=16, max_sequence_length=16), FIRST)
    model.save_preset(tmp_path)
    return task, tmp_path, model.head.logits.kernel.numpy()


def change_config(directory, **changes):
    values = json.loads((directory / "config.json").read_text())
    values |= changes
    (directory / "config.json").write_text(json.dumps({k: v for k, v in values.items() if v is not None}))


def is_head(model, kernel):
    return np.array_equal(model.head.logits.kernel, kernel)


@pytest.mark.parametrize("names", [None, {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}])
def test_a_head_without_names_is_used_for_as_many_labels(saved, names):
    task, directory, kernel = saved
    change_config(directory, id2label=names)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model = task.from_preset(directory, labels=["x", "y", "z"])
        others = task.from_preset(directory, labels=["x", "y"])
    assert is_head(model, kernel)
    assert model.labels == ["x", "y", "z"]
    assert others.head.logits.kernel.shape == (16, 2)


def test_a_head_that_is_left_out_is_told(saved):
    task, directory, kernel = saved
    with pytest.warns(UserWarning, match="has a trained head for A, B, C; for A, C, B a new one is drawn") as told:
        model = task.from_preset(directory, labels=["A", "C", "B"])
    assert told[0].filename == __file__
    assert not is_head(model, kernel)


def test_a_head_for_fewer_labels_is_left_out_without_a_word(saved):
    task, directory, _ = saved
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert task.from_preset(directory, labels=["A", "B"]).head.logits.kernel.shape == (16, 2)


def test_names_are_asked_for(saved):
    task, directory, _ = saved
    change_config(directory, id2label=None)
    with pytest.raises(ValueError, match=r"has no names for its 3 labels: say which labels there are, labels="):
        task.from_preset(directory)


def test_a_preset_of_keras_hub(tmp_path):
    weights = keras_hub_weights.write(tmp_path, "bert", ["sequence"])
    pieces = [*PIECES, *(f"piece{i}" for i in range(CONFIGS["bert"].vocab_size - len(PIECES)))]
    write_wordpiece(tmp_path, pieces=pieces, lowercase=True)
    model = BertClassifier.from_preset(tmp_path, labels=FIRST)
    np.testing.assert_array_equal(model.head.logits.kernel, weights["sequence"]["logits/kernel"])
    packed = model.preprocessor(["Cafe b"])
    assert packed["input_word_ids"].numpy().tolist() == [[2, 7, 10, 3]]
    model.save_preset(tmp_path / "ours")
    again = BertClassifier.from_preset(tmp_path / "ours")
    np.testing.assert_allclose(again(["Cafe b"]), model(packed), rtol=1e-5)
    assert BertSentenceEncoder.from_preset(tmp_path).encode(["Cafe", "b"]).shape == (2, 12)
