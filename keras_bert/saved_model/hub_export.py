"""Exports encoders and preprocessors as SavedModels with TF Hub's APIs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import tensorflow as tf

from keras_bert import files
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.encoder import NAMES
from keras_bert.formats import write_config
from keras_bert.formats.tensorflow.saved_model import CONFIG, MODEL
from keras_bert.formats.tokenizers.tokenizer_json import VOCABULARY
from keras_bert.saved_model import saving, transformers_signature
from keras_bert.tasks.masked_lm import POSITIONS, BertMaskedLM
from keras_bert.tensors import EncoderOutputs
from keras_bert.text import BertPreprocessor
from keras_bert.text.packing import truncate
from keras_bert.text.strings import require
from keras_bert.text.tokenizer import Tokenizer

Nest: TypeAlias = "tf.Tensor | list[tf.Tensor]"  # one of the outputs of an encoder


def export_encoder(
    model: BertEncoder | BertMaskedLM,
    directory: str | Path,
    dtype: str | None = None,
    overwrite: bool = False,
    signature: str | None = None,
) -> None:
    """Writes a SavedModel to call and fine-tune with `hub.KerasLayer`, `HubLayer` or `tf.saved_model.load`.

    Use it for programs that embed an encoder in their own model; `export_serving` is for a server. The loaded `model`
    has TF Hub's reusable SavedModel interface and its common API for text encoders:
        `model(inputs, training=False)`: a preprocessor's dict of three int32 `[batch, seq_length]` -> `pooled_output`,
            `sequence_output`, `encoder_outputs` and `default` of `BertEncoder`, in float32, with dropout in training;
        `model.variables`, `model.trainable_variables`: all weights; `model.regularization_losses`: empty;
        `model.mlm(inputs, training=False)`, for a `BertMaskedLM`: with the additional input `masked_lm_positions`,
            int32 `[batch, predictions]`, and output `mlm_logits`, `[batch, predictions, vocab_size]`. The head's
            weights are in `model.mlm.variables`, not in `model.variables`.
    `BertEncoder.from_preset(directory)` reads it too.

    An encoder in bfloat16 or int8 (`set_precision`) keeps its precision, without the float weights of its layers. It is
    for inference only: a call with `training=True` raises an error, `trainable_variables` is empty, and `from_preset`
    does not read it. The `README.md` in its directory says which processor it needs.

    Args:
        model: an encoder, or an encoder with a masked language modeling head.
        directory: a new directory.
        dtype: "float16" or "bfloat16" halves the size of the stored weights. Every call casts them back to float32,
            which takes time, and fine-tuning loses small updates.
        overwrite: whether to replace an existing SavedModel.
        signature: "transformers" names the inputs and outputs of the signature, which servers call, as transformers'
            `TFBertModel` did; see `export_serving`. By default they have TF Hub's names.

    Raises:
        FileExistsError: `directory` exists, and `overwrite` is False or it is not a SavedModel.
        TypeError: `model` is neither an encoder nor a `BertMaskedLM`.
        ValueError: `dtype` or `signature` is unknown, or `dtype` cannot hold a weight.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertEncoder
        >>> directory = tempfile.mkdtemp()
        >>> export_encoder(BertEncoder.from_preset("all-MiniLM-L6-v2"), directory)
        >>> encoder = tf.saved_model.load(directory)
        >>> inputs = {"input_word_ids": [[101, 102]], "input_mask": [[1, 1]], "input_type_ids": [[0, 0]]}
        >>> encoder({name: tf.constant(value) for name, value in inputs.items()})["pooled_output"].shape
        TensorShape([1, 384])
    """
    has_masked_lm = list(getattr(model, "heads", {})) == [BertMaskedLM.HEAD]
    if not has_masked_lm and not isinstance(model, BertEncoder):
        raise TypeError(f"got a {type(model).__name__}; export_encoder takes a BertEncoder or a BertMaskedLM")
    encoder = model.encoder if has_masked_lm else model
    headed = transformers_signature.headed(encoder, signature)
    is_trainable = encoder.precision == "float32"
    with files.directory_written_whole(Path(directory), MODEL, overwrite) as unfinished:
        weights = saving.StoredWeights(model, dtype, root=encoder)
        positions = encoder.config.max_positions

        def encode(inputs: Mapping[str, tf.Tensor], training: bool) -> EncoderOutputs:
            message = f"this SavedModel computes in {encoder.precision} and cannot be trained; export it in float32"
            refusal = [tf.debugging.Assert(False, [message])] if training and not is_trainable else []
            within = saving.within_positions(inputs, positions)
            with within as inputs, weights.in_place(), tf.control_dependencies(refusal):
                return encoder(inputs, training=training and is_trainable)

        def predict(inputs: Mapping[str, tf.Tensor], training: bool) -> dict[str, Nest]:
            inputs = dict(inputs)
            masked = inputs.pop(POSITIONS)
            outputs = root.__call__(inputs, training)  # `encode` would be traced again
            with weights.in_place():
                return {**outputs, "mlm_logits": model.logits(outputs["sequence_output"], masked)}

        root = _make_callable(encode, NAMES, weights.copies(encoder), is_trainable)
        if has_masked_lm:
            root.mlm = _make_callable(predict, (*NAMES, POSITIONS), weights.variables, is_trainable)

        @tf.function(input_signature=[_specs(NAMES)], autograph=False)
        def serving_default(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            outputs = root.__call__(inputs, False)  # not `root(...)`: Python looks for `__call__` in the class
            return {name: outputs[name] for name in ("pooled_output", "sequence_output")}

        signatures = headed.signatures(weights) if headed else serving_default.get_concrete_function()
        tf.saved_model.save(root, str(unfinished), signatures=signatures)
        if is_trainable:
            write_config(unfinished / CONFIG, encoder.config)  # for BertEncoder.from_preset
        else:
            saving.write_card(unfinished, encoder.precision)


def _specs(names: tuple[str, ...]) -> dict[str, tf.TensorSpec]:
    return {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}


def _make_callable(
    compute: Callable[..., Mapping[str, Nest]], names: tuple[str, ...], variables: list[tf.Variable], is_trainable: bool
) -> tf.train.Checkpoint:
    """Makes an object with TF Hub's interface that calls `compute(inputs, training)`."""

    @tf.function(autograph=False)
    def call(inputs: dict[str, tf.Tensor], training: bool = False) -> dict[str, Nest]:
        # TF Hub's interface has float32, even for a model in another dtype.
        return tf.nest.map_structure(lambda output: tf.cast(output, tf.float32), compute(inputs, training))

    traced = [call.get_concrete_function(_specs(names), training) for training in (False, True)]
    if not is_trainable:
        variables = saving.variables_read(traced[0], variables)
    trainable = [variable for variable in variables if variable.trainable and is_trainable]
    return saving.callable_object(call, variables=variables, trainable_variables=trainable, regularization_losses=[])


# -- Preprocessors.

DEFAULT_LENGTH = 128
_SENTENCES = tf.TensorSpec([None], tf.string, "sentences")
_TOKENS = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)  # [batch, (tokens)]
_GROUPED_TOKENS = tf.RaggedTensorSpec([None, None, None], tf.int32, ragged_rank=2)  # [batch, (words), (tokens)]


def export_preprocessor(preprocessor: BertPreprocessor, directory: str | Path, overwrite: bool = False) -> None:
    """Writes a SavedModel that turns strings into an encoder's inputs, for `hub.KerasLayer` and `tf.saved_model.load`.

    Use it together with `export_encoder`, for programs without this package. It follows TF Hub's common API for text
    (common_saved_model_apis/text). The loaded `model` has:
        `model(sentences)`: string `[batch]` -> the output of `preprocessor`, a dict of int32 `[batch, seq_length]`;
        `model.tokenize(sentences)`: ragged int32 `[batch, (words), (tokens)]`;
        `model.tokenize_with_offsets(sentences)`: the same, and int64 starts and ends of the tokens, in bytes;
        `model.tokenize.get_special_tokens_dict()`: int32 scalars `vocab_size`, `padding_id`, `start_of_sequence_id`,
            `end_of_segment_id`, `mask_id`;
        `model.bert_pack_inputs([segments], seq_length=128)`: one or two ragged tensors of ids, with or without the
            dimension of words -> a dict of int32 `[batch, seq_length]`, truncated as `preprocessor` truncates;
        `model.vocab_file`: the vocabulary, one token per line.
    A process that loads the SavedModel must `import tensorflow_text`, which registers its operations.

    Args:
        preprocessor: the preprocessor. It makes no windows, which TF Hub's interface does not support.
        directory, overwrite: see `export_encoder`.

    Raises:
        FileExistsError: `directory` exists, and `overwrite` is False or it is not a SavedModel.
        ValueError: the preprocessor makes windows.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertPreprocessor
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=6)
        >>> directory = tempfile.mkdtemp()
        >>> export_preprocessor(preprocessor, directory)
        >>> tf.saved_model.load(directory)(tf.constant(["hello world"]))["input_word_ids"].numpy()
        array([[ 101, 7592, 2088,  102,    0,    0]], dtype=int32)
    """
    if preprocessor.stride is not None:
        raise ValueError("TF Hub's preprocessors make one row per text, but this one makes windows; leave stride out")
    with (
        files.directory_written_whole(Path(directory), MODEL, overwrite) as unfinished,
        tempfile.TemporaryDirectory(dir=unfinished) as temporary,
    ):
        tokenizer = preprocessor.tokenizer
        files.write_texts(temporary, {VOCABULARY: "".join(token + "\n" for token in tokenizer.vocabulary)})
        call = tf.function(lambda sentences: preprocessor(sentences), autograph=False)
        call.get_concrete_function(_SENTENCES)
        root = saving.callable_object(
            call,
            tokenize=_make_tokenize(tokenizer),
            tokenize_with_offsets=_make_tokenize_with_offsets(tokenizer),
            bert_pack_inputs=_make_bert_pack_inputs(preprocessor),
            vocab_file=tf.saved_model.Asset(str(Path(temporary) / VOCABULARY)),
        )
        tf.saved_model.save(root, str(unfinished), signatures=call.get_concrete_function(_SENTENCES))


def _make_tokenize(tokenizer: Tokenizer) -> tf.train.Checkpoint:
    @tf.function(input_signature=[_SENTENCES], autograph=False)
    def tokenize(sentences: tf.Tensor) -> tf.RaggedTensor:
        return tokenizer.group_by_word(tokenizer.tokenize(sentences))[0]

    @tf.function(input_signature=[], autograph=False)
    def get_special_tokens_dict() -> dict[str, tf.Tensor]:
        return {
            "vocab_size": tf.constant(tokenizer.vocabulary_size),
            "padding_id": tf.constant(tokenizer.pad_token_id),
            "start_of_sequence_id": tf.constant(tokenizer.cls_token_id),
            "end_of_segment_id": tf.constant(tokenizer.sep_token_id),
            "mask_id": tf.constant(tokenizer.mask_token_id),
        }

    return saving.callable_object(tokenize, get_special_tokens_dict=get_special_tokens_dict)


def _make_tokenize_with_offsets(tokenizer: Tokenizer) -> tf.train.Checkpoint:
    @tf.function(input_signature=[_SENTENCES], autograph=False)
    def tokenize_with_offsets(sentences: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
        return tokenizer.group_by_word(*tokenizer.tokenize_with_offsets(sentences))

    return saving.callable_object(tokenize_with_offsets)


def _make_bert_pack_inputs(preprocessor: BertPreprocessor) -> tf.train.Checkpoint:
    tokenizer, truncation = preprocessor.tokenizer, preprocessor.truncation

    @tf.function(autograph=False)
    def bert_pack_inputs(
        inputs: list[tf.RaggedTensor], seq_length: int | tf.Tensor = DEFAULT_LENGTH
    ) -> dict[str, tf.Tensor]:
        if inputs[0].shape.rank == 3:  # with the dimension of words: calls the other trace
            return bert_pack_inputs([each.merge_dims(1, -1) for each in inputs], seq_length)
        room = seq_length - tokenizer.pair_format.special_tokens(len(inputs))
        require(
            room >= 0, "seq_length must leave room for [CLS] and for the [SEP] of each segment, but it is", seq_length
        )
        return tokenizer.pack(truncate(inputs, room, truncation), seq_length)

    for segment in (_TOKENS, _GROUPED_TOKENS):
        for count in (1, 2):
            bert_pack_inputs.get_concrete_function([segment] * count, tf.TensorSpec([], tf.int32, "seq_length"))
    return saving.callable_object(bert_pack_inputs)
