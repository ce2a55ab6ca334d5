"""BertEncoder -> a SavedModel with TF Hub's API for Transformer encoders."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert.encoder import BertEncoder
from keras_bert.encoder.encoder import NAMES
from keras_bert.formats import write_config
from keras_bert.formats.saved_model import CONFIG
from keras_bert.saved_model import precision_card
from keras_bert.saved_model.plain_variables import StoredWeights
from keras_bert.saved_model.saving import callable_object, new_directory
from keras_bert.tasks.masked_lm import POSITIONS, BertMaskedLM


def export_encoder(
    model: BertEncoder | BertMaskedLM, directory: str | Path, dtype: str | None = None, overwrite: bool = False
) -> None:
    """Writes a SavedModel to call and fine-tune with `hub.KerasLayer`, `HubLayer` or `tf.saved_model.load`.

    It follows TF Hub's reusable SavedModel interface and its common API for text encoders. The loaded `model` has:
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

    Raises:
        FileExistsError: `directory` exists, and `overwrite` is False or it is not a SavedModel.
        TypeError: `model` is something else.
        ValueError: `dtype` is unknown, or cannot hold a weight.

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
    trains = encoder.precision == "float32"
    with new_directory(directory, overwrite) as unfinished:
        weights = StoredWeights(model, dtype, root=encoder)
        positions = encoder.config.max_positions

        def encode(inputs: dict[str, tf.Tensor], training: bool) -> dict[str, Any]:
            tokens = tf.shape(inputs[NAMES[0]])[1]
            message = f"the model has {positions} positions, but the sequence tokens:"
            checks = [tf.debugging.Assert(tokens <= positions, [message, tokens])]
            # A lookup past the end of a table reads zeros on GPUs; on CPUs, its error could come first.
            inputs = {name: values[:, :positions] for name, values in inputs.items()}
            if training and not trains:
                message = f"this SavedModel computes in {encoder.precision} and cannot be trained; export it in float32"
                checks.append(tf.debugging.Assert(False, [message]))
            with weights.in_place(), tf.control_dependencies(checks):
                return encoder(inputs, training=training and trains)

        def predict(inputs: dict[str, tf.Tensor], training: bool) -> dict[str, Any]:
            inputs = dict(inputs)
            masked = inputs.pop(POSITIONS)
            outputs = root.__call__(inputs, training)  # the encoder itself would be traced again
            with weights.in_place():
                return {**outputs, "mlm_logits": model.logits(outputs["sequence_output"], masked)}

        root = _part(encode, NAMES, weights.of(encoder), trains)
        if has_masked_lm:
            root.mlm = _part(predict, (*NAMES, POSITIONS), weights.variables, trains)

        @tf.function(input_signature=[_specs(NAMES)], autograph=False)
        def serving_default(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            outputs = root.__call__(inputs, False)  # not `root(...)`: the class has no __call__
            return {name: outputs[name] for name in ("pooled_output", "sequence_output")}

        tf.saved_model.save(root, str(unfinished), signatures=serving_default.get_concrete_function())
        if trains:
            write_config(unfinished / CONFIG, encoder.config)  # for BertEncoder.from_preset
        else:
            precision_card.write(unfinished, encoder.precision)


def _specs(names: tuple[str, ...]) -> dict[str, tf.TensorSpec]:
    return {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}


def _part(
    compute: Callable[..., Any], names: tuple[str, ...], variables: list[tf.Variable], trains: bool
) -> tf.train.Checkpoint:
    """An object of TF Hub's interface that calls `compute(inputs, training)`."""

    @tf.function(autograph=False)
    def call(inputs: dict[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        # TF Hub's interface has float32, even for a model in another dtype.
        return tf.nest.map_structure(lambda output: tf.cast(output, tf.float32), compute(inputs, training))

    traced = [call.get_concrete_function(_specs(names), training) for training in (False, True)]
    if not trains:  # most weights are constants
        read = {id(variable) for variable in traced[0].variables}
        variables = [variable for variable in variables if id(variable) in read]
    trainable = [variable for variable in variables if variable.trainable and trains]
    return callable_object(call, variables=variables, trainable_variables=trainable, regularization_losses=[])
