"""AdamW, LAMB and their schedule against the formulas of the papers, in numpy."""

import keras
import numpy as np
import pytest

from keras_bert import BertReranker, BertSentenceEncoder
from keras_bert.optimizers import LAMB, AdamW, WarmupThenDecay
from keras_bert.recipe import FineTuningRecipe
from keras_bert.training.loop import compile_model

from ..support import small
from ..support.messages import error_names
from ..support.optimizers import STEPS, problem, trained
from ..support.processes import run_python


def by_hand(weights, gradients, rate, lamb=False, decay=0.01, beta_1=0.9, beta_2=0.999):
    """Loshchilov and Hutter 2019, algorithm 2, in float64; vectors do not decay.

    For LAMB, You et al. 2020, algorithm 2: the step of a matrix is also scaled, that of a vector is not.
    """
    epsilon = 1e-6 if lamb else 1e-8
    weights = [weight.copy() for weight in weights]
    moments = [(np.zeros_like(weight), np.zeros_like(weight)) for weight in weights]
    for step, each in enumerate(gradients, start=1):
        for weight, (first, second), gradient in zip(weights, moments, each, strict=True):
            first += (1 - beta_1) * (gradient - first)
            second += (1 - beta_2) * (gradient**2 - second)
            change = first / (1 - beta_1**step) / (np.sqrt(second / (1 - beta_2**step)) + epsilon)
            if weight.ndim > 1:
                change += decay * weight
                change *= np.linalg.norm(weight) / np.linalg.norm(change) if lamb else 1
            weight -= rate(step - 1) * change
    return weights


@pytest.mark.parametrize("kind", [AdamW, LAMB])
def test_the_papers_formula(kind):
    schedule = WarmupThenDecay(0.01, 5, STEPS)
    want = by_hand(*problem(), lambda step: 0.01 * min(step / 5, (STEPS - step) / 15), kind is LAMB)
    for got, expected in zip(trained(kind(schedule), *problem()), want, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-6)


def test_lamb_moves_zeros():
    """A matrix of zeros has no length to scale a step by; without a gradient, nothing moves."""
    ones = [(np.ones((2, 2)), np.ones(2))]
    matrix, vector = trained(LAMB(0.1), [np.zeros((2, 2)), np.zeros(2)], ones)
    np.testing.assert_allclose(matrix, -0.1, rtol=1e-4)
    np.testing.assert_allclose(vector, -0.1, rtol=1e-4)
    (still,) = trained(LAMB(0.1, weight_decay=0.0), [np.ones((2, 2))], [(np.zeros((2, 2)),)])
    np.testing.assert_array_equal(still, 1)


# LAMB's step has the norm of a whole matrix, so a scale of each column changes all of its columns.
@pytest.mark.parametrize(("kind", "scale"), [(AdamW, 3.0), (AdamW, "of each column"), (LAMB, 3.0)])
def test_a_scale_multiplies_the_steps_of_a_weight_and_not_its_decay(kind, scale):
    """A weight of `scale * w`, whose gradient is that of `w` divided by `scale`, moves as `w` does, times `scale`."""
    generator = np.random.default_rng(0)
    weights = [generator.normal(size=(5, 4)), generator.normal(size=4)]
    gradients = [[generator.normal(size=weight.shape) for weight in weights] for _ in range(5)]
    scale = np.arange(1.0, 5.0) if isinstance(scale, str) else scale
    want = by_hand(weights, gradients, rate=lambda step: 0.01, lamb=kind is LAMB)
    variables = [keras.Variable(weight * scale, dtype="float32") for weight in weights]
    optimizer = kind(0.01, learning_rate_factors={variable.path: scale for variable in variables})
    assert kind.from_config(optimizer.get_config()).learning_rate_factors == optimizer.learning_rate_factors
    for each in gradients:
        optimizer.apply([keras.ops.convert_to_tensor(gradient / scale, "float32") for gradient in each], variables)
    for variable, expected in zip(variables, want, strict=True):
        np.testing.assert_allclose(variable.numpy() / scale, expected, atol=1e-6)


def test_accumulated_gradients_are_one_update():
    weights, gradients = problem()
    means = [tuple(np.mean(pair, axis=0) for pair in zip(*gradients[i : i + 4], strict=True)) for i in range(0, 20, 4)]
    schedule = WarmupThenDecay(0.01, 2, 5)
    want = trained(AdamW(schedule), weights, means)
    got = trained(AdamW(schedule, gradient_accumulation_steps=4), weights, gradients)
    for each, expected in zip(got, want, strict=True):
        np.testing.assert_allclose(each, expected, atol=1e-6)


def test_lower_layers_learn_more_slowly():
    encoder = small.encoder()
    optimizer = AdamW(1.0, layer_decay=0.5, num_layers=2)
    optimizer.build(encoder.trainable_variables)
    rates = zip(encoder.trainable_variables, optimizer._rate_factors, strict=True)
    part = {variable.path.split("/")[1]: rate for variable, rate in rates}
    assert part == {"embeddings": 0.125, "block_0": 0.25, "block_1": 0.5, "pooler": 1.0}


@pytest.mark.parametrize("optimizer", [
    AdamW(WarmupThenDecay(1e-3, 2, 9), 0.1, layer_decay=0.9, num_layers=3),
    LAMB(WarmupThenDecay(1e-3, 2, 9), weight_decay=0.1, beta_2=0.98),
])  # fmt: skip
def test_from_config(optimizer):
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is type(optimizer)
    assert again.get_config() == optimizer.get_config()
    assert float(again._learning_rate(1)) == pytest.approx(5e-4)


def test_a_learning_rate_that_was_set_to_0_can_be_set_again():
    schedule = WarmupThenDecay(1e-3, 0, 10)
    schedule.rescale(0.0, 5)
    assert float(schedule(5)) == 0
    schedule.rescale(1e-4, 5)
    np.testing.assert_allclose([schedule(5), schedule(0)], [1e-4, 2e-4], rtol=1e-6)


def test_without_warmup_the_first_step_has_the_peak():
    schedule = WarmupThenDecay(1.0, 0, 4)
    assert [float(schedule(step)) for step in range(5)] == [1, 0.75, 0.5, 0.25, 0]


@pytest.mark.parametrize("kind", [AdamW, LAMB])
def test_a_schedule_does_not_replace_that_of_a_run(kind):
    """Nothing would follow it once training has been traced, and a run could not be resumed with it."""
    optimizer = kind(WarmupThenDecay(1.0, 0, 4))
    with error_names(TypeError, "WarmupThenDecay", "a number", "CosineDecay"):
        optimizer.learning_rate = keras.optimizers.schedules.CosineDecay(1.0, 4)
    optimizer.learning_rate = 0.5
    assert [float(optimizer.schedule(step)) for step in range(3)] == [0.5, 0.375, 0.25]


@pytest.mark.parametrize(("warmup", "updates", "rates"), [(0.6, 1, [1]), (1.0, 1, [1]), (1.0, 3, [0, 0.5, 1])])
def test_a_run_is_never_all_at_the_rate_0(warmup, updates, rates):
    model = BertReranker(small.encoder(num_layers=1), small.preprocessor())
    compile_model(model, FineTuningRecipe.of(warmup=warmup, learning_rate=1.0), updates)
    assert [float(model.optimizer.schedule(step)) for step in range(updates)] == rates


@pytest.mark.parametrize("kind", [BertSentenceEncoder, BertReranker])
def test_tasks_are_compiled_with_it(kind):
    model = kind(small.encoder(), small.preprocessor())
    model.compile(loss="mse")
    assert isinstance(model.optimizer, AdamW)
    assert float(model.optimizer.learning_rate) == pytest.approx(5e-5)  # the highest of Devlin et al. 2018, A.3
    model.compile("sgd", "mse")
    assert isinstance(model.optimizer, keras.optimizers.SGD)


def test_it_takes_the_gradients_of_keras_embeddings():
    """TensorFlow's have a row for each lookup; the rows of a token count as their sum."""
    model = keras.Sequential([keras.layers.Embedding(5, 2, embeddings_initializer="ones")])
    model.compile(AdamW(0.1, weight_decay=0.0), lambda y, predicted: predicted[..., 0])
    model.fit(np.array([[1, 1, 3]]), np.zeros((1, 3)), verbose=0)
    expected = np.ones((5, 2))
    expected[[1, 3], 0] = 0.9  # Adam's first step has the size of the learning rate
    np.testing.assert_allclose(model.get_weights()[0], expected, atol=1e-5)


@pytest.mark.slow
def test_a_file_that_it_trained_needs_no_import_of_it(tmp_path):
    path = str(tmp_path / "model.keras")
    inputs = {name: keras.Input([None], dtype="int32", name=name) for name in ("input_word_ids", "input_mask")}
    model = keras.Model(inputs, small.encoder()(inputs)["pooled_output"])
    model.compile(AdamW(2e-5), "mse")
    model.save(path)
    code = (
        "import sys, keras; from keras_bert import BertEncoder; print(keras.models.load_model(sys.argv[1]).optimizer)"
    )
    assert "AdamW" in run_python(code, path)
