"""The training loop: a `fit` per epoch. A run can be interrupted between any two batches."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from tqdm import tqdm

from keras_bert.optimizers import AdamW, WarmupThenDecay
from keras_bert.recipe import Recipe
from keras_bert.tasks.task import BertTask
from keras_bert.tasks.training_step import fill_window
from keras_bert.training.interruption import Interrupted, signals_noticed
from keras_bert.training.run_files import Run


class Epoch(NamedTuple):
    """The training between two measurements.

    Attributes:
        batches: the number of batches.
        dataset: the index of a batch -> a dataset for `fit` of this batch and those after it.
        measure: returns the model's measures after the epoch, by name; `{}` without validation examples.
        ends_window: whether an update ends with the epoch, though fewer batches than `accumulate` are left for it.
        notes: further values for the epoch's entry in the history.
    """

    batches: int
    dataset: Callable[[int], tf.data.Dataset]
    measure: Callable[[], dict[str, float]]
    ends_window: bool = True
    notes: Mapping[str, float] = {}


def compile_model(
    model: BertTask,
    recipe: Recipe,
    updates: int,
    loss: Any = None,
    kind: type[AdamW] = AdamW,
    metrics: Any = list,
    **settings: Any,
) -> None:
    """Compiles a model with the optimizer of a recipe. The learning rate is 0 again at the end of the run.

    Args:
        updates: the number of updates of the run.
        loss: by default the model's `training_loss()`.
        kind: the class of the optimizer.
        metrics: returns the metrics of training.
        settings: further arguments of the optimizer.
    """
    accumulate = recipe.accumulate
    with model.distribute_strategy.scope():
        optimizer = kind(
            WarmupThenDecay(recipe.learning_rate, round(recipe.warmup * updates), updates),
            weight_decay=recipe.weight_decay,
            global_clipnorm=recipe.clip_norm,
            gradient_accumulation_steps=accumulate if accumulate > 1 else None,
            **settings,
        )
        model.compile(optimizer, loss or model.training_loss(), weighted_metrics=metrics(), jit_compile=False)
        model.build_optimizer()


def train_epochs(
    model: keras.Model,
    run: Run,
    epochs: Sequence[Epoch],
    callbacks: Sequence[keras.callbacks.Callback],
    progress: bool | None,
    checkpoint_seconds: float,
    keep_best: bool = False,
    patience: int | None = None,
    class_weight: dict[int, float] | None = None,
) -> None:
    """Trains a compiled model, resuming an interrupted run, and restores the best epoch at the end.

    Args:
        epochs: all epochs of the run. Each gets an entry in its history.
        callbacks, progress, checkpoint_seconds: see `fine_tune`.
        keep_best, patience: see `Measures`.
        class_weight: as for `fit`.

    Raises:
        BlockingIOError: another process trains in the directory.
        ValueError: the directory holds a run with other settings, or the loss is not finite.
        Interrupted: a KeyboardInterrupt. The first Ctrl-C or SIGTERM ends the run after the batch, with its state saved
            if it has a directory; the second one ends it at once.
    """
    with run.only_writer(), signals_noticed(run.directory is not None) as noticed:
        run.resume()
        # Keras calls the callbacks in this order, after each batch and after each epoch.
        around = [
            # First, as the others read the epoch from the history, and its measures from the logs.
            Measures(run, epochs, keep_best, patience),
            # Before the state is saved, so that a run resumed after this epoch does not log it again.
            *([TensorBoard(run)] if run.directory and run.is_chief and importlib.util.find_spec("tensorboard") else []),
            Checkpoints(run, checkpoint_seconds, noticed),
            ProgressBar(run, len(epochs), progress),
            # After the state is saved: if a callback raises, the batch is already counted.
            *callbacks,
            Interruption(run),
        ]
        while run.epoch < len(epochs) and not run.stopped:
            epoch = epochs[run.epoch]
            run.start_epoch(epoch.batches, **epoch.notes)
            keras.Model.fit(
                model,
                epoch.dataset(run.step),
                initial_epoch=run.epoch,
                epochs=run.epoch + 1,
                class_weight=class_weight,
                verbose=0,
                shuffle=False,  # the batches are shuffled already
                callbacks=around,
            )
        run.finish()


class Measures(keras.callbacks.Callback):
    """After each epoch, makes its last update, measures the model, and extends the run's history.

    It also keeps the best weights, and may stop the run.

    Args:
        run: the run.
        epochs: all epochs of the run.
        keep_best: whether to keep the weights of the best epoch, the one with the highest first measure.
        patience: the run stops after this many epochs without a better one.
    """

    def __init__(self, run: Run, epochs: Sequence[Epoch], keep_best: bool, patience: int | None) -> None:
        super().__init__()
        self._run = run
        self._epochs = epochs
        self._keep_best = keep_best
        self._patience = patience

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        if self._epochs[epoch].ends_window:
            fill_window(self.model)
        measures = self._epochs[epoch].measure()
        logs.update({**self._run.notes, **{f"val_{name}": value for name, value in measures.items()}})
        self._run.end_epoch(float(logs["loss"]), measures)
        if not measures or not self._keep_best:
            return
        chosen_by = next(iter(measures))
        values = [each[chosen_by] for each in self._run.history]
        best = values.index(max(values))
        if best == epoch:
            self._run.keep_best()
        self._run.stopped = self._patience is not None and epoch - best >= self._patience


class Checkpoints(keras.callbacks.Callback):
    """Counts steps, and saves the run's state regularly and after every epoch. Raises if the loss is not finite.

    Args:
        run: the run.
        seconds: the time between saves.
        noticed: returns the number of a signal after which the state is saved too, or 0.
    """

    def __init__(self, run: Run, seconds: float, noticed: Callable[[], int]) -> None:
        super().__init__()
        self._run = run
        self._seconds = seconds
        self._noticed = noticed
        self._saved_at = time.monotonic()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._run.restore_loss()  # Keras has just reset it, but a run may be resumed within an epoch

    def on_train_batch_end(self, batch: int, logs: dict[str, float]) -> None:
        if not math.isfinite(logs["loss"]):
            raise ValueError(
                f"the loss is {logs['loss']} after batch {self._run.step + 1} of epoch {self._run.epoch + 1}, and "
                "cannot recover; train with a lower learning_rate, or a longer warmup, in a new directory"
            )
        self._run.step += 1
        if self._run.step == self._run.batches:
            return  # `on_epoch_end` saves, after the measurement
        if self._run.directory is None:
            return
        due = time.monotonic() - self._saved_at >= self._seconds
        if self._run.is_time(due or self._noticed() > 0):
            self._save()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._save()

    def _save(self) -> None:
        self._run.signal = self._noticed()
        self._run.save()
        self._saved_at = time.monotonic()


class Interruption(keras.callbacks.Callback):
    """Ends a run that has been saved after a signal."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._run.signal:
            raise Interrupted(self._run.position(), self._run.signal)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.on_train_batch_end(0)


class TensorBoard(keras.callbacks.Callback):
    """Writes the loss, the learning rate and the measures for TensorBoard, into `logs`. Needs `tensorboard`."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._writer = tf.summary.create_file_writer(str(run.directory / "logs"))

    def on_train_batch_end(self, batch: int, logs: dict[str, float]) -> None:
        updates = int(self.model.optimizer.iterations.numpy())
        with self._writer.as_default(updates):
            tf.summary.scalar("loss", logs["loss"])
            tf.summary.scalar("learning_rate", self.model.optimizer.learning_rate)

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        with self._writer.as_default(int(self.model.optimizer.iterations.numpy())):
            for name, value in logs.items():
                if name != "loss":
                    tf.summary.scalar(name, value)
        self._writer.flush()


class ProgressBar(keras.callbacks.Callback):
    """A progress bar for each epoch, on standard error. At the end of the epoch it shows the loss and the measures.

    Args:
        run: the run.
        epochs: the number of epochs.
        progress: whether to show it; by default on a terminal.
    """

    def __init__(self, run: Run, epochs: int, progress: bool | None) -> None:
        super().__init__()
        self._run = run
        self._epochs = epochs
        self._disable = (None if progress is None else not progress) if run.is_chief else True

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._bar = tqdm(
            desc=f"epoch {epoch + 1} of {self._epochs}",
            total=self._run.batches,
            initial=self._run.step,
            unit=" batches",
            disable=self._disable,
        )

    def on_train_batch_end(self, batch: int, logs: dict[str, float]) -> None:
        self._bar.set_postfix_str(f"loss {logs['loss']:.4f}", refresh=False)
        self._bar.update()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        entry = self._run.history[-1]
        self._bar.set_postfix_str(", ".join(f"{name} {entry[name]:.4f}" for name in entry if name != "epoch"))
        self._bar.close()
