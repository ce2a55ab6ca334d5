"""The training loop: one call of Keras's `fit`, which can be interrupted and resumed between any two batches."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, Generic, TypeVar

import keras
import tensorflow as tf
from keras.callbacks import EarlyStopping, LambdaCallback, ModelCheckpoint, ReduceLROnPlateau

from keras_bert import undocumented
from keras_bert.answers import BASELINE
from keras_bert.optimizers import AdamW, WarmupThenDecay
from keras_bert.progress import progress_bar
from keras_bert.recipe import Recipe
from keras_bert.tasks.base.task import BertTask
from keras_bert.tasks.steps.replicas import build_optimizer
from keras_bert.tasks.steps.training_step import flush_of_accumulation
from keras_bert.tensors import Tensor
from keras_bert.training.distribution import true_in_any_process
from keras_bert.training.run import Position, Run

Model = TypeVar("Model", bound=BertTask)

_LOWER_IS_BETTER = ("loss", "mae", "rmse", "perplexity")  # of measures; others are the better, the higher


def compile_model(
    model: BertTask,
    recipe: Recipe,
    updates: int,
    loss: keras.losses.Loss | None = None,
    kind: type[AdamW] = AdamW,
    metrics: Callable[[], list | dict[str, list]] = list,
    **settings: Any,
) -> None:
    """Compiles a model with the optimizer of a recipe, whose learning rate decays to 0 after these updates."""
    accumulate = recipe.accumulate
    with model.distribute_strategy.scope():
        optimizer = kind(
            # The last update is never in the warmup: a single one would have the rate 0.
            WarmupThenDecay(recipe.learning_rate, min(round(recipe.warmup * updates), max(updates - 1, 0)), updates),
            weight_decay=recipe.weight_decay,
            global_clipnorm=recipe.clip_norm,
            gradient_accumulation_steps=accumulate if accumulate > 1 else None,
            **settings,
        )
        model.compile(optimizer, loss or model.training_loss(), weighted_metrics=metrics(), jit_compile=False)
        build_optimizer(model)


class Training(Generic[Model]):
    """A training, read in `to_the_end`; a subclass knows what it learns from. An epoch ends with a measurement."""

    batches: list[int]  # the number of batches of each epoch
    ends_accumulation: list[bool]  # of each epoch: whether its last batches make an update even if they are too few
    has_validation: bool  # whether there are examples to measure with
    keeps_best = False  # whether the model ends with the weights of the epoch of the best measure
    patience: int | None = None  # with `keeps_best`, the number of epochs without a better one that end the training

    def __init__(
        self,
        model: Model,
        run: Run,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        progress: bool | None = None,
        checkpoint_seconds: float = 60,
    ) -> None:
        self.model, self.run = model, run
        self.callbacks = keras.tree.flatten(callbacks or [])  # as `fit` takes them: also a single one
        self.progress, self.checkpoint_seconds = progress, checkpoint_seconds

    def to_the_end(self) -> list[dict[str, float]]:
        """Trains the model, or goes on with an interrupted run. Returns the history."""
        self.prepare()
        with self.changed_step():
            self.compile()
            self.start()
            self.run_epochs()
        self.finish()
        return self.run.history

    def prepare(self) -> None:
        """Checks what the model learns from, and plans the batches."""
        raise NotImplementedError

    def changed_step(self) -> contextlib.AbstractContextManager[None]:
        """Makes a context in which a step of the model is one of this training."""
        raise NotImplementedError

    def compile(self) -> None:
        """Compiles the model with the optimizer and the loss."""
        raise NotImplementedError

    def start(self) -> None:
        """Starts the run, with the settings that a resumed run must have again."""
        raise NotImplementedError

    def run_epochs(self) -> None:
        """Trains a compiled model in one call of `fit`, or goes on; `keeps_best` restores the best epoch."""
        run = self.run
        _check_monitored(self.callbacks, self.has_validation)
        with run.only_writer(), first_signal_deferred(run.directory is not None) as first_signal:
            run.resume()
            if run.measures is not None:
                return
            first = EpochLoop(self, first_signal)
            last = LambdaCallback(on_train_batch_end=first.stop_after_batch, on_epoch_end=first.stop_after_epoch)
            if run.epoch < len(self.batches) and not run.stopped:
                keras.Model.fit(
                    self.model,
                    undocumented.epoch_datasets(self.model, lambda: self.dataset(run.epoch, run.step)),
                    initial_epoch=run.epoch,
                    epochs=len(self.batches),
                    verbose=0,
                    shuffle=False,  # the batches are shuffled already
                    callbacks=[first, *self.callbacks, last],
                )
            run.finish()

    def dataset(self, epoch: int, start: int) -> tf.data.Dataset:
        """Makes a dataset of the batches of an epoch from `start` on."""
        raise NotImplementedError

    def measure(self, epoch: int, progress: bool | None) -> dict[str, float]:
        """Computes the measures of the model after an epoch; {} without examples to measure with."""
        raise NotImplementedError

    def finish(self) -> None:
        """Leaves the trained model as a user expects it."""


class EpochLoop(keras.callbacks.Callback):
    """Notes the batches and the measures of `fit` in a run, and saves its state."""

    # Keras calls the callbacks in this order, after each batch and after each epoch: this one; the user's; then
    # `stop_after_batch` and `stop_after_epoch`. If a user's callback raises an error, the batch is already counted, and
    # the state saved if that was due.

    def __init__(self, training: Training, first_signal: Callable[[], int]) -> None:
        super().__init__()
        self.training, self.run, self.task = training, training.run, training.model
        self.first_signal = first_signal  # returns the number of the first signal, or 0
        self.log = TensorBoardLog(self.task, self.run)
        self.flush = flush_of_accumulation(self.task)
        self.saved_at, self.saved_rate = time.monotonic(), 0.0  # the time and the learning rate at the last save
        self.noticed = 0  # the number of the signal noticed then
        self.progress = training.progress if self.run.is_chief else False
        self.bar = progress_bar(0, "batches", False)  # of the epoch

    def save(self) -> None:
        """Saves the state of the run."""
        self.noticed = self.first_signal()
        self.run.save()
        self.saved_at, self.saved_rate = time.monotonic(), float(self.task.optimizer.learning_rate)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        run = self.run
        run.batches = self.training.batches[epoch]
        assert self.params is not None  # `fit` has set them
        self.params["steps"] = run.batches - run.step  # all callbacks share the dict
        run.restore_loss()  # Keras has just reset the loss, but a run may be resumed within an epoch
        name = f"epoch {epoch + 1} of {len(self.training.batches)}"
        self.bar = progress_bar(run.batches, "batches", self.progress, run.step, desc=name, delay=0)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        run, loss = self.run, logs["loss"]
        self.log.end_batch(loss)
        if not math.isfinite(loss):
            raise ValueError(
                f"the loss is {loss} after batch {run.step + 1} of epoch {run.epoch + 1}, and cannot "
                "recover; train with a lower learning_rate, or a longer warmup, in a new directory"
            )
        run.step += 1
        # After the last batch, `on_epoch_end` measures the model and then saves. The clocks of processes differ, but
        # `save` needs all of them at once.
        is_due = self.first_signal() > 0 or time.monotonic() - self.saved_at >= self.training.checkpoint_seconds
        can_save = run.directory is not None and run.step < run.batches
        if can_save and true_in_any_process(self.task.distribute_strategy, is_due):
            self.save()
        self.bar.set_postfix_str(f"loss {loss:.4f}", refresh=False)
        self.bar.update()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.task.stop_training = self.run.stopped
        if self.training.ends_accumulation[epoch]:
            self.flush()
        measures = self.training.measure(epoch, self.progress)
        logs.update({f"val_{name}": float(value) for name, value in measures.items()})
        self.run.end_epoch(logs)
        if measures and self.training.keeps_best:
            self.keep_best(epoch)
        # Logs before the state is saved, so that a run resumed after this epoch does not log it again.
        self.log.end_epoch(logs)
        self.save()
        self.bar.set_postfix_str(describe_logs(logs), refresh=False)
        self.bar.close()
        self.run.log_epoch(describe_logs(logs))

    def keep_best(self, epoch: int) -> None:
        """Keeps the weights of the best epoch so far, and stops the run if that was too long ago."""
        run, patience = self.run, self.training.patience
        if run.best_epoch == epoch:
            run.keep_best()
        run.stopped |= patience is not None and epoch - run.best_epoch >= patience

    # -- After the user's callbacks, which may have set `stop_training`.

    def stop_after_batch(self, batch: int, logs: Mapping[str, float]) -> None:
        self._end_if_signalled()
        self.run.stopped = self.task.stop_training
        # Keras counts the batches of the first epoch only, and ends another one early only so; see `on_epoch_end`.
        self.task.stop_training = self.run.stopped or self.run.step == self.run.batches

    def stop_after_epoch(self, epoch: int, logs: Mapping[str, float]) -> None:
        run, rate = self.run, float(self.task.optimizer.learning_rate)
        is_stopped = self.task.stop_training or run.stopped
        if (is_stopped, rate) != (run.stopped, self.saved_rate):  # the callbacks did
            run.stopped = is_stopped
            self.save()
        self.task.stop_training = is_stopped
        self._end_if_signalled()

    def _end_if_signalled(self) -> None:
        if self.noticed:
            raise Interrupted(self.run.position, self.noticed, self.run.place)


def monitors_loss(callbacks: Sequence[keras.callbacks.Callback]) -> bool:
    """Checks whether a callback, of Keras or Optuna, monitors `val_loss`, which is computed for it alone."""
    return any(getattr(each, name, None) == "val_loss" for each in callbacks for name in ("monitor", "_monitor"))


def _check_monitored(callbacks: Sequence[keras.callbacks.Callback], has_validation: bool) -> None:
    """Raises ValueError if a callback monitors what is not measured; sets the `mode` that Keras could not guess."""
    for each in callbacks:
        if not isinstance(each, EarlyStopping | ReduceLROnPlateau | ModelCheckpoint):
            continue
        if not getattr(each, "save_best_only", True):  # a `ModelCheckpoint` that monitors nothing
            continue
        if each.monitor.startswith("val_") and not has_validation:
            raise ValueError(
                f"{type(each).__name__} monitors {each.monitor}, which needs validation examples; pass some, or "
                "monitor loss"
            )
        if each.mode == "auto":
            each.mode = "min" if each.monitor.endswith(_LOWER_IS_BETTER) else "max"


def describe_logs(logs: Mapping[str, float]) -> str:
    """Lists an epoch's metrics: those on the validation examples, and those in training that have no such other."""
    names = [name for name in logs if f"val_{name}" not in logs and not name.endswith(BASELINE)]
    return ", ".join(f"{name} {logs[name]:.4f}" for name in names)


class TensorBoardLog:
    """Scalars for TensorBoard, in the run's `logs`. Writes nothing without a directory, or without `tensorboard`."""

    def __init__(self, model: keras.Model, run: Run) -> None:
        self._writer = None
        if run.directory and run.is_chief and importlib.util.find_spec("tensorboard"):
            with _os_errors():
                self._writer = tf.summary.create_file_writer(str(run.directory / "logs"))
        self._model = model

    def end_batch(self, loss: float) -> None:
        if self._writer is not None:
            self._write({"loss": loss, "learning_rate": self._model.optimizer.learning_rate})

    def end_epoch(self, logs: Mapping[str, float]) -> None:
        if self._writer is not None:
            self._write({name: value for name, value in logs.items() if name != "loss"})
            with _os_errors():
                self._writer.flush()

    def _write(self, values: Mapping[str, float | Tensor]) -> None:
        """Writes values; their step is the number of updates so far."""
        assert self._writer is not None  # the callers have checked it
        with _os_errors(), self._writer.as_default(int(self._model.optimizer.iterations.numpy())):
            for name, value in values.items():
                tf.summary.scalar(name, value)


@contextlib.contextmanager
def _os_errors() -> Iterator[None]:
    """Turns TensorFlow's error about a file, in this block, into an OSError of one line."""
    try:
        yield
    except tf.errors.OpError as error:  # "{{...}} /path/of/events; No space left on device [Op:...]", and more lines
        path, _, reason = error.message.splitlines()[0].rpartition("}} ")[2].partition("; ")
        reason = f"{reason.partition(' [')[0]}; the logs for TensorBoard cannot be written"
        raise OSError(errno.EIO, reason, path) from None


# -- Ends a run at a signal, between two batches, after its state is saved.


class Interrupted(KeyboardInterrupt):
    """A run was ended by the signal `number`, after its state was saved; `place` is its position in words."""

    def __init__(self, position: Position, number: int, place: str) -> None:
        super().__init__(position, number, place)
        self.position, self.number, self.place = position, number, place


@contextlib.contextmanager
def first_signal_deferred(enabled: bool) -> Iterator[Callable[[], int]]:
    """Notes the first SIGINT or SIGTERM, and yields what returns its number, or 0; the next has its usual effect.

    A signal that nobody has acted on has its usual effect at the end.
    """
    first_signal = [0]
    old_handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)

    def defer(number: int, frame: FrameType | None) -> None:
        first_signal[0] = number
        restore()

    if not enabled or threading.current_thread() is not threading.main_thread():
        yield lambda: 0
        return
    for number, handler in old_handlers.items():
        if handler is not signal.SIG_IGN and handler is not None:
            signal.signal(number, defer)
    try:
        yield lambda: first_signal[0]
    finally:
        restore()
    if first_signal[0]:
        signal.raise_signal(first_signal[0])
