"""What users of transformers' TensorFlow classes have."""

from pathlib import Path

import h5py
import keras
import numpy as np
from safetensors.numpy import load_file

from keras_bert import (
    BertClassifier,
    BertEncoder,
    BertMultipleChoice,
    BertPreprocessor,
    BertQuestionAnswerer,
    BertTokenClassifier,
)
from keras_bert.pretraining import BertPretrainer


def write(directory: Path, preset: str = "all-MiniLM-L6-v2") -> None:
    """Writes models of torch with a preset's encoder: `old-bert`, with the heads of pre-training; one of each task."""
    keras.utils.set_random_seed(0)
    pretrained = BertPretrainer(BertEncoder.from_preset(preset), BertPreprocessor.from_preset(preset))
    pretrained.save_preset(directory / "old-bert")
    for name, kind, settings in (
        ("classifier", BertClassifier, {"labels": ["bad", "good"]}),
        ("tagger", BertTokenClassifier, {"labels": ["O", "B-PER", "I-PER"]}),
        ("answerer", BertQuestionAnswerer, {}),
        ("chooser", BertMultipleChoice, {}),
    ):
        kind.from_preset(preset, **settings).save_preset(directory / f"old-{name}")


def rewrite(directory: Path) -> None:
    """Puts `tf_model.h5` in the place of the weights that `write` wrote, and writes `model.h5`, as Keras 2 does."""
    bert = {f"tf_bert_model/{name}": each for name, each in tensorflow_names(directory / "old-bert").items()}
    dense = {"dense/dense/kernel:0": np.ones((384, 2)), "dense/dense/bias:0": np.ones(2)}
    whole = {name: each for name, each in (bert | dense).items() if "___cls" not in name}
    _write_h5(directory / "model.h5", {f"model_weights/{name}": each for name, each in whole.items()})
    for model in directory.glob("old-*"):
        _write_h5(model / "tf_model.h5", tensorflow_names(model))
        (model / "model.safetensors").unlink()


def _write_h5(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with h5py.File(path, "w") as file:
        for name, value in arrays.items():
            file[name] = value


def tensorflow_names(directory: Path) -> dict[str, np.ndarray]:
    """The arrays of a model of ours as the TensorFlow classes store them."""
    arrays = {}
    for name, value in load_file(directory / "model.safetensors").items():
        *layers, last = name.split(".")
        kind = {"weight": "gamma" if layers[-1] == "LayerNorm" else "kernel", "bias": "bias"}[last]
        if "_embeddings" in layers[-1]:
            kind = "weight"
        value = value.T if kind == "kernel" else value
        path = "/".join((layers[0], "model", *layers, kind)).replace("/layer/", "/layer_._")
        arrays[path.replace("cls/", "mlm___cls/") + ":0"] = value
    return arrays
