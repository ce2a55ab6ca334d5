"""The signature of transformers' TensorFlow models: ids in, hidden states or logits out, under that library's names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.choices import SIGNATURES, check_choice
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.unpadding import fixed_shapes
from keras_bert.encoder.weights import load_weights
from keras_bert.formats import FAMILIES, Preset
from keras_bert.formats.saved import CRF
from keras_bert.head_table import HEADS
from keras_bert.inference.ranges import read_ranges
from keras_bert.saved_model.saving import Request, StoredWeights, within_positions
from keras_bert.tasks.base.lists import logits_of_lists
from keras_bert.tasks.base.low_precision import SetsPrecision
from keras_bert.tasks.heads import ClassifierHead, MaskedLMHead
from keras_bert.tensors import TRANSFORMERS_INPUTS, TRANSFORMERS_OUTPUTS, Tensor
from keras_bert.text import BertPreprocessor

# The heads of a model -> the names of its logits, those of each head in the order of this line. A head with several
# names has as many logits of each token. Other models return hidden states.
LOGITS = {
    **{(name,): head.logits for name, head in HEADS.items()},
    ("masked_lm", "next_sentence"): ("prediction_logits", "seq_relationship_logits"),
}
_DTYPES = {"serving_default": tf.int32, "int64_serving": tf.int64}  # of the ids, in each signature


class HeadedEncoder(SetsPrecision, keras.Model):
    """An encoder with the heads of its files, called as transformers' TensorFlow models were. It needs no tokenizer."""

    # From int `[batch, seq_length]` by `input_names`, for multiple choice `[batch, choices, seq_length]`, to float32:
    # `last_hidden_state` and, with a pooler, `pooler_output`; or the logits of `LOGITS`. Padding is computed as other
    # tokens are, as there.

    text_names = ("text",)

    def __init__(self, encoder: BertEncoder, heads: Mapping[str, keras.Layer]) -> None:
        super().__init__()
        heads = {name: heads[name] for name in sorted(heads)}
        if heads and tuple(heads) not in LOGITS:
            raise ValueError(
                f"transformers has no model with the heads {', '.join(heads)}; export one with one of them"
            )
        self.encoder, self.heads = encoder, heads
        self.built = True

    @classmethod
    def of(cls, model: object) -> HeadedEncoder:
        """Takes the parts of a task, or an encoder. Raises TypeError for others, ValueError for a task with a CRF."""
        encoder = model if isinstance(model, BertEncoder) else getattr(model, "encoder", None)
        if not isinstance(encoder, BertEncoder):
            raise TypeError(f"got a {type(model).__name__}; transformers' signature is for encoders and tasks")
        if getattr(model, "crf", None) is not None:
            raise ValueError("transformers' models have no CRF, and this model has one: export it without a signature")
        return cls(encoder, getattr(model, "heads", {}))

    @classmethod
    def from_preset(cls, handle: str | Path | Preset) -> HeadedEncoder:
        """Loads the encoder and the heads of a preset. Raises as `BertEncoder.from_preset`, and as `of`."""
        with Preset.open(handle) as preset:
            if (preset.directory / CRF).is_file():
                raise ValueError(f"{preset.handle} has a CRF, and transformers' models have none: leave signature out")
            model = cls(*load_parts(preset))
            model._handle, model._ranges = preset.home, read_ranges(preset.directory)
        return model

    @property
    def preprocessor(self) -> BertPreprocessor:
        """The preprocessor of the files, whose texts calibrate int8. Raises FileNotFoundError if they have none."""
        return BertPreprocessor.from_preset(self._handle, sequence_length=None)

    def reset_graphs(self) -> None:
        """Does nothing: there are no graphs."""

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs. There are no type ids in families whose configuration has no number of types."""
        has_types = "type_vocab_size" in FAMILIES.get(self.encoder.config.family, FAMILIES["bert"]).config
        return [*TRANSFORMERS_INPUTS.values()][: 3 if has_types else 2]

    def call(self, inputs: Mapping[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        packed = {name: inputs[theirs] for name, theirs in TRANSFORMERS_INPUTS.items() if theirs in inputs}
        with fixed_shapes():
            outputs = self._outputs(packed)
        return {name: ops.cast(each, "float32") for name, each in outputs.items()}

    def _outputs(self, packed: dict[str, Tensor]) -> dict[str, Tensor]:
        if len(self.heads) == 1 and HEADS[head := next(iter(self.heads))].of_text:
            logits, _ = logits_of_lists(self.encoder, self.heads[head], packed, training=False)
            is_list = len(packed["input_word_ids"].shape) == 3
            return {"logits": ops.reshape(logits, ops.shape(packed["input_word_ids"])[:2]) if is_list else logits}
        states = self.encoder(packed, training=False)
        if not self.heads:
            kept = [name for name in TRANSFORMERS_OUTPUTS if name != "pooled_output" or self.encoder.pooler is not None]
            return {TRANSFORMERS_OUTPUTS[name]: states[name] for name in kept}
        logits = [logits for name in self.heads for logits in self._logits(name, states)]
        names = LOGITS[tuple(self.heads)]
        if self.encoder.config.family == "albert":
            names = [name.replace("seq_relationship", "sop") for name in names]
        return dict(zip(names, logits, strict=True))

    def _logits(self, name: str, states: Mapping[str, Any]) -> list[Tensor]:
        head, hidden = self.heads[name], states["sequence_output"]
        if name == "masked_lm":
            return [head(hidden, embeddings=self.encoder.embeddings.word_embeddings.embeddings)]
        if HEADS[name].of_pooler:
            return [head(states["pooled_output"])]
        logits = head(hidden)
        return [logits] if HEADS[name].has_labels else [logits[..., i] for i in range(logits.shape[-1])]

    @property
    def _takes_lists(self) -> bool:
        return any(HEADS[name].is_list for name in self.heads)

    def signatures(self, weights: StoredWeights) -> dict[str, Any]:
        """Makes the functions of the signatures, which differ in the type of the ids."""
        names, rank = self.input_names, 3 if self._takes_lists else 2
        positions = self.encoder.config.max_positions

        @tf.function(autograph=False)
        def serve(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            with within_positions(inputs, positions) as inputs, weights.in_place():
                return self(inputs)

        def serve_as(dtype: tf.DType) -> Any:
            specs = {name: tf.TensorSpec([None] * rank, dtype, name) for name in names}
            cast = lambda inputs: serve({name: tf.cast(each, tf.int32) for name, each in inputs.items()})  # noqa: E731
            return tf.function(cast, input_signature=[specs], autograph=False)

        return {name: serve_as(dtype) for name, dtype in _DTYPES.items()}

    def requests(self, signatures: Iterable[str]) -> Iterator[Request]:
        """Yields warm-up requests: a short row, and longest rows, which make the server allocate memory in advance."""
        lists = [2] if self._takes_lists else []
        for rows, length in ((1, 8), (4, self.encoder.config.max_positions)):
            for signature in signatures:
                shape, number = [rows, *lists, length], _DTYPES[signature].as_numpy_dtype
                yield signature, {name: np.full(shape, name != "token_type_ids", number) for name in self.input_names}


def load_parts(preset: Preset) -> tuple[BertEncoder, dict[str, keras.Layer]]:
    """Loads the encoder and the heads of a preset. Raises as `BertEncoder.from_preset`."""
    encoder, heads, checkpoint = BertEncoder.from_preset(preset), {}, preset.checkpoint
    for name in checkpoint.heads:
        if name == "masked_lm":
            heads[name] = MaskedLMHead(encoder.config, name=f"{name}_head")
        else:
            (units,) = checkpoint.shapes(name)["logits/bias"]
            heads[name] = ClassifierHead(encoder.config, name, units, name=f"{name}_head")
        heads[name].build()
        load_weights(heads[name], checkpoint, name)
    return encoder, heads


def headed(model: object, signature: str | None) -> HeadedEncoder | None:
    """Takes what a signature serves of a model or handle; None: no signature. Raises ValueError if it is unknown."""
    if signature is None:
        return None
    check_choice("signature", signature, SIGNATURES)
    return HeadedEncoder.from_preset(model) if isinstance(model, str | Path) else HeadedEncoder.of(model)
