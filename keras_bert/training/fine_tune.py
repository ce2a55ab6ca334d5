"""The recipe of BERT's fine-tuning (Devlin et al. 2018, appendix A.3), around Keras's `fit`."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.answers.columns import columns_of
from keras_bert.counted import counted
from keras_bert.data import Examples
from keras_bert.recipe import ENOUGH_UPDATES, FineTuningWithTeacher, takes_recipe
from keras_bert.tasks.base.task import BertTask, TokenizedExamples
from keras_bert.tasks.steps import few_shot, gradient_cache
from keras_bert.tasks.steps.training_step import Forward, on_labels
from keras_bert.text.arguments import columns_of_table
from keras_bert.text.strings import as_strings
from keras_bert.training import report
from keras_bert.training.adapting import adapting, check_adapting
from keras_bert.training.batches import (
    Labelled,
    accumulated_batches,
    batches_of_epoch,
    columns_in,
    dataset_of,
    hold_out,
    make_pack,
)
from keras_bert.training.distillation import check_teacher, distilling
from keras_bert.training.loop import Training, compile_model, monitors_loss
from keras_bert.training.run import Run, digest, digest_of_examples, settings_of_run

if TYPE_CHECKING:
    from keras_bert.answers.columns import Targets


@takes_recipe(FineTuningWithTeacher)
def fine_tune(
    model: BertTask,
    train: Examples | Labelled,
    validation: Examples | Labelled | None = None,
    directory: str | Path | None = None,
    *,
    loss: keras.losses.Loss | None = None,
    teacher: BertTask | None = None,
    mini_batch_size: int | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    progress: bool | None = None,
    checkpoint_seconds: float = 60,
    **recipe: Any,
) -> list[dict[str, float]]:
    """Trains a model, and leaves it with the weights of the epoch that is best on the validation examples.

    Use it for examples in memory; `fine_tune_files` is for examples in files. The recipe is AdamW (biases and layer
    normalization do not decay), linear warmup and linear decay of the learning rate, gradients clipped by their norm,
    and batches of similar length. By default, there are three epochs. With few examples, epochs are added until the run
    has 200 updates, at most 20 epochs. A new classifier of single texts with few texts per class learns from pairs of
    them, with a warning, unless `epochs` is set; see `tasks.steps.few_shot`. For regression, the bias of a new head
    starts at the mean of the labels, its kernel starts and learns in units of their standard deviation, and the loss is
    in these units, too, so that the scale of the labels does not matter; answers are in the unit of the labels.

    Args:
        model: a task model. It is compiled here.
        train: what a reader of `keras_bert.data` returns; or examples and their labels, `(x, y)`, as the model's `fit`
            takes them. For sentence vectors, `x` is a tuple of columns, `(anchors, positives)`, optionally followed by
            negatives, and `y` is None, or scores for two columns.
        validation: examples of the same form, to choose the best epoch. Without it, and without `validation_split`, the
            last epoch is kept. `validation_split` draws single examples, so it may separate questions about one
            context; pass `validation` if that matters.
        directory: the directory of the run's state. An interrupted run is resumed from it, and ends with the same
            weights as without the interruption. To resume, pass a model with the same encoder weights; the saved run
            replaces a newly initialized head. At the end, the weights stay, and the rest of the state is removed. If
            `tensorboard` is installed, its logs go there, too.
        loss: by default, the task's loss for such examples, such as cross-entropy for classes; for sentence vectors,
            see `keras_bert.tasks.losses.sentence_losses`.
        teacher: a fine-tuned model of the same task; the model also learns from its predictions. See `learning_from`.
        mini_batch_size: for sentence vectors, the number of texts that are computed at a time, such as 64: a batch of
            thousands then needs the memory of 64 (see `tasks.steps.gradient_cache`). By default, the whole batch.
        callbacks: further Keras callbacks. They get the values of the history, and do what they do in Keras's `fit`. If
            one sets the learning rate, the rest of the schedule is scaled to it. A resumed run begins them anew. If one
            monitors `val_loss`, that is computed, too.
        progress: whether to show a progress bar; by default on a terminal, elsewhere a line a minute.
        checkpoint_seconds: seconds between saves of the state, which is also saved after every epoch.
        **recipe: the fields of `FineTuningWithTeacher`.

    If some questions have no answer, a question answerer without a `no_answer_threshold` gets the one of the highest F1
    on the validation examples; without such validation examples, 0.0.

    `AdamW` explains `layer_decay`; `adapting` explains `frozen_layers` and `lora_rank`. After training, LoRA's matrices
    are merged into the kernels. LoRA's paper uses learning rates of 2e-4 to 5e-4 and a rank of 8.

    Returns:
        For each epoch: `epoch`, from 1; `loss`, the mean over its texts, words or windows; and the measures on the
            validation examples, named as in Keras: `val_accuracy`, ...

    Raises:
        TypeError, ValueError: an argument is bad, the examples cannot be used, the model cannot learn from them with
            this loss, a callback monitors what is not measured, the loss is not finite, or the directory holds a run
            that is damaged or has other settings, examples, validation examples or preset.

    Warns:
        UserWarning: examples are truncated; a label has very few examples; all labels are numbers; there are so few
            updates that the model may learn nothing.

    Example:
        >>> from keras_bert import BertClassifier
        >>> keras.utils.set_random_seed(0)
        >>> model = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["food", "weather"])
        >>> x, y = ["I love pizza", "rice and beans", "it rains", "a cold wind"], ["food", "food", "weather", "weather"]
        >>> history = fine_tune(model, (x, y), epochs=4, batch_size=2, learning_rate=1e-4, progress=False)
        >>> history[-1]["loss"] < history[0]["loss"]
        True
        >>> model.classify(["bread and butter"])[0]["label"]
        'food'
    """
    given = FineTuningWithTeacher.of(**recipe)
    train = checked_examples("train", train, model)
    validation = None if validation is None else checked_examples("validation", validation, model)
    arguments = {"loss": loss, "teacher": teacher, "mini_batch_size": mini_batch_size}
    may_be_few_shot = given.may_be_few_shot(*arguments.values())
    run = Run(directory)
    is_resumed = may_be_few_shot and run.saved_setting("few_shot") is True
    texts_per_class = few_shot.texts_per_class(model, *train, is_resumed) if may_be_few_shot else None
    train, validation, complete = plan(train, validation, given, texts_per_class)
    if complete.few_shot and given.few_shot is None:
        warnings.warn(few_shot.notice(texts_per_class), stacklevel=2)
    arguments |= {"callbacks": callbacks, "progress": progress, "checkpoint_seconds": checkpoint_seconds}
    return training_by(complete)(model, train, validation, run, complete, **arguments).to_the_end()


def plan(
    train: Labelled, validation: Labelled | None, recipe: FineTuningWithTeacher, texts_per_class: float | None = None
) -> tuple[Labelled, Labelled | None, FineTuningWithTeacher]:
    """Holds out validation examples if the recipe says so, and sets what the recipe leaves open."""
    if recipe.validation_split is not None:
        if validation is not None:
            raise ValueError("validation and validation_split exclude each other; pass only one")
        train, validation = hold_out(train, recipe.validation_split, recipe.seed)
    if recipe.patience is not None and validation is None:
        raise ValueError("patience needs validation examples: pass some, or hold out a share of the examples")
    return train, validation, recipe.for_examples(len(columns_in(train[0])[0]), texts_per_class)


class FineTuning(Training[BertTask]):
    """The training of `fine_tune`, on the examples and with the recipe that `plan` returns."""

    keeps_best = True
    enough_updates = ENOUGH_UPDATES  # with fewer, there is a warning
    forward: Forward = staticmethod(on_labels)  # computes the loss of a batch

    def __init__(
        self,
        model: BertTask,
        examples: Labelled,
        validation: Labelled | None,
        run: Run,
        recipe: FineTuningWithTeacher,
        *,
        loss: keras.losses.Loss | None = None,
        teacher: BertTask | None = None,
        mini_batch_size: int | None = None,
        **how: Any,
    ) -> None:
        super().__init__(model, run, validation is not None, **how)
        self.examples, self.validation, self.teacher = examples, validation, teacher
        self.recipe, self.patience = recipe, recipe.patience
        self.loss, self.mini_batch_size = loss, mini_batch_size

    def prepare(self) -> None:
        self.check()
        self._tokenize()
        self.compiled_loss = self.loss or self.model.kind.loss_for(self.tokenized.targets, len(self.tokenized.segments))
        self.epoch_batches = self.plan_batches()
        self.batches = list(map(len, self.epoch_batches))
        self.updates = sum(-(-count // self.recipe.accumulate) for count in self.batches)
        if self.updates < self.enough_updates:
            warnings.warn(
                f"the run has only {counted(self.updates, 'update')}; with fewer than {ENOUGH_UPDATES} a model may "
                f"learn little: raise epochs, now {self.recipe.epochs}, or lower {_describe_batch_size(self.recipe)}",
                stacklevel=4,
            )

    def check(self) -> None:
        """Checks what needs no tokens, and chooses the step. Raises ValueError or TypeError."""
        check_adapting(self.model.encoder, self.recipe.frozen_layers, self.recipe.lora_rank)
        if self.mini_batch_size is not None:
            gradient_cache.check(self.model, self.mini_batch_size)
            self.forward = gradient_cache.by_mini_batches(self.mini_batch_size)
        if self.teacher is not None:
            check_teacher(self.model, self.teacher)
            self.forward = distilling(self.teacher, self.recipe.temperature)
        if self.validation is not None:
            _check_validation(self.model, self.validation)

    def _tokenize(self) -> None:
        """Tokenizes the examples to train on, and weighs their classes."""
        model, kind = self.model, self.model.kind
        self.tokenized = model.examples(*self.examples)
        if not len(self.tokenized.lengths):
            raise ValueError("there are no examples to train on")
        # Settings of the model, such as a threshold, that the run chooses by its measures, with their defaults.
        self.open_settings = kind.choose(self.examples[1])
        self.open_settings |= {} if self.validation is None else kind.choose(self.validation[1])
        self.class_weights = self._weigh_classes()
        self.lengths = _count_tokens(model, self.tokenized, with_padding=self.recipe.batch_tokens is not None)
        self.pack = make_pack(model, self.tokenized, self.class_weights)
        for warning in kind.warnings(self.tokenized.targets):
            warnings.warn(warning, stacklevel=5)

    def plan_batches(self) -> list[list[np.ndarray]]:
        """Plans the batches of each epoch. Raises ValueError if the model cannot learn from them."""
        assert self.recipe.epochs is not None  # `plan` has set it
        planned = [self.ordinary_batches(epoch) for epoch in range(self.recipe.epochs)]
        _check_contrast(self.compiled_loss, self.tokenized.targets, planned, self.recipe)
        return planned

    def _weigh_classes(self) -> np.ndarray | None:
        """Computes the weights of the classes; in the recipe, they are then by name: JSON's keys are strings."""
        kind, recipe = self.model.kind, self.recipe
        if not recipe.class_weight:
            return None
        weights = kind.class_weights(recipe.class_weight, self.tokenized.targets)
        if isinstance(recipe.class_weight, Mapping):
            of_labels = np.atleast_2d(weights)[-1]  # [labels]; of several labels, [2, labels], without and with them
            by_name = zip(self.model.labels, of_labels.tolist(), strict=True)
            self.recipe = dataclasses.replace(recipe, class_weight=dict(by_name))
        if not np.any(self.sample_weights(weights)):
            raise ValueError("class_weight is 0 for all examples, so there is nothing to learn; raise one")
        return weights

    def sample_weights(self, class_weights: np.ndarray) -> tf.Tensor:
        targets = self.tokenized.targets
        return self.model.kind.sample_weights(getattr(targets, "flat_values", targets), class_weights)

    def ordinary_batches(self, epoch: int) -> list[np.ndarray]:
        return batches_of_epoch(self.lengths, self.recipe.seed, epoch, self.recipe.batch_size, self.recipe.batch_tokens)

    @contextlib.contextmanager
    def changed_step(self) -> Iterator[None]:
        with adapting(self.model, self.recipe.frozen_layers, self.recipe.lora_rank), self.learning():
            yield

    def learning(self) -> contextlib.AbstractContextManager[None]:
        """Makes a context in which a step of the model computes this training's loss."""
        return self.model.training_with(self.forward)

    def compile(self) -> None:
        model = self.model
        factors = model.kind.learning_rate_factors(getattr(model, "head", None), self.tokenized.targets)
        layers = {"layer_decay": self.recipe.layer_decay, "num_layers": len(model.encoder.blocks)}
        compile_model(model, self.recipe, self.updates, self.compiled_loss, **layers, learning_rate_factors=factors)

    def initialize_head(self) -> None:
        self.model.kind.initialize_head(getattr(self.model, "head", None), self.tokenized.targets)

    def settings(self) -> dict[str, Any]:
        further: dict[str, Any] = {}
        if self.loss is not None:
            further["loss"] = json.dumps(keras.saving.serialize_keras_object(self.loss), sort_keys=True)
        if self.mini_batch_size is not None:
            further["mini_batch_size"] = self.mini_batch_size
        examples = tf.nest.flatten([*self.tokenized.segments, self.tokenized.targets], expand_composites=True)
        validation = self.validation and digest_of_examples(*self.validation)
        return settings_of_run(self.model, self.recipe, self.teacher, digest(examples), validation, further)

    def dataset(self, epoch: int, start: int) -> tf.data.Dataset:
        batches, accumulate = self.epoch_batches[epoch], self.recipe.accumulate
        if accumulate == 1:
            return dataset_of(self.pack, batches[start:])
        return accumulated_batches(self.pack, self.compiled_loss, batches, accumulate, start)

    def measure(self, epoch: int, progress: bool | None) -> dict[str, float]:
        model, kind = self.model, self.model.kind
        if self.validation is None:
            return {}
        x, y = self.validation
        if not self.open_settings:
            measures = report.evaluate(model, x, y, progress)
        else:  # each epoch at its best, for the choice of the best epoch
            answers = model.answers(x, progress)
            best = kind.choose(y, answers)
            measures = {**kind.with_settings({**self.open_settings, **best}).score(answers, y).measures, **best}
        if monitors_loss(self.callbacks):
            measures["loss"] = model.evaluate(x, y, self.recipe.batch_size, verbose=0, return_dict=True)["loss"]
        return measures

    def finish(self) -> None:
        best = self.run.history[self.run.best_epoch] if self.open_settings and self.has_validation else {}
        for name, default in self.open_settings.items():
            setattr(self.model, name, best.get(f"val_{name}", default))
        if self.recipe.frozen_layers or self.recipe.lora_rank is not None or self.recipe.few_shot:
            self.compile()  # the optimizer knows only the weights that were trainable; now `fit` trains all of them


class FewShot(FineTuning):
    """The training of `fine_tune` with `few_shot`: on pairs of examples, then of the head."""

    enough_updates = 0

    def check(self) -> None:
        given = {"teacher": self.teacher, "loss": self.loss, "mini_batch_size": self.mini_batch_size}
        few_shot.check(self.model, self.examples[0], **given)
        super().check()

    def plan_batches(self) -> list[list[np.ndarray]]:
        weights = None if self.class_weights is None else self.sample_weights(self.class_weights)
        self.model.check_head(self.tokenized.targets, weights)
        return few_shot.batches_of_run(self.model, self.tokenized.targets, self.recipe)

    @contextlib.contextmanager
    def learning(self) -> Iterator[None]:
        with few_shot.learning_pairs(self.model) as self.encoder_and_head:
            yield

    def further_variables(self) -> Sequence[keras.Variable]:
        return self.encoder_and_head.starts

    def measure(self, epoch: int, progress: bool | None) -> dict[str, float]:
        """Fits the head, before it measures the model."""
        self.encoder_and_head.end_epoch(dataset_of(self.pack, self.ordinary_batches(0)))
        return super().measure(epoch, progress)


def training_by(recipe: FineTuningWithTeacher) -> type[FineTuning]:
    """Chooses the training of a recipe that `plan` returned."""
    return FewShot if recipe.few_shot else FineTuning


def _check_validation(model: BertTask, validation: Labelled) -> None:
    """Raises ValueError or TypeError if a model cannot be measured on these examples."""
    columns = model.columns(validation[0])
    model.kind.check(columns, validation[1])
    for column in columns:
        if isinstance(column[0], str):  # words were checked
            as_strings(column)  # raises if an item is no text


def checked_examples(name: str, examples: object, model: BertTask) -> Labelled:
    """Converts examples and their labels to lists or arrays. Raises TypeError or ValueError if that is impossible."""
    examples = examples.xy if isinstance(examples, Examples) else examples
    if not isinstance(examples, tuple | list) or len(examples) != 2:
        advice = "a tf.data.Dataset is for the model's fit"
        if found := columns_of_table(examples):
            advice = f"pass columns, such as ({name}[{found[0]!r}], {name}[{found[-1]!r}])"
        raise TypeError(f"{name} is a {type(examples).__name__}; expected a tuple of two, (examples, labels); {advice}")
    x, y = examples
    columns = columns_of(x, None)
    return columns if isinstance(x, tuple) else columns[0], model.kind.plain(y)


def _count_tokens(model: BertTask, examples: TokenizedExamples, with_padding: bool) -> np.ndarray:
    """Counts the tokens of each packed row, int64 `[examples]`; with windows, roughly the sum over the windows."""
    preprocessor = model.preprocessor
    assert preprocessor is not None  # the preprocessor made the examples
    shortest = preprocessor.sequence_length or 0 if with_padding else 0
    if preprocessor.stride is not None:
        return np.maximum(examples.lengths, shortest)
    longest = preprocessor.longest
    if truncated := int(np.sum(examples.lengths > longest)):
        message = f"truncated to {longest} tokens: {truncated:,} of {counted(examples.lengths, 'example')}"
        advice = "; long_text='windows' reads all of their tokens" if model.READS_WINDOWS else ""
        warnings.warn(f"{message}{advice}", stacklevel=6)
    return np.clip(examples.lengths, shortest, longest)


def _check_contrast(
    loss: keras.losses.Loss, targets: Targets, epoch_batches: list[list[np.ndarray]], recipe: FineTuningWithTeacher
) -> None:
    """Raises ValueError if a loss compares the rows of a batch, and no batch of a run has rows that differ."""
    if not hasattr(loss, "has_contrast"):
        return
    targets, batches = np.asarray(targets), [batch for epoch in epoch_batches for batch in epoch]
    if any(loss.has_contrast(targets[rows]) for rows in batches):
        return
    reason = "the texts or the scores that it compares are equal; pass some that differ"
    if all(len(rows) == 1 for rows in batches):
        reason = f"it compares the rows of a batch, and each batch has one; raise {_describe_batch_size(recipe)}"
    raise ValueError(f"a model cannot learn from the loss {loss.name}: {reason}")


def _describe_batch_size(recipe: FineTuningWithTeacher) -> str:
    name = "batch_tokens" if recipe.batch_tokens else "batch_size"
    return f"{name}, now {getattr(recipe, name):,}"
