"""Lists: columns of texts that hold a query (or a question), and several passages (or choices) for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.answers.columns import Targets
from keras_bert.encoder import BertEncoder
from keras_bert.tasks.base.by_length import GraphByLength
from keras_bert.tasks.base.task import TokenizedExamples
from keras_bert.tasks.heads import ClassifierHead
from keras_bert.tasks.heads.long_text import classify_texts
from keras_bert.tensors import Tensor
from keras_bert.text import BertPreprocessor


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


def tokenize_lists(
    preprocessor: BertPreprocessor, by_length: GraphByLength, columns: Sequence[Sequence[str]], targets: Targets
) -> TokenizedExamples:
    """Tokenizes columns; the length of a list is that of its longest pair."""
    query, *passages = segments = tuple(preprocessor.tokenizer.tokenize(list(column)) for column in columns)
    lengths = np.max([by_length.lengths([query, passage]) for passage in passages], axis=0)
    return TokenizedExamples(segments, tf.convert_to_tensor(targets), lengths)


def logits_of_lists(
    encoder: BertEncoder, head: ClassifierHead, inputs: Mapping[str, Tensor], training: bool | None
) -> tuple[Tensor, int]:
    """Computes the logits of all pairs, `[batch * passages, units]`, and the number of passages, 1 for packed pairs."""
    shape = inputs["input_word_ids"].shape
    if len(shape) == 3:
        inputs = {name: ops.reshape(each, (-1, ops.shape(each)[2])) for name, each in inputs.items()}
    return classify_texts(encoder, head, inputs, training=training), shape[1] if len(shape) == 3 else 1
