"""What encoders since BERT change, against its formula in numpy; the parity tests compare whole models."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertEncoder
from keras_bert.encoder import attention
from keras_bert.encoder.disentangled import buckets_of_distances, distance_scores, select_distances
from keras_bert.encoder.layers import RMSNorm, feed_forward_activation
from keras_bert.encoder.positions import compute_buckets, rotate
from keras_bert.encoder.unpadding import AttentionMask, Unpadding

from ..support.encoders import MODERN, SMALL, SWITCHES, random_encoder, random_inputs
from ..support.messages import error_names


def test_rotary_positions_turn_points_in_the_complex_plane():
    x = np.random.default_rng(0).normal(size=(5, 2, 6)).astype("float32")
    positions = np.array([0, 1, 2, 300, 1])
    angles = positions[:, None] * 100.0 ** -(np.arange(3) / 3)  # radians, [rows, points]
    turned = (x[..., :3] + 1j * x[..., 3:]) * np.exp(1j * angles)[:, None]
    expected = np.concatenate([turned.real, turned.imag], axis=-1)
    np.testing.assert_allclose(rotate(x, positions, 100.0), expected, rtol=0, atol=1e-4)


# Figure 1 of Raffel et al.'s code: 32 buckets, of which 16 for each direction, up to a distance of 128.
@pytest.mark.parametrize(
    ("distance", "bucket"),
    [(0, 0), (-1, 1), (-7, 7), (-8, 8), (-11, 8), (-12, 9), (-127, 15), (-500, 15), (1, 17), (8, 24), (500, 31)],
)
def test_buckets_of_distances(distance, bucket):
    assert int(compute_buckets(np.array([distance], "int32"), 32)[0]) == bucket


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


@pytest.mark.parametrize(("window", "length"), [(1, 12), (2, 12), (6, 12), (6, 13), (22, 12), (64, 12), (6, 1)])
def test_local_attention_is_full_attention_with_a_mask(window, length):
    encoder = random_encoder(**{**MODERN, "local_window": window})
    inputs = random_inputs(seq_length=length)
    inputs["input_mask"][1, length // 2 :] = 0
    unpadding = Unpadding((3, length), inputs["input_mask"], half_window=window // 2)
    mask = AttentionMask(unpadding)
    hidden = np.random.default_rng(0).normal(size=(len(unpadding.flat_indices), 24)).astype("float32")
    attention = encoder.blocks[1].attention
    value = attention.heads.split_sequences(attention.qkv(hidden), unpadding)[2]
    shares = np.asarray(attention.attention_scores(hidden, unpadding, mask))
    context = np.transpose(shares @ value, (0, 2, 1, 3)).reshape(3, length, 24)
    expected = attention.output_dense(unpadding.tokens(tf.constant(context)))
    np.testing.assert_allclose(attention(hidden, unpadding=unpadding, attention_mask=mask), expected, rtol=0, atol=1e-5)
    distances = np.abs(np.arange(length)[:, None] - np.arange(length))
    assert not shares[0][:, distances > window // 2].any()
    assert (shares[0][:, distances <= window // 2] > 0).all()


@pytest.mark.parametrize("first_global", [0, 1])
def test_a_token_reads_half_a_window_on_each_side_in_layers_that_are_local(first_global):
    encoder = random_encoder(**{**MODERN, "num_layers": 1, "local_window": 6, "first_global": first_global})
    inputs, changed = random_inputs(seq_length=12), random_inputs(seq_length=12)
    changed["input_word_ids"][:, 5] = (inputs["input_word_ids"][:, 5] + 1) % 50
    one, other = (np.asarray(encoder(each)["sequence_output"]) for each in (inputs, changed))
    reach = 3 if first_global else 12
    assert (one != other).any(axis=(0, 2)).tolist() == [abs(place - 5) <= reach for place in range(12)]


def test_the_band_grows_with_the_length_not_with_its_square():
    batches = [Unpadding((2, length), half_window=8) for length in (64, 128, 256)]
    sizes = [np.prod(AttentionMask(unpadding).additive(is_local=True).shape) for unpadding in batches]
    assert sizes == [2 * length * 3 * 8 for length in (64, 128, 256)]


def of_few_layers(switch):
    return random_encoder(num_layers=2 if switch == "modern" else 1, **SWITCHES[switch])


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_graphs_of_any_length_agree_with_eager_calls(switch, jit_compile):
    encoder, inputs = of_few_layers(switch), random_inputs(seq_length=21)
    inputs["input_mask"][2, 5:] = 0
    signature = {name: tf.TensorSpec((None, None), tf.int32) for name in inputs}
    run = tf.function(encoder, input_signature=[signature], jit_compile=jit_compile)
    mask = inputs["input_mask"].astype(bool)
    found, expected = (np.asarray(outputs["sequence_output"])[mask] for outputs in (run(inputs), encoder(inputs)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=5e-5)


@pytest.mark.parametrize(
    ("switch", "policy"), [*((each, "mixed_float16") for each in SWITCHES), ("modern", "mixed_bfloat16")]
)
def test_low_precision(switch, policy):
    encoder, inputs = of_few_layers(switch), random_inputs()
    inputs["input_mask"][1, 5:] = 0
    low = BertEncoder(encoder.config, dtype=policy)
    low.set_weights(encoder.get_weights())
    outputs = low(inputs)["sequence_output"]
    assert outputs.dtype == policy.removeprefix("mixed_")
    found, expected = (np.asarray(tf.cast(each, "float32")) for each in (outputs, encoder(inputs)["sequence_output"]))
    assert np.abs(found - expected).mean() < 0.05 * expected.std()


@pytest.mark.parametrize("switch", ["none", *SWITCHES])
def test_padding_and_texts_beside_each_other_change_nothing(switch):
    encoder, inputs = random_encoder(**SWITCHES.get(switch, {})), random_inputs(batch=1)
    alone = [
        np.asarray(encoder({name: values[:, part] for name, values in inputs.items()})["sequence_output"])
        for part in (slice(0, 5), slice(5, 12))
    ]
    packed = {**inputs, "input_document_ids": np.array([[0] * 5 + [1] * 7], "int32")}
    padded = {name: np.pad(values[:, :5], ((0, 0), (0, 20))) for name, values in inputs.items()}
    padded["input_word_ids"][:, 5:] = 7  # whatever stands there
    together = np.concatenate(alone, axis=1)
    np.testing.assert_allclose(encoder(packed)["sequence_output"], together, rtol=0, atol=1e-5)
    for more in ({}, {"input_document_ids": np.zeros([1, 25], "int32")}):  # padding has the number of the text before
        np.testing.assert_allclose(encoder({**padded, **more})["sequence_output"][:, :5], alone[0], rtol=0, atol=1e-5)


def test_scores_of_distances():
    generator, length = np.random.default_rng(0), 5
    query, key = generator.normal(size=(2, 1, 3, length, 4)).astype("float32")  # [batch, heads, length, size]
    far_query, far_key = generator.normal(size=(2, 3, 2 * length - 1, 4)).astype("float32")
    row_indices = generator.permutation(2 * length - 1).astype("int32")
    expected = np.zeros((1, 3, length, length))
    for i in range(length):
        for j in range(length):
            row = row_indices[length - 1 - (i - j)]
            expected[:, :, i, j] += (query[:, :, i] * far_key[:, row]).sum(-1)
            expected[:, :, i, j] += (key[:, :, j] * far_query[:, row]).sum(-1)
    found = distance_scores(*map(tf.constant, (query, key, far_query, far_key, row_indices)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("side", "positions", "length"), [(256, 512, 512), (4, 32, 32), (4, 32, 1), (16, 9, 9)])
def test_vectors_of_distances(side, positions, length):
    vectors = np.arange(2 * side, dtype="float32")[:, None]  # each says its place
    distances = select_distances(tf.constant(vectors), positions, length)
    buckets = buckets_of_distances(side, positions)
    expected = [side + int(np.sign(d)) * buckets[abs(d)] for d in range(length - 1, -length, -1)]
    assert tf.gather(distances.vectors, distances.indices)[:, 0].numpy().tolist() == expected
    assert distances.vectors.shape[0] == 2 * buckets[length - 1] + 1


@pytest.mark.parity
@pytest.mark.parametrize(("side", "positions"), [(256, 512), (256, 1024), (32, 512), (8, 30), (4, 2000)])
def test_buckets_of_distances_are_those_of_transformers(side, positions):
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2").make_log_bucket_position
    distances = torch.arange(positions)
    expected = theirs(distances, side, positions).to(torch.long)
    assert buckets_of_distances(side, positions).tolist() == expected.tolist()
    assert theirs(-distances, side, positions).to(torch.long).tolist() == (-expected).tolist()


def test_heads_that_share_keys_and_values():
    """Are as many heads, some of which have the same keys and values."""
    shared, inputs = random_encoder(num_key_value_heads=2), random_inputs()
    whole = random_encoder()
    for ours, theirs in zip(whole.weights, shared.weights, strict=True):
        if "/qkv/" in ours.path:
            query, key, value = np.split(theirs.numpy(), [24, 36], axis=-1)
            key, value = (
                np.repeat(each.reshape(*each.shape[:-1], 2, 6), 2, axis=-2).reshape(*each.shape[:-1], 24)
                for each in (key, value)
            )
            theirs = np.concatenate([query, key, value], axis=-1)
        ours.assign(theirs)
    expected = whole(inputs)["sequence_output"]
    np.testing.assert_allclose(shared(inputs)["sequence_output"], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("switch", "length"), [("modern", 33), pytest.param("llama", 40, marks=pytest.mark.slow)])
def test_long_texts_are_computed_in_chunks(switch, length, monkeypatch):
    inputs, sizes = random_inputs(seq_length=length), set()
    inputs["input_mask"][1, 9:] = 0
    signature = {name: tf.TensorSpec((None, None), tf.int32) for name in inputs}
    encoder = random_encoder(**{**SWITCHES[switch], "max_positions": 64})

    def outputs_and_gradients(run):
        with tf.GradientTape() as tape:
            outputs = run(inputs)["sequence_output"]
        weights = [weight.value for weight in encoder.trainable_weights]
        return [outputs, *tape.gradient(outputs, weights, unconnected_gradients="zero")]

    expected = outputs_and_gradients(encoder)
    monkeypatch.setattr(attention, "_SCORES_IN_CHUNK", 7 * 3 * length)  # eight queries of a head at a time
    monkeypatch.setattr(attention, "LONG", 16)
    attend = attention.attend
    monkeypatch.setattr(attention, "attend", lambda query, *args: sizes.add(query.shape[2]) or attend(query, *args))
    in_chunks = outputs_and_gradients(encoder)
    assert sizes - {3} == {8}  # of local layers, blocks of 3
    in_a_graph = outputs_and_gradients(tf.function(encoder, input_signature=[signature]))
    for whole, *others in zip(expected, in_chunks, in_a_graph, strict=True):
        scale = np.abs(np.asarray(whole)).max() + 1e-3
        for found in others:
            np.testing.assert_allclose(np.asarray(found) / scale, np.asarray(whole) / scale, rtol=0, atol=1e-4)


@pytest.mark.parametrize("pooling", ["mean", "unit_mean"])
def test_the_mean_of_all_tokens_is_pooled(pooling):
    encoder, inputs = random_encoder(**MODERN, pooling=pooling), random_inputs()
    inputs["input_mask"][0, 4:] = 0
    outputs = encoder(inputs)
    expected = np.mean(outputs["sequence_output"][0, :4], axis=0)
    expected = expected / np.linalg.norm(expected) if pooling == "unit_mean" else expected
    np.testing.assert_allclose(outputs["pooled_output"][0], expected, rtol=0, atol=1e-5)
    pooled = encoder({"input_word_ids": inputs["input_word_ids"]})["pooled_output"]
    assert pooled.shape == (3, 24)


@pytest.mark.parametrize(("changes", "words"), [
    ({"rope_theta": 10.0, "hidden_size": 12}, ["rope_theta", "even head size", 3]),
    ({"global_every": 2, "num_groups": 1}, ["num_groups", "local and global"]),
    ({"global_every": 2, "relative_buckets": 8}, ["global_every", "relative_buckets"]),
    ({"disentangled_buckets": 8, "rope_theta": 9.0}, ["disentangled", "rotary embeddings"]),
    ({"num_key_value_heads": 3}, ["num_heads 4", "multiple", "num_key_value_heads 3"]),
    ({"head_dim": 0}, ["head_dim", 0, "at least 1"]),
    ({"rope_theta": 9.0, "head_dim": 7}, ["rope_theta", "even head size", 7]),
    ({"norm": "batch"}, ["norm", "'batch'", "layer_norm, rms_norm"]),
    ({"pooling": "max"}, ["pooling", "'max'", "first, mean, unit_mean, late"]),
    ({"rope_theta": 0}, ["rope_theta", 0, "above 0"]),
    ({"global_every": -1}, ["global_every", -1, "at least 0"]),
    ({"global_every": 2, "first_global": 2}, ["first_global 2", "below", "global_every 2"]),
    ({"num_groups": 99}, ["num_groups 99", "num_layers"]),
    ({"head_activation": "mish"}, ["head_activation", "'mish'", "gelu", None]),
])  # fmt: skip
def test_switches_that_contradict_each_other_are_refused(changes, words):
    with error_names(ValueError, *words):
        BertConfig(**{**SMALL.to_dict(), **changes})
