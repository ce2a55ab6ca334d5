"""TF Hub's reusable SavedModel interface and its common API for text encoders: our exports, and TF Hub's own.

What is asked here is asked by TF Hub's two pages, "Reusable SavedModels" and "Common SavedModel APIs for Text Tasks".
Tests of what only ours have are at the end.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

NAMES = {"input_word_ids", "input_mask", "input_type_ids"}


def random_inputs(models, batch=2, seq_length=9):
    """Random tokens in two segments; each row after the first has one token less, then padding."""
    generator = np.random.default_rng(0)
    lengths = np.maximum(seq_length - np.arange(batch), 1)[:, None]
    mask = np.arange(seq_length) < lengths
    ids = generator.integers(5, len(models.vocabulary) - 1, (batch, seq_length))
    types = np.arange(seq_length) >= lengths // 2
    values = {"input_word_ids": ids * mask, "input_mask": mask, "input_type_ids": types * mask}
    return {name: tf.constant(value, tf.int32) for name, value in values.items()}


def at(packed, positions):
    """The inputs of `mlm`."""
    return {**packed, "masked_lm_positions": tf.constant(positions, tf.int32)}


@pytest.fixture(scope="session")
def inputs(models):
    return functools.partial(random_inputs, models)


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True))


@pytest.mark.parametrize("training", [None, False, True])
@pytest.mark.parametrize("batch", [2, 0, pytest.param(17, marks=pytest.mark.slow)])
def test_outputs(models, encoder, inputs, batch, training):
    arguments = {} if training is None else {"training": training}
    for seq_length in (9, 1, models.positions) if batch == 2 else (9,):
        outputs = encoder(inputs(batch, seq_length), **arguments)
        assert set(outputs) == {"pooled_output", "sequence_output", "encoder_outputs", "default"}
        assert isinstance(outputs["encoder_outputs"], list)
        assert len(outputs["encoder_outputs"]) == 2
        for hidden in (outputs["sequence_output"], *outputs["encoder_outputs"]):
            assert (hidden.dtype, hidden.shape) == (tf.float32, (batch, seq_length, models.hidden_size))
        for vector in (outputs["pooled_output"], outputs["default"]):
            assert (vector.dtype, vector.shape) == (tf.float32, (batch, models.hidden_size))
        np.testing.assert_array_equal(outputs["encoder_outputs"][-1], outputs["sequence_output"])
        np.testing.assert_array_equal(outputs["default"], outputs["pooled_output"])
        assert all(np.isfinite(tensor).all() for tensor in tf.nest.flatten(outputs))


def test_static_shapes_are_known_to_the_surrounding_model(models, encoder):
    @tf.function(input_signature=[{name: tf.TensorSpec([None, None], tf.int32) for name in NAMES}])
    def outer(packed):
        return encoder(packed)

    outputs = outer.get_concrete_function().structured_outputs
    assert outputs["pooled_output"].shape.as_list() == [None, models.hidden_size]
    assert outputs["sequence_output"].shape.as_list() == [None, None, models.hidden_size]


def test_dropout_only_when_training_and_anew_in_each_call(encoder, inputs):
    packed = inputs()
    quiet = encoder(packed)
    assert same(quiet, encoder(packed, training=False))

    @tf.function
    def step():
        return [encoder(packed, training=True) for _ in range(2)]

    (first, second), (third, _) = step(), step()
    for name in ("pooled_output", "sequence_output"):
        for other in (quiet, second, third):
            assert np.abs(first[name] - other[name]).max() > 0.01


def test_more_tokens_than_positions(models, encoder, inputs):
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        encoder(inputs(1, models.positions + 1))


def test_padding_and_neighbours_do_not_matter(encoder, inputs):
    packed = inputs()
    batch = encoder(packed)
    alone = encoder({name: tensor[1:, :8] for name, tensor in packed.items()})  # without its padding
    np.testing.assert_allclose(alone["sequence_output"], batch["sequence_output"][1:, :8], atol=1e-5)
    np.testing.assert_allclose(alone["pooled_output"], batch["pooled_output"][1:], atol=1e-5)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_input_matters(encoder, inputs, name):
    packed = inputs()
    changed = {**packed, name: 1 - packed[name]} if name != "input_word_ids" else {**packed, name: packed[name] + 1}
    assert np.abs(encoder(changed)["pooled_output"] - encoder(packed)["pooled_output"]).max() > 1e-4


def references(variables):
    return {variable.ref() for variable in variables}


def used_by(call):
    return references(variable for function in call.concrete_functions for variable in function.variables)


def test_variables(models, encoder):
    assert references(encoder.trainable_variables) <= references(encoder.variables)
    assert all(variable.trainable for variable in encoder.trainable_variables)
    assert len(encoder.variables) == len(references(encoder.variables))
    assert sum(int(tf.size(variable)) for variable in encoder.trainable_variables) == models.weights
    assert used_by(encoder.__call__)
    assert used_by(encoder.__call__) <= references(encoder.variables)


def test_regularization_losses(encoder):
    for loss in encoder.regularization_losses:
        assert (loss().dtype.is_floating, loss().shape) == (True, ())


@pytest.mark.slow
def test_every_trainable_variable_gets_a_gradient(encoder, inputs):
    with tf.GradientTape() as tape:
        outputs = encoder(inputs(), training=True)
        loss = tf.reduce_sum(outputs["pooled_output"] ** 2) + tf.reduce_sum(outputs["sequence_output"] ** 3)
    for variable, gradient in zip(
        encoder.trainable_variables, tape.gradient(loss, encoder.trainable_variables), strict=True
    ):
        assert gradient is not None, variable.name
        assert np.isfinite(tf.convert_to_tensor(gradient)).all()
        if "key/bias" not in variable.name:  # it adds the same to all scores of a row, which softmax ignores
            assert np.any(tf.convert_to_tensor(gradient)), variable.name


def test_a_call_reads_the_listed_variables(encoder, inputs):
    packed = inputs()
    before = encoder(packed)["pooled_output"]
    bias = next(variable for variable in encoder.variables if "pooler" in variable.name and variable.shape.rank == 1)
    old = bias.numpy()
    bias.assign_add(tf.ones_like(bias))
    try:
        moved = encoder(packed)["pooled_output"]
        np.testing.assert_allclose(np.arctanh(moved) - np.arctanh(before), 1, atol=0.05)
    finally:
        bias.assign(old)


@pytest.mark.parametrize("training", [None, False, True])
def test_mlm(models, encoder, inputs, training):
    arguments = {} if training is None else {"training": training}
    for positions in ([[1, 4, 4], [8, 0, 2]], [[5]], np.zeros((0, 4))):
        outputs = encoder.mlm(at(inputs(len(positions)), positions), **arguments)
        assert set(outputs) >= {"mlm_logits", "pooled_output", "sequence_output", "encoder_outputs"}
        assert outputs["mlm_logits"].dtype == tf.float32
        assert outputs["mlm_logits"].shape == (*np.shape(positions), len(models.vocabulary))


def test_mlm_predicts_at_the_positions(encoder, inputs):
    logits = encoder.mlm(at(inputs(), [list(range(9))] * 2))["mlm_logits"].numpy()  # everywhere
    picked = encoder.mlm(at(inputs(), [[1, 4, 4], [7, 0, 2]]))["mlm_logits"]
    for row, positions in enumerate([[1, 4, 4], [7, 0, 2]]):
        np.testing.assert_allclose(picked[row], logits[row, positions], atol=1e-4)
        assert np.abs(logits[row, 1] - logits[row, 4]).max() > 0.1


def test_mlm_gives_the_encoders_outputs_too_and_has_dropout_only_when_training(encoder, inputs):
    packed = at(inputs(), [[1], [2]])
    outputs, quiet = encoder(inputs()), encoder.mlm(packed)
    for name in ("pooled_output", "sequence_output", "encoder_outputs"):
        for a, b in zip(tf.nest.flatten(outputs[name]), tf.nest.flatten(quiet[name]), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)
    assert same(quiet, encoder.mlm(packed, training=False))
    assert np.abs(encoder.mlm(packed, training=True)["mlm_logits"] - quiet["mlm_logits"]).max() > 0.01


def test_the_heads_weights_are_outside_of_the_roots(models, encoder):
    head = references(encoder.mlm.variables) - references(encoder.variables)
    size = models.hidden_size
    shapes = sorted(reference.deref().shape.as_list() for reference in head)
    # Dense and its bias, gamma, beta, the tokens' biases.
    assert shapes == sorted([[size, size], *[[size]] * 3, [len(models.vocabulary)]])
    assert head <= references(encoder.mlm.trainable_variables)
    assert references(encoder.trainable_variables) <= references(encoder.mlm.variables)
    assert used_by(encoder.mlm.__call__) <= references(encoder.mlm.variables)


def test_mlm_without_a_position(ours, our_encoder):
    logits = our_encoder.mlm(at(random_inputs(ours), np.zeros((2, 0))))["mlm_logits"]
    assert logits.shape == (2, 0, len(ours.vocabulary))  # TF Hub's: (1, 0, ...)


def test_the_error_for_more_tokens_than_positions_says_so(ours, our_encoder):
    packed = random_inputs(ours, 2, 60)
    for call, arguments in ((our_encoder, packed), (our_encoder.mlm, at(packed, [[0], [0]]))):
        message = r"the model has 48 positions, but the sequence tokens:\] \[60"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            call(arguments)
