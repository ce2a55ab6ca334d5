"""The recipe of BERT's fine-tuning (Devlin et al. 2018, appendix A.3), around Keras's `fit`."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.pretraining.distillation import learning_from, lesson
from keras_bert.tasks.classifier import CLASSES, BertClassifier
from keras_bert.tasks.task import BertTask, Examples
from keras_bert.training import evaluation, workers
from keras_bert.training.adamw import AdamW, WarmupThenDecay
from keras_bert.training.adapting import adapting
from keras_bert.training.batching import batches_of_epoch, padding_share
from keras_bert.training.callbacks import Checkpoints, ProgressBar, TensorBoard, Validation
from keras_bert.training.recipe import check_recipe, check_updates
from keras_bert.training.run import Run


def fine_tune(
    model: BertTask,
    train: tuple[Any, Any],
    validation: tuple[Any, Any] | None = None,
    directory: str | Path | None = None,
    epochs: int = 3,
    batch_size: int | None = None,
    batch_tokens: int | None = None,
    learning_rate: float = 5e-5,
    warmup: float = 0.1,
    weight_decay: float = 0.01,
    clip_norm: float = 1.0,
    layer_decay: float = 1.0,
    accumulate: int = 1,
    class_weight: Mapping[str, float] | None = None,
    frozen_layers: int = 0,
    lora_rank: int | None = None,
    teacher: BertClassifier | None = None,
    temperature: float = 2.0,
    patience: int | None = None,
    seed: int = 0,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    progress: bool | None = None,
    checkpoint_seconds: float = 60,
) -> list[dict[str, float]]:
    """Trains a model, and leaves it with the weights of its best epoch, by the validation examples.

    AdamW (biases and layer normalization do not decay), a learning rate that rises linearly and then falls linearly,
    gradients clipped by their norm, batches of rows of similar length.

    Args:
        model: a task. It is compiled here.
        train: examples and their labels, `(x, y)`, as the model's `fit` takes them.
        validation: the same, to choose the best epoch by; without it, the last one is kept.
        directory: for the state of the run. If it holds one that was interrupted, that one goes on, and ends with the
            same weights as if it had not been; TensorBoard's logs lie there too,
            if `tensorboard` is installed.
        epochs: how often each example is seen.
        batch_size: examples a batch, by default 32; or else
        batch_tokens: the most pieces in a batch, padding included.
        learning_rate: its peak.
        warmup: the share of all steps in which it rises.
        weight_decay, clip_norm, layer_decay: see `AdamW`.
        accumulate: so many batches make one update.
        class_weight: what an example of a class counts; by default 1.
        frozen_layers: so many of the lowest layers, and the embeddings, are not trained; see `adapting`.
        lora_rank: LoRA instead of training every weight of the layers; see `adapting`. Kernels that it changed are
            ordinary ones afterwards. Its paper trains with learning rates of 2e-4 to 5e-4 and a rank of 8.
        teacher: a classifier, fine-tuned before, whose answers the model learns beside the labels; see `learning_from`.
        temperature: of its answers.
        patience: ends training when so many epochs in a row were no better than the best.
        seed: of the order of the examples.
        callbacks: more of Keras's. For them, each epoch is a `fit` of its own.
        progress: whether to show a progress bar; by default on a terminal.
        checkpoint_seconds: the state is written so often, and after every epoch.

    Returns:
        For each epoch `epoch`, from 1, `loss`, the mean over its batches, `padding`, the share of its pieces that were
        padding, and the measures of the validation examples.

    Raises:
        TypeError, ValueError: an argument is bad, the examples cannot be used, the directory holds a run with other
            settings or examples, or the loss is no longer a number.

    Warns:
        UserWarning: how many examples are cut.

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
    if batch_size is None and batch_tokens is None:
        batch_size = 32
    settings = {
        "epochs": epochs, "batch_size": batch_size, "batch_tokens": batch_tokens, "learning_rate": learning_rate,
        "warmup": warmup, "weight_decay": weight_decay, "clip_norm": clip_norm, "layer_decay": layer_decay,
        "accumulate": accumulate, "class_weight": dict(class_weight or {}), "patience": patience, "seed": seed,
        "frozen_layers": frozen_layers, "lora_rank": lora_rank,
        **lesson(teacher, temperature),
    }  # fmt: skip
    check_recipe(settings)
    _check_examples("train", train)
    weights = _by_index(model, class_weight)
    if validation is not None:
        _check_examples("validation", validation)
        evaluation.check(model, *validation)
    examples = model.examples(*train)
    if not len(examples.lengths):
        raise ValueError("there are no examples to train on")
    lengths = _lengths(model, examples)
    plan = [batches_of_epoch(lengths, seed, epoch, batch_size, batch_tokens) for epoch in range(epochs)]
    steps = sum(map(len, plan))
    updates = steps // accumulate
    check_updates(updates, steps, accumulate)
    with (
        _kept_in(directory) as folder,
        adapting(model, frozen_layers, lora_rank),
        learning_from(teacher, model, temperature),
    ):
        with model.distribute_strategy.scope():
            optimizer = AdamW(
                WarmupThenDecay(learning_rate, round(warmup * updates), updates),
                weight_decay,
                layer_decay=layer_decay,
                num_layers=len(model.encoder.blocks),
                global_clipnorm=clip_norm,
                gradient_accumulation_steps=accumulate if accumulate > 1 else None,
            )
            model.compile(optimizer, model.training_loss(), jit_compile=False)
            optimizer.build(model.trainable_variables)
        run = Run(model, folder, {**settings, "examples": _fingerprint(examples)}, is_shared=directory is not None)
        run.resume()
        around = [
            Validation(run, validation, patience),
            *([TensorBoard(run)] if directory is not None and TensorBoard.is_possible(run) else []),
            Checkpoints(run, None if directory is None else checkpoint_seconds),
            ProgressBar(run, epochs, progress),
            *callbacks,
        ]
        while run.epoch < epochs and not run.stopped:
            batches = plan[run.epoch]
            run.start_epoch(batches=len(batches), padding=padding_share(lengths, batches))
            keras.Model.fit(
                model,
                dataset_of(model, examples, batches[run.step :]),
                initial_epoch=run.epoch,
                epochs=run.epoch + 1,
                class_weight=weights,
                verbose=0,
                shuffle=False,  # they are in the order of the plan
                callbacks=around,
            )
        run.load_best()
    return run.history


def _check_examples(name: str, given: Any) -> None:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise TypeError(
            f"{name} is a {type(given).__name__}; expected a tuple of two, (examples, labels); a tf.data.Dataset is "
            "for the model's fit"
        )


def _lengths(model: BertTask, examples: Examples) -> np.ndarray:
    """int64 `[examples]`: pieces of each row as it is packed; with windows, of all of them together, about."""
    if model.preprocessor.stride is not None:
        return examples.lengths
    longest = model.preprocessor.sequence_length or model.preprocessor.max_sequence_length
    if cut := int(np.sum(examples.lengths > longest)):
        message = f"{cut:,} of {len(examples.lengths):,} examples have more than {longest} pieces, and are cut"
        warnings.warn(f"{message}; with long_text='windows' they are read whole", stacklevel=3)
    return np.minimum(examples.lengths, longest)


@contextlib.contextmanager
def _kept_in(directory: str | Path | None) -> Iterator[Path]:
    if directory is not None:
        yield Path(directory)
        return
    with tempfile.TemporaryDirectory() as temporary:
        yield Path(temporary)


def dataset_of(model: BertTask, examples: Examples, batches: list[np.ndarray]) -> tf.data.Dataset:
    """The batches, packed while the ones before them are trained on."""
    segments, targets = examples.segments, examples.targets

    def batch(rows: tf.Tensor) -> tuple[Any, Any]:
        return model.batch(tuple(tf.gather(each, rows) for each in segments), tf.gather(targets, rows))

    rows = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=tf.TensorSpec([None], tf.int64))
    dataset = rows.apply(tf.data.experimental.assert_cardinality(len(batches)))
    packed = dataset.map(batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(4)
    return packed.with_options(workers.DATA_OPTIONS)


def _fingerprint(examples: Examples) -> str:
    """Changes when an example does: a run does not go on with others."""
    digest = hashlib.sha256()
    for each in (*examples.segments, examples.targets):
        for part in tf.nest.flatten(each, expand_composites=True):
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _by_index(model: BertTask, class_weight: Mapping[str, float] | None) -> dict[int, float] | None:
    if not class_weight:
        return None
    if not isinstance(model, BertClassifier) or model.problem_type != CLASSES:
        raise ValueError("class_weight is for a BertClassifier that gives each text one class; this model is another")
    unknown = sorted(set(class_weight) - set(model.labels))
    if unknown:
        raise ValueError(f"class_weight names {', '.join(unknown)}, but the labels are {', '.join(model.labels)}")
    for label, weight in class_weight.items():
        if not weight >= 0:
            raise ValueError(f"class_weight of {label} is {weight}; expected 0 or more")
    return {i: class_weight.get(label, 1.0) for i, label in enumerate(model.labels)}
