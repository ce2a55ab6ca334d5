"""Few-shot classification: the encoder learns from pairs of examples, then the head is fitted (Tunstall et al. 2022).

With few examples, a head that is trained with the encoder learns little before it overfits. Pairs of examples are many:
two texts of a class should have similar vectors, texts of different classes should not. SetFit trains so:

    1. The encoder learns. The loss of a text u is the average of two means over the batch: of `(cos(u, v) - 1)^2` over
       the texts v of its class, and of `cos(u, v)^2` over the other texts.
    2. The last layer of the head is fitted by logistic regression on the vectors of all examples.

Here, the encoder's weights go back by half in between, to the mean of those before and after (Wortsman et al. 2022,
"Robust Fine-Tuning of Zero-Shot Models"): the vectors keep more of what the encoder knows.

A text's vector is what the last layer of the classifier reads, so the result is an ordinary `BertClassifier`.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.recipe import FineTuningRecipe
from keras_bert.tasks.classifier import BertClassifier
from keras_bert.tasks.heads.long_text import pools_logits
from keras_bert.tasks.steps.replicas import all_gather, local_rows
from keras_bert.tasks.steps.training_step import ForwardPass, weighted_mean
from keras_bert.tensors import Tensor

if TYPE_CHECKING:
    from keras_bert.answers.columns import Labels, Targets, Texts
    from keras_bert.tasks.base.columns import Inputs
    from keras_bert.tasks.base.task import BertTask

# An epoch has about 50 batches; with many examples, it has as many as let each example begin 4 pairs.
_BATCHES, _PAIRS_OF_EXAMPLE = 50, 4


def compare_pairs(
    model: BertClassifier, tape: tf.GradientTape, x: Inputs, y: Tensor, sample_weight: Tensor | None
) -> ForwardPass:
    """Compares the texts of a batch by their classes, without the head's last layer: a step of training."""
    vectors = model.features(x, training=True)
    compared = pair_losses(all_gather(vectors), model.kind.similarities(all_gather(y)))  # of the global batch
    term = weighted_mean(*(local_rows(each, ops.shape(vectors)[0]) for each in compared))
    return ForwardPass([term], model.head.logits(vectors))


class EncoderAndHead:
    """Moves the encoder back by half, to the weights that it has now, and fits the last layer to all examples."""

    def __init__(self, model: BertClassifier) -> None:
        self._model = model
        pooler = () if model.encoder.pooler is None else model.encoder.pooler.variables
        learned = model.encoder.trainable_variables
        # Of LoRA's factors, `A` stays: their product is 0 now, and goes back by half with `B`.
        fixed = [*pooler, *(each for each in learned if each.name == "lora_kernel_a")]
        self._learned = [each for each in learned if all(each is not other for other in fixed)]
        self.starts = [keras.Variable(each.numpy(), trainable=False) for each in self._learned]  # a run saves them

    def end_epoch(self, batches: tf.data.Dataset) -> None:
        model = self._model
        for variable, start in zip(self._learned, self.starts, strict=True):
            variable.assign((start.numpy() + variable.numpy()) / 2)
        compute = tf.function(lambda inputs: model.features(inputs, training=False), reduce_retracing=True)
        rows = ((compute(x).numpy(), *(each.numpy() for each in rest)) for x, *rest in batches)
        model.fit_head(*map(np.concatenate, zip(*rows, strict=True)))


@contextlib.contextmanager
def learning_pairs(model: BertClassifier) -> Iterator[EncoderAndHead]:
    """Trains by `compare_pairs` with a frozen last layer; to train that afterwards, compile the model again."""
    variables, encoder_and_head = model.head.logits.variables, EncoderAndHead(model)
    for variable in variables:
        variable.trainable = False
    try:
        with model.training_with(compare_pairs):
            yield encoder_and_head
    finally:
        for variable in variables:
            variable.trainable = True


def texts_per_class(model: BertTask, x: Texts, y: Labels | None, is_resumed: bool = False) -> float | None:
    """Computes the mean number of texts per class; None if `few_shot` is impossible or the head is trained.

    `is_resumed`: the run has trained it.
    """
    if not _can_learn(model) or isinstance(x, tuple) or pools_logits(model.encoder):
        return None
    if y is None or not (model.head.is_new or is_resumed) or importlib.util.find_spec("sklearn") is None:
        return None
    targets = np.asarray(model.targets(y))
    if targets.ndim > 1:
        return np.sum(targets) / targets.shape[1]
    return len(targets) / len(model.labels) if len(np.unique(targets)) > 1 else None


POOLING_NOTICE = "the head reads the mean of all tokens, which transformers does not compute; pooling='first' avoids it"


def notice(count: float | None) -> str:
    """Says that a run learns by `few_shot`, and how to avoid it."""
    return (
        f"only about {count or 0:.3g} texts per class: the encoder learns from pairs of texts, then the head is "
        "fitted; to train encoder and head together, pass few_shot=False or epochs"
    )


def check(model: BertTask, x: Texts, **others: object) -> None:
    """Raises ValueError if a model cannot learn by `few_shot`, or one of the other arguments of `fine_tune` is set."""
    if not _can_learn(model):
        raise ValueError("few_shot is for a BertClassifier of classes or several labels; leave it out")
    if isinstance(x, tuple):
        raise ValueError("few_shot compares single texts; leave it out for pairs")
    if pools_logits(model.encoder):
        raise ValueError("few_shot needs a vector for each text; load the model with pooling='mean'")
    if excluded := [name for name, value in others.items() if value is not None]:
        raise ValueError(f"few_shot and {excluded[0]} exclude each other; leave one of them out")


def _can_learn(model: BertTask) -> TypeGuard[BertClassifier]:
    return isinstance(model, BertClassifier) and model.problem_type != "regression"


def batches_of_run(model: BertClassifier, targets: Targets, recipe: FineTuningRecipe) -> list[list[np.ndarray]]:
    """Makes the batches of all epochs, see `batches_of_pairs`."""
    assert recipe.epochs is not None  # the recipe has set both
    assert recipe.batch_size is not None
    different, kinds = np.unique(np.asarray(targets), axis=0, return_inverse=True)
    similarities = model.kind.similarities(tf.convert_to_tensor(different)).numpy()
    arguments = (np.ravel(kinds), similarities, recipe.seed)
    return [batches_of_pairs(*arguments, number, recipe.batch_size) for number in range(recipe.epochs)]


def pair_losses(vectors: Tensor, similarities: Tensor) -> tuple[Tensor, Tensor]:
    """Compares each row of a batch with all others: losses, float32 `[batch]`, and 1 for each row that is compared."""
    vectors = ops.normalize(ops.cast(vectors, "float32"), axis=-1)
    errors = ops.square(ops.matmul(vectors, ops.transpose(vectors)) - similarities)
    is_other = 1.0 - ops.eye(ops.shape(errors)[0], dtype="float32")
    is_similar = is_other * ops.cast(similarities > 0, "float32")
    kinds = (is_similar, is_other - is_similar)  # their means count the same, however many rows they have
    means = [ops.divide_no_nan(ops.sum(errors * kind, axis=1), ops.sum(kind, axis=1)) for kind in kinds]
    has_kind = [ops.cast(ops.sum(kind, axis=1) > 0, "float32") for kind in kinds]
    count = has_kind[0] + has_kind[1]
    return ops.divide_no_nan(means[0] + means[1], count), ops.minimum(count, 1.0)


def batches_of_pairs(
    kinds: np.ndarray, similarities: np.ndarray, seed: int, epoch: int, batch_size: int
) -> list[np.ndarray]:
    """Makes the batches of an epoch: row numbers of pairs of similar examples, two rows for each pair."""
    generator = np.random.default_rng([seed, epoch])
    count, pairs = len(kinds), max(1, batch_size // 2)
    rounds = max(-(-_BATCHES * pairs // count), _PAIRS_OF_EXAMPLE)
    anchors = np.concatenate([generator.permutation(count) for _ in range(rounds)])
    partners = [np.flatnonzero(row[kinds] > 0) for row in similarities]  # of each kind, itself among them

    def partner(anchor: int) -> int:
        similar = partners[kinds[anchor]]
        if len(similar) == 1:
            return anchor  # its own partner
        place = generator.integers(len(similar) - 1)
        return int(similar[place + (place >= np.searchsorted(similar, anchor))])  # any but itself

    chosen = np.array([partner(anchor) for anchor in anchors])
    return [np.concatenate([anchors[i : i + pairs], chosen[i : i + pairs]]) for i in range(0, len(anchors), pairs)]
