"""What encoders since BERT change, against its formula in numpy; the parity tests compare whole models."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig
from keras_bert.encoder.activations import feed_forward_activation
from keras_bert.encoder.layout import Layout
from keras_bert.encoder.local_attention import Band
from keras_bert.encoder.relative_bias import buckets_of
from keras_bert.encoder.rms_norm import RMSNorm
from keras_bert.encoder.rotary import rotated

from ..support.encoders import MODERN, SMALL, random_encoder, random_inputs


def test_rotary_positions_turn_points_in_the_complex_plane():
    x = np.random.default_rng(0).normal(size=(5, 2, 6)).astype("float32")
    positions = np.array([0, 1, 2, 300, 1])
    angles = positions[:, None] * 100.0 ** -(np.arange(3) / 3)  # radians, [rows, points]
    turned = (x[..., :3] + 1j * x[..., 3:]) * np.exp(1j * angles)[:, None]
    expected = np.concatenate([turned.real, turned.imag], axis=-1)
    np.testing.assert_allclose(rotated(x, positions, 100.0), expected, rtol=0, atol=1e-4)


def test_products_of_rotary_positions_depend_on_the_distance_only():
    query, key = (np.tile(np.random.default_rng(i).normal(size=(1, 8)).astype("float32"), (40, 1)) for i in (1, 2))
    places = np.arange(40)
    scores = np.asarray(rotated(query, places, 50.0)) @ np.asarray(rotated(key, places, 50.0)).T
    for distance in (-7, 0, 3):
        assert np.ptp(np.diagonal(scores, distance)) < 1e-4
    assert np.ptp(scores[0]) > 1


# Figure 1 of Raffel et al.'s code: 32 buckets, of which 16 for each direction, up to a distance of 128.
@pytest.mark.parametrize(
    ("distance", "bucket"),
    [(0, 0), (-1, 1), (-7, 7), (-8, 8), (-11, 8), (-12, 9), (-127, 15), (-500, 15), (1, 17), (8, 24), (500, 31)],
)
def test_buckets_of_distances(distance, bucket):
    assert int(buckets_of(np.array([distance], "int32"), 32)[0]) == bucket


def test_a_gate():
    x = np.random.default_rng(0).normal(size=(4, 10)).astype("float32")
    gated = feed_forward_activation(BertConfig(**{**SMALL.to_dict(), "activation": "relu", "gated": True}))
    np.testing.assert_allclose(gated(x), np.maximum(x[:, :5], 0) * x[:, 5:], rtol=1e-6)


def test_rms_norm():
    x = np.random.default_rng(0).normal(loc=2, size=(4, 10)).astype("float32")
    norm = RMSNorm(1e-3)
    norm.build((None, 10))
    norm.gamma.assign(np.arange(10))
    expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-3) * np.arange(10)
    np.testing.assert_allclose(norm(x), expected, rtol=0, atol=1e-5)
    assert RMSNorm(1e-3, dtype="mixed_float16")(x * 1000).dtype == "float16"


@pytest.mark.parity
def test_rms_norm_is_torchs():
    torch = pytest.importorskip("torch")
    x, norm = np.random.default_rng(0).normal(size=(4, 10)).astype("float32"), RMSNorm(1e-5)
    theirs = torch.nn.RMSNorm(10, eps=1e-5)
    norm.build((None, 10))
    norm.gamma.assign(np.linspace(-1, 2, 10))
    theirs.weight.data = torch.tensor(np.linspace(-1, 2, 10), dtype=torch.float32)
    np.testing.assert_allclose(norm(x), theirs(torch.tensor(x)).detach(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("window", "length"), [(1, 12), (2, 12), (6, 12), (6, 13), (22, 12), (64, 12), (6, 1)])
def test_local_attention_is_full_attention_with_a_mask(window, length):
    encoder = random_encoder(**{**MODERN, "local_window": window})
    inputs = random_inputs(seq_length=length)
    inputs["input_mask"][1, length // 2 :] = 0
    layout = Layout((3, length), inputs["input_mask"])
    hidden = np.random.default_rng(0).normal(size=(len(layout.places), 24)).astype("float32")
    attention = encoder.blocks[1].attention
    value = layout.sequences(attention._projected(hidden, layout)[:, 48:])
    value = np.transpose(np.reshape(value, (3, length, 4, 6)), (0, 2, 1, 3))
    shares = np.asarray(attention.scores(hidden, layout))
    context = np.transpose(shares @ value, (0, 2, 1, 3)).reshape(3, length, 24)
    expected = attention.output_dense(layout.rows(tf.constant(context)))
    np.testing.assert_allclose(attention(hidden, layout=layout), expected, rtol=0, atol=1e-5)
    distances = np.abs(np.arange(length)[:, None] - np.arange(length))
    assert not shares[0][:, distances > window // 2].any()
    assert (shares[0][:, distances <= window // 2] > 0).all()


def test_the_band_grows_with_the_length_not_with_its_square():
    sizes = [np.prod(Band(Layout((2, length)), 8).mask.shape) for length in (64, 128, 256)]
    assert sizes == [2 * length * 3 * 8 for length in (64, 128, 256)]


@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_graphs_of_any_length_agree_with_eager_calls(jit_compile):
    encoder, inputs = random_encoder(**MODERN), random_inputs(seq_length=21)
    inputs["input_mask"][2, 5:] = 0
    signature = {name: tf.TensorSpec((None, None), tf.int32) for name in inputs}
    run = tf.function(encoder, input_signature=[signature], jit_compile=jit_compile)
    mask = inputs["input_mask"].astype(bool)
    found, expected = (np.asarray(outputs["sequence_output"])[mask] for outputs in (run(inputs), encoder(inputs)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_the_mean_of_all_tokens_is_pooled():
    encoder, inputs = random_encoder(**MODERN, pooling="mean"), random_inputs()
    inputs["input_mask"][0, 4:] = 0
    outputs = encoder(inputs)
    np.testing.assert_allclose(
        outputs["pooled_output"][0], np.mean(outputs["sequence_output"][0, :4], axis=0), rtol=0, atol=1e-5
    )
    pooled = encoder({"input_word_ids": inputs["input_word_ids"]})["pooled_output"]
    assert pooled.shape == (3, 24)


SLOW = [{"relative_buckets": 8}, {"norm": "rms_norm", "gated": True}]


@pytest.mark.parametrize("changes", [MODERN, *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)])
def test_a_keras_file_of_it(changes, tmp_path):
    encoder = random_encoder(**changes)
    encoder.save(tmp_path / "encoder.keras")
    again = keras.saving.load_model(tmp_path / "encoder.keras")
    assert again.config == encoder.config
    inputs = random_inputs()
    np.testing.assert_array_equal(again(inputs)["pooled_output"], encoder(inputs)["pooled_output"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rope_theta": 10.0, "hidden_size": 12}, "rotary positions turn pairs of numbers, but a head is 3 wide"),
        ({"global_every": 2, "num_groups": 1}, "layers that share weights .num_groups. cannot be local and global"),
        ({"global_every": 2, "relative_buckets": 8}, "local attention .global_every. has no relative_buckets"),
        ({"norm": "batch"}, "norm must be one of layer_norm, rms_norm, not 'batch'"),
        ({"pooling": "max"}, "pooling must be one of first, mean, not 'max'"),
        ({"rope_theta": 0}, "rope_theta must be a number above 0, not 0"),
        ({"global_every": 0}, "global_every must be a whole number of at least 1, not 0"),
        ({"head_activation": "mish"}, "head_activation must be one of gelu, .*, None, not 'mish'"),
    ],
)
def test_switches_that_make_no_sense(changes, message):
    with pytest.raises(ValueError, match=message):
        BertConfig(**{**SMALL.to_dict(), **changes})
