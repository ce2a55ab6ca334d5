"""BertEncoder -> a SavedModel with TF Hub's API for Transformer encoders."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert.checkpoints.saved_model import CONFIG
from keras_bert.encoder import BertEncoder
from keras_bert.encoder.inputs import NAMES
from keras_bert.saved_model.weights import StoredWeights
from keras_bert.saved_model.writing import callable_object, new_directory
from keras_bert.tasks.masked_lm import POSITIONS, BertMaskedLM
from keras_bert.text.inputs import require


def export_encoder(
    model: BertEncoder | BertMaskedLM, directory: str | Path, dtype: str | None = None, overwrite: bool = False
) -> None:
    """Writes a SavedModel that `hub.KerasLayer`, `HubLayer` and `tf.saved_model.load` call, and go on training.

    It follows TF Hub's reusable SavedModel interface and its common API for text encoders. Loaded again, `model` has:
        `model(inputs, training=False)`: the dict of int32 `[batch, seq_length]` that a preprocessor makes, all three of
            its tensors -> `pooled_output`, `sequence_output`, `encoder_outputs` and `default`, as of `BertEncoder`, in
            float32; dropout is on when training;
        `model.variables`, `model.trainable_variables`: all the weights, and `model.regularization_losses`: none;
        `model.mlm(inputs, training=False)`, if a `BertMaskedLM` was given: with `masked_lm_positions`, int32
            `[batch, predictions]`, among the inputs, and `mlm_logits`, `[batch, predictions, vocab_size]`, among the
            outputs. The head's weights are among its `variables`, not among the model's.
    `BertEncoder.from_preset(directory)` reads it too.

    Args:
        model: an encoder, or an encoder with its masked-language head.
        directory: made; it must not exist yet.
        dtype: "float16" or "bfloat16" stores the weights in half the size. They are turned into float32 again in every
            call, which takes time, and training them further loses small updates.
        overwrite: whether to replace a SavedModel that is there.

    Raises:
        FileExistsError: `directory` exists, and `overwrite` is False or it is no SavedModel.
        TypeError: `model` is something else.
        ValueError: an unknown `dtype`, or one too small for a weight.

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
    if not isinstance(model, BertEncoder | BertMaskedLM):
        raise TypeError(f"got a {type(model).__name__}; export_encoder takes a BertEncoder or a BertMaskedLM")
    encoder = model if isinstance(model, BertEncoder) else model.encoder
    with new_directory(directory, overwrite) as unfinished:
        weights = StoredWeights(model, dtype, root=encoder)
        positions = encoder.config.max_positions

        def encode(inputs: dict[str, tf.Tensor], training: bool) -> dict[str, Any]:
            pieces = tf.shape(inputs[NAMES[0]])[1]
            # A GPU reads zeros past the end of a table, without a word.
            require(pieces <= positions, f"the model has {positions} positions, but the sequence pieces:", pieces)
            with weights.in_place():
                return encoder(inputs, training=training)

        def predict(inputs: dict[str, tf.Tensor], training: bool) -> dict[str, Any]:
            inputs = dict(inputs)
            masked = inputs.pop(POSITIONS)
            outputs = root.__call__(inputs, training)  # rather than the encoder, which would be traced again
            with weights.in_place():
                return {**outputs, "mlm_logits": model.logits(outputs["sequence_output"], masked)}

        root = _part(encode, NAMES, weights.of(encoder))
        if isinstance(model, BertMaskedLM):
            root.mlm = _part(predict, (*NAMES, POSITIONS), weights.variables)

        @tf.function(input_signature=[_specs(NAMES)])
        def serving_default(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            outputs = root.__call__(inputs, False)  # Python itself looks for it in the class
            return {name: outputs[name] for name in ("pooled_output", "sequence_output")}

        tf.saved_model.save(root, str(unfinished), signatures=serving_default.get_concrete_function())
        encoder.config.write(unfinished / CONFIG)  # for BertEncoder.from_preset


def _specs(names: tuple[str, ...]) -> dict[str, tf.TensorSpec]:
    return {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}


def _part(compute: Callable[..., Any], names: tuple[str, ...], variables: list[tf.Variable]) -> tf.train.Checkpoint:
    """`compute(inputs, training)` as an object of TF Hub's interface."""

    @tf.function
    def call(inputs: dict[str, tf.Tensor], training: bool = False) -> dict[str, Any]:
        # The interface's type, whatever the model computes with.
        return tf.nest.map_structure(lambda output: tf.cast(output, tf.float32), compute(inputs, training))

    for training in (False, True):
        call.get_concrete_function(_specs(names), training)
    trainable = [variable for variable in variables if variable.trainable]
    return callable_object(call, variables=variables, trainable_variables=trainable, regularization_losses=[])
