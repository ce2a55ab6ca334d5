"""Inference in bfloat16 and int8, for models that read texts."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

from keras_bert.encoder.weights import digest
from keras_bert.inference import ranges as int8_ranges
from keras_bert.inference import set_precision
from keras_bert.tasks.calibrating import batches_of, built_in_texts


class LowPrecision:
    """A mixin for models with an encoder and a preprocessor, whose presets keep the ranges of int8."""

    _ranges: int8_ranges.Int8Ranges | None = None  # of the preset, or of the last calibration

    @property
    def precision(self) -> str:
        """What the model computes in; see `set_precision`."""
        return self.encoder.precision

    def set_precision(self, precision: str, x: Any = None) -> None:
        """Makes the model compute in a lower precision from now on: for inference, not for training.

        The layers' products are computed in "bfloat16" or "int8", the rest of them in bfloat16; embeddings and heads
        stay float32. The model's own weights stay as they are, and `save_preset` writes them.

        Args:
            precision: "bfloat16"; "int8"; or "float32", which ends it.
            x: texts as the model will get them, some hundred, for "int8": a list of str, or for a model of pairs a
                tuple of two. Each product's input gets the range that loses least on them. By default the ranges that
                were found before, here or when the preset was saved, if the weights are still the same; else those of
                a few sentences in English.

        Raises:
            ValueError: an unknown precision; no texts, or pairs for a model of single texts; disentangled attention; or
                Keras's backend, this processor, or this build of TensorFlow cannot compute in that precision.

        Example:
            >>> from keras_bert import BertSentenceEncoder
            >>> model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
            >>> exact = model.encode("a lovely film")
            >>> model.set_precision("int8", ["what a film", "the weather is fine", "we had a lovely day", "it rained"])
            >>> bool(exact @ model.encode("a lovely film") > 0.98)
            True
        """
        if precision != "int8":
            set_precision(self.encoder, precision)
        elif x is None and self._fitting_ranges is not None:
            set_precision(self.encoder, precision, ranges=self._fitting_ranges)
        else:
            texts = built_in_texts(len(self.text_names)) if x is None else x
            set_precision(self.encoder, precision, batches_of(self.preprocessor, texts, self.text_names))
            self._ranges = dataclasses.replace(self.encoder.inference.ranges, is_built_in=x is None)
            self.encoder.inference.ranges = self._ranges
        self.retrace()

    @property
    def _fitting_ranges(self) -> int8_ranges.Int8Ranges | None:
        """The ranges of int8 that were found for the weights as they are now."""
        known = self._ranges
        return known if known is not None and known.weights == digest(self.encoder) else None

    def quantize(self, mode: str | None = None, config: Any = None, x: Any = None) -> None:
        """`set_precision("int8", x)` under Keras's name. (Keras's own int8 is slower than float32 on a CPU.)

        Raises:
            ValueError: `mode` is not "int8".
        """
        if mode != "int8":
            raise ValueError(f'mode must be "int8", not {mode!r}')
        self.set_precision("int8", x)

    def _load_ranges(self, directory: Path) -> None:
        """Reads the ranges of a preset, if it has any."""
        self._ranges = int8_ranges.read_ranges(directory)
        if self._ranges is not None and self._fitting_ranges is None:
            told = f"{directory / int8_ranges.FILE} is of other weights, and is not used; calibrate again"
            warnings.warn(told, stacklevel=3)

    def _save_ranges(self, directory: Path) -> None:
        """Writes the ranges into a preset, if they are those of its weights."""
        (directory / int8_ranges.FILE).unlink(missing_ok=True)  # it would be of other weights
        if (ranges := self._fitting_ranges) is not None:
            int8_ranges.write_ranges(directory, ranges)
