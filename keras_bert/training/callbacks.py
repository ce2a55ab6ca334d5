"""What happens around the steps of training: measuring, keeping the best, writing state and logs, showing progress."""

from __future__ import annotations

import importlib.util
import math
import time
from typing import Any

import keras
import tensorflow as tf
from tqdm import tqdm

from keras_bert.training.evaluation import evaluate
from keras_bert.training.run import Run


class Validation(keras.callbacks.Callback):
    """After each epoch: measures the model, notes the result in the run's history, keeps the best weights, may stop.

    Args:
        run: the run.
        examples: `(x, y)` to measure with, or None.
        patience: see `fine_tune`.
    """

    def __init__(self, run: Run, examples: tuple[Any, Any] | None, patience: int | None) -> None:
        super().__init__()
        self._run = run
        self._examples = examples
        self._patience = patience

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        measures = {} if self._examples is None else evaluate(self.model, *self._examples)
        logs.update({**self._run.notes, **{f"val_{name}": value for name, value in measures.items()}})
        self._run.end_epoch(float(logs["loss"]), measures)
        if not measures:
            return
        chosen_by = next(iter(measures))
        values = [each[chosen_by] for each in self._run.history]
        best = values.index(max(values))
        if best == epoch:
            self._run.save_best()
        self._run.stopped = self._patience is not None and epoch - best >= self._patience


class Checkpoints(keras.callbacks.Callback):
    """Counts steps, and saves the run's state, so often and after every epoch. Ends a run whose loss is no number.

    Args:
        run: the run.
        seconds: how much work may be lost; None: nothing is saved.
    """

    def __init__(self, run: Run, seconds: float | None) -> None:
        super().__init__()
        self._run = run
        self._seconds = seconds
        self._saved_at = time.monotonic()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._run.restore_loss()  # which Keras has just set to zero, though this may be the middle of an epoch

    def on_train_batch_end(self, batch: int, logs: dict[str, float]) -> None:
        if not math.isfinite(logs["loss"]):
            raise ValueError(
                f"the loss is {logs['loss']} after batch {self._run.step + 1} of epoch {self._run.epoch + 1}, and no "
                "later one can mend that; train with a lower learning_rate, or a longer warmup, in a new directory"
            )
        self._run.step += 1
        if self._run.step == self._run.batches:
            return  # the epoch is not over before it is measured
        if self._seconds is None:
            return
        if self._run.is_time(time.monotonic() - self._saved_at >= self._seconds):
            self._save()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._seconds is not None:
            self._save()

    def _save(self) -> None:
        self._run.save()
        self._saved_at = time.monotonic()


class TensorBoard(keras.callbacks.Callback):
    """Writes the loss, the learning rate and the measures for TensorBoard, into `logs`. Needs `tensorboard`."""

    @staticmethod
    def is_possible(run: Run) -> bool:
        return run.is_chief and importlib.util.find_spec("tensorboard") is not None

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
    """A bar an epoch on standard error; when it ends, with its loss and its measures.

    Args:
        run: the run.
        epochs: how many there are.
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
