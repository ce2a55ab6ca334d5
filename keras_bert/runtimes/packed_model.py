"""The part of a model that other runtimes compute: ids -> named outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_bert.encoder import BertEncoder
from keras_bert.encoder.encoder import NAMES
from keras_bert.encoder.layout import fixed_shapes
from keras_bert.tasks.task import BertTask

# TF Hub's names of the inputs -> transformers' names.
TRANSFORMERS_NAMES = dict(zip(NAMES, ("input_ids", "attention_mask", "token_type_ids"), strict=True))

# An output -> the output that it is computed from.
_MADE_OF = {"embedding": "sequence_output", **dict.fromkeys(("probabilities", "values", "score"), "logits")}


class PackedModel(keras.Model):
    """A model that takes ids, under a runtime's names and types, for Keras's exporters.

    Padding is computed like tokens, so that shapes depend on the shapes of the inputs only, as runtimes need.

    Args:
        model: a task, or an encoder.
        names: TF Hub's names of the inputs -> the runtime's. A family without segments has no input for type ids.
        dtype: the type of the inputs, "int32" or "int64".
        only_answers: whether to leave out outputs that others are computed from, such as the logits of probabilities.

    Call arguments:
        inputs: a dict of ints `[batch, seq_length]`.

    Returns:
        The dict of float32 that `model.serve_packed` returns.
    """

    def __init__(
        self, model: BertTask | BertEncoder, names: Mapping[str, str], dtype: str, only_answers: bool = False
    ) -> None:
        super().__init__(name="packed")
        self.model = model
        self.config = config_of(model)
        self.names_of_inputs = {ours: theirs for ours, theirs in names.items() if ours in input_names(model)}
        self.ids_dtype = dtype
        self.only_answers = only_answers
        self.built = True

    def call(self, inputs: dict[str, Any], training: bool | None = None) -> dict[str, Any]:
        packed = {ours: inputs[theirs] for ours, theirs in self.names_of_inputs.items()}
        with fixed_shapes():
            return self.computed(packed)

    def computed(self, packed: dict[str, Any]) -> dict[str, Any]:
        """The outputs for inputs under TF Hub's names, computed as in Keras."""
        outputs = self.model.serve_packed(packed)
        unwanted = {_MADE_OF.get(name) for name in outputs} if self.only_answers else ()
        return {name: ops.cast(each, "float32") for name, each in outputs.items() if name not in unwanted}

    def signature(self, shape: tuple[int | None, int | None] = (None, None)) -> list[dict[str, keras.InputSpec]]:
        """The specs of the inputs, for `export`; by default, any `[batch, seq_length]`."""
        names = self.names_of_inputs.values()
        return [{name: keras.InputSpec(shape=shape, dtype=self.ids_dtype, name=name) for name in names}]


def config_of(model: BertTask | BertEncoder) -> Any:
    """The `BertConfig` of a task or an encoder."""
    return (model if isinstance(model, BertEncoder) else model.encoder).config


def input_names(model: BertTask | BertEncoder) -> tuple[str, ...]:
    """TF Hub's names of the inputs that change a model's outputs."""
    return NAMES if config_of(model).type_vocab_size > 1 else NAMES[:2]
