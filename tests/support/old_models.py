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
    """Writes models of torch on a preset's encoder: `old-bert`, with the heads of pre-training, and one of each task."""
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
    """Puts `tf_model.h5` in the place of the weights that `write` wrote."""
    for model in directory.glob("old-*"):
        arrays = tensorflow_names(model)
        (model / "model.safetensors").unlink()
        with h5py.File(model / "tf_model.h5", "w") as file:
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
