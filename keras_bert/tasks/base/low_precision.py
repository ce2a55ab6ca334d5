"""Inference in bfloat16 and int8, for models that read texts."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from keras_bert.answers.columns import Texts, columns_of
from keras_bert.counted import counted
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.weights import digest
from keras_bert.inference import SAMPLE_TEXTS, cosine_to_float32, set_precision
from keras_bert.inference import ranges as int8_ranges
from keras_bert.precisions import PRECISIONS
from keras_bert.text import BertPreprocessor
from keras_bert.text.strings import as_strings

_BATCH = 16  # texts
_MIN_UNSEEN_COSINE = 0.97  # between int8 and float32 hidden states, on texts outside of the calibration


def batches_of(preprocessor: BertPreprocessor | None, x: Texts, names: Sequence[str]) -> Iterator[dict[str, tf.Tensor]]:
    """Yields the encoder's inputs, int32 `[batch, seq_length]` each, for texts of these names."""
    columns = columns_of(x)
    if preprocessor is None:
        raise ValueError("int8 is calibrated with texts, but this model has no tokenizer")
    if len(columns) != len(names):
        kinds = {1: "a list of texts", 2: "a tuple of two lists"}
        raise ValueError(
            f"this model reads {' and '.join(names)}: to calibrate int8, it needs {kinds[len(names)]}, not "
            f"{kinds[len(columns)]}"
        )
    if len({len(column) for column in columns}) > 1:
        raise ValueError(f"got {counted(columns[0], 'first text')}, but {counted(columns[1], 'second one')}")
    for start in range(0, len(columns[0]), _BATCH):
        batch = tuple(as_strings(list(column[start : start + _BATCH])) for column in columns)
        inputs = preprocessor(batch[0] if len(batch) == 1 else batch)
        if preprocessor.stride is not None:  # [batch, windows, seq_length]
            inputs = {name: tf.reshape(each, [-1, tf.shape(each)[-1]]) for name, each in inputs.items()}
        yield inputs


def ranges_of_weights(ranges: int8_ranges.Int8Ranges | None, encoder: BertEncoder) -> int8_ranges.Int8Ranges | None:
    """Returns ranges if they belong to an encoder's current weights."""
    return ranges if ranges is not None and ranges.weights == digest(encoder) else None


class SetsPrecision:
    """A mixin: a model with encoder and preprocessor runs in bfloat16 or int8, whose ranges its presets hold."""

    encoder: BertEncoder
    preprocessor: BertPreprocessor | None
    text_names: tuple[str, ...]

    reset_graphs: Callable[[], None]
    _ranges: int8_ranges.Int8Ranges | None = None  # from the preset, or the last calibration

    @property
    def precision(self) -> str:
        """The precision of the model's computations; see `set_precision`."""
        return self.encoder.precision

    def set_precision(self, precision: str, x: Texts | None = None) -> None:
        """Sets the precision of inference. In a lower precision, the model cannot be trained.

        Use it on an x86 processor where bfloat16 or int8 is faster. The dense layers of each block, and the table of
        token embeddings, are then bfloat16 or int8, and in bfloat16 attention too. All else stays float32: hidden
        states, normalization, sums of embeddings, the pooler and the heads. The model keeps its float32 weights, which
        `save_preset` writes.

        Args:
            precision: "bfloat16", "int8" or "float32".
            x: for "int8", some hundred typical texts to calibrate with: a list of str, or for a model that takes pairs,
                a tuple of two lists. The input of each dense layer gets the range that loses least on these texts.
                Without texts, int8 uses the ranges of the last calibration or of the preset, if they belong to the
                current weights; else it calibrates with a few English sentences.

        Warns:
            UserWarning: the texts are too few or too similar: on other texts, int8 is far from float32.

        Raises:
            ValueError: the precision is unknown; there are no texts, or pairs for a model that takes single texts; the
                model has disentangled attention; or the Keras backend, the processor or the build of TensorFlow does
                not support this precision.

        Example:
            >>> from keras_bert import BertSentenceEncoder
            >>> model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
            >>> exact = model.encode("a lovely film")
            >>> model.set_precision("int8", ["what a film", "the weather is fine", "we had a lovely day", "it rained"])
            >>> bool(exact @ model.encode("a lovely film") > 0.98)
            True
        """
        if precision not in PRECISIONS or not PRECISIONS[precision].has_ranges:
            set_precision(self.encoder, precision)
        elif x is None and (ranges := ranges_of_weights(self._ranges, self.encoder)) is not None:
            set_precision(self.encoder, precision, ranges=ranges)
        else:
            seconds = [*SAMPLE_TEXTS[1:], SAMPLE_TEXTS[0]]  # of pairs: each sentence with the next
            built_in = SAMPLE_TEXTS if len(self.text_names) == 1 else (SAMPLE_TEXTS, seconds)
            texts = built_in if x is None else x
            set_precision(self.encoder, precision, batches_of(self.preprocessor, texts, self.text_names))
            unseen = batches_of(self.preprocessor, built_in, self.text_names)
            if x is not None and (cosine := cosine_to_float32(self.encoder, unseen)) < _MIN_UNSEEN_COSINE:
                warnings.warn(
                    f"int8 was calibrated with texts that are too few, or all alike: on the built-in texts, the cosine "
                    f"to float32 is {cosine:.3f}; calibrate with some hundred typical texts, or without texts",
                    stacklevel=2,
                )
            self._ranges = dataclasses.replace(self.encoder.inference.ranges, is_built_in=x is None)
            self.encoder.inference.ranges = self._ranges
        self.reset_graphs()

    def quantize(self, mode: str | None = None, config: object = None, x: Texts | None = None) -> None:
        """Calls `set_precision("int8", x)`, under Keras's name. Raises ValueError if `mode` is not "int8"."""
        if mode != "int8":
            raise ValueError(f'mode must be "int8", not {mode!r}')
        self.set_precision("int8", x)
