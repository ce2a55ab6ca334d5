"""BertEncoder against the papers (in numpy), and as a citizen of Keras."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from safetensors.numpy import load_file

from keras_bert import BertEncoder

from ..support.encoders import MODERN, SMALL, random_encoder, random_inputs
from ..support.messages import assert_names, error_names
from ..support.processes import run_python
from ..support.reference import encoder as reference


def test_layers_of_a_group_follow_each_other():
    """As in ALBERT's code: with two groups, four layers are A A B B."""
    grouped, plain = (random_encoder(num_layers=4, num_groups=groups, hidden_dropout=0.0) for groups in (2, None))
    weights = {weight.path.partition("/")[2]: weight for weight in grouped.weights}
    for weight in plain.weights:
        name = weight.path.partition("/")[2]
        for layer in range(4):
            name = name.replace(f"block_{layer}/", f"group_{layer // 2}/")
        weight.assign(weights[name.replace("group_", "block_")])
    inputs = random_inputs()
    np.testing.assert_allclose(grouped(inputs)["sequence_output"], plain(inputs)["sequence_output"], atol=1e-5)


@pytest.mark.parametrize("activation", reference.ACTIVATIONS)
def test_equals_the_papers_arithmetic(tmp_path, activation):
    encoder = random_encoder(activation=activation, num_layers=1 + (activation == "gelu"))
    encoder.save_preset(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    inputs = random_inputs()
    lengths = (12, 7, 1)
    for row, length in enumerate(lengths):
        inputs["input_mask"][row, length:] = 0
    outputs = encoder(inputs)
    attention = encoder.attention_scores(inputs)
    for row, length in enumerate(lengths):
        ids, types = (inputs[name][row, :length] for name in ("input_word_ids", "input_type_ids"))
        pooled, layers, scores = reference.forward(encoder.config, weights, ids, types)
        np.testing.assert_allclose(outputs["pooled_output"][row], pooled, atol=1e-5)
        np.testing.assert_allclose(outputs["sequence_output"][row, :length], layers[-1], atol=1e-5)
        for ours, theirs in zip(outputs["encoder_outputs"], layers, strict=True):
            np.testing.assert_allclose(ours[row, :length], theirs, atol=1e-5)
        for ours, theirs in zip(attention, scores, strict=True):
            np.testing.assert_allclose(ours[row, :, :length, :length], theirs, atol=1e-5)
            np.testing.assert_array_equal(ours[row, :, :, length:], 0)


def test_outputs_are_those_of_tf_hub(encoder):
    outputs = encoder(random_inputs())
    assert set(outputs) == {"pooled_output", "sequence_output", "encoder_outputs", "default"}
    assert isinstance(outputs["encoder_outputs"], list)
    np.testing.assert_array_equal(outputs["encoder_outputs"][-1], outputs["sequence_output"])
    np.testing.assert_array_equal(outputs["default"], outputs["pooled_output"])


def test_without_a_pooler_the_first_hidden_state_stands_for_the_sequence():
    outputs = random_encoder(pooler=False)(random_inputs())
    np.testing.assert_array_equal(outputs["pooled_output"], outputs["sequence_output"][:, 0])


def test_mask_and_types_may_be_left_out(encoder):
    inputs = random_inputs()
    inputs["input_type_ids"][:] = 0
    whole = encoder(inputs)["sequence_output"]
    found = encoder({"input_word_ids": inputs["input_word_ids"]})["sequence_output"]
    np.testing.assert_allclose(found, whole, atol=1e-5)


def test_nothing_but_padding_gives_finite_numbers(encoder):
    inputs = random_inputs()
    inputs["input_mask"][:] = 0
    assert all(np.isfinite(output).all() for output in tf.nest.flatten(encoder(inputs)))


@pytest.mark.parametrize(("policy", "tolerance"), [
    ("mixed_float16", 0.02), ("mixed_bfloat16", 0.15), ("float64", 1e-5),
])  # fmt: skip
def test_dtype_policies(encoder, tmp_path, policy, tolerance):
    inputs = random_inputs()
    inputs["input_mask"][1, 5:] = 0
    inputs["input_mask"][2, :] = 0
    encoder.save_preset(tmp_path)
    other = BertEncoder.from_preset(tmp_path, dtype=policy)
    expected, outputs = encoder(inputs)["sequence_output"], other(inputs)["sequence_output"]
    assert keras.backend.standardize_dtype(outputs.dtype) == keras.DTypePolicy(policy).compute_dtype
    np.testing.assert_allclose(ops.cast(outputs, "float32"), expected, atol=tolerance)


def test_dropout_is_on_only_while_training(encoder):
    inputs = random_inputs()
    still = [np.array(encoder(inputs, training=False)["sequence_output"]) for _ in range(2)]
    moving = [np.array(encoder(inputs, training=True)["sequence_output"]) for _ in range(2)]
    np.testing.assert_array_equal(*still)
    assert np.abs(moving[0] - moving[1]).max() > 0.01


SCRIPT = """
import warnings
import keras, tensorflow, tensorflow_text
filters = list(warnings.filters)
import keras_bert.encoder, keras_bert.tasks
assert warnings.filters == filters, warnings.filters[:2]
"""


@pytest.mark.slow
def test_an_import_changes_no_filter_of_warnings():
    run_python(SCRIPT)


@pytest.mark.slow
def test_a_text_of_several_chunks_in_a_graph():
    encoder = random_encoder(max_positions=4000, num_layers=1)
    ids = ops.convert_to_tensor(np.random.default_rng(0).integers(5, 50, [1, 3700]), "int32")
    inputs = {"input_word_ids": ids, "input_mask": ops.ones_like(ids), "input_type_ids": ops.zeros_like(ids)}
    specs = {name: tf.TensorSpec([None, None], tf.int32) for name in inputs}
    in_a_graph = tf.function(lambda inputs: encoder(inputs)["sequence_output"], [specs], autograph=False)(inputs)
    np.testing.assert_allclose(in_a_graph, encoder(inputs)["sequence_output"], atol=1e-5)


@pytest.mark.slow
def test_learns_inside_a_functional_model():
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in random_inputs()}
    outputs = random_encoder(num_layers=1, hidden_dropout=0.0, attention_dropout=0.0)(inputs)
    assert outputs["sequence_output"].shape == (None, None, 24)
    model = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="zeros")(outputs["pooled_output"]))
    model.compile(keras.optimizers.Adam(1e-3), "mse", jit_compile=True)
    data = random_inputs(batch=32)
    labels = (data["input_word_ids"][:, 3] % 2).astype("float32")
    losses = model.fit(data, labels, batch_size=16, epochs=20, shuffle=False, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    assert model.predict(random_inputs(seq_length=9), verbose=0).shape == (3, 1)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_a_token_that_occurs_twice_is_one_row_to_adam(policy):
    """Adam's first step is the learning rate along the sign of the gradient: it is not one step an occurrence."""
    keras.utils.set_random_seed(0)
    encoder = BertEncoder(dataclasses.replace(SMALL, num_layers=1), dtype=policy)
    table = encoder.embeddings.word_embeddings.embeddings
    inputs = {"input_word_ids": np.array([[7, 7, 7, 8], [7, 8, 9, 9]], "int32")}
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(encoder(inputs)["sequence_output"], "float32")[..., :3] ** 2)
    gradients = tape.gradient(loss, [weight.value for weight in encoder.trainable_weights[:3]])
    assert all(isinstance(gradient, tf.Tensor) for gradient in gradients)
    before = table.numpy()
    optimizer = keras.optimizers.Adam(0.01, epsilon=1e-12)
    optimizer.apply(gradients, encoder.trainable_weights[:3])
    step = np.abs(table.numpy() - before).max(axis=1)
    np.testing.assert_allclose(step[[7, 8, 9]], 0.01, rtol=1e-3)
    assert not step[[0, 6, 10]].any()


def test_the_gradient_of_an_embedding_table(encoder):
    layer = encoder.embeddings.word_embeddings
    ids = np.array([[3, 3, 4], [0, 3, 49]])
    upstream = np.random.default_rng(0).normal(size=(2, 3, 24)).astype("float32")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(ids) * upstream)
    expected = np.zeros((50, 24), "float32")
    np.add.at(expected, ids, upstream)
    np.testing.assert_allclose(tape.gradient(loss, layer.embeddings.value), expected, rtol=1e-6)


RELATIVE, DISENTANGLED = {"relative_buckets": 8}, {"disentangled_buckets": 4, "num_key_value_heads": 2}


@pytest.mark.parametrize(("suffix", "changes"), [
    ("weights.h5", {}), ("keras", MODERN),
    *(pytest.param("keras", each, marks=pytest.mark.slow) for each in (RELATIVE, DISENTANGLED)),
])  # fmt: skip
def test_keras_own_files(tmp_path, suffix, changes):
    encoder, inputs, path = random_encoder(**changes), random_inputs(), tmp_path / f"encoder.{suffix}"
    if suffix == "keras":
        encoder.save(path)
        other = keras.models.load_model(path)
    else:
        encoder.save_weights(path)
        other = BertEncoder.from_config(encoder.get_config())
        other.load_weights(path)
    assert other.config == encoder.config
    np.testing.assert_array_equal(other(inputs)["pooled_output"], encoder(inputs)["pooled_output"])
    other.trainable = False
    assert other.trainable_weights == []


def _with(**changes):
    return {**random_inputs(), **changes}


@pytest.mark.parametrize(("inputs", "words"), [
    (_with(input_word_ids=np.full((3, 12), 50)), ["input_word_ids", 50, "0 to 49"]),
    (_with(input_word_ids=np.full((3, 12), -1)), ["input_word_ids", -1, "0 to 49"]),
    (_with(input_type_ids=np.full((3, 12), 2)), ["input_type_ids", 2, "0 to 1"]),
    (random_inputs(seq_length=33), ["33 tokens", "32 positions", "truncate"]),
    (_with(input_mask=np.ones((3, 11), int)), ["input_mask", (3, 11), "input_word_ids", (3, 12)]),
    (_with(input_mask=np.ones((3, 12))), ["input_mask", "float32", "integer"]),
    ({"input_word_ids": np.ones(4, int)}, ["input_word_ids", (4,), "[batch, seq_length]"]),
    ({"input_ids": np.ones((1, 4), int)}, ["dict", "input_word_ids", "keys input_ids"]),
    (_with(input_masks=np.ones((3, 12), int)), ["input_masks", "input_word_ids, input_mask"]),
    (np.ones((1, 4), int), ["dict", "input_word_ids", "ndarray"]),
    (None, ["dict", "input_word_ids", "NoneType"]),
    (["good"], ["dict", "input_word_ids", "a list"]),
    (_with(input_mask=np.full((3, 12), 2)), ["input_mask", 2, "0 to 1"]),
    (_with(input_mask=np.full((3, 12), -1)), ["input_mask", -1, "0 to 1"]),
    (_with(input_mask=None), ["input_mask", "NoneType", "integer"]),
    (_with(input_mask=np.ones((3, 12), bool)), ["input_mask", "bool", "integer"]),
    ({"input_word_ids": [[2, 3]]}, ["input_word_ids", "a list", "integer"]),
    ({"input_word_ids": tf.ragged.constant([[2, 3], [4]])}, ["input_word_ids", "RaggedTensor", "integer"]),
    ({"input_word_ids": np.zeros((2, 0), int)}, ["input_word_ids", (2, 0), "no tokens"]),
])  # fmt: skip
def test_bad_inputs_are_named(encoder, inputs, words):
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        encoder(inputs)
    message, _, _ = str(raised.value).partition("Arguments received")  # Keras adds them, and prints ours in bold
    assert_names(message.replace("\x1b[1m", ""), *words)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64"])
def test_ids_may_be_integers_of_any_width(encoder, dtype):
    inputs = random_inputs()
    narrow = {name: np.asarray(values).astype(dtype) for name, values in inputs.items()}
    np.testing.assert_array_equal(encoder(narrow)["sequence_output"], encoder(inputs)["sequence_output"])


def test_an_encoder_is_made_from_a_configuration():
    with error_names(TypeError, "config", "'bert-base'", "BertConfig"):
        BertEncoder("bert-base")


def test_too_long_is_seen_when_a_functional_model_is_built(encoder):
    with error_names(ValueError, "33 tokens", "32 positions", "truncate"):
        encoder({"input_word_ids": keras.Input((33,), dtype="int32")})
