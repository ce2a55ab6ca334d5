"""BertEncoder: from ids to hidden states."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import keras
from keras import ops

from keras_bert import formats
from keras_bert.choices import ENCODER_POOLINGS
from keras_bert.config import BertConfig
from keras_bert.encoder.block import TransformerBlock
from keras_bert.encoder.disentangled import Distances
from keras_bert.encoder.embeddings import BertEmbeddings
from keras_bert.encoder.frozen import FreezesLayers, freeze, frozen_layers
from keras_bert.encoder.layers import LayerMaker
from keras_bert.encoder.positions import RelativeBias
from keras_bert.encoder.unpadding import AttentionMask, Unpadding
from keras_bert.encoder.weights import digest, make_with_weights, values_by_name
from keras_bert.formats import Preset
from keras_bert.shapes import encoder_layers
from keras_bert.tensors import EncoderOutputs, Tensor

NAMES = ("input_word_ids", "input_mask", "input_type_ids")  # TF Hub's
ALL_NAMES = (*NAMES, "input_document_ids")

Block = Callable[..., Tensor]
BlockT = TypeVar("BlockT", bound=Block)


def check_inputs(inputs: Mapping[str, Tensor], config: BertConfig) -> tuple[Tensor | None, ...]:
    """Checks inputs, and returns them as int32 or int64, in the order of `ALL_NAMES`; None for a missing one."""
    check_tensors(inputs)
    for name, value in inputs.items():
        _check_shape(name, value, inputs[NAMES[0]])
    seq_length = inputs[NAMES[0]].shape[1]
    if seq_length == 0:
        raise ValueError(f"{NAMES[0]} has shape {tuple(inputs[NAMES[0]].shape)}: the sequences have no tokens")
    if isinstance(seq_length, int) and seq_length > config.max_positions:
        raise ValueError(
            f"the sequence is {seq_length} tokens long, but this model has {config.max_positions} positions; "
            "truncate the text, or split it"
        )
    check_range(NAMES[0], inputs[NAMES[0]], config.vocab_size, "the model knows the ids")
    if NAMES[1] in inputs:
        check_range(NAMES[1], inputs[NAMES[1]], 2, "a mask holds")
    if NAMES[2] in inputs and config.type_vocab_size:
        check_range(NAMES[2], inputs[NAMES[2]], config.type_vocab_size, "the model knows the ids")
    return tuple(_as_index(inputs[name]) if name in inputs else None for name in ALL_NAMES)


def check_tensors(inputs: object) -> None:
    """Raises ValueError if the inputs are not a dict of tensors by known names."""
    if not isinstance(inputs, dict) or NAMES[0] not in inputs:
        actual = f"the keys {', '.join(map(str, inputs))}" if isinstance(inputs, dict) else f"a {type(inputs).__name__}"
        raise ValueError(f"the encoder takes a dict with {NAMES[0]} (and {', '.join(ALL_NAMES[1:])}), not {actual}")
    unknown = sorted(map(str, set(inputs) - set(ALL_NAMES)))
    if unknown:
        raise ValueError(f"the encoder has no input {', '.join(unknown)}; it takes {', '.join(ALL_NAMES)}")
    for name, value in inputs.items():
        if not hasattr(value, "shape") or hasattr(value, "row_splits"):  # a tf.RaggedTensor has both
            kind = type(value).__name__
            raise ValueError(f"{name} is a {kind}, but it must be an integer array or tensor [batch, seq_length]")


def _as_index(value: Tensor) -> Tensor:
    """Casts to int32 unless the type is int32 or int64: no backend takes all other types as indices."""
    return value if keras.backend.standardize_dtype(value.dtype) in ("int32", "int64") else ops.cast(value, "int32")


def _check_shape(name: str, value: Tensor, word_ids: Tensor) -> None:
    if len(value.shape) != 2:
        raise ValueError(f"{name} has shape {tuple(value.shape)}, but it must be [batch, seq_length]")
    if "int" not in keras.backend.standardize_dtype(value.dtype):
        raise ValueError(f"{name} is {value.dtype}, but it must be an integer tensor")
    for size, expected in zip(value.shape, word_ids.shape, strict=True):
        # In traced functions, a dimension may be unknown.
        if isinstance(size, int) and isinstance(expected, int) and size != expected:
            raise ValueError(f"{name} has shape {tuple(value.shape)}, but {NAMES[0]} has {tuple(word_ids.shape)}")


def check_range(name: str, ids: Tensor, limit: int, what: str) -> None:
    """Raises ValueError, which begins with `what`, if a value is not from 0 to `limit - 1`. Traced tensors pass."""
    try:
        values = ops.convert_to_numpy(ids)
    except (NotImplementedError, TypeError, ValueError, AttributeError, RuntimeError):  # RuntimeError: OpenVINO
        return  # traced tensors have no values
    if values.size and not 0 <= values.min() <= values.max() < limit:
        outlier = values.min() if values.min() < 0 else values.max()
        raise ValueError(f"{name} holds {outlier}, but {what} 0 to {limit - 1}")


@keras.saving.register_keras_serializable(package="keras_bert")
class BertEncoder(FreezesLayers):
    """The bidirectional Transformer encoder of BERT (Devlin et al. 2018, section 3) and related families.

    Use it for hidden states, or inside a model of your own; the models in `keras_bert.tasks` add a head. The
    constructor randomly initializes weights. `from_preset` loads trained weights.

    Args:
        config: the architecture.
        dtype: a Keras dtype policy, such as `"mixed_bfloat16"`; by default, Keras's global policy.

    Call arguments:
        inputs: a dict of int tensors `[batch, seq_length]`:
            `input_word_ids`: token ids;
            `input_mask` (optional): 1 = token, 0 = padding; by default there is no padding;
            `input_type_ids` (optional): 0 = first segment and padding, 1 = second; by default all 0;
            `input_document_ids` (optional): the index of the text that each token belongs to, if a sequence holds
                several texts. Tokens attend only to their own text.
        training: whether to apply dropout.

    Returns:
        A dict:
            `pooled_output`: float `[batch, hidden]`: the pooler's output for the first token. Families without a pooler
                (DistilBERT, ELECTRA) return the last hidden state of the first token, or the mean over all tokens;
            `sequence_output`: float `[batch, seq_length, hidden]`: the last hidden state of each token. Padding gets
                zeros, because it is not computed, or meaningless values if XLA compiles;
            `encoder_outputs`: a list of `num_layers` floats `[batch, seq_length, hidden]`; the last is
                `sequence_output`, which without layers is the token embeddings;
            `default`: the same as `pooled_output`.

    Raises:
        ValueError: the config has a pooler, but the files of its family have none; `seq_length` is above
            `config.max_positions`; an input is missing, of another shape or not integer; or (outside of traced
            functions) an id is not in the vocabulary.

    Example:
        >>> import numpy as np
        >>> from keras_bert import BertEncoder
        >>> encoder = BertEncoder.from_preset("all-MiniLM-L6-v2")
        >>> outputs = encoder({"input_word_ids": np.array([[101, 7592, 2088, 102]])})  # [CLS] hello world [SEP]
        >>> tuple(outputs["sequence_output"].shape), tuple(outputs["pooled_output"].shape)
        ((1, 4, 384), (1, 384))
        >>> len(outputs["encoder_outputs"])
        6
    """

    def __init__(self, config: BertConfig, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(config, BertConfig):
            raise TypeError(f"config is {config!r:.60}; expected a BertConfig, such as BertConfig.base()")
        formats.check_storable(config)
        self.config = config
        self.preset_digest: str | None = None  # of the preset's weights; None: the weights were randomly initialized
        self.embeddings = BertEmbeddings(config, dtype=self.dtype_policy, name="embeddings")
        self.blocks = [
            TransformerBlock(config, i, dtype=self.dtype_policy, name=f"block_{i}") for i in range(config.groups)
        ]
        self._group_of_layer = tuple(map(config.group_of, range(config.num_layers)))
        self.make = make = LayerMaker(encoder_layers(config), config, self.dtype_policy)
        self.final_norm = make("final_norm")
        self.pooler = make("pooler")
        self.inference: Any = None  # an `inference.Inference`, see `inference.set_precision`
        self.build()

    @property
    def precision(self) -> str:
        """The precision of the layers; see `keras_bert.inference.set_precision`."""
        return "float32" if self.inference is None else self.inference.precision

    def build(self, input_shape: Any = None) -> None:
        if self.built:
            return
        self.embeddings.build()
        for block in self.blocks:
            block.build()
        self.make.build()
        self.built = True

    def __call__(self, inputs: Mapping[str, Tensor], *args: Any, **kwargs: Any) -> EncoderOutputs:
        # Here and not in `call`, because Keras takes only tensors as positional arguments.
        check_tensors(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs: Mapping[str, Tensor], training: bool | None = None) -> EncoderOutputs:
        if self.inference is None:
            return self.run(inputs, self.blocks, training)
        if training:
            raise ValueError(
                'this model computes in low precision, which cannot be trained; set its precision to "float32"'
            )
        return self.inference(inputs)

    def run(
        self,
        inputs: Mapping[str, Tensor],
        blocks: Sequence[Block],
        training: bool | None = None,
        token_embedding: Block | None = None,
    ) -> EncoderOutputs:
        """Computes a call with other token embeddings and a block, as `TransformerBlock`, for each group of layers."""
        hidden, unpadding, attention_mask, relative = self._embed(inputs, training, token_embedding)
        layers, outputs = self._layers_in_order(blocks), []
        for i, block in enumerate(layers, start=1):
            hidden = block(
                hidden, unpadding=unpadding, attention_mask=attention_mask, relative=relative, training=training
            )
            if i == len(layers) and self.final_norm is not None:
                hidden = self.final_norm(hidden)
            outputs.append(unpadding.sequences(ops.cast(hidden, self.compute_dtype)))
        last = outputs[-1] if outputs else unpadding.sequences(ops.cast(hidden, self.compute_dtype))
        pooled = self._pool(last, unpadding)
        return {"pooled_output": pooled, "sequence_output": last, "encoder_outputs": outputs, "default": pooled}

    def serve_packed(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `pooled_output` and `sequence_output` only, for runtimes that have no lists of outputs."""
        outputs = self(inputs, training=False)
        return {"pooled_output": outputs["pooled_output"], "sequence_output": outputs["sequence_output"]}

    def _embed(
        self, inputs: Mapping[str, Tensor], training: bool | None = None, token_embedding: Block | None = None
    ) -> tuple[Tensor, Unpadding, AttentionMask, RelativeBias | Distances | None]:
        """Computes the first layer's input, float `[tokens, hidden]`, and what all layers' attention shares."""
        word_ids, padding_mask, type_ids, document_ids = check_inputs(inputs, self.config)
        shape = tuple(ops.shape(word_ids))
        relative = self.embeddings.relative(shape[1])
        unpadding = Unpadding(shape, padding_mask, self.config.local_window // 2, training)
        hidden = self.embeddings(
            word_ids,
            unpadding=unpadding,
            type_ids=type_ids,
            document_ids=document_ids,
            training=training,
            token_embedding=token_embedding,
        )
        return hidden, unpadding, AttentionMask(unpadding, document_ids), relative

    def _pool(self, hidden: Tensor, unpadding: Unpadding) -> Tensor:
        """Pools the last hidden states: `[batch, seq_length, hidden]` -> `[batch, hidden]`."""
        if self.pooler is not None:
            return ops.tanh(self.pooler(hidden[:, 0]))  # the first token is [CLS]
        pooling = ENCODER_POOLINGS[self.config.pooling]
        if not pooling.is_mean:
            return hidden[:, 0]
        if unpadding.padding_mask is None:
            mean = ops.mean(hidden, axis=1)
        else:
            mask = ops.expand_dims(ops.cast(unpadding.padding_mask, hidden.dtype), 2)  # [batch, seq_length, 1]
            mean = ops.sum(hidden * mask, axis=1) / ops.maximum(ops.sum(mask, axis=1), 1)
        if pooling.is_scaled:
            mean = ops.cast(ops.normalize(ops.cast(mean, "float32"), axis=-1), hidden.dtype)
        return mean

    def _layers_in_order(self, blocks: Sequence[BlockT]) -> list[BlockT]:
        """Lists `num_layers` blocks, in which the layers of a group share a block."""
        return [blocks[group] for group in self._group_of_layer]

    def attention_scores(self, inputs: Mapping[str, Tensor]) -> list[Tensor]:
        """Computes the attention weights of every layer, for the inputs of a call.

        They are after the softmax, and called scores as in Keras's `MultiHeadAttention`.

        Returns:
            A list of `num_layers` float tensors `[batch, num_heads, seq_length, seq_length]`: how much each query
            (third axis) attends to each key (fourth axis). The weights of a query sum to 1. Padding as a key gets 0.
        """
        return [attention.attention_scores(*each) for attention, *each in self._attention_inputs(inputs)]

    def queries_and_keys(self, inputs: Mapping[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
        """Computes the queries and keys of every layer's attention, for the inputs of a call.

        `attention_scores` are, without padding and with one text per sequence:

        - in plain attention, `softmax(Q K^T / sqrt(head_size))`;
        - with relative bias, `softmax(Q K^T / sqrt(head_size) + scores_of_distances)`;
        - in disentangled attention, `softmax(Q K^T / sqrt(3 head_size) + scores_of_distances)`.

        Local attention also masks distant tokens.

        Returns:
            A list of `num_layers` pairs of float tensors `[batch, num_heads, seq_length, head_size]`.
        """
        layers = self._attention_inputs(inputs)
        return [attention.queries_and_keys(hidden, unpadding) for attention, hidden, unpadding, *_ in layers]

    def scores_of_distances(self, inputs: Mapping[str, Tensor]) -> list[Tensor] | None:
        """Computes what every layer adds to its scaled `Q K^T` for the distances of tokens; see `queries_and_keys`.

        Returns:
            A list of `num_layers` float32 tensors `[batch, num_heads, seq_length, seq_length]`; None for models that
            have neither relative bias nor disentangled attention.
        """
        if self.config.relative_buckets is None and self.config.disentangled_buckets is None:
            return None
        layers = self._attention_inputs(inputs)
        return [
            attention.distance_terms(hidden, unpadding, relative)
            for attention, hidden, unpadding, _, relative in layers
        ]

    def _attention_inputs(self, inputs: Mapping[str, Tensor]) -> Iterator[tuple[Any, ...]]:
        """Yields every layer's attention, and the arguments of its call."""
        hidden, unpadding, attention_mask, relative = self._embed(inputs)
        for block in self._layers_in_order(self.blocks):
            yield block.attention, block.attention_input(hidden), unpadding, attention_mask, relative
            hidden = block(hidden, unpadding=unpadding, attention_mask=attention_mask, relative=relative)

    @classmethod
    def from_preset(cls, handle: str | Path | Preset, **kwargs: Any) -> BertEncoder:
        """Loads the configuration and the weights of a preset.

        Args:
            handle: a directory in any format that `formats` reads, the name of a preset, or `hf://org/name` (see
                `presets.resolve`); or an open preset.
            **kwargs: arguments of the encoder, such as `dtype`, or fields of `BertConfig` that replace the preset's,
                such as `hidden_dropout=0.0`. With `pooler=True`, a preset without a pooler gets a new one.

        Raises:
            FileNotFoundError, ValueError: there is no such preset, or a file or a weight is missing or damaged.

        Warns:
            UserWarning: the file has weights that this encoder does not use, such as further layers; or its
                configuration has settings that this package does not know.
        """
        fields = {field.name for field in dataclasses.fields(BertConfig)}
        changes = {name: kwargs.pop(name) for name in list(kwargs) if name in fields}
        with Preset.open(handle, changes.get("activation")) as preset:
            config = dataclasses.replace(preset.checkpoint.config, **changes)
            encoder = make_with_weights(lambda: cls(config, **kwargs), preset.checkpoint, "encoder")
            preset.checkpoint.warn_of_unused()
        encoder.preset_digest = digest(encoder)
        return encoder

    def save_preset(self, directory: str | Path, overwrite: bool = False) -> None:
        """Writes `config.json` and `model.safetensors`, for `from_preset` and `transformers.AutoModel`.

        See `save_checkpoint` for the arguments and errors.
        """
        self.save_checkpoint(directory, "hugging_face", overwrite)

    def save_checkpoint(self, directory: str | Path, format: str, overwrite: bool = False) -> None:
        """Writes weights and configuration in another format; `from_preset` reads all formats.

        Args:
            directory: created if missing. A tokenizer in it, and files that belong to no model, stay.
            format: "hugging_face"; "tf1", for Google's code; or "garden", for TF Model Garden's encoders.
            overwrite: whether to replace a model: all of its files are removed, even those that this model lacks.

        Raises:
            FileExistsError: the directory has files of a model, and `overwrite` is False.
            ValueError: the format is unknown, or does not support this family.
        """
        formats.write(directory, self.config, {"encoder": values_by_name(self)}, format, overwrite)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "config": self.config.to_dict(), **frozen_layers(self)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> BertEncoder:
        arguments = {**config, "config": BertConfig(**config["config"])}
        frozen = arguments.pop("frozen", None)
        return freeze(cls(**arguments), frozen)
