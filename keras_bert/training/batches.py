"""Makes batches of examples of similar length, in another order every epoch, and holds out validation examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from keras_bert.tasks.steps.training_step import AccumulatedBatch, shares_of_update
from keras_bert.training.distribution import DATA_OPTIONS

if TYPE_CHECKING:
    from keras_bert.answers.columns import Labels, Texts
    from keras_bert.tasks.base.columns import Inputs
    from keras_bert.tasks.base.task import BertTask, TokenizedExamples
    from keras_bert.tensors import Tensor

# Rows are sorted by length within groups of this many batches. The lengths in a batch are then almost equal, and the
# order of an epoch is still random.
_BATCHES_PER_GROUP = 50

Labelled: TypeAlias = "tuple[Texts, Labels | None]"  # examples and their labels, as `checked_examples` returns them
# int64 [batch], row numbers -> a batch for `fit`, maybe with sample weights
Pack: TypeAlias = "Callable[[tf.Tensor], tuple[Inputs, Tensor] | tuple[Inputs, Tensor, Tensor]]"


def batches_of_epoch(
    lengths: np.ndarray, seed: int, epoch: int, batch_size: int | None = None, batch_tokens: int | None = None
) -> list[np.ndarray]:
    """Divides examples of these lengths, in tokens, into batches of one of the two sizes: the row numbers of each."""
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))
    tokens = batch_tokens or 0
    rows_per_batch = batch_size or max(1, int(tokens / np.mean(lengths)))
    rows_per_group = rows_per_batch * _BATCHES_PER_GROUP
    batches = []
    for start in range(0, len(order), rows_per_group):
        rows = order[start : start + rows_per_group]
        rows = rows[np.argsort(-lengths[rows], kind="stable")]
        while len(rows):
            count = batch_size or max(1, tokens // int(lengths[rows[0]]))  # a longer row is a batch of its own
            batches.append(rows[:count])
            rows = rows[count:]
    return [batches[i] for i in generator.permutation(len(batches))]


def make_pack(model: BertTask, examples: TokenizedExamples, class_weights: np.ndarray | None = None) -> Pack:
    """Makes a function from row numbers, int64 `[batch]`, to a batch for `fit`. It is traced once for all epochs."""
    segments, targets = examples.segments, examples.targets

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)], autograph=False)
    def pack(rows: tf.Tensor) -> tuple[Inputs, Tensor] | tuple[Inputs, Tensor, Tensor]:
        x, y = model.batch(tuple(tf.gather(each, rows) for each in segments), tf.gather(targets, rows))
        return (x, y) if class_weights is None else (x, y, model.kind.sample_weights(y, class_weights))

    return pack


def dataset_of(pack: Pack, batches: list[np.ndarray]) -> tf.data.Dataset:
    """Makes a dataset of batches, which are packed while the model trains on earlier ones."""
    rows = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=tf.TensorSpec([None], tf.int64))
    packed = rows.map(pack, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(4)
    return packed.with_options(DATA_OPTIONS)


def accumulated_batches(
    pack: Pack, loss: keras.losses.Loss, batches: list[np.ndarray], accumulate: int, start: int
) -> tf.data.Dataset:
    """Makes a dataset of the batches from `start` on, each with its share in the loss of its update."""
    first = start - start % accumulate  # the first batch of the update that `start` belongs to

    def batches_with_shares() -> Iterator[AccumulatedBatch]:
        for number in range(first, len(batches), accumulate):
            rows = batches[number : number + accumulate]
            update = [pack(each) for each in rows]
            for each, batch, share in zip(rows, update, shares_of_update(loss, update), strict=True):
                yield AccumulatedBatch(batch, tf.fill([len(each), 1], share))

    signature = AccumulatedBatch(dataset_of(pack, batches).element_spec, tf.TensorSpec([None, 1], tf.float32))
    planned = tf.data.Dataset.from_generator(batches_with_shares, output_signature=signature).skip(start - first)
    return planned.prefetch(4).with_options(DATA_OPTIONS)


# -- Holds out a share of the training examples for validation.


def columns_in(x: Texts) -> tuple[Any, ...]:
    """Lists the columns of texts of `Labelled`."""
    return x if isinstance(x, tuple) else (x,)


def hold_out(examples: Labelled, share: float, seed: int) -> tuple[Labelled, Labelled]:
    """Splits examples at random into those to train on and a share that is held out, both in their original order."""
    x, y = examples
    counts = {len(column) for column in (*columns_in(x), y) if column is not None}
    if len(counts) > 1:
        raise ValueError(
            f"the examples and their labels differ in number: {' and '.join(f'{each:,}' for each in sorted(counts))}"
        )
    (count,) = counts
    held_out = round(share * count)
    if not 0 < held_out < count:
        raise ValueError(
            f"validation_split is {share}, which holds out {held_out:,} of {count:,} examples and leaves "
            f"{count - held_out:,} to train on; choose a share that leaves some of both"
        )
    order = np.random.default_rng([seed, count]).permutation(count)
    return _take(examples, np.sort(order[held_out:])), _take(examples, np.sort(order[:held_out]))


def _take(column: Any, rows: np.ndarray) -> Any:
    """Selects rows of a column, or of each in a tuple of columns."""
    if column is None:  # there are no labels
        return None
    if isinstance(column, tuple):
        return tuple(_take(each, rows) for each in column)
    if tf.is_tensor(column):
        return tf.gather(column, rows)
    return column[rows] if isinstance(column, np.ndarray) else [column[i] for i in rows]
