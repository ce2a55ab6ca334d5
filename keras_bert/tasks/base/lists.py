"""ReadsLists: a task that reads lists, too: columns of a query (or question) and several passages (or choices) each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.answers.columns import Labels, Texts
from keras_bert.encoder import BertEncoder
from keras_bert.tasks.base.columns import Inputs
from keras_bert.tasks.base.task import BertTask, TokenizedExamples
from keras_bert.tasks.heads import ClassifierHead
from keras_bert.tasks.heads.long_text import classify_texts
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor


class ReadsLists(BertTask):
    """The base of what reads pairs, and scores each passage of a list by its pair with the query."""

    preprocessor: BertPreprocessor
    head: ClassifierHead

    def _logits_of_pairs(self, inputs: Inputs, training: bool | None) -> tuple[Tensor, int]:
        """Packs pairs or lists, unless they are packed, and computes `logits_of_lists`."""
        if not isinstance(inputs, dict):
            inputs = pack_lists(self.packed, inputs) if len(inputs) > 2 else self.packed(inputs)
        return logits_of_lists(self.encoder, self.head, inputs, training)

    def examples(self, x: Texts, y: Labels | None) -> TokenizedExamples:
        """Tokenizes columns; the length of a list is that of its longest pair."""
        columns = self.columns(x)
        targets = self.kind.targets_of(columns, y)
        query, *passages = segments = tuple(self.preprocessor.tokenizer.tokenize(list(column)) for column in columns)
        lengths = np.max([self._by_length.lengths([query, passage]) for passage in passages], axis=0)
        return TokenizedExamples(segments, tf.convert_to_tensor(targets), lengths)

    def batch(self, segments: tuple[tf.RaggedTensor, ...], targets: tf.Tensor) -> tuple[Inputs, tf.Tensor]:
        if len(segments) == 2:
            return super().batch(segments, targets)
        return pack_lists(self.preprocessor.pack, segments), targets


def pack_lists(
    pack: Callable[[tuple[tf.Tensor, tf.Tensor]], dict[str, tf.Tensor]], columns: Sequence[tf.Tensor]
) -> dict[str, tf.Tensor]:
    """Packs each query with each of its passages: the inputs by name, int32 `[batch, passages, seq_length]` each."""
    queries, *passages = columns
    count = len(passages)
    packed = pack((tf.concat([queries] * count, axis=0), tf.concat(passages, axis=0)))

    def by_query(rows: tf.Tensor) -> tf.Tensor:
        return tf.transpose(tf.reshape(rows, [count, -1, tf.shape(rows)[1]]), [1, 0, 2])

    return {name: by_query(rows) for name, rows in packed.items()}


def logits_of_lists(
    encoder: BertEncoder, head: ClassifierHead, inputs: Mapping[str, Tensor], training: bool | None
) -> tuple[Tensor, int]:
    """Computes the logits of all pairs, `[batch * passages, units]`, and the number of passages, 1 for packed pairs."""
    shape = inputs["input_word_ids"].shape
    if len(shape) == 3:
        inputs = {name: ops.reshape(each, (-1, ops.shape(each)[2])) for name, each in inputs.items()}
    return classify_texts(encoder, head, inputs, training=training), shape[1] if len(shape) == 3 else 1
