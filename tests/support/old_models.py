"""What a user of transformers' TensorFlow classes has: a directory for each of its heads."""

from pathlib import Path

import keras

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
    """Writes `old-bert`, with the heads of pre-training, and a fine-tuned model of each task, on a preset's encoder."""
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
