"""BertMaskedLM: a text with holes -> what could stand in each (Devlin et al. 2018, section 3.1, task 1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
from keras import ops

from keras_bert import checkpoints, presets
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.weights import load_weights, values_by_name
from keras_bert.tasks.heads import MaskedLMHead

POSITIONS = "masked_lm_positions"


@keras.saving.register_keras_serializable(package="keras_bert")
class BertMaskedLM(keras.Model):
    """An encoder and the masked-language head on top.

    Args:
        encoder: a `BertEncoder`.

    Call arguments:
        inputs: a dict as for the encoder, and with `masked_lm_positions`, int `[batch, predictions]`: which pieces of
            each row to predict. Rows with fewer are filled up with 0, whose prediction nobody reads.

    Returns:
        float `[batch, predictions, vocab_size]`: logits of the pieces.

    Raises:
        ValueError: as the encoder does, or `masked_lm_positions` is missing or not integer `[batch, predictions]`.

    Example:
        >>> import numpy as np
        >>> from keras_bert import BertConfig, BertEncoder
        >>> from keras_bert.tasks import BertMaskedLM
        >>> model = BertMaskedLM(BertEncoder(BertConfig.tiny()))
        >>> ids, positions = np.array([[101, 103, 2088, 102]]), np.array([[1]])  # [CLS] [MASK] world [SEP]
        >>> tuple(model({"input_word_ids": ids, "masked_lm_positions": positions}).shape)
        (1, 1, 30522)
    """

    def __init__(self, encoder: BertEncoder, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.encoder = encoder
        self.head = MaskedLMHead(encoder.config, dtype=encoder.dtype_policy, name="masked_lm_head")
        self.head.build()
        self.built = True

    def call(self, inputs: dict[str, Any], training: bool | None = None) -> Any:
        inputs = dict(inputs)
        positions = inputs.pop(POSITIONS, None)
        expected = "expected an integer tensor [batch, predictions]"
        if positions is None:
            raise ValueError(f"{POSITIONS} is missing; {expected}")
        dtype = keras.backend.standardize_dtype(positions.dtype)
        if len(positions.shape) != 2 or "int" not in dtype:
            raise ValueError(f"{POSITIONS} is {dtype} of shape {tuple(positions.shape)}; {expected}")
        return self.logits(self.encoder(inputs, training=training)["sequence_output"], positions)

    def logits(self, sequence_output: Any, positions: Any) -> Any:
        """The second half of a call: float `[batch, seq_length, hidden]` from the encoder, and the positions."""
        hidden = _gather_rows(sequence_output, positions)  # [batch, predictions, hidden]
        return self.head(hidden, embeddings=self.encoder.embeddings.word_embeddings.embeddings)

    @classmethod
    def from_preset(cls, handle: str | Path, **kwargs: Any) -> BertMaskedLM:
        """The encoder and the head of a preset, such as Hugging Face's `BertForMaskedLM` saves.

        Args:
            handle: a directory, a preset's name, or `hf://org/name`; see `presets.resolve`.
            **kwargs: for the encoder, such as `dtype`.

        Raises:
            FileNotFoundError: there is no such preset, or it lacks a file.
            ValueError: a file is damaged, or the preset has no masked-language head.
        """
        directory = presets.resolve(handle)
        model = cls(BertEncoder.from_preset(directory, **kwargs))
        with checkpoints.open_checkpoint(directory) as checkpoint:
            load_weights(model.head, checkpoint, "masked_lm")
        return model

    def save_preset(self, directory: str | Path, overwrite: bool = False) -> None:
        """Writes `config.json` and `model.safetensors`, which `from_preset` and `AutoModelForMaskedLM` read.

        Raises:
            FileExistsError: such a file exists and `overwrite` is False.
        """
        self.save_checkpoint(directory, "hugging_face", overwrite)

    def save_checkpoint(self, directory: str | Path, format: str, overwrite: bool = False) -> None:
        """Writes encoder and head for another program; see `BertEncoder.save_checkpoint`."""
        parts = {"encoder": values_by_name(self.encoder), "masked_lm": values_by_name(self.head)}
        checkpoints.write(directory, self.encoder.config, parts, format, overwrite)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "encoder": keras.saving.serialize_keras_object(self.encoder)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> BertMaskedLM:
        return cls(**{**config, "encoder": keras.saving.deserialize_keras_object(config["encoder"])})


def _gather_rows(sequences: Any, positions: Any) -> Any:
    """`[batch, seq_length, hidden]`, int `[batch, n]` -> `[batch, n, hidden]`."""
    batch, seq_length, hidden = ops.shape(sequences)
    first = ops.expand_dims(ops.arange(batch, dtype=positions.dtype) * ops.cast(seq_length, positions.dtype), 1)
    return ops.take(ops.reshape(sequences, (-1, hidden)), positions + first, axis=0)
