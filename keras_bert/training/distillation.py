"""Distillation: a smaller model learns the predictions of a larger one (Sanh et al. 2019, "DistilBERT")."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any, TypeVar

import keras
import numpy as np
from keras import ops

from keras_bert.config import BertConfig
from keras_bert.encoder import BertEncoder
from keras_bert.tasks.base.task import BertTask
from keras_bert.tasks.kinds import Kind, TaughtBatch
from keras_bert.tasks.steps.training_step import Forward, ForwardPass, on_labels

Model = TypeVar("Model", bound=BertTask)


def student_of(teacher: Model, num_layers: int) -> Model:
    """Makes a smaller model of the teacher's task from some of the teacher's layers, with their weights.

    Use it for the student of `learning_from`; DistilBERT starts its student from layers of the teacher, too. The layers
    are the teacher's first and last, and others spaced evenly between them; for 6 of 12: 0, 2, 4, 7, 9, 11.

    Args:
        teacher: a model of any task.
        num_layers: the number of layers of the student.

    Returns:
        The student. Its embeddings, pooler, head and CRF are copies of the teacher's.

    Raises:
        ValueError: the teacher has fewer layers, or they share weights in several groups.

    Example:
        >>> from keras_bert import BertClassifier
        >>> teacher = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["good", "bad"])
        >>> student = student_of(teacher, num_layers=3)
        >>> teacher.count_params(), student.count_params()
        (22713986, 17390594)
    """
    encoder = BertEncoder(config_of_student(teacher, num_layers), dtype=teacher.encoder.dtype_policy)
    student = type(teacher)(encoder, teacher.preprocessor, **teacher.settings())
    groups = teacher.encoder.config.groups
    block_numbers = np.round(np.linspace(0, groups - 1, encoder.config.groups)).astype(int)
    source_blocks = [teacher.encoder.blocks[int(i)] for i in block_numbers]
    for block, source in zip(encoder.blocks, source_blocks, strict=True):
        block.set_weights(source.get_weights())
    for variable, value in zip(_variables_outside_blocks(student), _variables_outside_blocks(teacher), strict=True):
        variable.assign(value)
    return student


def config_of_student(teacher: BertTask, num_layers: int) -> BertConfig:
    """Makes the configuration of `student_of`. Raises ValueError as that does."""
    config = teacher.encoder.config
    if not 1 <= num_layers <= config.num_layers:
        raise ValueError(f"num_layers is {num_layers}; expected 1 to {config.num_layers}, the teacher's")
    if 1 < config.groups < config.num_layers:
        raise ValueError(
            f"the {config.num_layers} layers of this teacher share weights in {config.groups} groups; choose a teacher "
            "whose layers share all weights, or none"
        )
    return dataclasses.replace(config, num_layers=num_layers, num_groups=1 if config.num_groups == 1 else None)


def _variables_outside_blocks(model: BertTask) -> list[keras.Variable]:
    blocks = {id(variable) for block in model.encoder.blocks for variable in block.weights}
    return [variable for variable in model.weights if id(variable) not in blocks]


@contextlib.contextmanager
def learning_from(teacher: Model | None, student: Model, temperature: float = 2.0) -> Iterator[None]:
    """Trains a student on a weighted sum of two or three losses, inside this block.

    Use it for a model that must be smaller or faster than the teacher. Compile the student inside the block.
    `fine_tune` and `pretrain` do both if they get a teacher. With the logits of both, the distillation loss is

        `T^2 KL(softmax(teacher / T) || softmax(student / T))`

    with the temperature `T`. With several labels per text, each label is a binary decision of its own; for regression,
    the loss is the squared difference, in `fine_tune` in units of the labels' deviation. The weights are those of
    DistilBERT for a masked language model:

    =========================================================  ==========  ================  ========================
    loss                                                       classifier  token classifier  masked language model
    =========================================================  ==========  ================  ========================
    the student's own, on the labels                           1/2         1/2               1/4
    the distillation loss                                      1/2         1/2, at words     5/8, at masked positions
    `1 - cos(teacher, student)`, mean over last hidden states  none        none              1/8
    =========================================================  ==========  ================  ========================

    A word's logits are those of its first token; with a CRF, its emissions. The student of a teacher with a CRF has a
    CRF of the same scheme, whose transition scores learn from the labels alone. A teacher without a CRF can have a
    student with or without one.

    Args:
        teacher: the teacher, which is not trained; None: the student learns from the labels alone.
        student: a `BertPretrainer`, a `BertClassifier` or a `BertTokenClassifier`, as the teacher is.
        temperature: `T`, above 0. The higher it is, the more small probabilities count.

    Raises:
        ValueError: student and teacher differ in task, labels, vocabulary or (as `BertPretrainer`) hidden size, the
            teacher has a CRF that the student lacks, or the temperature is not above 0.

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
    check_teacher(student, teacher)
    with student.training_with(distilling(teacher, temperature)):
        yield


def check_teacher(student: BertTask, teacher: BertTask) -> None:
    """Raises ValueError if a student cannot learn from a teacher."""
    if type(student.kind).distillation_terms is Kind.distillation_terms:
        raise ValueError(f"a {type(student).__name__} cannot learn from a teacher; classifiers and pre-trainers can")
    if type(teacher) is not type(student):
        raise ValueError(
            f"a {type(student).__name__} cannot learn from a {type(teacher).__name__}: they differ in class"
        )
    of_teacher, of_student = (
        each.preprocessor and each.preprocessor.tokenizer.vocabulary for each in (teacher, student)
    )
    if of_teacher != of_student:
        raise ValueError("the teacher has another vocabulary; teacher and student must have the same tokens")
    for name in student.EQUAL_IN_TEACHER:
        teacher_value, student_value = (getattr(model, name) for model in (teacher, student))
        if teacher_value != student_value:
            raise ValueError(
                f"{name} of the teacher: {teacher_value}, of the student: {student_value}; they must be the same"
            )
    student.kind.check_teacher(teacher.kind)


def distilling(teacher: BertTask, temperature: float) -> Forward:
    """Makes a step on the labels and on a teacher's predictions; see `learning_from`."""
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; expected a number above 0")

    # The teacher is not an attribute of the student, which would save and train it.
    def forward(model: BertTask, tape: Any, x: Any, y: Any, sample_weight: Any) -> ForwardPass:
        terms, y_pred, _ = on_labels(model, tape, x, y, sample_weight)
        teacher_outputs = keras.tree.map_structure(ops.stop_gradient, teacher(x, training=False))
        loss = getattr(model.loss, "loss", model.loss)  # on replicas, that of a `GlobalMean`
        batch = TaughtBatch(terms, x, y, (teacher_outputs, y_pred), sample_weight, loss, temperature)
        return ForwardPass(model.kind.distillation_terms(batch), y_pred)

    return forward
