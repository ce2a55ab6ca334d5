"""Distillation: a smaller model learns the answers of a larger one (Sanh et al. 2019, "DistilBERT")."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import keras
import numpy as np

from keras_bert.encoder import BertEncoder
from keras_bert.tasks.task import BertTask
from keras_bert.tasks.training_step import Part, TrainingStep
from keras_bert.training import run_files

Model = TypeVar("Model", bound=BertTask)


def student_of(teacher: Model, num_layers: int) -> Model:
    """A model like the teacher, with fewer layers and the teacher's weights.

    Its layers are the teacher's first and last, and others evenly between them: for 6 of 12, these are 0, 2, 4, 7, 9,
    11.

    Args:
        teacher: a model of any task.
        num_layers: the number of layers of the student.

    Raises:
        ValueError: the teacher has fewer layers, or its layers share weights in several groups.

    Example:
        >>> from keras_bert import BertClassifier
        >>> teacher = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["good", "bad"])
        >>> student = student_of(teacher, num_layers=3)
        >>> teacher.count_params(), student.count_params()
        (22713986, 17390594)
    """
    config = teacher.encoder.config
    if not 1 <= num_layers <= config.num_layers:
        raise ValueError(f"num_layers is {num_layers}; expected 1 to {config.num_layers}, the teacher's")
    if 1 < config.groups < config.num_layers:
        raise ValueError(f"the {config.num_layers} layers of this teacher share weights in {config.groups} groups")
    small = dataclasses.replace(config, num_layers=num_layers, num_groups=1 if config.num_groups == 1 else None)
    encoder = BertEncoder(small, dtype=teacher.encoder.dtype_policy)
    student = type(teacher)(encoder, teacher.preprocessor, **teacher.settings())
    chosen = np.round(np.linspace(0, config.groups - 1, small.groups)).astype(int)
    blocks = [teacher.encoder.blocks[int(i)] for i in chosen]
    for block, source in zip(encoder.blocks, blocks, strict=True):
        block.set_weights(source.get_weights())
    for variable, value in zip(_beside_blocks(student), _beside_blocks(teacher), strict=True):
        variable.assign(value)
    return student


def _beside_blocks(model: BertTask) -> list[keras.Variable]:
    blocks = {id(variable) for block in model.encoder.blocks for variable in block.weights}
    return [variable for variable in model.weights if id(variable) not in blocks]


@contextlib.contextmanager
def learning_from(teacher: Model | None, student: Model, temperature: float = 2.0) -> Iterator[None]:
    """Inside this block, a student is trained on a weighted sum of two or three losses.

    The first is its own loss on the labels. The second is the distance of its answers from the teacher's answers,

        `T^2 KL(softmax(teacher / T) || softmax(student / T))`

    with the temperature `T`. With several labels per text, each label counts by itself; for regression, it is the
    squared difference. A masked language model answers at the masked positions, and has a third loss: `1 - cos` between
    the last hidden states of both, the mean over all tokens. The weights are 1/4, 5/8 and 1/8, as in DistilBERT; for a
    classifier, one half each.

    Compile the student inside the block. `fine_tune` and `pretrain` do all of this if they get a teacher.

    Args:
        teacher: the teacher, which is not trained. None: the student learns from the labels alone.
        student: a `BertPretrainer` or a `BertClassifier`, like the teacher.
        temperature: at a higher temperature, small probabilities count more.

    Raises:
        ValueError: student and teacher differ in task, labels, vocabulary or (as `BertPretrainer`) hidden size, or the
            temperature is not above 0.

    Example:
        >>> from keras_bert import BertClassifier
        >>> teacher = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["good", "bad"])
        >>> student = student_of(teacher, num_layers=1)
        >>> with learning_from(teacher, student):
        ...     student.compile(loss=student.training_loss())
        ...     _ = student.fit(["What a film!", "Never again."], ["good", "bad"], verbose=0)
    """
    if teacher is None:
        yield
        return
    with student.training_with(Distillation(teacher, temperature)):
        yield


class Distillation(TrainingStep):
    """A step on the labels and on a teacher's answers; see `learning_from`."""

    def __init__(self, teacher: BertTask, temperature: float) -> None:
        if not temperature > 0:
            raise ValueError(f"temperature is {temperature}; expected a number above 0")
        self.teacher = teacher  # not a layer of the student, as it would be as an attribute of the student
        self.temperature = temperature

    def check(self, model: BertTask) -> None:
        model.check_teacher(self.teacher)

    def parts(self, model: BertTask, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[Part]:
        parts = super().parts(model, x, y, y_pred, sample_weight)
        return model.distillation_parts(parts, self.teacher, x, y_pred, sample_weight, self.temperature)


def teacher_settings(teacher: BertTask | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run with a digest of its teacher; without a teacher, the temperature is None."""
    if teacher is None:
        return {run_files.TEACHER: None, **settings, "temperature": None}
    return {run_files.TEACHER: run_files.of_weights(teacher.weights), **settings}
