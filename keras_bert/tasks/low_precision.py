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
    """A mixin for models with an encoder and a preprocessor. Their presets hold the int8 ranges."""

    _ranges: int8_ranges.Int8Ranges | None = None  # from the preset, or the last calibration

    @property
    def precision(self) -> str:
        """The precision of the model's computations; see `set_precision`."""
        return self.encoder.precision

    def set_precision(self, precision: str, x: Any = None) -> None:
        """Sets the precision of inference. In a lower precision, the model cannot be trained.

        The matrix products of the layers, and the table of token embeddings, are bfloat16 or int8; the rest of the
        layers is bfloat16 (float32 without AVX-512). Sums of embeddings, the pooler and the heads stay float32. The
        model keeps its float32 weights, which `save_preset` writes.

        Args:
            precision: "bfloat16", "int8" or "float32".
            x: for "int8", some hundred typical texts to calibrate with: a list of str, or for a model that takes pairs,
                a tuple of two lists. Each product's input gets the range that loses least on them. By default, the
                ranges of the last calibration or of the preset, if they belong to these weights; else those of a few
                English sentences.

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
        """The int8 ranges that belong to the current weights."""
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
            told = f"{directory / int8_ranges.FILE} belongs to other weights, and is not used; calibrate again"
            warnings.warn(told, stacklevel=3)

    def _save_ranges(self, directory: Path) -> None:
        """Writes the ranges into a preset, if they belong to its weights."""
        if (ranges := self._fitting_ranges) is not None:
            int8_ranges.write_ranges(directory, ranges)
