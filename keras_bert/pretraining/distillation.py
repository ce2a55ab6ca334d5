"""Distillation: a smaller model learns the answers of a larger one (Sanh et al. 2019, "DistilBERT")."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import keras
import numpy as np
from keras import ops

from keras_bert.encoder import BertEncoder
from keras_bert.pretraining.pretrainer import MASKED_LM, SEQUENCE_OUTPUT, BertPretrainer
from keras_bert.tasks.classifier import MULTI_LABEL, REGRESSION, BertClassifier
from keras_bert.tasks.replicas import over_all

Model = TypeVar("Model", BertPretrainer, BertClassifier)


class Shares(NamedTuple):
    """The weights of the losses: of the labels, of the teacher's answers, of its hidden states."""

    labels: float
    answers: float
    hidden: float


# For pre-training, alpha_mlm, alpha_ce and alpha_cos of DistilBERT, 2 : 5 : 1, as shares, so that gradients stay as
# large as without a teacher. For a classifier half and half, as in DistilBERT's fine-tuning for SQuAD.
_OF_TOKENS = Shares(labels=0.25, answers=0.625, hidden=0.125)
_OF_CLASSES = Shares(labels=0.5, answers=0.5, hidden=0.0)


def student_of(teacher: Model, num_layers: int) -> Model:
    """A model like the teacher with fewer layers, which starts with the teacher's weights.

    Its layers are the teacher's first, its last, and others evenly between them: of twelve, six are 0, 2, 4, 7, 9, 11.

    Args:
        teacher: a `BertPretrainer` or a `BertClassifier`.
        num_layers: the number of layers of the student.

    Raises:
        ValueError: the teacher has fewer layers, or its layers share weights in several groups.

    Example:
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
    small = dataclasses.replace(config, num_layers=num_layers, num_groups=1 if config.groups == 1 else None)
    encoder = BertEncoder(small, dtype=teacher.encoder.dtype_policy)
    settings = {name: value for name, value in teacher.get_config().items() if name != "name"}
    student = type(teacher)(**{**settings, "encoder": encoder, "preprocessor": teacher.preprocessor})
    chosen = np.round(np.linspace(0, config.groups - 1, small.groups)).astype(int)
    blocks = [teacher.encoder.blocks[i] for i in chosen]
    for ours, theirs in zip(encoder.blocks, blocks, strict=True):
        ours.set_weights(theirs.get_weights())
    for ours, theirs in zip(_beside_blocks(student), _beside_blocks(teacher), strict=True):
        ours.assign(theirs)
    return student


def _beside_blocks(model: Model) -> list[keras.Variable]:
    blocks = {id(variable) for block in model.encoder.blocks for variable in block.weights}
    return [variable for variable in model.weights if id(variable) not in blocks]


@contextlib.contextmanager
def learning_from(teacher: Model | None, student: Model, temperature: float = 2.0) -> Iterator[None]:
    """Inside this block, a student is trained on a weighted sum of two or three losses.

    The first is its own loss on the labels. The second is the distance of its answers from the teacher's,

        `T^2 KL(softmax(teacher / T) || softmax(student / T))`

    with the temperature `T` (with several labels per text, for each label by itself; for regression, the squared
    difference). A masked language model answers at the masked positions, and has a third loss: `1 - cos` between the
    last hidden states of both, the mean over all tokens. The weights are 1/4, 5/8 and 1/8, as in DistilBERT; for a
    classifier, one half each.

    Compile the student inside the block. `fine_tune` and `pretrain` do all of this when they are given a teacher.

    Args:
        teacher: it is not trained. None: the student learns from the labels alone.
        student: a `BertPretrainer` or a `BertClassifier`, as the teacher.
        temperature: at a higher temperature, small probabilities count more.

    Raises:
        ValueError: student and teacher differ in task, labels, vocabulary or (as `BertPretrainer`) hidden size, or the
            temperature is not above 0.

    Example:
        >>> teacher = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["good", "bad"])
        >>> student = student_of(teacher, num_layers=1)
        >>> with learning_from(teacher, student):
        ...     student.compile("adam", student.training_loss())
        ...     _ = student.fit(["What a film!", "Never again."], ["good", "bad"], verbose=0)
    """
    if teacher is None:
        yield
        return
    _check_teacher(teacher, student)
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; expected a number above 0")
    taught = _taught_tokens if isinstance(student, BertPretrainer) else _taught_classes
    own = student.compute_loss

    def compute_loss(
        x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        loss = own(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training)
        return taught(loss, teacher, student, x, y_pred, sample_weight, temperature) if training else loss

    student.compute_loss = compute_loss  # Keras calls it in each training step
    try:
        yield
    finally:
        del student.compute_loss
        student.train_function = None  # it was traced with the teacher


def lesson(teacher: Model | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run with a digest of its teacher; without a teacher, the temperature is None."""
    if teacher is None:
        return {"teacher": None, **settings, "temperature": None}
    digest = hashlib.sha256()
    for variable in teacher.weights:
        digest.update(ops.convert_to_numpy(variable).tobytes())
    return {"teacher": digest.hexdigest(), **settings}


def _check_teacher(teacher: Any, student: Any) -> None:
    """Raises ValueError unless the student can learn from the teacher."""
    if not isinstance(student, BertPretrainer | BertClassifier) or type(teacher) is not type(student):
        raise ValueError(
            f"a {type(student).__name__} cannot learn from a {type(teacher).__name__}; both must be BertPretrainer, or "
            "both BertClassifier"
        )
    if teacher.preprocessor.tokenizer.vocabulary != student.preprocessor.tokenizer.vocabulary:
        raise ValueError("the teacher has another vocabulary; a student learns from what is said of the same tokens")
    if isinstance(student, BertPretrainer):
        widths = [model.encoder.config.hidden_size for model in (teacher, student)]
        if widths[0] != widths[1]:
            raise ValueError(f"hidden_size of the teacher is {widths[0]}, of the student {widths[1]}; make both equal")
        return
    for name in ("labels", "problem_type", "pairs"):
        theirs, ours = (getattr(model, name) for model in (teacher, student))
        if theirs != ours:
            raise ValueError(f"{name} of the teacher: {theirs}, of the student: {ours}; they must be the same")


def _taught_classes(
    loss: Any,
    teacher: BertClassifier,
    student: BertClassifier,
    x: Any,
    logits: Any,
    sample_weight: Any,
    temperature: float,
) -> Any:
    theirs = ops.stop_gradient(teacher(x, training=False))  # [batch, labels]
    if student.problem_type == REGRESSION:
        apart = ops.mean(ops.square(logits - theirs), axis=-1)
    elif student.problem_type == MULTI_LABEL:
        apart = ops.mean(_divergence(_or_not(theirs), _or_not(logits), temperature), axis=-1)
    else:
        apart = _divergence(theirs, logits, temperature)
    if sample_weight is not None:
        apart = apart * ops.cast(sample_weight, apart.dtype)
    return _OF_CLASSES.labels * loss + _OF_CLASSES.answers * _weighted_mean(apart, ops.ones_like(apart))


def _taught_tokens(
    loss: Any,
    teacher: BertPretrainer,
    student: BertPretrainer,
    x: Any,
    outputs: dict[str, Any],
    sample_weight: dict[str, Any],
    temperature: float,
) -> Any:
    theirs = {name: ops.stop_gradient(value) for name, value in teacher(x, training=False).items()}
    apart = _divergence(theirs[MASKED_LM], outputs[MASKED_LM], temperature)  # [batch, predictions]
    directions = [ops.normalize(each[SEQUENCE_OUTPUT], axis=-1) for each in (theirs, outputs)]
    cosine = ops.sum(directions[0] * directions[1], axis=-1)  # [batch, seq_length]
    return (
        _OF_TOKENS.labels * loss
        + _OF_TOKENS.answers * _weighted_mean(apart, sample_weight[MASKED_LM])
        + _OF_TOKENS.hidden * _weighted_mean(1.0 - cosine, x["input_mask"])
    )


def _divergence(teacher: Any, student: Any, temperature: float) -> Any:
    """`T^2 KL`, over the last axis of logits. The factor keeps the gradients as large as those of the labels."""
    theirs, ours = (ops.log_softmax(logits / temperature, axis=-1) for logits in (teacher, student))
    return temperature**2 * ops.sum(ops.exp(theirs) * (theirs - ours), axis=-1)


def _or_not(logits: Any) -> Any:
    """The logit of each label -> the logits of its presence and its absence, on a new last axis."""
    return ops.stack([logits, ops.zeros_like(logits)], axis=-1)


def _weighted_mean(values: Any, weights: Any) -> Any:
    """The weighted mean over the global batch; with several replicas, this replica's share of it."""
    weights = ops.cast(weights, values.dtype)
    return ops.sum(values * weights) / ops.maximum(over_all(ops.sum(weights)), 1.0)
