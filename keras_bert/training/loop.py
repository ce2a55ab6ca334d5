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
    keeps_best = False  # whether the model ends with the weights of the epoch of the best measure
    patience: int | None = None  # with `keeps_best`, the number of epochs without a better one that end the training

    def __init__(
        self,
        model: Model,
        run: Run,
        has_validation: bool,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        progress: bool | None = None,
        checkpoint_seconds: float = 60,
    ) -> None:
        self.model, self.run, self.has_validation = model, run, has_validation
        self.callbacks = keras.tree.flatten(callbacks or [])  # as `fit` takes them: also a single one
        self.progress, self.checkpoint_seconds = progress, checkpoint_seconds

    def to_the_end(self) -> list[dict[str, float]]:
        """Trains the model, or goes on with an interrupted run. Returns the history."""
        _check_monitored(self.callbacks, self.has_validation)
        self.prepare()
        with self.changed_step():
            self.compile()
            self.initialize_head()
            with self.run.opened(self.model, self.settings(), self.further_variables()):
                if self.run.measures is None:
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

    def initialize_head(self) -> None:
        """Initializes a new head, once, before a resumed run replaces it by the saved one."""

    def settings(self) -> dict[str, Any]:
        """Lists the settings that a resumed run must have again."""
        raise NotImplementedError

    def further_variables(self) -> Sequence[keras.Variable]:
        """Lists what the state of an unfinished run holds besides the variables of the model and the optimizer."""
        return ()

    def run_epochs(self) -> None:
        """Trains a compiled model in one call of `fit`, or goes on; `keeps_best` restores the best epoch."""
        run = self.run
        with signals_deferred(run.directory is not None) as signals:
            if run.epoch < len(self.batches) and not run.stopped:
                loop = EpochLoop(self, signals)
                keras.Model.fit(
                    self.model,
                    undocumented.epoch_datasets(self.model, lambda: self.dataset(run.epoch, run.step)),
                    initial_epoch=run.epoch,
                    epochs=len(self.batches),
                    verbose=0,
                    shuffle=False,  # the batches are shuffled already
                    callbacks=[loop, *self.callbacks, loop.after_callbacks],
                )
            run.finish()
        if signals:
            raise Interrupted(run.position, signals[0], run.place)

    def dataset(self, epoch: int, start: int) -> tf.data.Dataset:
        """Makes a dataset of the batches of an epoch from `start` on."""
        raise NotImplementedError

    def ends_accumulation(self, epoch: int) -> bool:
        """Whether the last batches of an epoch make an update even if they are too few for one."""
        return True

    def measure(self, epoch: int, progress: bool | None) -> dict[str, float]:
        """Computes the measures of the model after an epoch; {} without examples to measure with."""
        raise NotImplementedError

    def finish(self) -> None:
        """Leaves the trained model as a user expects it."""


class EpochLoop(keras.callbacks.Callback):
    """Notes the batches and the measures of `fit` in a run, and saves its state."""

    # Keras calls, after each batch and after each epoch: this callback; the user's; then `after_callbacks`. If a user's
    # callback raises an error, the batch is already counted, and the state saved if that was due.

    def __init__(self, training: Training, signals: Sequence[int]) -> None:
        super().__init__()
        self.training, self.run, self.task = training, training.run, training.model
        self.signals = signals  # the number of the first signal, once it has come
        self.log = TensorBoardLog(self.task, self.run)
        self.flush = flush_of_accumulation(self.task)
        self.saved_at, self.saved_rate = time.monotonic(), 0.0  # the time and the learning rate at the last save
        self.is_signalled = False  # whether there was a signal by then
        self.progress = training.progress if self.run.is_chief else False
        self.after_callbacks = LambdaCallback(on_train_batch_end=self.after_batch, on_epoch_end=self.after_epoch)

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
        is_due = bool(self.signals) or time.monotonic() - self.saved_at >= self.training.checkpoint_seconds
        can_save = run.directory is not None and run.step < run.batches
        if can_save and true_in_any_process(self.task.distribute_strategy, is_due):
            self.save()
        self.bar.set_postfix_str(f"loss {loss:.4f}", refresh=False)
        self.bar.update()

    def after_batch(self, batch: int, logs: Mapping[str, float]) -> None:
        """Ends the run at a signal or as the user's callbacks say, and the epoch after its last batch."""
        self.end_if_signalled()
        self.run.stopped = self.task.stop_training
        # Keras does not know the number of batches, see `epoch_datasets`: `stop_training` also ends the epoch.
        self.task.stop_training |= self.run.step == self.run.batches

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        run, training = self.run, self.training
        self.task.stop_training = run.stopped  # again: the epoch has ended, maybe not the training
        if training.ends_accumulation(epoch):
            self.flush()
        measures = training.measure(epoch, self.progress)
        logs.update({f"val_{name}": float(value) for name, value in measures.items()})
        run.add_epoch(logs)
        if measures and training.keeps_best:
            if run.best_epoch == epoch:
                run.keep_best()
            elif training.patience is not None and epoch - run.best_epoch >= training.patience:
                run.stopped = self.task.stop_training = True
        # Logs before the state is saved, so that a run resumed after this epoch does not log it again.
        self.log.end_epoch(logs)
        self.save()
        self.bar.set_postfix_str(describe_logs(logs), refresh=False)
        self.bar.close()
        run.log_epoch(describe_logs(logs))

    def after_epoch(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Saves what the user's callbacks have changed, and ends the run at a signal."""
        is_stopped, rate = self.task.stop_training, float(self.task.optimizer.learning_rate)
        if (is_stopped, rate) != (self.run.stopped, self.saved_rate):
            self.run.stopped = is_stopped
            self.save()
        self.end_if_signalled()

    def save(self) -> None:
        """Saves the state of the run."""
        self.is_signalled = bool(self.signals)
        self.run.save()
        self.saved_at, self.saved_rate = time.monotonic(), float(self.task.optimizer.learning_rate)

    def end_if_signalled(self) -> None:
        """Ends the run if there was a signal before its state was saved."""
        if self.is_signalled:
            raise Interrupted(self.run.position, self.signals[0], self.run.place)


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
        self._model, self._writer = model, None
        if run.directory and run.is_chief and importlib.util.find_spec("tensorboard"):
            with _os_errors():
                self._writer = tf.summary.create_file_writer(str(run.directory / "logs"))

    def end_batch(self, loss: float) -> None:
        if self._writer is not None:
            self._write(self._writer, {"loss": loss, "learning_rate": self._model.optimizer.learning_rate})

    def end_epoch(self, logs: Mapping[str, float]) -> None:
        if self._writer is not None:
            self._write(self._writer, {name: value for name, value in logs.items() if name != "loss"})
            with _os_errors():
                self._writer.flush()

    def _write(self, writer: tf.summary.SummaryWriter, values: Mapping[str, float | Tensor]) -> None:
        """Writes values; their step is the number of updates so far."""
        with _os_errors(), writer.as_default(int(self._model.optimizer.iterations.numpy())):
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


# -- Ends a run at a signal, between two batches or at its end, after its state is saved.


class Interrupted(KeyboardInterrupt):
    """A run was ended by the signal `number`, after its state was saved; `place` is its position in words."""

    def __init__(self, position: Position, number: int, place: str) -> None:
        super().__init__(position, number, place)
        self.position, self.number, self.place = position, number, place


@contextlib.contextmanager
def signals_deferred(enabled: bool) -> Iterator[list[int]]:
    """Yields a list, which gets the number of the first SIGINT or SIGTERM; the next has its usual effect."""
    first: list[int] = []
    is_possible = enabled and threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM) if is_possible}
    handlers = {number: each for number, each in handlers.items() if each not in (signal.SIG_IGN, None)}

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def defer(number: int, frame: FrameType | None) -> None:
        first.append(number)
        restore()

    for number in handlers:
        signal.signal(number, defer)
    try:
        yield first
    finally:
        restore()
