"""GradCache: training steps on large batches of texts, with the memory of small ones.

A loss that compares all rows of a batch needs the vectors of all rows, but not all hidden states at once. The steps are
those of Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", section 3.2:

    1. compute the vectors of all rows, one mini-batch at a time, without storing activations
    2. compute the loss, and its gradients with respect to the vectors: the cache
    3. compute each mini-batch again, backpropagate the cache to the weights, and sum the gradients

Both passes draw the same dropout. The gradients equal those of the whole batch at once; the price is that every text is
encoded twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import keras
import tensorflow as tf

from keras_bert import undocumented
from keras_bert.tasks.steps.training_step import Forward, ForwardPass, loss_terms
from keras_bert.tensors import Tensor

if TYPE_CHECKING:
    from keras_bert.tasks.base.columns import Inputs
    from keras_bert.tasks.base.task import BertTask

_MAX_DRAWS = 4096  # the most random draws of a mini-batch: a few for each layer


class Column(NamedTuple):
    """A column of texts."""

    packed: dict[str, tf.Tensor]  # int32 [batch, seq_length] or [batch, windows, seq_length] each
    vectors: Callable[[dict[str, tf.Tensor]], tf.Tensor]  # maps packed inputs to float32 [batch, *shape] in training
    shape: tuple[int | None, ...]  # of a text: (size,), or (tokens, size)
    least_length: int = 0  # of a row, padding included


def check(model: BertTask, size: int) -> None:
    """Raises ValueError if a model cannot be trained by mini-batches of this size."""
    if size < 1:
        raise ValueError(f"mini_batch_size is {size}; expected 1 or more")
    if not model.COMPARES_TEXTS:
        raise ValueError(
            f"mini_batch_size is for sentence vectors, not for a {type(model).__name__}; with accumulate, several "
            "small batches make a large one"
        )


def by_mini_batches(size: int) -> Forward:
    """Makes a step on whole batches of texts that encodes only `size` texts at a time, for `BertTask.training_with`."""

    def forward(
        model: BertTask, tape: tf.GradientTape, x: Inputs, y: Tensor, sample_weight: Tensor | None
    ) -> ForwardPass:
        with tape.stop_recording():
            passes = _Passes(model, model.text_columns(x, training=True), size)
            vectors = passes.vectors()  # [batch, columns, *shape]
        tape.watch(vectors)
        return ForwardPass(loss_terms(model, x, y, vectors, sample_weight), vectors, passes.gradients)

    return forward


class _Passes:
    """The two passes over the mini-batches of a step."""

    def __init__(self, model: keras.Model, columns: list[Column], mini_batch_size: int) -> None:
        self._weights = model.trainable_variables
        self._seeds = undocumented.seed_states(model)
        self._initial_seeds = [tf.identity(each) for each in self._seeds]
        self._columns = columns
        self._batches = [_ColumnBatches(each.packed, mini_batch_size, each.least_length) for each in columns]

    def vectors(self) -> tf.Tensor:
        """Computes the vectors of all texts, float32 `[batch, columns, *shape]`: the first pass."""
        vectors, first_batch = [], 0
        for column, batches in zip(self._columns, self._batches, strict=True):
            # One column after the other, so that only one mini-batch is in memory.
            with tf.control_dependencies(vectors[-1:]):
                vectors.append(self._encode_column(column, batches, first_batch))
            first_batch += batches.count
        for seed, first in zip(self._seeds, self._initial_seeds, strict=True):
            seed.assign(_seed_at(first, first_batch))
        return tf.stack(vectors, axis=1)

    def _encode_column(self, column: Column, batches: _ColumnBatches, first_batch: int | tf.Tensor) -> tf.Tensor:
        def step(number: tf.Tensor, vectors: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
            with self._seed_scope(first_batch + number):
                return number + 1, vectors.write(number, column.vectors(batches.inputs(number)))

        vectors = tf.TensorArray(tf.float32, batches.count, infer_shape=False, element_shape=[None, *column.shape])
        _, vectors = tf.while_loop(lambda number, _: number < batches.count, step, [0, vectors], parallel_iterations=1)
        return batches.restore_order(vectors.concat())

    def gradients(self, cache: tf.Tensor) -> list[tf.Tensor | None]:
        """Computes the gradients of the weights from those of the vectors: the second pass."""
        sums, first_batch = [tf.zeros(each.shape, each.dtype) for each in self._weights], 0
        connected = [False] * len(sums)
        for index, (column, batches) in enumerate(zip(self._columns, self._batches, strict=True)):
            sums = self._add_gradients(sums, connected, column, batches, cache[:, index], first_batch)
            first_batch += batches.count
        return [each if is_connected else None for each, is_connected in zip(sums, connected, strict=True)]

    def _add_gradients(
        self,
        sums: list[tf.Tensor],
        connected: list[bool],
        column: Column,
        batches: _ColumnBatches,
        cache: tf.Tensor,
        first_batch: int | tf.Tensor,
    ) -> list[tf.Tensor]:
        def step(number: tf.Tensor, *sums: tf.Tensor) -> tuple[tf.Tensor, ...]:
            with self._seed_scope(first_batch + number), tf.GradientTape() as tape:
                vectors = column.vectors(batches.inputs(number))
            gradients = tape.gradient(vectors, self._weights, tf.gather(cache, batches.rows(number)))
            connected[:] = [
                was_connected or each is not None for was_connected, each in zip(connected, gradients, strict=True)
            ]
            return number + 1, *(
                total if each is None else total + tf.convert_to_tensor(each)
                for total, each in zip(sums, gradients, strict=True)
            )

        _, *sums = tf.while_loop(lambda number, *_: number < batches.count, step, [0, *sums], parallel_iterations=1)
        return sums

    def _seed_scope(self, batch: tf.Tensor) -> keras.StatelessScope:
        """Makes a scope in which a mini-batch draws the same dropout in both passes."""
        seeds = zip(self._seeds, self._initial_seeds, strict=True)
        return keras.StatelessScope([(seed, _seed_at(first, batch)) for seed, first in seeds])


def _seed_at(initial_seed: tf.Tensor, batch: int | tf.Tensor) -> tf.Tensor:
    """Computes the state of a `SeedGenerator` at the start of a mini-batch."""
    return undocumented.seed_after(initial_seed, batch * _MAX_DRAWS)


class _ColumnBatches:
    """The mini-batches of a column: rows of similar length, longest first, each padded to its own longest row."""

    def __init__(self, packed: dict[str, tf.Tensor], mini_batch_size: int, least_length: int) -> None:
        self._packed, self._size, self._least_length = packed, mini_batch_size, least_length
        mask = packed["input_mask"]
        positions = mask * tf.range(1, tf.shape(mask)[-1] + 1, dtype=mask.dtype)
        self._lengths = tf.reduce_max(positions, axis=list(range(1, len(mask.shape))))
        self._order = tf.argsort(self._lengths, direction="DESCENDING", stable=True)
        self.count = -(-tf.size(self._order) // mini_batch_size)

    def rows(self, number: tf.Tensor) -> tf.Tensor:
        """Selects the row numbers of a mini-batch, int32 `[rows]`."""
        return self._order[number * self._size : (number + 1) * self._size]

    def inputs(self, number: tf.Tensor) -> dict[str, tf.Tensor]:
        """Gathers the packed inputs of a mini-batch, int32 `[rows, longest]`, or `[rows, windows, longest]`."""
        rows = self.rows(number)
        longest = tf.maximum(tf.reduce_max(tf.gather(self._lengths, rows)), self._least_length)
        return {name: tf.gather(each, rows)[..., :longest] for name, each in self._packed.items()}

    def restore_order(self, values: tf.Tensor) -> tf.Tensor:
        """Reorders values from the order of the mini-batches to the order of the batch."""
        return tf.gather(values, tf.argsort(self._order))
