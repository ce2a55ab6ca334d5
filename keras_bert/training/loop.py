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
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras.callbacks import EarlyStopping, LambdaCallback, ModelCheckpoint, ReduceLROnPlateau

from keras_bert import undocumented
from keras_bert.optimizers import AdamW, WarmupThenDecay
from keras_bert.progress import progress_bar
from keras_bert.recipe import Recipe
from keras_bert.tasks.base.task import BertTask
from keras_bert.tasks.kinds import BASELINE
from keras_bert.tasks.replicas import build_optimizer
from keras_bert.tasks.training_step import flush_accumulation
from keras_bert.tensors import Tensor
from keras_bert.training.distribution import true_in_any_process
from keras_bert.training.run import Position, Run

_LOWER_IS_BETTER = ("loss", "mae", "rmse", "perplexity")  # of measures; others are the better, the higher


class Epoch(NamedTuple):
    """The training between two measurements."""

    batches: int  # their number
    dataset: Callable[[int], tf.data.Dataset]  # maps the index of a batch to a dataset that starts with it
    measure: Callable[[bool | None], dict[str, float]]  # computes the measures, with `progress`; {} without examples
    ends_accumulation: bool = True  # whether the last batches make an update even if they are fewer than `accumulate`


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


def train_epochs(
    model: BertTask,
    run: Run,
    epochs: Sequence[Epoch],
    callbacks: Sequence[keras.callbacks.Callback],
    progress: bool | None,
    checkpoint_seconds: float,
    has_validation: bool,
    keep_best: bool = False,
    patience: int | None = None,
) -> None:
    """Trains a compiled model in one call of `fit`, or goes on; `keep_best` restores the epoch of the best measure."""
    callbacks = keras.tree.flatten(callbacks or [])  # as `fit` takes them: also a single one
    strategy = model.distribute_strategy
    _check_monitored(callbacks, has_validation)
    with run.only_writer(), first_signal_deferred(run.directory is not None) as first_signal:
        run.resume()
        if run.measures is not None:
            return
        log, saved_at = TensorBoardLog(model, run), time.monotonic()
        rate, noticed = 0.0, 0  # the learning rate, and the number of the signal noticed, at the last save
        progress = progress if run.is_chief else False
        bar = progress_bar(0, "batches", False)  # of the epoch

        def save() -> None:
            nonlocal saved_at, rate, noticed
            noticed = first_signal()
            run.save()
            saved_at, rate = time.monotonic(), float(model.optimizer.learning_rate)

        def begin_epoch(epoch: int, logs: Mapping[str, float]) -> None:
            nonlocal bar
            run.batches = epochs[epoch].batches
            assert first.params is not None  # `fit` has set them
            first.params["steps"] = run.batches - run.step  # all callbacks share the dict
            run.restore_loss()  # Keras has just reset the loss, but a run may be resumed within an epoch
            name = f"epoch {epoch + 1} of {len(epochs)}"
            bar = progress_bar(run.batches, "batches", progress, run.step, desc=name, delay=0)

        def end_batch(batch: int, logs: dict[str, float]) -> None:
            log.end_batch(logs["loss"])
            if not math.isfinite(logs["loss"]):
                raise ValueError(
                    f"the loss is {logs['loss']} after batch {run.step + 1} of epoch {run.epoch + 1}, and cannot "
                    "recover; train with a lower learning_rate, or a longer warmup, in a new directory"
                )
            run.step += 1
            # After the last batch, `end_epoch` measures the model and then saves. The clocks of processes differ, but
            # `save` needs all of them at once.
            is_due = first_signal() > 0 or time.monotonic() - saved_at >= checkpoint_seconds
            if run.directory is not None and run.step < run.batches and true_in_any_process(strategy, is_due):
                save()
            bar.set_postfix_str(f"loss {logs['loss']:.4f}", refresh=False)
            bar.update()

        def end_epoch(epoch: int, logs: dict[str, float]) -> None:
            model.stop_training = run.stopped
            if epochs[epoch].ends_accumulation:
                flush_accumulation(model)
            measures = epochs[epoch].measure(progress)
            logs.update({f"val_{name}": float(value) for name, value in measures.items()})
            run.end_epoch(logs)
            if measures and keep_best:
                if run.best_epoch == epoch:
                    run.keep_best()
                run.stopped |= patience is not None and epoch - run.best_epoch >= patience
            # Logs before the state is saved, so that a run resumed after this epoch does not log it again.
            log.end_epoch(logs)
            save()
            bar.set_postfix_str(describe_logs(logs), refresh=False)
            bar.close()
            run.log_epoch(describe_logs(logs))

        # After the user's callbacks, which may have set `stop_training`.

        def end_if_signalled() -> None:
            if noticed:
                raise Interrupted(run.position, noticed, run.place)

        def stop_after_batch(batch: int, logs: Mapping[str, float]) -> None:
            end_if_signalled()
            run.stopped = model.stop_training
            # Keras counts the batches of the first epoch only, and ends another one early only so; see `end_epoch`.
            model.stop_training = run.stopped or run.step == run.batches

        def stop_after_epoch(epoch: int, logs: Mapping[str, float]) -> None:
            is_stopped = model.stop_training or run.stopped
            if (is_stopped, float(model.optimizer.learning_rate)) != (run.stopped, rate):  # the callbacks did
                run.stopped = is_stopped
                save()
            model.stop_training = is_stopped
            end_if_signalled()

        # Keras calls the callbacks in this order, after each batch and after each epoch. If a user's callback raises an
        # error, the batch is already counted, and the state saved if that was due.
        first = LambdaCallback(on_epoch_begin=begin_epoch, on_train_batch_end=end_batch, on_epoch_end=end_epoch)
        last = LambdaCallback(on_train_batch_end=stop_after_batch, on_epoch_end=stop_after_epoch)
        if run.epoch < len(epochs) and not run.stopped:
            keras.Model.fit(
                model,
                undocumented.epoch_datasets(model, lambda: epochs[run.epoch].dataset(run.step)),
                initial_epoch=run.epoch,
                epochs=len(epochs),
                verbose=0,
                shuffle=False,  # the batches are shuffled already
                callbacks=[first, *callbacks, last],
            )
        run.finish()


def monitors_loss(callbacks: Sequence[keras.callbacks.Callback]) -> bool:
    """Checks whether a callback, of Keras or Optuna, monitors `val_loss`, which is computed for it alone."""
    names = ("monitor", "_monitor")
    flat = keras.tree.flatten(callbacks or [])
    return any(getattr(each, name, None) == "val_loss" for each in flat for name in names)


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
    """Notes the first SIGINT or SIGTERM, and yields what returns its number, or 0; the next has its usual effect."""
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
